//! `cargo xtask fuzz`: the targets of `fuzz/` by a plain cargo. Who has cargo-fuzz says `cargo fuzz run TARGET`.

use std::fs;
use std::process::Command;

use crate::{Error, Outcome, command, workspace};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const TARGETS: [&str; 4] = ["views", "npy", "safetensors", "model"];

/// What tells the fuzzer which code an input comes by, as cargo-fuzz has it.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Seconds for each target in `cargo xtask ci`.
const BRIEFLY: u32 = 10;

/// Fuzzes each target for a few seconds.
pub fn briefly() -> Result<Outcome, Error> {
    run(BRIEFLY)
}

/// Fuzzes each target for so long, a number as text.
pub fn for_seconds(seconds: &str) -> Result<Outcome, Error> {
    match seconds.parse() {
        Ok(seconds) if seconds > 0 => run(seconds),
        _ => Err(format!("`{seconds}` is not a whole number of seconds from 1").into()),
    }
}

/// New inputs go to `target/fuzz`; one that fails is named, and left in `fuzz/artifacts`.
fn run(seconds: u32) -> Result<Outcome, Error> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(Outcome::Skipped(format!(
            "fuzzing is set up for {TARGET} only"
        )));
    }
    if Command::new("c++").arg("--version").output().is_err() {
        return Ok(Outcome::Skipped(
            "there is no C++ compiler, `c++`, for libFuzzer".into(),
        ));
    }
    let (fuzz, work) = (workspace().join("fuzz"), workspace().join("target/fuzz"));
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--locked", "--quiet", "--target", TARGET])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", &work)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    command::run(cargo.current_dir(&fuzz))?;
    for target in TARGETS {
        let (found, artifacts) = (
            work.join("corpus").join(target),
            fuzz.join("artifacts").join(target),
        );
        fs::create_dir_all(&found)?;
        fs::create_dir_all(&artifacts)?;
        let mut program = Command::new(work.join(TARGET).join("debug").join(target));
        program
            .arg(&found)
            .arg(fuzz.join("corpus").join(target))
            .arg(format!("-max_total_time={seconds}"))
            .args([
                "-max_len=1024",
                "-timeout=10",
                "-verbosity=0",
                "-print_funcs=0",
                "-print_final_stats=1",
            ])
            .arg(format!("-artifact_prefix={}/", artifacts.display()));
        command::run(program.current_dir(&fuzz))?;
    }
    Ok(Outcome::Passed)
}
