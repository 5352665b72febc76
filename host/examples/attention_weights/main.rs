//! The attention weights of a real language model from its raw scores and its padding mask, in one launch: scale,
//! padding and, if asked for, causality, a window and a soft cap.
//!
//! `cargo run --release --example attention_weights -- out`; `--help` tells the rest.

#[path = "../quickstart/heat_map.rs"]
mod heat_map;
mod model;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use model::Model;
use safetensors::tensor::{Dtype, TensorView};
use warp_softmax::{Align, Device, MaskedSoftmax, Softmax};

const HELP: &str = "\
Attention weights of a small language model, on a GPU if there is one: softmax of its scores, with the keys
that are padding hidden.

Usage: cargo run --release --example attention_weights -- [OPTIONS] FOLDER

Writes weights.safetensors and a heat map of each head of one sentence into FOLDER.

Options:
      --causal       Hide from each query the keys after it
      --window L,R   Hide all but L keys before each query and R after it
      --soft-cap C   Bound scores softly by C, after the scale
      --sentence N   Which sentence is drawn, counted from 0 [default: 6]
  -h, --help         Show this help

The device is chosen without a flag: the first NVIDIA GPU, or else an emulator on the CPU. The
environment variable WARP_SOFTMAX_DEVICE overrides that: auto, cuda, cuda:N or emulator.
";

/// Scores of layer 5 for eight sentences of up to 41 tokens; where they are from stands in the file's metadata.
const ATTENTION: &[u8] = include_bytes!("../data/attention.safetensors");

/// Largest error that the library promises for f32 results, in units in the last place.
const PROMISED_ULP: f64 = 4.0;

fn main() -> ExitCode {
    match run(lexopt::Parser::from_env(), &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("attention_weights: {error:#}");
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
    let model = Model::read(ATTENTION)?;
    let [sentences, heads, tokens] = model.extents;
    ensure!(
        options.sentence < sentences,
        "there is no sentence {}; there are {sentences}, counted from 0",
        options.sentence
    );
    fs::create_dir_all(&options.folder)
        .with_context(|| format!("cannot make the folder {}", options.folder.display()))?;

    let device = Device::auto()?;
    writeln!(out, "device    {}", device.name())?;
    writeln!(
        out,
        "scores    f32 [{sentences} sentences, {heads} heads, {tokens} queries, {tokens} keys], layer 5 of \
         all-MiniLM-L6-v2"
    )?;
    let scores = device.tensor_from(&model.scores, [sentences, heads, tokens, tokens])?;
    // One byte for each key of a sentence: heads and queries share it.
    let padding = device.tensor_from(&model.keep, [sentences, 1, 1, tokens])?;
    let softmax = options.apply(Softmax::new().scale(model.scale).masked().keep(&padding));
    writeln!(out, "masks     {}", options.describe())?;
    writeln!(out, "plan      {}", softmax.plan(&scores)?)?;
    let (weights, sums) = softmax.forward_with_logsumexp(&scores)?;
    let (weights, sums) = (weights.to_vec()?, sums.to_vec()?);

    let (exact, exact_sums) = options.in_f64(&model);
    let ulp = largest_ulp(&weights, &exact);
    writeln!(
        out,
        "error     at most {ulp:.2} units in the last place, against f64 arithmetic"
    )?;
    let error = sums
        .iter()
        .zip(&exact_sums)
        .map(|(&sum, &exact)| (f64::from(sum) - exact).abs());
    writeln!(
        out,
        "          at most {:.1e} in the rows' logsumexp",
        error.fold(0.0, f64::max)
    )?;
    if options.is_plain() {
        let error = weights.iter().zip(&model.weights);
        let error = error
            .map(|(&a, &b)| f64::from((a - b).abs()))
            .fold(0.0, f64::max);
        writeln!(
            out,
            "          at most {error:.1e}, against the weights that the model itself computed"
        )?;
    }
    // A capped score may be a unit in its own last place from what f64 rounds to, here and in the sum.
    let promised = PROMISED_ULP + 4.0 * f64::from(options.soft_cap.unwrap_or(0.0));
    ensure!(
        ulp <= promised,
        "an error of {ulp:.2} units in the last place; the library promises {promised} at most"
    );
    options.write(&weights, model.extents)?;
    writeln!(
        out,
        "written   weights.safetensors and head-0.png to head-{}.png of sentence {} in {}",
        heads - 1,
        options.sentence,
        options.folder.display()
    )?;
    Ok(())
}

#[derive(Default)]
struct Options {
    folder: PathBuf,
    causal: bool,
    window: Option<(usize, usize)>,
    soft_cap: Option<f32>,
    sentence: usize,
}

impl Options {
    /// `None`: help is asked for.
    fn parse(mut arguments: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        use lexopt::prelude::*;
        let mut folder = None;
        let mut options = Self {
            sentence: 6,
            ..Self::default()
        };
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("causal") => options.causal = true,
                Long("window") => {
                    let text = arguments.value()?.string()?;
                    let (left, right) = text
                        .split_once(',')
                        .ok_or("--window takes two numbers, L,R")?;
                    let number = |text: &str| text.parse::<usize>();
                    options.window = match (number(left), number(right)) {
                        (Ok(left), Ok(right)) => Some((left, right)),
                        _ => return Err(format!("--window takes two numbers, not {text:?}").into()),
                    };
                }
                Long("soft-cap") => options.soft_cap = Some(arguments.value()?.parse()?),
                Long("sentence") => options.sentence = arguments.value()?.parse()?,
                Short('h') | Long("help") => return Ok(None),
                Value(value) if folder.is_none() => folder = Some(value.into()),
                other => return Err(other.unexpected()),
            }
        }
        options.folder = folder.ok_or("no folder to write to")?;
        Ok(Some(options))
    }

    fn apply<'a>(&self, mut softmax: MaskedSoftmax<'a>) -> MaskedSoftmax<'a> {
        if self.causal {
            softmax = softmax.causal(Align::TopLeft);
        }
        if let Some((left, right)) = self.window {
            softmax = softmax.window(left, right, Align::TopLeft);
        }
        if let Some(cap) = self.soft_cap {
            softmax = softmax.soft_cap(cap);
        }
        softmax
    }

    /// Whether the model did the same.
    fn is_plain(&self) -> bool {
        !self.causal && self.window.is_none() && self.soft_cap.is_none()
    }

    fn describe(&self) -> String {
        let mut text = "padding".to_owned();
        if self.causal {
            text += ", causal";
        }
        if let Some((left, right)) = self.window {
            text += &format!(", window of {left} before and {right} after");
        }
        if let Some(cap) = self.soft_cap {
            text += &format!("; soft cap {cap}");
        }
        text
    }

    /// The formula itself, in f64, of the scores as scaled and capped in f32: weights, and each row's logsumexp.
    fn in_f64(&self, model: &Model) -> (Vec<f64>, Vec<f64>) {
        let [_, heads, tokens] = model.extents;
        let (mut weights, mut sums) = (Vec::new(), Vec::new());
        for (row, scores) in model.scores.chunks(tokens).enumerate() {
            let (sentence, query) = (row / (heads * tokens), row % tokens);
            let keep = &model.keep[sentence * tokens..][..tokens];
            let z = |key: usize| {
                let (left, right) = self.window.unwrap_or((usize::MAX, usize::MAX));
                let is_seen = keep[key] != 0
                    && !(self.causal && key > query)
                    && query.saturating_sub(left) <= key
                    && key <= query.saturating_add(right);
                let z = f64::from(scores[key] * model.scale);
                match self.soft_cap.map(f64::from) {
                    _ if !is_seen => f64::NEG_INFINITY,
                    // To f32, as each step is.
                    Some(cap) => f64::from((cap * f64::from((z / cap).tanh() as f32)) as f32),
                    None => z,
                }
            };
            let z: Vec<f64> = (0..tokens).map(z).collect();
            let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = z.iter().map(|z| (z - max).exp()).sum();
            let is_empty = max == f64::NEG_INFINITY;
            weights.extend(
                z.iter()
                    .map(|z| if is_empty { 0.0 } else { (z - max).exp() / sum }),
            );
            if !is_empty {
                sums.push(max + sum.ln());
            } else {
                sums.push(max);
            }
        }
        (weights, sums)
    }

    fn write(&self, weights: &[f32], [sentences, heads, tokens]: [usize; 3]) -> Result<()> {
        let bytes: Vec<u8> = weights
            .iter()
            .flat_map(|weight| weight.to_le_bytes())
            .collect();
        let shape = vec![sentences, heads, tokens, tokens];
        let tensor = TensorView::new(Dtype::F32, shape, &bytes)?;
        let path = self.folder.join("weights.safetensors");
        safetensors::serialize_to_file([("weights", tensor)], None, &path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        for head in 0..heads {
            let first = (self.sentence * heads + head) * tokens * tokens;
            let path = self.folder.join(format!("head-{head}.png"));
            heat_map::write_png(&path, &weights[first..first + tokens * tokens], tokens)
                .with_context(|| format!("cannot write the picture {}", path.display()))?;
        }
        Ok(())
    }
}

/// Largest error in f32 units in the last place of the exact value.
fn largest_ulp(values: &[f32], exact: &[f64]) -> f64 {
    let ulp = |exact: f64| {
        let exponent = exact.max(f64::from(f32::MIN_POSITIVE)).log2().floor();
        f64::from(f32::EPSILON) * exponent.exp2()
    };
    let errors = values.iter().zip(exact).map(|(&value, &exact)| {
        let error = (f64::from(value) - exact).abs() / ulp(exact);
        // A NaN must not pass for a small error.
        if error.is_nan() { f64::INFINITY } else { error }
    });
    errors.fold(0.0, f64::max)
}
