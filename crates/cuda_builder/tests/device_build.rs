//! Device builds of the fixture. They need the compiler's library sources, and say so where these are
//! absent.

mod common;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use common::Fixture;
use cuda_builder::{BuildError, CompiledPtx, CudaBuilder, NvptxArch, Toolchain, ptx};

/// All fixtures are built in one target folder, so that `core` is compiled once: one at a time.
static TARGET_DIR: Mutex<()> = Mutex::new(());

/// Builds, or says that the test was not run.
fn build(builder: CudaBuilder) -> Option<Result<CompiledPtx, BuildError>> {
    let _alone = TARGET_DIR.lock().unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    match Toolchain::find(here).and_then(|toolchain| toolchain.check_library()) {
        Ok(()) => Some(builder.build()),
        Err(error) => {
            // Written past the test runner, which keeps what a passing test prints to itself.
            let _ = writeln!(std::io::stderr(), "NOT RUN, a device build: {error}");
            None
        }
    }
}

/// Kernels that cannot be built, by what stands in for the body of `double_all`'s `if`.
fn refused(name: &str, from: &str, to: &str) -> Option<(String, BuildError)> {
    let fixture = Fixture::new(name);
    fixture.edit("kernels/src/lib.rs", from, to);
    let error = build(fixture.builder())?.unwrap_err();
    Some((error.to_string(), error))
}

#[test]
fn the_ptx_has_bounds_hash_and_entries_and_is_the_same_from_another_folder() {
    let fixture = Fixture::new("build-here");
    let Some(ptx) = build(fixture.builder()) else {
        return;
    };
    let ptx = ptx.unwrap();
    assert_eq!(ptx.source_hash, fixture.builder().source_hash().unwrap());
    assert_eq!(ptx::recorded_hash(&ptx.text), Some(&*ptx.source_hash));
    assert_eq!(ptx.warnings, "");
    let entries = ptx::entries(&ptx.text).unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["double_all", "prime"]);
    let [double_all, prime] = [0, 1].map(|i| &ptx.text[entries[i].range.clone()]);
    assert!(
        double_all.contains(")\n.maxntid 256, 1, 1\n.minnctapersm 4\n{\n"),
        "{double_all}"
    );
    assert!(!prime.contains(".maxntid"), "{prime}");

    let elsewhere = Fixture::new("build-there/deeper");
    let elsewhere = build(elsewhere.builder()).unwrap().unwrap();
    assert_eq!(elsewhere.text, ptx.text);
}

#[test]
fn each_architecture_gets_its_target_and_ptx_version() {
    let fixture = Fixture::new("build-arch");
    for (arch, version) in [(NvptxArch::Compute80, "7.0"), (NvptxArch::Compute90, "8.1")] {
        let Some(ptx) = build(fixture.builder().arch(arch)) else {
            return;
        };
        let text = ptx.unwrap().text;
        assert!(
            text.contains(&format!(".version {version}\n.target {arch}\n")),
            "{text}"
        );
    }
}

#[test]
fn a_change_and_its_undoing_each_give_their_own_ptx() {
    let fixture = Fixture::new("build-change");
    let build = || build(fixture.builder()).map(|ptx| ptx.unwrap().text);
    let Some(before) = build() else { return };
    fixture.edit("device_lib/src/lib.rs", "2.0 * x", "4.0 * x");
    let changed = build().unwrap();
    // Not by the header alone, which holds the hash.
    let kernel = |text: &str| text[ptx::entries(text).unwrap()[0].range.clone()].to_owned();
    assert_ne!(kernel(&changed), kernel(&before));
    fixture.edit("device_lib/src/lib.rs", "4.0 * x", "2.0 * x");
    assert_eq!(build().unwrap(), before);
}

#[test]
fn the_copy_holds_the_text() {
    let fixture = Fixture::new("build-copy");
    let path = fixture.path("kernels.ptx");
    let Some(ptx) = build(fixture.builder().copy_to(&path)) else {
        return;
    };
    assert_eq!(fs::read_to_string(path).unwrap(), ptx.unwrap().text);
}

#[test]
fn a_function_that_is_not_inlined_is_named_with_the_kernel_that_calls_it() {
    let fixture = Fixture::new("build-external");
    fixture.edit(
        "device_lib/src/lib.rs",
        "#[inline(always)]",
        "#[inline(never)]",
    );
    let Some(result) = build(fixture.builder()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(
        matches!(error, BuildError::ExternalFunction { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with("`device_lib::twice` is called by `double_all` and"),
        "{text}"
    );
}

#[test]
fn a_kernel_with_an_array_in_local_memory_is_named() {
    let spilled = "let mut a = [0; 8]; for k in 0..8 { a[k] = *out.add(k); } \
                   *out = *a.as_ptr().add(i as usize & 7)";
    let from = "*out = *PRIMES.as_ptr().add(i as usize)";
    let Some((text, error)) = refused("build-local", from, spilled) else {
        return;
    };
    assert!(matches!(error, BuildError::LocalMemory { .. }), "{error:?}");
    assert!(
        text.starts_with("local memory is used by `prime`:"),
        "{text}"
    );
}

#[test]
fn a_compile_error_is_shown_in_the_compiler_s_own_words() {
    let from = "device_lib::twice";
    let Some((text, error)) = refused("build-broken", from, "device_lib::thrice") else {
        return;
    };
    assert!(matches!(error, BuildError::Compile { .. }), "{error:?}");
    assert!(
        text.contains("error[E0425]: cannot find function `thrice`"),
        "{text}"
    );
}

#[test]
fn launch_bounds_of_an_entry_that_is_not_there_are_refused() {
    // The bounds are written for the function's name, and the entry has another.
    let named = "#[unsafe(export_name = \"halve_all\")] pub unsafe fn double_all";
    let from = "pub unsafe fn double_all";
    let Some((text, error)) = refused("build-launch", from, named) else {
        return;
    };
    assert!(
        matches!(error, BuildError::LaunchBounds { .. }),
        "{error:?}"
    );
    assert!(text.contains("double_all"), "{text}");
}

#[test]
fn a_file_that_the_hash_does_not_cover_is_refused() {
    let fixture = Fixture::new("build-unhashed");
    fixture.edit(
        "device_lib/src/lib.rs",
        "#[cfg(not(target_arch = \"nvptx64\"))]\n",
        "",
    );
    let Some(result) = build(fixture.builder()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(matches!(error, BuildError::Unhashed { .. }), "{error:?}");
    assert!(error.to_string().contains("mod.rs"), "{error}");
}
