//! `cargo xtask ci`: everything that must hold before a change goes in.

use std::process::Command;
use std::time::{Duration, Instant};

use cuda_builder::Toolchain;

use crate::command::run as run_command;
use crate::{Error, Outcome, cubin, fuzz, memory, ptx, ptxas, readme, workspace};

type Step = (&'static str, fn() -> Result<Outcome, Error>);

const STEPS: [Step; 11] = [
    ("format", format),
    ("clippy", clippy),
    ("docs", docs),
    ("PTX is what its sources give", committed_ptx),
    ("ptxas: no spills, no local memory", assembled_ptx),
    ("cubins are what ptxas makes of the PTX", cubin::check),
    ("tests, as in the README", tests),
    ("memory: AddressSanitizer", memory::asan),
    ("memory: valgrind", memory::valgrind),
    ("fuzzing, a little", fuzz::briefly),
    ("example, as in the README", example),
];

/// Runs all steps; stops at the first that fails.
pub fn run() -> Result<(), Error> {
    let mut summary = String::new();
    let start = Instant::now();
    for (name, step) in STEPS {
        println!("\n=== {name}");
        let start = Instant::now();
        let result = step();
        let line = match &result {
            Ok(Outcome::Passed) => format!("passed   {name}"),
            Ok(Outcome::Skipped(reason)) => format!("SKIPPED  {name}: {reason}"),
            Err(_) => format!("FAILED   {name}"),
        };
        let line = format!("{} {line}", seconds(start.elapsed()));
        println!("{line}");
        summary += &line;
        summary.push('\n');
        if let Err(error) = result {
            println!("\n=== summary\n{summary}");
            return Err(error);
        }
    }
    println!(
        "\n=== summary\n{summary}{} in all",
        seconds(start.elapsed())
    );
    Ok(())
}

fn format() -> Result<Outcome, Error> {
    cargo(&["fmt", "--all", "--check"])
}

fn clippy() -> Result<Outcome, Error> {
    cargo(&[
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

fn docs() -> Result<Outcome, Error> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["doc", "--locked", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings");
    run_command(cargo.current_dir(workspace()))?;
    Ok(Outcome::Passed)
}

fn committed_ptx() -> Result<Outcome, Error> {
    if let Err(error) = Toolchain::find(&workspace()).and_then(|it| it.check_library()) {
        return Ok(Outcome::Skipped(error.to_string()));
    }
    ptx::check()?;
    Ok(Outcome::Passed)
}

fn assembled_ptx() -> Result<Outcome, Error> {
    if ptxas::find().is_none() {
        return Ok(Outcome::Skipped(
            "there is no ptxas; `cargo xtask setup` gets it".into(),
        ));
    }
    ptxas::run()?;
    Ok(Outcome::Passed)
}

fn tests() -> Result<Outcome, Error> {
    shell(&readme::command("cargo test --workspace")?)
}

fn example() -> Result<Outcome, Error> {
    shell(&readme::command(
        "cargo run --release --example quickstart",
    )?)
}

fn cargo(arguments: &[&str]) -> Result<Outcome, Error> {
    run_command(
        Command::new("cargo")
            .args(arguments)
            .current_dir(workspace()),
    )?;
    Ok(Outcome::Passed)
}

/// Runs a line of the README as a person would.
fn shell(line: &str) -> Result<Outcome, Error> {
    run_command(
        Command::new("sh")
            .args(["-c", line])
            .current_dir(workspace()),
    )?;
    Ok(Outcome::Passed)
}

fn seconds(time: Duration) -> String {
    format!("{:6.1} s", time.as_secs_f64())
}
