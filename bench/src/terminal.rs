//! What a run shows while it goes: a progress bar on the terminal, and a table line by line.

use std::io::{IsTerminal, Write, stderr, stdout};

/// How much of a run is done, in the terminal's last line. Nothing where stderr is not a terminal.
pub struct Progress {
    total: usize,
    done: usize,
    shown: bool,
}

impl Progress {
    /// Of `total` steps.
    pub fn new(total: usize) -> Self {
        Self {
            total,
            done: 0,
            shown: stderr().is_terminal(),
        }
    }

    /// Says which step begins.
    pub fn begin(&mut self, step: &str) {
        const WIDTH: usize = 30;
        if self.shown {
            let full = WIDTH * self.done / self.total.max(1);
            let (full, empty) = ("#".repeat(full), ".".repeat(WIDTH - full));
            eprint!(
                "\r\x1b[2K[{full}{empty}] {}/{} {step}",
                self.done, self.total
            );
            // What cannot be shown is not missed.
            let _ = stderr().flush();
        }
        self.done += 1;
    }

    /// Makes room for other output.
    pub fn clear(&self) {
        if self.shown {
            eprint!("\r\x1b[2K");
        }
    }
}

/// A table whose lines are printed as they come.
pub struct Table {
    columns: &'static [(&'static str, usize)],
}

impl Table {
    /// Prints the heading. Columns have a name and a width; a width of 0 is as wide as it gets, and
    /// flush left.
    pub fn new(columns: &'static [(&'static str, usize)]) -> Self {
        let table = Self { columns };
        table.line(columns.iter().map(|&(name, _)| name.to_owned()));
        table
    }

    /// Prints a line.
    pub fn line(&self, texts: impl IntoIterator<Item = String>) {
        let mut line = String::new();
        for (&(_, width), text) in self.columns.iter().zip(texts) {
            if !line.is_empty() {
                line += "  ";
            }
            line += &format!("{text:>width$}");
        }
        // A reader that has gone away, as `head` does, is no reason to stop measuring.
        let _ = writeln!(stdout(), "{}", line.trim_end());
    }
}
