//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};
use warp_softmax::{DType, Softmax, Way};

use crate::Failed;

/// What `--help` prints.
pub const USAGE: &str = "\
Measures warp-softmax. Every result is checked before it is timed.

usage: bench COMMAND [OPTIONS]

  throughput        large tensors, as a fraction of a device-to-device copy
  latency           one launch among 50 in a CUDA graph
  masked            attention scores with masks, log-softmax and logsumexp, against a copy of the scores
  startup           the first call of a process; what a warm call costs the CPU
  scaling           time against elements, and the straight line through it
  exchange DIR      writes inputs and our results for `peers.py --check DIR`
  report FILE...    tables and plots from the JSON of this program and of peers.py

options of all but report:
  --dtype LIST      of f32, f16, bf16                        [f32,f16,bf16]
  --cols LIST       row lengths
  --rows LIST       numbers of rows (latency)
  --samples N       timed launches or replays, at least 15   [21]
  --way WAY         forces a way of covering a row
  --reproducible    the same bits on every device
  --programmatic    launches may begin before the one ahead has ended
  --json FILE       writes the results there, anew after every cell
  --quick           tiny sizes and one launch: whether it works, not how fast

options of report:
  --out DIR         writes report.md and the plots there     [.]

WARP_SOFTMAX_DEVICE=cuda:N or =emulator chooses the device; the emulator runs --quick only.
";

/// Fewest samples that a median is taken of.
const FEWEST_SAMPLES: usize = 15;

/// The whole command line.
#[derive(Debug)]
pub enum Command {
    /// `--help`.
    Help,
    /// Large tensors.
    Throughput(Settings),
    /// Small launches.
    Latency(Settings),
    /// Attention scores.
    Masked(Settings),
    /// First and warm calls.
    Startup(Settings),
    /// The one first call of a process that `startup` started.
    FirstCall(Settings),
    /// Small to very large.
    Scaling(Settings),
    /// Files for `peers.py --check`.
    Exchange(PathBuf, Settings),
    /// Tables and plots.
    Report {
        /// Records.
        files: Vec<PathBuf>,
        /// Where the results go.
        out: PathBuf,
    },
}

/// How to measure, and what.
#[derive(Debug)]
pub struct Settings {
    /// Types of input and output.
    pub dtypes: Vec<DType>,
    /// Row lengths; none: the bench's own.
    pub cols: Option<Vec<usize>>,
    /// Numbers of rows; none: the bench's own.
    pub rows: Option<Vec<usize>>,
    /// Timed launches or replays.
    pub samples: usize,
    /// The way that is forced.
    pub way: Option<Way>,
    /// Whether the same bits are asked for on every device.
    pub reproducible: bool,
    /// Whether launches may begin before the one ahead has ended.
    pub programmatic: bool,
    /// Where the record goes.
    pub json: Option<PathBuf>,
    /// Whether to run tiny and once.
    pub quick: bool,
    /// The arguments themselves, for the record.
    pub given: Vec<String>,
}

impl Settings {
    /// The operation that is measured.
    pub fn softmax(&self) -> Softmax {
        let mut softmax = Softmax::new();
        if self.reproducible {
            softmax = softmax.reproducible();
        }
        if self.programmatic {
            softmax = softmax.programmatic();
        }
        if let Some(way) = self.way {
            softmax = softmax.force_way(way);
        }
        softmax
    }
}

/// Reads the command line.
///
/// # Errors
///
/// Where a word is not understood, or a value is none that is allowed.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, Failed> {
    let given: Vec<OsString> = args.into_iter().collect();
    let mut parser = Parser::from_args(&given);
    let mut words: Vec<PathBuf> = Vec::new();
    let mut out = PathBuf::from(".");
    let mut settings = Settings {
        dtypes: DType::ALL.to_vec(),
        cols: None,
        rows: None,
        samples: 21,
        way: None,
        reproducible: false,
        programmatic: false,
        json: None,
        quick: false,
        given: given
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect(),
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help),
            Arg::Long("dtype") => settings.dtypes = list(&parser.value()?, "--dtype", dtype)?,
            Arg::Long("cols") => settings.cols = Some(list(&parser.value()?, "--cols", count)?),
            Arg::Long("rows") => settings.rows = Some(list(&parser.value()?, "--rows", count)?),
            Arg::Long("samples") => settings.samples = parser.value()?.parse()?,
            Arg::Long("way") => settings.way = Some(way(&parser.value()?.string()?)?),
            Arg::Long("reproducible") => settings.reproducible = true,
            Arg::Long("programmatic") => settings.programmatic = true,
            Arg::Long("json") => settings.json = Some(parser.value()?.into()),
            Arg::Long("quick") => settings.quick = true,
            Arg::Long("out") => out = parser.value()?.into(),
            Arg::Value(word) => words.push(word.into()),
            _ => return Err(arg.unexpected().into()),
        }
    }
    if settings.samples < FEWEST_SAMPLES {
        return Err(Failed::new(format!(
            "--samples {}: at least {FEWEST_SAMPLES}",
            settings.samples
        )));
    }
    let mut words = words.into_iter();
    let command = words
        .next()
        .ok_or_else(|| Failed::new("no command; --help lists them"))?;
    let mut words: Vec<PathBuf> = words.collect();
    let takes = match command.to_str() {
        Some("report") => 1..=usize::MAX,
        Some("exchange") => 1..=1,
        _ => 0..=0,
    };
    if !takes.contains(&words.len()) {
        return Err(Failed::new(format!(
            "{}: {} arguments; --help says what it takes",
            command.display(),
            words.len()
        )));
    }
    Ok(match command.to_str() {
        Some("throughput") => Command::Throughput(settings),
        Some("latency") => Command::Latency(settings),
        Some("masked") => Command::Masked(settings),
        Some("startup") => Command::Startup(settings),
        Some("first-call") => Command::FirstCall(settings),
        Some("scaling") => Command::Scaling(settings),
        Some("exchange") => Command::Exchange(words.remove(0), settings),
        Some("report") => Command::Report { files: words, out },
        _ => {
            return Err(Failed::new(format!(
                "{}: no such command; --help lists them",
                command.display()
            )));
        }
    })
}

fn list<T>(
    value: &OsString,
    option: &str,
    item: impl Fn(&str) -> Result<T, Failed>,
) -> Result<Vec<T>, Failed> {
    let text = value.to_string_lossy();
    text.split(',')
        .map(|text| item(text.trim()).map_err(|error| Failed::new(format!("{option}: {error}"))))
        .collect()
}

fn dtype(text: &str) -> Result<DType, Failed> {
    let found = DType::ALL.into_iter().find(|dtype| dtype.name() == text);
    found.ok_or_else(|| Failed::new(format!("{text:?} is none of f32, f16, bf16")))
}

fn count(text: &str) -> Result<usize, Failed> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Failed::new(format!(
            "{text:?} is not a number of at least 1"
        ))),
    }
}

fn way(text: &str) -> Result<Way, Failed> {
    let found = Way::ALL.iter().find(|way| way.to_string() == text);
    found.copied().ok_or_else(|| {
        let names: Vec<String> = Way::ALL.iter().map(Way::to_string).collect();
        Failed::new(format!("--way: {text:?} is none of {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, Failed> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn lists_and_switches_are_read() {
        let line = "throughput --dtype bf16,f32 --cols 32,1001 --samples 15 --way stream --reproducible --programmatic --quick --json a.json";
        let Command::Throughput(settings) = parse_line(line).unwrap() else {
            panic!("another command");
        };
        assert_eq!(settings.dtypes, [DType::BF16, DType::F32]);
        assert_eq!(settings.cols, Some(vec![32, 1001]));
        assert_eq!(settings.samples, 15);
        assert_eq!(settings.way, Some(Way::Stream));
        assert!(settings.reproducible && settings.programmatic && settings.quick);
        assert_eq!(settings.json, Some("a.json".into()));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, part) in [
            ("", "no command"),
            ("fly", "fly: no such command"),
            (
                "throughput --dtype f64",
                "--dtype: \"f64\" is none of f32, f16, bf16",
            ),
            (
                "throughput --cols 0",
                "--cols: \"0\" is not a number of at least 1",
            ),
            ("throughput --cols 3,x", "\"x\""),
            ("throughput --way diagonal", "\"diagonal\" is none of warp,"),
            ("throughput --samples 14", "at least 15"),
            ("throughput more", "1 arguments"),
            ("exchange", "0 arguments"),
            ("latency --speed", "--speed"),
        ] {
            let error = parse_line(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
