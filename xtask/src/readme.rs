//! The commands that the README tells people to run, so that they are the ones that are checked.

use std::fs;

use crate::{Error, workspace};

/// The line of a fenced block of the README that starts with `beginning`.
pub fn command(beginning: &str) -> Result<String, Error> {
    let path = workspace().join("README.md");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = fenced_lines(&text);
    let mut found = lines.into_iter().filter(|line| line.starts_with(beginning));
    match (found.next(), found.next()) {
        (Some(line), None) => Ok(line.to_owned()),
        (None, _) => {
            Err(format!("README.md has no command `{beginning} ..` in a code block").into())
        }
        (Some(one), Some(other)) => {
            Err(format!("README.md has two such commands, `{one}` and `{other}`").into())
        }
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

    #[test]
    fn only_lines_inside_fences_count() {
        let text =
            "cargo test outside\n```sh\n$ cargo test --workspace\n  cargo run\n```\n`cargo test`\n";
        assert_eq!(fenced_lines(text), ["cargo test --workspace", "cargo run"]);
    }
}
