//! `cargo xtask asan` and `cargo xtask valgrind`: the tests of the host code that holds `unsafe`, watched.
//!
//! Left out are tests that overflow a stack on purpose, and those that build programs of their own, which are not
//! watched.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::{Error, Outcome, command, workspace};

/// The only one whose tests are run so: AddressSanitizer needs to be told.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Those whose tests are watched: the emulator, the driver's slots, tensors and views, and what is fuzzed.
const SELECTED: [&str; 28] = [
    "-p",
    "warp-softmax-cuda-std",
    "-p",
    "warp-softmax-cuda-driver",
    "-p",
    "warp-softmax",
    "--test",
    "arithmetic",
    "--test",
    "async_copies",
    "--test",
    "checks",
    "--test",
    "clusters",
    "--test",
    "collectives",
    "--test",
    "faults",
    "--test",
    "cust",
    "--test",
    "driver",
    "--test",
    "load",
    "--test",
    "cuda_calls",
    "--test",
    "fuzz_corpus",
];

/// How cargo starts a test program under valgrind, and what that starts in turn, except for compilers.
///
/// The emulator's stacks are further apart than the frame that is called large here, so going from one to another is not
/// taken for a call.
const RUNNER: &str = "target.'cfg(all())'.runner = [
    'valgrind', '--quiet', '--error-exitcode=9', '--fair-sched=yes', '--max-stackframe=65536',
    '--trace-children=yes', '--trace-children-skip=*/rustc,*/cargo,*/rustup,*/cc,*/collect2,*/ld,*/ld.lld,*/rust-lld',
]";

/// Runs the tests compiled with AddressSanitizer, which the toolchain brings; leaks are looked for as well.
///
/// It does not know the emulator's stacks, and where threads have left those by unwinding it takes for dead what others
/// have there next. So variables on stacks are not watched, but all other memory is.
pub fn asan() -> Result<Outcome, Error> {
    let sysroot = command::output(
        Command::new("rustc")
            .args(["--print", "sysroot"])
            .current_dir(workspace()),
    )?;
    let libraries = Path::new(String::from_utf8_lossy(&sysroot.stdout).trim())
        .join("lib/rustlib")
        .join(TARGET)
        .join("lib");
    let files = std::fs::read_dir(libraries).into_iter().flatten().flatten();
    if !files
        .into_iter()
        .any(|file| file.file_name().to_string_lossy().ends_with("_rt.asan.a"))
    {
        return Ok(Outcome::Skipped(format!(
            "this toolchain has no AddressSanitizer for {TARGET}"
        )));
    }
    let work = workspace().join("target/asan");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["test", "--locked", "--quiet", "--target", TARGET])
        .args(SELECTED)
        .arg("--lib")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address -Cllvm-args=-asan-stack=0")
        .env("CARGO_TARGET_DIR", work)
        // Memory that is not to be had is an error to be handled.
        .env("ASAN_OPTIONS", "allocator_may_return_null=1")
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    command::run(cargo.current_dir(workspace()))?;
    Ok(Outcome::Passed)
}

/// Runs the same tests as they are under valgrind: it also sees what is read before it is written.
pub fn valgrind() -> Result<Outcome, Error> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&folders);
    if !folders.any(|folder| folder.join("valgrind").is_file()) {
        return Ok(Outcome::Skipped("there is no valgrind on the PATH".into()));
    }
    let mut cargo = Command::new("cargo");
    cargo
        .args(["--config", RUNNER, "test", "--locked", "--quiet"])
        .args(SELECTED)
        .args(["--", "--test-threads=1"])
        .env("WARP_SOFTMAX_EMULATOR_THREADS", "2");
    command::run(cargo.current_dir(workspace()))?;
    Ok(Outcome::Passed)
}
