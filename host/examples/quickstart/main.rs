//! The attention weights of a real language model, computed with this library and checked.
//!
//! `cargo run --release --example quickstart`; `--help` tells the rest.

mod heat_map;
#[path = "../attention_weights/model.rs"]
mod model;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use model::Model;
use warp_softmax::{Device, Softmax};

const HELP: &str = "\
Softmax of the attention scores of a small language model, on a GPU if there is one.

Usage: cargo run --release --example quickstart -- [OPTIONS]

Options:
      --png FILE  Also write a heat map of one head's attention weights
  -h, --help      Show this help

The device is chosen without a flag: the first NVIDIA GPU, or else an emulator on the CPU. The
environment variable WARP_SOFTMAX_DEVICE overrides that: auto, cuda, cuda:N or emulator.
";

/// Scores of layer 5 for eight sentences of up to 41 tokens; where they are from stands in the file's metadata.
const ATTENTION: &[u8] = include_bytes!("../data/attention.safetensors");

/// Largest error that the library promises for f32 results, in units in the last place.
const PROMISED_ULP: f64 = 4.0;

/// Sentence and head of the picture: the one sentence without padding, and a head that shows its two clauses.
const PICTURED: (usize, usize) = (6, 1);

fn main() -> ExitCode {
    match run(lexopt::Parser::from_env(), &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The program: its arguments in, its report out.
pub fn run(arguments: lexopt::Parser, out: &mut impl Write) -> Result<()> {
    let options = Options::parse(arguments).map_err(|error| anyhow!("{error} (see --help)"))?;
    let Some(options) = options else {
        out.write_all(HELP.as_bytes())?;
        return Ok(());
    };
    let attention = Attention::read()?;
    let [sentences, heads, tokens] = attention.extents;

    let device = Device::auto()?;
    tell(out, "device", device.name())?;
    tell(out, "", device.reason())?;
    let input = format!(
        "f32 [{sentences} sentences, {heads} heads, {tokens} queries, {tokens} keys]: {} rows of {tokens} \
         attention scores of all-MiniLM-L6-v2, layer 5; keys that are padding are -inf",
        sentences * heads * tokens
    );
    tell(out, "input", &input)?;

    let softmax = Softmax::new().scale(attention.scale);
    let x = device.tensor_from(&attention.scores, [sentences, heads, tokens, tokens])?;
    tell(out, "plan", &softmax.plan(&x)?.to_string())?;

    let call = || -> Result<_> {
        let start = Instant::now();
        let y = softmax.forward(&x)?;
        device.synchronize()?;
        Ok((y, start.elapsed()))
    };
    let (_, first) = call()?;
    let (y, warm) = call()?;
    let weights = y.to_vec()?;
    let time = format!(
        "first call {}, the next {}",
        in_words(first),
        in_words(warm)
    );
    tell(out, "time", &time)?;

    let exact = attention.softmax_in_f64();
    let (absolute, ulp) = largest_error(&weights, &exact);
    let error = format!(
        "at most {ulp:.2} units in the last place ({absolute:.1e}), against f64 arithmetic"
    );
    tell(out, "error", &error)?;
    let (absolute, _) = largest_error(&weights, &attention.model_weights);
    let error =
        format!("at most {absolute:.1e}, against the weights that the model itself computed");
    tell(out, "", &error)?;
    let sums = weights
        .chunks(tokens)
        .map(|row| row.iter().map(|&w| f64::from(w)).sum::<f64>());
    let (least, most) = sums.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), sum| {
        (least.min(sum), most.max(sum))
    });
    tell(out, "row sums", &format!("{least:.9} to {most:.9}"))?;
    ensure!(
        ulp <= PROMISED_ULP,
        "an error of {ulp:.2} units in the last place; the library promises {PROMISED_ULP} at most"
    );

    if let Some(path) = options.png {
        let (sentence, head) = PICTURED;
        let first = (sentence * heads + head) * tokens * tokens;
        heat_map::write_png(&path, &weights[first..first + tokens * tokens], tokens)
            .with_context(|| format!("cannot write the picture {}", path.display()))?;
        let picture = format!(
            "{}: sentence {sentence}, head {head}; a query is a row, more attention is brighter",
            path.display()
        );
        tell(out, "picture", &picture)?;
    }
    Ok(())
}

struct Options {
    png: Option<PathBuf>,
}

impl Options {
    /// `None`: help is asked for.
    fn parse(mut arguments: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        use lexopt::prelude::*;
        let mut options = Self { png: None };
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("png") => options.png = Some(arguments.value()?.into()),
                Short('h') | Long("help") => return Ok(None),
                other => return Err(other.unexpected()),
            }
        }
        Ok(Some(options))
    }
}

struct Attention {
    /// Sentences, heads, tokens.
    extents: [usize; 3],
    scale: f32,
    /// [sentences, heads, queries, keys], unscaled; -inf for keys that are padding.
    scores: Vec<f32>,
    /// Softmax of the same as the model had it, from f64 arithmetic.
    model_weights: Vec<f64>,
}

impl Attention {
    fn read() -> Result<Self> {
        let Model {
            extents,
            scale,
            mut scores,
            keep,
            weights,
        } = Model::read(ATTENTION)?;
        let [_, heads, tokens] = extents;
        for (row, scores) in scores.chunks_mut(tokens).enumerate() {
            let sentence = row / (heads * tokens);
            for (score, &keep) in scores.iter_mut().zip(&keep[sentence * tokens..]) {
                if keep == 0 {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
        Ok(Self {
            extents,
            scale,
            scores,
            model_weights: weights.into_iter().map(f64::from).collect(),
        })
    }

    /// The formula itself, in f64, of the scores as scaled in f32.
    fn softmax_in_f64(&self) -> Vec<f64> {
        let mut weights = Vec::with_capacity(self.scores.len());
        for row in self.scores.chunks(self.extents[2]) {
            let z = || row.iter().map(|score| f64::from(score * self.scale));
            let max = z().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = z().map(|z| (z - max).exp()).sum();
            weights.extend(z().map(|z| (z - max).exp() / sum));
        }
        weights
    }
}

/// Largest error, absolute and in f32 units in the last place of the exact value.
fn largest_error(values: &[f32], exact: &[f64]) -> (f64, f64) {
    let mut largest = (0.0f64, 0.0f64);
    for (&value, &exact) in values.iter().zip(exact) {
        let error = (f64::from(value) - exact).abs();
        let ulp = f32::EPSILON as f64
            * exact
                .max(f64::from(f32::MIN_POSITIVE))
                .log2()
                .floor()
                .exp2();
        // A NaN must not pass for a small error.
        let error = if error.is_nan() { f64::INFINITY } else { error };
        largest = (largest.0.max(error), largest.1.max(error / ulp));
    }
    largest
}

/// Writes a line of the report, or several, none wider than a terminal unless a word is.
fn tell(out: &mut impl Write, name: &str, text: &str) -> std::io::Result<()> {
    const NAME_CHARS: usize = 10;
    const LINE_CHARS: usize = 80;
    write!(out, "{name:NAME_CHARS$}")?;
    let mut column = NAME_CHARS;
    for word in text.split(' ') {
        if column + 1 + word.chars().count() > LINE_CHARS && column > NAME_CHARS {
            write!(out, "\n{:NAME_CHARS$}", "")?;
            column = NAME_CHARS;
        }
        write!(out, " {word}")?;
        column += 1 + word.chars().count();
    }
    writeln!(out)
}

fn in_words(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1e3 {
        format!("{micros:.1} us")
    } else {
        format!("{:.1} ms", micros / 1e3)
    }
}
