//! Tasks of the workspace, called as `cargo xtask TASK`.

mod ci;
mod command;
mod cubin;
mod fuzz;
mod memory;
mod mutate;
mod ptx;
mod ptxas;
mod readme;
mod setup;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mutate::Shard;

const USAGE: &str = "\
usage: cargo xtask TASK

  setup [--from TARBALL]  get what compiling and checking kernels needs: the library sources of the
                          pinned rustc (or unpack them from TARBALL), and ptxas
  ptx [--check]           compile the kernels and refresh the committed PTX, or compare with it
  cubin [--check]         assemble the committed PTX and refresh the committed cubins, or compare with them
  ptxas                   assemble the committed PTX and print what each kernel uses
  asan                    tests of the host code that holds `unsafe`, watched by AddressSanitizer
  valgrind                the same by valgrind, if there is one
  fuzz [SECONDS]          any bytes as shapes, strides and files: so long for each target, or a few seconds
  mutate [--shard K/N | --only WORDS]
                          whether the tests notice wrong kernels: makes them wrong in many ways, one at a
                          time; results are kept, so that it can be stopped and gone on with
  ci                      everything that must hold before a change goes in";

/// What went wrong, for a person to read.
type Error = Box<dyn std::error::Error>;

/// How a step that did not fail ended.
enum Outcome {
    Passed,
    /// With the reason.
    Skipped(String),
}

impl Outcome {
    fn say(self) {
        if let Self::Skipped(reason) = self {
            println!("SKIPPED: {reason}");
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["setup"] => setup::run(None),
        ["setup", "--from", tarball] => setup::run(Some(Path::new(tarball))),
        ["ptx"] => ptx::refresh(),
        ["ptx", "--check"] => ptx::check(),
        ["cubin"] => cubin::refresh(),
        ["cubin", "--check"] => cubin::check().map(Outcome::say),
        ["ptxas"] => ptxas::run(),
        ["asan"] => memory::asan().map(Outcome::say),
        ["valgrind"] => memory::valgrind().map(Outcome::say),
        ["fuzz"] => fuzz::briefly().map(Outcome::say),
        ["fuzz", seconds] => fuzz::for_seconds(seconds).map(Outcome::say),
        ["mutate"] => mutate::run(Shard::WHOLE, ""),
        ["mutate", "--only", words] => mutate::run(Shard::WHOLE, words),
        ["mutate", "--shard", shard] => {
            Shard::parse(shard).and_then(|shard| mutate::run(shard, ""))
        }
        ["ci"] => ci::run(),
        ["help" | "--help" | "-h"] | [] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(format!("`{}` is not a task\n\n{USAGE}", arguments.join(" ")).into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The top folder of the workspace.
fn workspace() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask
        .parent()
        .expect("xtask lies in the workspace")
        .to_owned()
}
