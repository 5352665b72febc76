//! Benches of warp-softmax. `bench --help` says what there is.
//!
//! | module | what |
//! |---|---|
//! | `throughput`, `latency`, `masked`, `startup`, `scaling` | the benches |
//! | `exchange` | inputs and results as files, for other implementations to check |
//! | `report` | tables and plots |
//! | `run`, `measure`, `workspace`, `gpu`, `check` | what the benches share: order, a cell, memory, times, truth |
//! | `record`, `environment`, `stats` | what is kept |
//! | `args`, `terminal` | what is asked and shown |
//! | `number`, `source`, `allocations`, `failed` | small things |

#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod allocations;
mod args;
mod check;
mod environment;
mod exchange;
mod failed;
mod gpu;
mod latency;
mod masked;
mod measure;
mod number;
mod record;
mod report;
mod run;
mod scaling;
mod source;
mod startup;
mod stats;
mod terminal;
mod throughput;
mod workspace;

use std::process::ExitCode;

use args::Command;
pub(crate) use failed::Failed;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Does what the program's arguments ask for, and says how that went.
pub fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)).and_then(execute) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Result<(), Failed> {
    match command {
        Command::Help => {
            print!("{}", args::USAGE);
            Ok(())
        }
        Command::Throughput(settings) => throughput::run(&settings),
        Command::Latency(settings) => latency::run(&settings),
        Command::Masked(settings) => masked::run(&settings),
        Command::Startup(settings) => startup::run(&settings),
        Command::FirstCall(settings) => startup::first_call(&settings),
        Command::Scaling(settings) => scaling::run(&settings),
        Command::Exchange(folder, settings) => exchange::run(&folder, &settings),
        Command::Report { files, out } => report::write(&files, &out),
    }
}
