//! Tests with a driver library of their own, each in a process of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    child.envs(variables.iter().copied());
    match library {
        Library::Fake | Library::Damaged => child.env(LIBRARY_VARIABLE, fake_driver(test, library)),
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

/// Compiles the fake driver. Each test has its own copy, since tests run at the same time.
fn fake_driver(test: &str, library: Library) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libcuda-{test}.so"));
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda"]);
    if library == Library::Damaged {
        rustc.arg("--cfg=damaged");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/driver.rs");
    let output = rustc.arg("-o").arg(&path).arg(source).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    path
}
