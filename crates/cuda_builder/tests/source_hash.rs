//! What changes the source hash and what does not.

mod common;

use std::fs;

use common::{Fixture, cuda_std};
use cuda_builder::{BuildError, NvptxArch};

fn hash(fixture: &Fixture) -> String {
    fixture.builder().source_hash().unwrap()
}

#[test]
fn the_hash_is_64_hexadecimal_digits_and_the_same_in_another_folder() {
    let here = hash(&Fixture::new("hash-here"));
    let there = hash(&Fixture::new("hash-there/deeper"));
    assert_eq!(here, there);
    assert_eq!(here.len(), 64);
    assert!(here.bytes().all(|byte| byte.is_ascii_hexdigit()), "{here}");
}

#[test]
fn each_architecture_has_a_hash_of_its_own() {
    let fixture = Fixture::new("hash-arch");
    let [sm_80, sm_90] = [NvptxArch::Compute80, NvptxArch::Compute90]
        .map(|arch| fixture.builder().arch(arch).source_hash().unwrap());
    assert_ne!(sm_80, sm_90);
}

#[test]
fn every_source_of_the_kernels_changes_the_hash() {
    let mut seen = vec![hash(&Fixture::new("hash-change-none"))];
    for (i, (file, from, to)) in [
        ("kernels/src/lib.rs", "2, 3, 5, 7", "2, 3, 5, 11"),
        (
            "kernels/Cargo.toml",
            "[lib]",
            "[features]\nfast = []\n\n[lib]",
        ),
        ("device_lib/src/lib.rs", "2.0 * x", "x + x"),
        (
            "device_lib/Cargo.toml",
            "[package.metadata",
            "[features]\nfast = []\n\n[package.metadata",
        ),
        ("Cargo.toml", "edition = \"2024\"", "edition = \"2021\""),
        ("Cargo.toml", "version = \"0.1.0\"", "version = \"0.2.0\""),
        (
            "Cargo.toml",
            "path = \"device_lib\"",
            "path = \"device_lib\", features = []",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let fixture = Fixture::new(&format!("hash-change-{i}"));
        let changed = hash(fixture.edit(file, from, to));
        assert!(
            !seen.contains(&changed),
            "{file}: `{to}` leaves the hash as it is"
        );
        seen.push(changed);
    }
}

#[test]
fn a_new_source_file_and_a_renamed_one_change_the_hash() {
    let fixture = Fixture::new("hash-files");
    let before = hash(&fixture);
    let added = hash(fixture.write("device_lib/src/more.rs", "// nothing\n"));
    assert_ne!(before, added);
    let [old, new] =
        ["more", "less"].map(|name| fixture.path(&format!("device_lib/src/{name}.rs")));
    fs::rename(old, new).unwrap();
    assert_ne!(hash(&fixture), added);
    assert_ne!(hash(&fixture), before);
}

#[test]
fn line_ends_and_files_that_are_not_sources_leave_the_hash_as_it_is() {
    let fixture = Fixture::new("hash-same");
    let before = hash(&fixture);
    for file in [
        "kernels/src/lib.rs",
        "kernels/Cargo.toml",
        "device_lib/Cargo.toml",
    ] {
        fixture.edit(file, "\n", "\r\n");
    }
    fixture
        .write("device_lib/src/emulator/mod.rs", "//! Other host code.\n")
        .write("device_lib/src/emulator/more.rs", "// more\n")
        .write("device_lib/tests/all.rs", "// a test\n")
        .write("device_lib/src/.lib.rs.swp", "an editor's\n")
        .edit("Cargo.toml", "resolver = \"3\"", "resolver = \"2\"");
    assert_eq!(hash(&fixture), before);
}

#[test]
fn dependencies_of_the_host_alone_are_not_followed() {
    let fixture = Fixture::new("hash-host-dependency");
    let table = |target: &str| {
        format!("[target.'{target}'.dependencies]\nemulation = {{ path = \"../emulation\" }}\n")
    };
    let manifest = "[package]\nname = \"emulation\"\nversion = \"0.1.0\"\n";
    fixture.write("emulation/Cargo.toml", manifest);
    fixture.write("emulation/src/lib.rs", "// one\n");
    let append =
        |table: &str| fixture.edit("kernels/Cargo.toml", "[lib]", &format!("{table}\n[lib]"));

    append(&table("cfg(not(target_arch = \"nvptx64\"))"));
    let host_only = hash(&fixture);
    fixture.write("emulation/src/lib.rs", "// two\n");
    assert_eq!(hash(&fixture), host_only);

    append(&table("cfg(target_arch = \"nvptx64\")"));
    let for_the_device = hash(&fixture);
    fixture.write("emulation/src/lib.rs", "// three\n");
    assert_ne!(hash(&fixture), for_the_device);
}

#[test]
fn the_watched_paths_are_those_of_all_crates_and_the_workspace() {
    let fixture = Fixture::new("hash-watched");
    let watched = fixture.builder().watched_paths().unwrap();
    let inside = [
        "Cargo.toml",
        "kernels/Cargo.toml",
        "kernels/src",
        "device_lib/Cargo.toml",
        "device_lib/src",
    ];
    let outside = ["Cargo.toml", "src", "macros/Cargo.toml", "macros/src"];
    let inside = inside.map(|path| fixture.path(path)).into_iter();
    for path in inside.chain(outside.map(|path| cuda_std().join(path))) {
        let path = fs::canonicalize(path).unwrap();
        let shown = path.display();
        assert!(watched.contains(&path), "{shown} is not among {watched:?}");
    }
}

#[test]
fn a_manifest_that_makes_no_sense_is_named_with_the_reason() {
    for (name, from, to, reason) in [
        ("toml", "[lib]", "[lib", "expected"),
        ("name", "name = \"fixture-kernels\"", "", "`package.name`"),
        (
            "inherit",
            "device_lib.workspace",
            "absent.workspace",
            "`dependencies.absent`",
        ),
        (
            "host-only",
            "[lib]",
            "[package.metadata.cuda]\nhost-only = 1\n\n[lib]",
            "a list of paths",
        ),
    ] {
        let fixture = Fixture::new(&format!("hash-manifest-{name}"));
        fixture.edit("kernels/Cargo.toml", from, to);
        let error = fixture.builder().source_hash().unwrap_err();
        assert!(matches!(error, BuildError::Manifest { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("Cargo.toml") && text.contains(reason),
            "{name}: {text}"
        );
    }
}

#[test]
fn a_crate_that_is_not_there_is_named() {
    let fixture = Fixture::new("hash-absent");
    fs::remove_dir_all(fixture.path("device_lib")).unwrap();
    let error = fixture.builder().source_hash().unwrap_err();
    assert!(error.to_string().contains("device_lib"), "{error}");
}
