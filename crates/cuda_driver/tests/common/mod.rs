//! Tests with a driver library of their own, each in a process of its own.

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::{env, fs};

use cuda_driver::LIBRARY_VARIABLE;

/// Set in the child to the test's name.
const CHILD_VARIABLE: &str = "CUDA_DRIVER_TEST_CHILD";

/// What the child finds for a driver.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)] // not every test file has a use for each
pub enum Library {
    /// `tests/fake/driver.rs`.
    Fake,
    /// The same without `cuMemAlloc_v2`.
    Damaged,
    /// A name that is no file.
    Missing,
    /// Whatever the machine has, with the variable unset.
    Unset,
    /// The same with the variable empty.
    Empty,
}

/// Runs `body` in a process of its own, because a process opens one driver and keeps it.
///
/// The process is this test binary once more, told to run `test` alone; there this function calls
/// `body`. `test` is the calling test's name.
pub fn in_own_process(
    test: &str,
    library: Library,
    variables: &[(&str, &str)],
    body: impl FnOnce(),
) {
    if env::var(CHILD_VARIABLE).is_ok_and(|name| name == test) {
        return body();
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args([test, "--exact"]).env(CHILD_VARIABLE, test);
    child.env_remove("CUDA_VISIBLE_DEVICES");
    child.envs(variables.iter().copied());
    match library {
        Library::Fake | Library::Damaged => child.env(LIBRARY_VARIABLE, fake_driver(library)),
        Library::Missing => child.env(LIBRARY_VARIABLE, MISSING),
        Library::Unset => child.env_remove(LIBRARY_VARIABLE),
        Library::Empty => child.env(LIBRARY_VARIABLE, ""),
    };
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        // A misspelt name would run no test at all.
        output.status.success() && text.contains("1 passed"),
        "{}: {}\n{text}\n{}",
        test,
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The library that is not there.
pub const MISSING: &str = "/nowhere/libcuda.so.1";

/// The fake driver, compiled by the first test of this file that wants it.
fn fake_driver(library: Library) -> &'static Path {
    static FAKE: OnceLock<PathBuf> = OnceLock::new();
    static DAMAGED: OnceLock<PathBuf> = OnceLock::new();
    match library {
        Library::Damaged => DAMAGED.get_or_init(|| compile("damaged", &["--cfg=damaged"])),
        _ => FAKE.get_or_init(|| compile("fake", &[])),
    }
}

fn compile(name: &str, options: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{}-{name}.so", env!("CARGO_CRATE_NAME")));
    // Renamed when done: another process may be running this test, and have the old one open.
    let unfinished = path.with_extension(process::id().to_string());
    let output = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda"])
        .args(["-Cstrip=debuginfo", "-o"])
        .arg(&unfinished)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/driver.rs"))
        .args(options)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(unfinished, &path).unwrap();
    path
}
