//! Scores with masks and all else that attention does to them: a case, what f64 makes of it, and the comparison of what
//! a device makes of it.

use core::fmt;

use half::{bf16, f16};
use kernels_gpu::tanh::soft_cap;
use warp_softmax::{
    Align, DType, Device, Element, Error, FullyMasked, MaskedSoftmax, NanPolicy, Softmax, Tensor,
    TensorView, Way,
};

use crate::backend::{self, Native, bits, native};
use crate::format::Format;
use crate::oracle::{self, Op};
use crate::schedule;

/// Numbers of a shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers<T> {
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// In row-major order.
    pub values: Vec<T>,
}

impl<T: Copy> Numbers<T> {
    /// `value(index)` for each element, counted in row-major order.
    pub fn new(shape: &[usize], mut value: impl FnMut(usize) -> T) -> Self {
        Self {
            shape: shape.into(),
            values: (0..shape.iter().product()).map(&mut value).collect(),
        }
    }

    /// The element that stands for `index` of a larger shape, dimensions counted from the last.
    pub fn from_last(&self, index: &[usize]) -> T {
        let index = &index[index.len() - self.shape.len()..];
        self.from_first(index)
    }

    /// The element that stands for `index` of a larger shape, dimensions counted from the first.
    pub fn from_first(&self, index: &[usize]) -> T {
        let mut at = 0;
        for (&extent, &i) in self.shape.iter().zip(index) {
            at = at * extent + if extent == 1 { 0 } else { i };
        }
        self.values[at]
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The softmax.
    Softmax,
    /// Its logarithm.
    Log,
    /// The logarithm of the sum alone, in the output's type.
    Sum,
    /// The softmax, and the logarithm of the sum in f32.
    Both,
}

impl Asked {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Softmax, Self::Log, Self::Sum, Self::Both];
}

/// A call.
#[derive(Clone)]
pub struct Scores {
    /// Type of the scores.
    pub input: DType,
    /// Type of the results.
    pub output: DType,
    /// The scores, as numbers of their type.
    pub x: Numbers<f32>,
    /// Elements that the scores' and the results' rows are apart beyond their length.
    pub gaps: (usize, usize),
    /// Scale and policies.
    pub op: Op,
    /// The soft cap.
    pub cap: Option<f32>,
    /// The additive mask, as numbers of its type.
    pub bias: Option<(DType, Numbers<f32>)>,
    /// Keys to keep.
    pub keep: Option<Numbers<u8>>,
    /// Keys to hide.
    pub hide: Option<Numbers<bool>>,
    /// Causality.
    pub causal: Option<Align>,
    /// The window.
    pub window: Option<(usize, usize, Align)>,
    /// How many keys there are.
    pub lengths: Option<Numbers<u32>>,
    /// ALiBi slopes.
    pub slopes: Option<(Numbers<f32>, Align)>,
    /// Sink logits.
    pub sinks: Option<Numbers<f32>>,
}

/// All but the scores themselves.
impl fmt::Debug for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = |numbers: &Numbers<f32>| numbers.shape.clone();
        f.debug_struct("Scores")
            .field("types", &(self.input, self.output))
            .field("shape", &self.x.shape)
            .field("gaps", &self.gaps)
            .field("op", &self.op)
            .field("cap", &self.cap)
            .field(
                "bias",
                &self.bias.as_ref().map(|(dtype, bias)| (dtype, shape(bias))),
            )
            .field("keep", &self.keep.as_ref().map(|keep| &keep.shape))
            .field("hide", &self.hide.as_ref().map(|hide| &hide.shape))
            .field("causal", &self.causal)
            .field("window", &self.window)
            .field("lengths", &self.lengths)
            .field("slopes", &self.slopes)
            .field("sinks", &self.sinks)
            .finish_non_exhaustive()
    }
}

/// What a call gave, as bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The rows, if they were asked for.
    pub rows: Vec<u32>,
    /// The logarithms of sums, if they were asked for.
    pub sums: Vec<u32>,
}

impl Scores {
    /// Scores without anything else.
    pub fn new((input, output): (DType, DType), x: Numbers<f32>) -> Self {
        let round = |value: f32| input.value(input.finite_bits(value));
        Self {
            input,
            output,
            x: Numbers {
                values: x.values.into_iter().map(round).collect(),
                ..x
            },
            gaps: (0, 0),
            op: Op::default(),
            cap: None,
            bias: None,
            keep: None,
            hide: None,
            causal: None,
            window: None,
            lengths: None,
            slopes: None,
            sinks: None,
        }
    }

    fn extents(&self) -> (usize, usize) {
        let shape = &self.x.shape;
        let queries = if shape.len() > 1 {
            shape[shape.len() - 2]
        } else {
            1
        };
        (queries, shape[shape.len() - 1])
    }

    /// Own key of a query.
    fn own(&self, query: usize, align: Align) -> i64 {
        let (queries, keys) = self.extents();
        match align {
            Align::TopLeft => query as i64,
            Align::BottomRight => query as i64 + keys as i64 - queries as i64,
        }
    }

    /// `z` of every element that is left, and the sink, of the row with this index in the leading dimensions.
    fn row(&self, index: &[usize], x: &[f32]) -> (Vec<Option<f32>>, f32) {
        let (queries, _) = self.extents();
        let query = if index.is_empty() {
            0
        } else {
            index[index.len() - 1]
        };
        assert!(query < queries);
        let heads = &index[..index.len().saturating_sub(1)];
        let ignores = self.op.nan_policy == NanPolicy::Ignore;
        let z = x.iter().enumerate().map(|(key, &x)| {
            let at = [index, &[key]].concat();
            let k = key as i64;
            let mut seen = self
                .keep
                .as_ref()
                .is_none_or(|keep| keep.from_last(&at) != 0);
            seen &= !self.hide.as_ref().is_some_and(|hide| hide.from_last(&at));
            seen &= self.causal.is_none_or(|align| k <= self.own(query, align));
            seen &= self.window.is_none_or(|(left, right, align)| {
                let own = i128::from(self.own(query, align));
                own - left as i128 <= k.into() && i128::from(k) <= own + right as i128
            });
            seen &= self
                .lengths
                .as_ref()
                .is_none_or(|lengths| (key as u64) < u64::from(lengths.from_first(index)));
            if !seen {
                return None;
            }
            let mut z = self.op.scale * x;
            if let Some(cap) = self.cap {
                z = soft_cap(z, cap, 1.0 / cap);
            }
            if let Some((_, bias)) = &self.bias {
                z += bias.from_last(&at);
            }
            if let Some((slopes, align)) = &self.slopes {
                let distance = (self.own(query, *align) - k).unsigned_abs() as f32;
                z -= slopes.from_last(heads) * distance;
            }
            (!(ignores && z.is_nan())).then_some(z)
        });
        let sink = self
            .sinks
            .as_ref()
            .map_or(f32::NEG_INFINITY, |sinks| sinks.from_last(heads));
        let sink = if ignores && sink.is_nan() {
            f32::NEG_INFINITY
        } else {
            sink
        };
        (z.collect(), sink)
    }

    /// Index in the leading dimensions of every row.
    fn rows(&self) -> Vec<Vec<usize>> {
        let leading = &self.x.shape[..self.x.shape.len() - 1];
        leading.iter().fold(vec![Vec::new()], |rows, &extent| {
            rows.iter()
                .flat_map(|row| (0..extent).map(move |i| [&row[..], &[i]].concat()))
                .collect()
        })
    }

    /// Compares what a call gave with f64 arithmetic. Largest errors: of the rows in ulp, or in units of what is allowed for
    /// logarithms; of the sums in ulp of what bounds them.
    pub fn compare(&self, asked: Asked, given: &Given) -> Result<(f64, f64), String> {
        let (_, keys) = self.extents();
        let mut worst = (0.0f64, 0.0f64);
        for (r, (index, x)) in self
            .rows()
            .iter()
            .zip(self.x.values.chunks(keys))
            .enumerate()
        {
            let (z, sink) = self.row(index, x);
            let exact = Exact::of(&z, sink, self.op.fully_masked);
            let what = |what: String| format!("row {r} ({index:?}): {what}; {self:?}");
            if asked != Asked::Sum {
                let got = &given.rows[r * keys..][..keys];
                let error = if asked == Asked::Log {
                    exact.compare_logs(self.output, got)
                } else {
                    oracle::compare(self.output, got, &exact.softmax)
                };
                worst.0 = worst.0.max(error.map_err(what)?);
            }
            if matches!(asked, Asked::Sum | Asked::Both) {
                let dtype = if asked == Asked::Sum {
                    self.output
                } else {
                    DType::F32
                };
                let error = exact.compare_sum(dtype, given.sums[r]);
                worst.1 = worst.1.max(error.map_err(what)?);
            }
        }
        Ok(worst)
    }

    /// Makes the call, by the plan's way or a forced one; nothing where that cannot hold the rows.
    pub fn run(
        &self,
        device: &Device,
        way: Option<Way>,
        asked: Asked,
    ) -> Result<Option<Given>, String> {
        let salt = self.x.values.len() as u64;
        schedule::everywhere(salt, || self.run_once(device, way, asked))
    }

    fn run_once(
        &self,
        device: &Device,
        way: Option<Way>,
        asked: Asked,
    ) -> Result<Option<Given>, String> {
        let run = match (self.input, self.output) {
            (DType::F32, DType::F32) => self.run_types::<f32, f32>(device, way, asked),
            (DType::F16, DType::F16) => self.run_types::<f16, f16>(device, way, asked),
            (DType::BF16, DType::BF16) => self.run_types::<bf16, bf16>(device, way, asked),
            (DType::F16, DType::F32) => self.run_types::<f16, f32>(device, way, asked),
            (DType::BF16, DType::F32) => self.run_types::<bf16, f32>(device, way, asked),
            (DType::F32, DType::F16) => self.run_types::<f32, f16>(device, way, asked),
            (DType::F32, DType::BF16) => self.run_types::<f32, bf16>(device, way, asked),
            types => panic!("{types:?}"),
        };
        match run {
            Ok(given) => Ok(Some(given)),
            Err(Error::WayNotPossible { .. }) => Ok(None),
            Err(error) => Err(format!("{way:?}, {asked:?}: {error}; {self:?}")),
        }
    }

    fn run_types<I: Native, O: Native>(
        &self,
        device: &Device,
        way: Option<Way>,
        asked: Asked,
    ) -> Result<Given, Error> {
        const POISON: u32 = 0x5a5a_5a5a;
        let (_, keys) = self.extents();
        let mut softmax = Softmax::new()
            .scale(self.op.scale)
            .fully_masked(self.op.fully_masked)
            .nan_policy(self.op.nan_policy);
        if let Some(way) = way {
            softmax = softmax.force_way(way);
        }
        let beside = Besides::of(self, device)?;
        let masked = beside.apply(softmax.masked(), self)?;
        let padded = |gap: usize| {
            let mut shape = self.x.shape.clone();
            *shape.last_mut().expect("there is a last dimension") += gap;
            shape
        };
        let last = self.x.shape.len() - 1;
        // Gaps hold NaN, which must not be seen.
        let mut x = Vec::new();
        for row in self.x.values.chunks(keys) {
            x.extend(row.iter().map(|&x| self.input.bits(x)));
            x.extend(vec![self.input.canonical_nan(); self.gaps.0]);
        }
        let before = x.clone();
        let x = device.tensor_from(&native::<I>(&x), padded(self.gaps.0))?;
        let view = x.view().slice(last, self.gaps.0..)?;
        // The row begins after the gap: NaN before it, and after it those of the next.
        let view = if self.gaps.0 == 0 {
            view
        } else {
            x.view().slice(last, ..keys)?
        };
        let rows = self.x.values.len().checked_div(keys).unwrap_or(0);
        let poisoned = vec![O::from_u32(POISON); rows * (keys + self.gaps.1)];
        let mut y = device.tensor_from(&poisoned, padded(self.gaps.1))?;
        let mut sums =
            device.tensor_from(&vec![f32::from_bits(POISON); rows], &self.x.shape[..last])?;
        let mut given = Given {
            rows: Vec::new(),
            sums: Vec::new(),
        };
        let out = y.view_mut().slice(last, self.gaps.1..)?;
        match asked {
            Asked::Softmax => masked.forward_into(view, out)?,
            Asked::Log => masked.log_softmax_into(view, out)?,
            Asked::Both => masked.forward_with_logsumexp_into(view, out, &mut sums)?,
            Asked::Sum => {
                drop(out);
                given.sums = bits(&masked.logsumexp_as::<O>(view)?.to_vec()?);
            }
        }
        if asked == Asked::Both {
            given.sums = bits(&sums.to_vec()?);
        }
        if asked != Asked::Sum {
            for row in bits(&y.to_vec()?).chunks(keys + self.gaps.1) {
                let (gap, row) = row.split_at(self.gaps.1);
                let untouched = O::from_u32(POISON).to_u32();
                assert!(
                    gap.iter().all(|&bits| bits == untouched),
                    "a gap was written: {self:?}"
                );
                given.rows.extend_from_slice(row);
            }
        }
        assert_eq!(
            bits(&x.to_vec()?),
            before,
            "the scores were written: {self:?}"
        );
        Ok(given)
    }
}

/// The operands beside the scores on a device.
struct Besides {
    bias: [Option<AnyTensor>; 1],
    keep: Option<Tensor<u8>>,
    hide: Option<Tensor<bool>>,
    lengths: Option<Tensor<u32>>,
    slopes: Option<Tensor<f32>>,
    sinks: Option<Tensor<f32>>,
}

enum AnyTensor {
    F32(Tensor<f32>),
    F16(Tensor<f16>),
    BF16(Tensor<bf16>),
}

fn upload<T: warp_softmax::Scalar>(
    device: &Device,
    numbers: Option<&Numbers<T>>,
) -> Result<Option<Tensor<T>>, Error> {
    numbers
        .map(|numbers| device.tensor_from(&numbers.values, &numbers.shape))
        .transpose()
}

impl Besides {
    fn of(scores: &Scores, device: &Device) -> Result<Self, Error> {
        fn typed<T: Native>(
            device: &Device,
            dtype: DType,
            numbers: &Numbers<f32>,
        ) -> Result<Tensor<T>, Error> {
            let bits: Vec<u32> = numbers
                .values
                .iter()
                .map(|&value| dtype.bits(value))
                .collect();
            device.tensor_from(&native::<T>(&bits), &numbers.shape)
        }
        let bias = match &scores.bias {
            None => None,
            Some((DType::F32, bias)) => Some(AnyTensor::F32(typed(device, DType::F32, bias)?)),
            Some((DType::F16, bias)) => Some(AnyTensor::F16(typed(device, DType::F16, bias)?)),
            Some((DType::BF16, bias)) => Some(AnyTensor::BF16(typed(device, DType::BF16, bias)?)),
        };
        Ok(Self {
            bias: [bias],
            keep: upload(device, scores.keep.as_ref())?,
            hide: upload(device, scores.hide.as_ref())?,
            lengths: upload(device, scores.lengths.as_ref())?,
            slopes: upload(device, scores.slopes.as_ref().map(|(slopes, _)| slopes))?,
            sinks: upload(device, scores.sinks.as_ref())?,
        })
    }

    fn apply<'a>(
        &'a self,
        mut masked: MaskedSoftmax<'a>,
        scores: &Scores,
    ) -> Result<MaskedSoftmax<'a>, Error> {
        /// Of every other mask, a view that is broadcast already.
        fn view<'a, T: Element>(
            tensor: &'a Tensor<T>,
            shape: &[usize],
        ) -> Result<TensorView<'a, T>, Error> {
            if tensor.len().is_multiple_of(2) {
                tensor.view().broadcast(shape)
            } else {
                Ok(tensor.view())
            }
        }
        let shape = &scores.x.shape;
        masked = match &self.bias[0] {
            None => masked,
            Some(AnyTensor::F32(bias)) => masked.additive(view(bias, shape)?),
            Some(AnyTensor::F16(bias)) => masked.additive(view(bias, shape)?),
            Some(AnyTensor::BF16(bias)) => masked.additive(view(bias, shape)?),
        };
        if let Some(cap) = scores.cap {
            masked = masked.soft_cap(cap);
        }
        if let Some(keep) = &self.keep {
            masked = masked.keep(keep);
        }
        if let Some(hide) = &self.hide {
            masked = masked.hide(hide);
        }
        if let Some(lengths) = &self.lengths {
            masked = masked.key_lengths(lengths);
        }
        if let (Some(slopes), Some((_, align))) = (&self.slopes, &scores.slopes) {
            masked = masked.alibi(slopes, *align);
        }
        if let Some(sinks) = &self.sinks {
            masked = masked.sink(sinks);
        }
        if let Some(align) = scores.causal {
            masked = masked.causal(align);
        }
        if let Some((left, right, align)) = scores.window {
            masked = masked.window(left, right, align);
        }
        Ok(masked)
    }
}

/// A row in f64.
struct Exact {
    softmax: Vec<f64>,
    logs: Vec<f64>,
    /// How far logarithms may be off, but for a factor of 4 * 2^-24.
    log_bounds: Vec<f64>,
    sum: f64,
    /// What bounds the error of the sum's logarithm.
    sum_bound: f64,
}

impl Exact {
    fn of(z: &[Option<f32>], sink: f32, fully_masked: FullyMasked) -> Self {
        let all = |value: f64, log: f64, sum: f64| Self {
            softmax: vec![value; z.len()],
            logs: vec![log; z.len()],
            log_bounds: vec![log.abs().max(1.0); z.len()],
            sum,
            sum_bound: 1.0,
        };
        let live = || z.iter().flatten().chain([&sink]).map(|&z| f64::from(z));
        if live().any(|z| z.is_nan() || z == f64::INFINITY) {
            return all(f64::NAN, f64::NAN, f64::NAN);
        }
        let max = live().fold(f64::NEG_INFINITY, f64::max);
        if max == f64::NEG_INFINITY {
            let keys = z.len() as f64;
            return match fully_masked {
                FullyMasked::Zero => all(0.0, max, max),
                FullyMasked::Uniform => all(1.0 / keys, -keys.ln(), max),
                FullyMasked::Nan => all(f64::NAN, f64::NAN, max),
            };
        }
        // The largest apart, or what is far smaller would be lost beside it.
        let mut rest = 0.0;
        let mut largest = false;
        for z in live() {
            if z == max && !largest {
                largest = true;
            } else {
                rest += (z - max).exp();
            }
        }
        let (sum, log) = (1.0 + rest, rest.ln_1p());
        let of = |z: &Option<f32>| z.map_or(f64::NEG_INFINITY, f64::from);
        Self {
            softmax: z.iter().map(|z| (of(z) - max).exp() / sum).collect(),
            logs: z.iter().map(|z| (of(z) - max) - log).collect(),
            log_bounds: z
                .iter()
                .map(|z| (of(z) - max).abs().max(log).max(1.0))
                .collect(),
            sum: max + log,
            sum_bound: max.abs().max(log),
        }
    }

    /// Largest error in units of 4 * 2^-24 times the bound, which may be 1 and, of 16-bit results, half an ulp more.
    fn compare_logs(&self, dtype: DType, got: &[u32]) -> Result<f64, String> {
        let mut worst = 0.0f64;
        for (i, (&bits, &exact)) in got.iter().zip(&self.logs).enumerate() {
            let error = same_kind(dtype, bits, exact).map_err(|what| format!("key {i}: {what}"))?;
            let Some(error) = error else { continue };
            let allowed = 4.0 * f64::powi(2.0, -24) * self.log_bounds[i];
            let error = (error - half_ulp(dtype, exact)) / allowed;
            if error.is_nan() || error > 1.0 {
                let value = dtype.value(bits);
                return Err(format!(
                    "key {i}: {value:e} for {exact:e}, {error:.3} of what is allowed"
                ));
            }
            worst = worst.max(error);
        }
        Ok(worst)
    }

    /// Error in ulp of the bound.
    fn compare_sum(&self, dtype: DType, bits: u32) -> Result<f64, String> {
        let Some(error) = same_kind(dtype, bits, self.sum)? else {
            return Ok(0.0);
        };
        let ulps = (error - half_ulp(dtype, self.sum)) / DType::F32.ulp(self.sum_bound);
        if ulps.is_nan() || ulps > 2.0 {
            let value = dtype.value(bits);
            let (exact, bound) = (self.sum, self.sum_bound);
            return Err(format!(
                "logsumexp {value:e} for {exact:e}, {ulps:.3} ulp of {bound:e}"
            ));
        }
        Ok(ulps)
    }
}

fn half_ulp(dtype: DType, exact: f64) -> f64 {
    match dtype {
        DType::F32 => 0.0,
        _ => 0.5 * dtype.ulp(exact),
    }
}

/// The error of finite numbers; nothing where both are the same NaN or infinity.
fn same_kind(dtype: DType, bits: u32, exact: f64) -> Result<Option<f64>, String> {
    let value = f64::from(dtype.value(bits));
    // What is too large for the type has become infinity.
    let limit = f64::from(dtype.largest()) + half_ulp(dtype, f64::from(dtype.largest()));
    let overflows = exact.abs() >= limit.min(f64::from(f32::MAX));
    if exact.is_nan() {
        if bits == dtype.canonical_nan() {
            return Ok(None);
        }
    } else if (overflows && value == exact.signum() * f64::INFINITY) || value == exact {
        return Ok(None);
    } else if value.is_finite() && exact.is_finite() {
        return Ok(Some((value - exact).abs()));
    }
    Err(format!("{value:e} ({bits:#x}) for {exact:e}"))
}

/// The ways that rows of scores are covered by.
pub const WAYS: [Way; 3] = [Way::Block, Way::Split, Way::Stream];

/// Makes a call by every way on every backend and compares. Results and errors of the plan's way, and how many calls there were.
///
/// # Errors
///
/// What is not as it must be.
///
/// # Panics
///
/// Where less ran than there is.
pub fn check(scores: &Scores, asked: Asked) -> Result<(Given, (f64, f64), usize), String> {
    let mut first: Option<Given> = None;
    let mut worst = (0.0, 0.0);
    let mut ran = 0;
    for backend in backend::all() {
        for way in core::iter::once(None).chain(WAYS.map(Some)) {
            let Some(given) = scores.run(&backend.device, way, asked)? else {
                continue;
            };
            ran += 1;
            match &first {
                None => {
                    worst = scores.compare(asked, &given)?;
                    first = Some(given);
                }
                Some(first) if *first == given => {}
                Some(_) => {
                    return Err(format!(
                        "{way:?} on {} gives other bits of {asked:?}; {scores:?}",
                        backend.name
                    ));
                }
            }
        }
    }
    // The plan's way, `stream`, and one that shares the row among warps.
    assert!(ran >= 3, "only {ran} calls");
    Ok((first.expect("there is a backend"), worst, ran))
}
