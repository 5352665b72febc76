//! Tests in a process of their own, because a process opens one driver and keeps it.
#![allow(dead_code)] // not every test file has a use for each

use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;
use std::{env, fs};

use warp_softmax::Device;

/// Set in the child to the test's name.
const CHILD: &str = "WARP_SOFTMAX_TEST_CHILD";

/// What the child finds for a driver.
pub enum Library {
    /// `tests/fake/driver.rs`.
    Fake,
    /// A name that is no file: `/nowhere/libcuda.so.1`.
    Missing,
    /// What the machine has.
    Machine,
}

/// Runs `body` in a process of its own with the fake driver; see [`in_own_process`].
pub fn with_fake(test: &str, variables: &[(&str, &str)], body: impl FnOnce(Log)) {
    in_own_process(test, Library::Fake, variables, body);
}

/// Runs `body` in a process of its own. There this function calls `body` with the fake driver's log;
/// `test` is the calling test's name.
pub fn in_own_process(
    test: &str,
    library: Library,
    variables: &[(&str, &str)],
    body: impl FnOnce(Log),
) {
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.log"));
    if is_child(test) {
        // A machine that the tests were built for may not have the folder that they were built in.
        if matches!(library, Library::Fake) {
            fs::write(&log, "").unwrap();
        }
        return body(Log { path: log, read: 0 });
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child
        .args([test, "--exact"])
        .env_remove("WARP_SOFTMAX_DEVICE")
        .env_remove("WARP_SOFTMAX_ARCH")
        .env_remove("WARP_SOFTMAX_CODE")
        .env(CHILD, test)
        .env("FAKE_CUDA_LOG", &log);
    match library {
        Library::Fake => {
            child.env_remove("CUDA_VISIBLE_DEVICES");
            child.env("WARP_SOFTMAX_LIBCUDA", fake_driver())
        }
        Library::Missing => child.env("WARP_SOFTMAX_LIBCUDA", "/nowhere/libcuda.so.1"),
        Library::Machine => &mut child,
    };
    child.envs(variables.iter().copied());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        // A misspelt name would run no test at all.
        output.status.success() && text.contains("1 passed"),
        "{test}: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs `body` on a GPU, in a process of its own; nothing, and the reason printed, where there is none.
pub fn with_gpu(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if !is_child(test)
        && let Err(error) = Device::cuda(0)
    {
        println!("left out, as there is no GPU: {test}: {}", error.chain());
        return;
    }
    in_own_process(test, Library::Machine, variables, |_| body());
}

/// Whether this is the process of `test` alone.
fn is_child(test: &str) -> bool {
    env::var(CHILD).is_ok_and(|name| name == test)
}

/// The fake driver, compiled by the first test that wants it.
fn fake_driver() -> &'static Path {
    static FAKE: OnceLock<PathBuf> = OnceLock::new();
    FAKE.get_or_init(|| {
        let name = concat!(env!("CARGO_CRATE_NAME"), "-fake_driver.so");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Renamed when done: another process may have the old one open.
        let unfinished = path.with_extension(process::id().to_string());
        let output = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
            .args([
                "--edition=2024",
                "--crate-type=cdylib",
                "--crate-name=cuda",
                "-o",
            ])
            .arg(&unfinished)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/driver.rs"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        fs::rename(unfinished, &path).unwrap();
        path
    })
}

/// The fake driver's log.
pub struct Log {
    path: PathBuf,
    read: usize,
}

impl Log {
    /// The lines since the last call of this.
    pub fn lines(&mut self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap();
        let lines: Vec<String> = text.lines().skip(self.read).map(Into::into).collect();
        self.read += lines.len();
        lines
    }

    /// The functions called since the last call of this.
    pub fn calls(&mut self) -> Vec<String> {
        let function = |line: String| line.split(' ').next().unwrap().to_owned();
        self.lines().into_iter().map(function).collect()
    }
}
