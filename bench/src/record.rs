//! What a run leaves behind: one JSON file, written again after every cell, by this program and by
//! `peers.py` alike.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Failed;
use crate::stats::{Line, Spread};

/// The version of the file's layout.
pub const SCHEMA: u32 = 1;

/// The name that our own cells bear.
pub const OURS: &str = "warp-softmax";

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Where and when.
    pub environment: Environment,
    /// Throughput and latency, and the points of scaling.
    #[serde(default)]
    pub cells: Vec<Cell>,
    /// First calls, and what a warm call costs the CPU.
    #[serde(default)]
    pub startup: Vec<Startup>,
    /// The lines through the points of scaling.
    #[serde(default)]
    pub scaling: Vec<Scaling>,
    /// Attention scores with masks, and logarithms.
    #[serde(default)]
    pub masked: Vec<Masked>,
    /// What was asked for and could not be measured.
    #[serde(default)]
    pub failures: Vec<Failure>,
}

/// Where and when a run was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The GPU, or the emulator.
    pub device: String,
    /// Version of the GPU's driver.
    pub driver: Option<String>,
    /// Clocks, read right after the last cell.
    pub clocks: Option<Clocks>,
    /// UTC, RFC 3339.
    pub date: String,
    /// What was measured: the commit it was built from.
    pub commit: String,
    /// The command's arguments.
    pub command: Vec<String>,
    /// Versions of what ran.
    pub software: String,
}

/// The GPU's state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// Multiprocessor clock.
    pub sm_mhz: f64,
    /// Its highest.
    pub max_sm_mhz: f64,
    /// Memory clock.
    pub memory_mhz: f64,
    /// Board power.
    pub power_w: f64,
    /// Temperature of the chip.
    pub temperature_c: f64,
}

/// Which bench a cell belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bench {
    /// A launch on buffers far larger than the cache.
    Throughput,
    /// A launch among others in a graph, on data that stays in the cache if it fits.
    Latency,
    /// A launch, from small to very large.
    Scaling,
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Scaling => "scaling",
        })
    }
}

/// One implementation on one shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Which bench.
    pub bench: Bench,
    /// Whose kernel.
    pub implementation: String,
    /// Type of input and output: `f32`, `f16` or `bf16`.
    pub dtype: String,
    /// Number of rows.
    pub rows: u64,
    /// Elements a row.
    pub cols: u64,
    /// The kernel that was launched, where the implementation can say so.
    pub kernel: Option<String>,
    /// All that was decided about the launch, likewise.
    pub plan: Option<String>,
    /// How fast; none on the emulator.
    pub timing: Option<Timing>,
    /// How right.
    pub accuracy: Accuracy,
}

/// Times of one cell, microseconds a launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The kernel's.
    pub us: Spread,
    /// A copy's of the same bytes: the mean of the medians before and after.
    pub copy_us: f64,
    /// The copy's median right before.
    pub copy_before_us: f64,
    /// The copy's median right after.
    pub copy_after_us: f64,
    /// Bytes read plus bytes written, over the median; 10^9 bytes a second.
    pub gb_per_s: f64,
    /// `copy_us` over the median.
    pub fraction_of_copy: f64,
}

impl Timing {
    /// The figures that follow from the times.
    pub fn new(us: Spread, copy_before_us: f64, copy_after_us: f64, bytes: u64) -> Self {
        let copy_us = (copy_before_us + copy_after_us) / 2.0;
        Self {
            us,
            copy_us,
            copy_before_us,
            copy_after_us,
            gb_per_s: bytes as f64 / us.median / 1e3,
            fraction_of_copy: copy_us / us.median,
        }
    }
}

/// What was checked before anything was timed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Largest distance from the exact result, in units in the last place.
    pub max_error_ulp: f64,
    /// The largest that is let pass.
    pub limit_ulp: f64,
    /// Rows that were compared with a computation in f64.
    pub rows_compared: u64,
    /// Elements that were looked at to see whether they were written at all.
    pub elements_scanned: u64,
}

/// One shape of attention scores with one kind of mask, or with logarithms as its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Masked {
    /// Whose kernels.
    pub implementation: String,
    /// Type of scores and results.
    pub dtype: String,
    /// Batch, heads, queries, keys.
    pub shape: [u64; 4],
    /// Which mask, or result.
    pub what: String,
    /// The kernel that was launched.
    pub kernel: String,
    /// All that was decided about the launch.
    pub plan: String,
    /// Bytes that have to move: scores that are seen, masks, results.
    pub bytes: u64,
    /// Bytes that a copy of the scores moves.
    pub copy_bytes: u64,
    /// How fast, the copy being one of the scores; none on the emulator.
    pub timing: Option<Timing>,
    /// How right; for logarithms, in parts of what is allowed.
    pub accuracy: Accuracy,
}

impl Masked {
    /// Bandwidth as a fraction of the copy's.
    pub fn fraction_of_bandwidth(&self) -> Option<f64> {
        let timing = self.timing?;
        Some(timing.fraction_of_copy * self.bytes as f64 / self.copy_bytes as f64)
    }
}

/// How long a process waits for its first result, and what a call costs the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Startup {
    /// Whose.
    pub implementation: String,
    /// Type of input and output.
    pub dtype: String,
    /// Number of rows.
    pub rows: u64,
    /// Elements a row.
    pub cols: u64,
    /// The kernel that was launched, where the implementation can say so.
    pub kernel: Option<String>,
    /// What it was loaded from in the fresh processes: `cubin`, or `PTX`, which the driver compiles.
    #[serde(default)]
    pub code: Option<String>,
    /// Making the device (driver, context, stream) in a fresh process, milliseconds.
    pub device_ms: Spread,
    /// The first call in a fresh process, to its end on the GPU, milliseconds.
    pub first_call_ms: Spread,
    /// A warm call, from call to return, microseconds.
    pub call_us: Spread,
    /// The same launch handed straight to the driver, microseconds.
    pub raw_launch_us: Spread,
    /// Heap allocations in all the warm calls.
    pub allocations: u64,
    /// Number of those calls.
    pub calls: u64,
}

/// The straight line through times against elements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Whose.
    pub implementation: String,
    /// Type of input and output.
    pub dtype: String,
    /// Elements a row.
    pub cols: u64,
    /// Elements of the smallest point that the line goes through: smaller ones fit the cache.
    pub from_elements: u64,
    /// Number of points that the line goes through.
    pub points: u64,
    /// The line: microseconds against elements.
    pub line: Line,
}

/// What could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The cell, in words.
    pub cell: String,
    /// Whose.
    pub implementation: String,
    /// Why.
    pub reason: String,
}

impl Record {
    /// A record without cells.
    pub fn new(environment: Environment) -> Self {
        Self {
            schema: SCHEMA,
            environment,
            cells: Vec::new(),
            startup: Vec::new(),
            scaling: Vec::new(),
            masked: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or is none of ours.
    pub fn read(path: &Path) -> Result<Self, Failed> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failed::new(format!("{}: {error}", path.display())))?;
        let record: Self = serde_json::from_str(&text)
            .map_err(|error| Failed::new(format!("{}: {error}", path.display())))?;
        if record.schema != SCHEMA {
            return Err(Failed::new(format!(
                "{}: schema {}, this program reads schema {SCHEMA}",
                path.display(),
                record.schema
            )));
        }
        Ok(record)
    }
}

/// A record, and the file it is saved to, if any.
pub struct Recorder {
    /// What was found so far.
    pub record: Record,
    path: Option<PathBuf>,
}

impl Recorder {
    /// Starts a file.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn new(record: Record, path: Option<PathBuf>) -> Result<Self, Failed> {
        let recorder = Self { record, path };
        recorder.save()?;
        Ok(recorder)
    }

    /// Writes all that was found so far.
    ///
    /// # Errors
    ///
    /// Where the file cannot be written.
    pub fn save(&self) -> Result<(), Failed> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(&self.record)
            .expect("a record has only numbers, texts and lists");
        fs::write(path, text + "\n")
            .map_err(|error| Failed::new(format!("{}: {error}", path.display())))
    }
}

/// Records for tests.
#[cfg(test)]
pub mod fixture {
    use super::*;

    fn environment(software: &str) -> Environment {
        Environment {
            device: "a GPU".into(),
            driver: Some("1.2.3".into()),
            clocks: None,
            date: "2026-01-02T03:04:05Z".into(),
            commit: "abc".into(),
            command: vec!["throughput".into()],
            software: software.into(),
        }
    }

    fn cell(
        bench: Bench,
        implementation: &str,
        rows: u64,
        cols: u64,
        us: f64,
        copy_us: f64,
    ) -> Cell {
        Cell {
            bench,
            implementation: implementation.into(),
            dtype: "f32".into(),
            rows,
            cols,
            kernel: None,
            plan: None,
            timing: Some(Timing::new(
                Spread::of(&[us]),
                copy_us,
                copy_us,
                2 * 4 * rows * cols,
            )),
            accuracy: Accuracy {
                max_error_ulp: 2.25,
                limit_ulp: 4.0,
                rows_compared: rows.min(20),
                elements_scanned: rows * cols,
            },
        }
    }

    /// Ours: two shapes for throughput, two for latency.
    pub fn ours() -> Record {
        let mut record = Record::new(environment("warp-softmax"));
        record.cells = vec![
            cell(Bench::Throughput, OURS, 1_000_000, 33, 100.0, 98.0),
            cell(Bench::Throughput, OURS, 1000, 1024, 101.0, 98.0),
            cell(Bench::Latency, OURS, 1, 32, 1.5, 1.0),
            cell(Bench::Latency, OURS, 8, 4096, 2.5, 1.0),
        ];
        record
    }

    /// Two peers, one of which did not run everything.
    pub fn peers() -> Record {
        let mut record = Record::new(environment("others"));
        record.cells = vec![
            cell(Bench::Throughput, "slow peer", 1_000_000, 33, 400.0, 98.0),
            cell(Bench::Throughput, "fast peer", 1_000_000, 33, 150.0, 98.0),
            cell(Bench::Throughput, "slow peer", 1000, 1024, 120.0, 98.0),
            cell(Bench::Latency, "slow peer", 1, 32, 4.0, 1.0),
            // A shape that we have not run.
            cell(Bench::Latency, "slow peer", 2, 32, 4.0, 1.0),
        ];
        record.failures.push(Failure {
            cell: "throughput f32 1 x 1".into(),
            implementation: "slow peer".into(),
            reason: "out of memory".into(),
        });
        record
    }
}
