//! Running other programs.

use std::process::{Command, Output};

use crate::Error;

/// Runs a command with its output shown; an error if it fails.
pub fn run(command: &mut Command) -> Result<(), Error> {
    let shown = describe(command);
    println!("$ {shown}");
    let status = command
        .status()
        .map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{shown}` failed ({status})").into())
    }
}

/// Runs a command and returns what it printed; an error, with what it printed, if it fails.
pub fn output(command: &mut Command) -> Result<Output, Error> {
    let output = command
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(output);
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "`{}` failed ({})\n{printed}",
        describe(command),
        output.status
    )
    .into())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Error {
    let program = command.get_program().to_string_lossy();
    format!("`{program}` could not be started: {error}").into()
}

/// The command as one would type it.
fn describe(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let quoted = words.map(|word| match word.to_string_lossy() {
        word if word.contains(' ') => format!("'{word}'"),
        word => word.into_owned(),
    });
    quoted.collect::<Vec<_>>().join(" ")
}
