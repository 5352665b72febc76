//! Attention scores with masks, and the logarithms, as a fraction of a device-to-device copy of the scores.

use warp_softmax::bench_support::copy;
use warp_softmax::{Align, Device, MaskedSoftmax, Tensor};

use crate::Failed;
use crate::args::Settings;
use crate::gpu::time_each;
use crate::number::{Number, for_dtype};
use crate::record::{Accuracy, Masked, OURS, Timing};
use crate::run::Run;
use crate::source::Source;
use crate::stats::Spread;
use crate::terminal::Table;
use crate::workspace::{Workspace, tile};

/// Batch, heads, queries, keys: the shapes that attention has, and one token's look back at a long cache.
const SHAPES: [[usize; 4]; 5] = [
    [1, 32, 2048, 2048],
    [8, 16, 512, 512],
    [2, 32, 4096, 4096],
    [4, 12, 1024, 1000],
    [64, 32, 1, 8192],
];

/// The same for a quick run.
const QUICK_SHAPES: [[usize; 4]; 3] = [[1, 3, 24, 32], [2, 2, 3, 1000], [2, 2, 1, 4096]];

/// Timed copies before and after each cell.
const COPY_SAMPLES: usize = 11;

/// Rows that are compared with f64 arithmetic, at least.
const COMPARED_ROWS: usize = 64;

const COLUMNS: &[(&str, usize)] = &[
    ("type", 4),
    ("shape", 18),
    ("what", 12),
    ("us", 9),
    ("copy us", 9),
    ("time", 6),
    ("bandwidth", 9),
    ("error", 6),
    ("kernel", 0),
];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// No mask: what the kernels cost by themselves.
    Unmasked,
    /// An additive mask for each query of each batch entry, of the scores' type.
    Additive,
    /// A boolean mask, likewise.
    Keep,
    /// A number of keys for each batch entry.
    Lengths,
    /// Causality.
    Causal,
    /// A soft cap.
    SoftCap,
    /// The logarithm of the softmax.
    LogSoftmax,
    /// The logarithm of the sum alone.
    LogSumExp,
}

impl What {
    const ALL: [Self; 8] = [
        Self::Unmasked,
        Self::Additive,
        Self::Keep,
        Self::Lengths,
        Self::Causal,
        Self::SoftCap,
        Self::LogSoftmax,
        Self::LogSumExp,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Unmasked => "unmasked",
            Self::Additive => "additive",
            Self::Keep => "keep",
            Self::Lengths => "lengths",
            Self::Causal => "causal",
            Self::SoftCap => "soft cap",
            Self::LogSoftmax => "log-softmax",
            Self::LogSumExp => "logsumexp",
        }
    }
}

/// The cap of [`What::SoftCap`].
const CAP: f32 = 15.0;

/// Whether a key is kept, by its place in the mask.
fn is_kept(index: usize) -> bool {
    !((index as u32).wrapping_mul(2_654_435_761) >> 20).is_multiple_of(8)
}

/// Keys of a batch entry.
fn length(batch: usize, keys: usize) -> usize {
    keys - batch % 4 * (keys / 8)
}

/// Runs the bench.
///
/// # Errors
///
/// Where it cannot start, or something failed on the way.
pub fn run(settings: &Settings) -> Result<(), Failed> {
    let shapes: &[_] = if settings.quick {
        &QUICK_SHAPES
    } else {
        &SHAPES
    };
    let steps = settings.dtypes.len() * shapes.len() * What::ALL.len();
    let mut run = Run::new("masked", settings, steps)?;
    let table = Table::new(COLUMNS);
    for &dtype in &settings.dtypes {
        for_dtype!(dtype, run_type(&mut run, &table, shapes))?;
    }
    run.finish()
}

fn run_type<T: Number>(
    run: &mut Run<'_>,
    table: &Table,
    shapes: &[[usize; 4]],
) -> Result<(), Failed> {
    let (device, settings, timed) = (run.device.clone(), run.settings, run.is_timed());
    let elems = |shape: &[usize; 4]| shape.iter().product();
    let largest = shapes.iter().map(elems).max().unwrap_or(1);
    let source = Source::<T>::new(settings.quick);
    let mut workspace = Workspace::new(&device, &source, largest)?;
    for &shape in shapes {
        let masks = Masks::new(&device, &source, shape)?;
        for what in What::ALL {
            let [batch, heads, queries, keys] = shape;
            let name = format!(
                "masked {} {batch}x{heads}x{queries}x{keys} {}",
                T::DTYPE,
                what.name()
            );
            let cell = run.step(&name, || {
                measure(&mut workspace, &source, &masks, what, settings, timed)
            })?;
            if let Some(cell) = cell {
                table.line(texts(&cell));
                run.recorder.record.masked.push(cell);
                run.recorder.save()?;
            }
        }
    }
    Ok(())
}

/// The masks of a shape.
struct Masks<T> {
    shape: [usize; 4],
    bias: Tensor<T>,
    keep: Tensor<u8>,
    lengths: Tensor<u32>,
    sums: Tensor<f32>,
}

impl<T: Number> Masks<T> {
    fn new(device: &Device, source: &Source<T>, shape: [usize; 4]) -> Result<Self, Failed> {
        let [batch, heads, queries, keys] = shape;
        let elems = batch * queries * keys;
        let mut bias = device.zeros::<T>([elems])?;
        let period = device.tensor_from(source.period(), [source.period().len()])?;
        tile(&period, &mut bias.view_mut())?;
        let keep: Vec<u8> = (0..elems).map(|index| is_kept(index).into()).collect();
        let lengths: Vec<u32> = (0..batch).map(|b| length(b, keys) as u32).collect();
        Ok(Self {
            shape,
            bias,
            keep: device.tensor_from(&keep, [batch, 1, queries, keys])?,
            lengths: device.tensor_from(&lengths, [batch])?,
            sums: device.zeros([batch, heads, queries])?,
        })
    }

    /// Bytes of the scores that have to be read, and of the masks.
    fn bytes(&self, what: What) -> usize {
        let [batch, heads, queries, keys] = self.shape;
        let rows = batch * heads * queries;
        let seen: usize = match what {
            What::Lengths => (0..batch).map(|b| heads * queries * length(b, keys)).sum(),
            What::Causal => (0..queries)
                .map(|query| batch * heads * (query + 1 + keys - queries.min(keys)).min(keys))
                .sum(),
            _ => rows * keys,
        };
        let mask = match what {
            What::Additive => self.bias.len() * size_of::<T>(),
            What::Keep => self.keep.len(),
            _ => 0,
        };
        let written = match what {
            What::LogSumExp => rows * size_of::<f32>(),
            _ => rows * keys * size_of::<T>(),
        };
        seen * size_of::<T>() + mask + written
    }
}

fn measure<T: Number>(
    workspace: &mut Workspace<'_, T>,
    source: &Source<T>,
    masks: &Masks<T>,
    what: What,
    settings: &Settings,
    timed: bool,
) -> Result<Masked, Failed> {
    let shape = masks.shape;
    let [batch, _, queries, keys] = shape;
    let bias = masks.bias.view();
    // SAFETY: live, unwritten: the tensor is borrowed as long as the view; it has as many elements.
    let bias = unsafe {
        warp_softmax::TensorView::from_raw(
            bias.device(),
            std::ptr::with_exposed_provenance::<T>(bias.address() as usize),
            bias.len(),
            [batch, 1, queries, keys],
            [queries * keys, queries * keys, keys, 1],
        )?
    };
    let mut softmax: MaskedSoftmax<'_> = settings.softmax().scale(0.5).masked();
    softmax = match what {
        What::Additive => softmax.additive(&bias),
        What::Keep => softmax.keep(&masks.keep),
        What::Lengths => softmax.key_lengths(&masks.lengths),
        What::Causal => softmax.causal(Align::BottomRight),
        What::SoftCap => softmax.soft_cap(CAP),
        What::Unmasked | What::LogSoftmax | What::LogSumExp => softmax,
    };
    let mut sums = masks.sums.view().to_vec()?;
    let mut sums_tensor = masks.sums.device().tensor_from(&sums, masks.sums.shape())?;
    let scores = workspace.shaped_as(&shape)?.0;
    let plan = match what {
        What::LogSoftmax => softmax.plan_log_softmax(scores)?,
        What::LogSumExp => softmax.plan_logsumexp(scores)?,
        _ => softmax.plan(scores)?,
    };
    workspace.poison(shape.iter().product())?;
    let mut launch = |workspace: &mut Workspace<'_, T>| {
        let (x, y) = workspace.shaped_as(&shape)?;
        match what {
            What::LogSoftmax => softmax.log_softmax_into(x, y),
            What::LogSumExp => softmax.logsumexp_into(x, &mut sums_tensor),
            _ => softmax.forward_into(x, y),
        }
    };
    launch(workspace)?;
    if what == What::LogSumExp {
        sums = sums_tensor.to_vec()?;
    }
    let accuracy = check(workspace, source, masks, what, &sums)?;
    let elems: usize = shape.iter().product();
    let timing = if timed {
        let copied = |workspace: &mut Workspace<'_, T>| -> Result<f64, Failed> {
            let (x, mut y) = workspace.shaped_as(&shape)?;
            let times = time_each(x.device(), COPY_SAMPLES, || copy(&x, &mut y))?;
            Ok(Spread::of(&times).median)
        };
        let before = copied(workspace)?;
        let (x, mut y) = workspace.shaped_as(&shape)?;
        let times = time_each(x.device(), settings.samples, || match what {
            What::LogSoftmax => softmax.log_softmax_into(&x, &mut y),
            What::LogSumExp => softmax.logsumexp_into(&x, &mut sums_tensor),
            _ => softmax.forward_into(&x, &mut y),
        })?;
        let after = copied(workspace)?;
        let us = Spread::of(&times);
        Some(Timing::new(us, before, after, masks.bytes(what) as u64))
    } else {
        None
    };
    Ok(Masked {
        implementation: OURS.to_owned(),
        dtype: T::DTYPE.name().to_owned(),
        shape: shape.map(|extent| extent as u64),
        what: what.name().to_owned(),
        kernel: plan.kernel_name().to_owned(),
        plan: plan.to_string(),
        bytes: masks.bytes(what) as u64,
        copy_bytes: (2 * elems * size_of::<T>()) as u64,
        timing,
        accuracy,
    })
}

/// Compares some rows with f64 arithmetic: softmax in ulp, logarithms as a part of what is allowed.
fn check<T: Number>(
    workspace: &mut Workspace<'_, T>,
    source: &Source<T>,
    masks: &Masks<T>,
    what: What,
    sums: &[f32],
) -> Result<Accuracy, Failed> {
    let [batch, heads, queries, keys] = masks.shape;
    let rows = batch * heads * queries;
    let is_log = matches!(what, What::LogSoftmax | What::LogSumExp);
    let limit_ulp = match what {
        _ if is_log => 1.0,
        // A capped score, of up to 4 here, may be 1.5 units in its last place from what f64 rounds to, and so the sum.
        What::SoftCap if T::PRECISION == 24 => T::LIMIT_ULP + 12.0,
        _ => T::LIMIT_ULP,
    };
    let (mut worst, mut compared) = (0.0f64, 0);
    let step = (rows / COMPARED_ROWS).max(1);
    for row in (0..rows).step_by(step).chain([rows - 1]) {
        let (b, query) = (row / (heads * queries), row % queries);
        let mask_row = b * queries + query;
        let mut bias = source.row(mask_row, keys);
        let z: Vec<f64> = source
            .row(row, keys)
            .enumerate()
            .map(|(key, x)| {
                let bias = bias.next().map_or(0.0, T::value);
                let z = 0.5 * x.value() as f32;
                let is_seen = match what {
                    What::Keep => is_kept(mask_row * keys + key),
                    What::Lengths => key < length(b, keys),
                    What::Causal => key + queries <= query + keys,
                    _ => true,
                };
                match what {
                    _ if !is_seen => f64::NEG_INFINITY,
                    What::Additive => f64::from(z + bias as f32),
                    What::SoftCap => f64::from(CAP * f64::from(z / CAP).tanh() as f32),
                    _ => z.into(),
                }
            })
            .collect();
        let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = z.iter().map(|z| (z - max).exp()).sum();
        let log = sum.ln();
        if what == What::LogSumExp {
            let allowed = 2.0 * f64::powi(2.0, -23) * max.abs().max(log);
            worst = worst.max((f64::from(sums[row]) - (max + log)).abs() / allowed);
        } else {
            let got = workspace.row(row, keys)?;
            for (key, (got, z)) in got.iter().zip(&z).enumerate() {
                let error = if what == What::LogSoftmax {
                    let exact = (z - max) - log;
                    let allowed = 4.0 * f64::powi(2.0, -24) * (z - max).abs().max(log).max(1.0);
                    let half = if T::PRECISION == 24 { 0.0 } else { 0.5 };
                    let ulps = got.error_ulp(exact);
                    (got.value() - exact).abs() / allowed * ((ulps - half) / ulps).max(0.0)
                } else if max == f64::NEG_INFINITY {
                    // Nothing of the row is seen: zeros.
                    got.error_ulp(0.0)
                } else {
                    got.error_ulp((z - max).exp() / sum)
                };
                if error.is_nan() && got.value() != (z - max) - log || error > limit_ulp {
                    return Err(Failed::new(format!(
                        "row {row}, key {key} is {}: an error of {error:.3}, {limit_ulp} are allowed",
                        got.value()
                    )));
                }
                worst = worst.max(error);
            }
        }
        compared += 1;
    }
    if worst > limit_ulp {
        return Err(Failed::new(format!(
            "an error of {worst:.3}, {limit_ulp} are allowed"
        )));
    }
    Ok(Accuracy {
        max_error_ulp: worst,
        limit_ulp,
        rows_compared: compared,
        elements_scanned: compared * keys as u64,
    })
}

fn texts(cell: &Masked) -> Vec<String> {
    let shape: Vec<String> = cell.shape.iter().map(u64::to_string).collect();
    let mut texts = vec![cell.dtype.clone(), shape.join(","), cell.what.clone()];
    match cell.timing {
        Some(timing) => texts.extend([
            format!("{:.1}", timing.us.median),
            format!("{:.1}", timing.copy_us),
            format!("{:.3}", timing.us.median / timing.copy_us),
            format!("{:.3}", cell.fraction_of_bandwidth().unwrap_or(0.0)),
        ]),
        None => texts.extend(std::iter::repeat_n("-".to_owned(), 4)),
    }
    texts.push(format!("{:.2}", cell.accuracy.max_error_ulp));
    texts.push(cell.kernel.clone());
    texts
}
