//! Softmax of a tensor in a file: `.npy` or `.safetensors` in, the same format out.
//!
//! `cargo run --release --example softmax_file -- --help` tells how to use it. Rows pass through in
//! blocks, so a file may be larger than the memory of the GPU, or of the machine.

mod arguments;
mod blocks;
mod new_file;
mod npy;
mod safetensors_file;
mod tensor_file;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use warp_softmax::Softmax;

use arguments::{Arguments, HELP};
use blocks::Work;
use new_file::NewFile;
use tensor_file::TensorFile;

fn main() -> ExitCode {
    match run(lexopt::Parser::from_env(), &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("softmax_file: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The program: its command line in, its report out. The output file is complete, or as it was before.
pub fn run(command_line: lexopt::Parser, report: &mut impl Write) -> Result<()> {
    let Some(arguments) = Arguments::parse(command_line)? else {
        report.write_all(HELP.as_bytes())?;
        return Ok(());
    };
    let start = Instant::now();
    let input = TensorFile::open(&arguments.input, &arguments.selection)
        .with_context(|| arguments.input.display().to_string())?;
    let dtype = arguments.out_dtype.unwrap_or(input.dtype);
    let shape = input.shape.clone();
    let header = input.format.header(dtype, &shape)?;

    let device = arguments.device.open()?;
    let mut output = NewFile::create(&arguments.output)?;
    output.write_all(&header)?;
    let work = Work {
        device: &device,
        softmax: Softmax::new().scale(arguments.scale),
        block_bytes: arguments.block_bytes,
    };
    work.run(input, dtype, &mut output)?;
    output.finish()?;

    writeln!(
        report,
        "{}: {dtype} {shape:?}, softmax along the last axis, {:.2} s on {}",
        arguments.output.display(),
        start.elapsed().as_secs_f64(),
        device.name()
    )?;
    Ok(())
}
