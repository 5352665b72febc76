//! The commands that the README tells people to run, so that they are the ones that are checked.

use std::fs;

use crate::{Error, workspace};

/// The line of a code block of the README that starts with `beginning`.
pub fn command(beginning: &str) -> Result<String, Error> {
    let path = workspace().join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(the_only(&text, beginning)?.to_owned())
}

fn the_only<'a>(text: &'a str, beginning: &str) -> Result<&'a str, String> {
    let lines = fenced_lines(text).into_iter();
    let found: Vec<_> = lines.filter(|line| line.starts_with(beginning)).collect();
    match found[..] {
        [line] => Ok(line),
        _ => Err(format!(
            "README.md has {} lines `{beginning} ..` in code blocks; it must have one",
            found.len()
        )),
    }
}

/// The lines inside fenced blocks, without indentation and without a prompt.
fn fenced_lines(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            lines.push(line.trim_start_matches("$ "));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "\
cargo test outside
```sh
$ cargo test --workspace   # all of it
  cargo run
```
`cargo run`
```
cargo run --release
```
";

    #[test]
    fn a_command_is_a_whole_line_inside_a_code_block() {
        let line = "cargo test --workspace   # all of it";
        assert_eq!(the_only(README, "cargo test"), Ok(line));
    }

    #[test]
    fn no_such_command_and_two_of_them_are_refused() {
        let refused = |beginning| the_only(README, beginning).unwrap_err();
        assert!(refused("cargo bench").contains("0 lines `cargo bench ..`"));
        assert!(refused("cargo run").contains("2 lines `cargo run ..`"));
    }
}
