//! The softmax of scores as attention has them: masked, biased, capped, with a sink; of a row also the
//! logarithm, and the logarithm of its sum of exponentials.
//!
//! | way | a row is held by | row length |
//! |---|---|---|
//! | `attention_warp` | a warp | up to 1,024 |
//! | `attention_block` | a block | what shared memory holds |
//! | `attention_split` | the blocks of a cluster (sm_90 on) | up to 262,144 |
//! | `attention_stream` | nobody: a block reads it twice | any |
//!
//! A chunk's scores go through shared memory, each lane's by themselves: first as they come, then as what the
//! exponentials are taken of, then as exponentials. Loops over a lane's vectors are loops, so that kernels that can do all
//! of this stay small, and a chunk costs no more than what is seen of it: a vector that is hidden as a
//! whole is neither read nor computed, only its results are written.
//!
//! Chunks and trees are those of the other ways. Where logarithms may be asked for, a hidden element adds nothing to a sum;
//! elsewhere it adds what is too little to change a result.
//!
//! With `A` the accuracy of f32 results, the logarithms are exact enough for all types; kernels with less than that
//! write no logarithms.

use cuda_std::ext::async_copy::{commit_group, copy_16, wait_all, wait_group};
use cuda_std::ext::math::{fma, max_nan, opaque_u32, unchecked_div_u32};
use cuda_std::ext::{Global, U32x2, U32x4};
use cuda_std::thread::{block_dim_x, block_idx_x, sync_threads, thread_idx_x};
use cuda_std::warp::lane_id;

use crate::chunked::chunks;
use crate::element::Element;
use crate::exchange::Exchange;
use crate::exp::{Accuracy, Full, Reference};
use crate::ln::{ln, ln_pair};
use crate::online::{Normaliser, Outcome, Pair, Partial};
use crate::options::{FullyMasked, Options};
use crate::reduce::{MAX_WARPS, PartialSlots, WARP, combine_lanes, lanes_max, lanes_sum};
use crate::row::RowLayout;
use crate::scores::{Masks, Operands, Results, RowScores, Scores, Sum, each};
use crate::stage::Parked;
use crate::tile::{CHUNK, Tile};

/// Shared memory of a chunk: as many f32.
const CHUNK_BYTES: u32 = Parked::bytes(CHUNK, 4);

/// Shared memory of a block of `warps` warps, `blocks` of which share a row, for its chunks.
#[inline(always)]
pub const fn chunks_bytes(warps: u32, blocks: u32, cols: u32) -> u32 {
    warps * chunks(cols).div_ceil(warps * blocks) * CHUNK_BYTES
}

/// A warp's chunk of a row, from element `first` on, and where its lanes keep their vectors.
#[derive(Clone, Copy)]
struct Chunk<const V: usize> {
    first: u32,
    place: Parked,
}

impl<const V: usize> Chunk<V> {
    /// Elements that a warp has of each of its lanes' vectors.
    const STRIDE: u32 = WARP * V as u32;
    /// Shared vectors, of four f32, that one of a lane's vectors needs. Scores come to the last of them, so
    /// that what is made of them in fours can take their place.
    const FOURS: u32 = V as u32 / 4;

    /// Index of the lane's `step`-th vector's first element in the row.
    #[inline(always)]
    fn key(self, step: u32) -> u32 {
        self.first + step * Self::STRIDE + lane_id() * V as u32
    }

    /// The steps in which any lane sees anything: from the first to before the second.
    #[inline(always)]
    fn steps<In: Element>(self, row: &RowScores<'_, In>) -> (u32, u32) {
        let (begin, end) = row.seen(self.first, self.first + CHUNK);
        if begin < end {
            (
                (begin - self.first) / Self::STRIDE,
                (end - self.first).div_ceil(Self::STRIDE),
            )
        } else {
            (0, 0)
        }
    }

    /// Begins to bring the chunk's scores in.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row is readable.
    /// * **own**: nothing else uses the place, or is on the way to it.
    #[inline(always)]
    unsafe fn bring<In: Element>(self, row: &RowScores<'_, In>) {
        let (mut step, end) = self.steps(row);
        while step < end {
            if let Some(from) = row.whole_vector::<V>(self.key(step)) {
                // SAFETY: in-bounds: a vector of the row; own: the caller's; both at multiples of 16 bytes.
                unsafe { copy_16(self.place.vector((step + 1) * Self::FOURS - 1), from) };
            }
            step += 1;
        }
    }

    /// Four scores of the lane's `step`-th vector, the `part`-th of them, as they came.
    ///
    /// # Safety
    ///
    /// * **written**: by [`Self::bring`], and not since.
    #[inline(always)]
    unsafe fn brought<In: Element>(self, step: u32, part: u32) -> [f32; 4] {
        let place = self.place.vector((step + 1) * Self::FOURS - 1);
        // SAFETY: written: the caller's.
        unsafe {
            if V == 4 {
                let U32x4(words) = place.load();
                words.map(|word| In::unpack(word)[0])
            } else {
                let U32x2([low, high]) = place.cast::<U32x2>().at(part).load();
                let ([a, b], [c, d]) = (In::unpack(low), In::unpack(high));
                [a, b, c, d]
            }
        }
    }

    /// The lane's `step`-th vector as f32.
    ///
    /// # Safety
    ///
    /// * **written**: by [`Self::put`].
    #[inline(always)]
    unsafe fn get(self, step: u32) -> [f32; V] {
        let mut values = [0.0; V];
        let mut i = 0;
        while i < V {
            let place = self.place.vector(step * Self::FOURS + i as u32 / 4);
            // SAFETY: written: the caller's.
            let U32x4([a, b, c, d]) = unsafe { place.load() };
            [values[i], values[i + 1], values[i + 2], values[i + 3]] =
                [a, b, c, d].map(f32::from_bits);
            i += 4;
        }
        values
    }

    /// Keeps the lane's `step`-th vector as f32.
    ///
    /// # Safety
    ///
    /// * **own**: the place is the chunk's, and nothing is on the way to it.
    #[inline(always)]
    unsafe fn put(self, step: u32, values: [f32; V]) {
        let mut i = 0;
        while i < V {
            let place = self.place.vector(step * Self::FOURS + i as u32 / 4);
            let words = [values[i], values[i + 1], values[i + 2], values[i + 3]];
            // SAFETY: own: the caller's.
            unsafe { place.store(U32x4(words.map(f32::to_bits))) };
            i += 4;
        }
    }

    /// Makes of the scores what exponentials are taken of, less `shift`. The largest, in every lane.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row and its operands are readable.
    /// * **written**: this lane's copies by [`Self::bring`] are done.
    #[inline(always)]
    unsafe fn score<In: Element>(self, row: &RowScores<'_, In>, shift: f32) -> f32 {
        let (begin, end) = self.steps(row);
        let mut max = f32::NEG_INFINITY;
        let (begin, end) = (begin * Self::FOURS, end * Self::FOURS);
        let key = |four: u32| self.key(four / Self::FOURS) + 4 * (four % Self::FOURS);
        let mut masks = Masks::NONE;
        let mut next = begin;
        while next <= end {
            // What the next four need is on its way while this four is computed.
            let own = masks;
            if next < end {
                // SAFETY: in-bounds: the caller's.
                masks = unsafe { row.masks(key(next)) };
            }
            next += 1;
            if next < begin + 2 {
                continue;
            }
            let four = next - 2;
            let (step, part) = (four / Self::FOURS, four % Self::FOURS);
            let mut z = [f32::NEG_INFINITY; 4];
            if row.sees::<4>(key(four)) {
                // SAFETY: in-bounds, written: the caller's.
                let x = unsafe {
                    if row.whole_vector::<V>(self.key(step)).is_some() {
                        self.brought::<In>(step, part)
                    } else {
                        row.one_by_one(key(four))
                    }
                };
                z = row.transform(key(four), x, own);
                if shift != 0.0 {
                    z = each(z, |_, z| z - shift);
                }
                let [a, b, c, d] = z;
                max = max_nan(max, max_nan(max_nan(a, b), max_nan(c, d)));
            }
            // SAFETY: own: each lane has its own.
            unsafe { self.place.vector(four).store(U32x4(z.map(f32::to_bits))) };
        }
        lanes_max::<WARP>(max)
    }

    /// The partial of a chunk whose largest score is `max`, in every lane. Its exponentials take the scores' place if they
    /// are to be `kept`. `finely`: what rounding took from them is summed as well.
    ///
    /// # Safety
    ///
    /// * **scored**: by [`Self::score`].
    #[inline(always)]
    unsafe fn exponentiate<In: Element, A: Accuracy>(
        self,
        row: &RowScores<'_, In>,
        max: f32,
        kept: bool,
        finely: bool,
    ) -> Partial {
        let (mut step, end) = self.steps(row);
        let reference = Reference::of_max(max);
        let mut sum = Pair::ZERO;
        while step < end {
            // SAFETY: written: scored; own: each lane has its own.
            unsafe {
                let z = self.get(step);
                let e = exponentials::<A, V>(z, reference);
                if A::PAIRS && finely {
                    let mut i = 0;
                    while i < V {
                        sum.lo += rest_of_exponential(z[i], reference);
                        i += 1;
                    }
                }
                sum = Tile::<WARP, 1, V>::of(0, [e]).vector_sum::<A>(0, Some(sum));
                if kept {
                    self.put(step, e);
                }
            }
            step += 1;
        }
        let sum = lanes_sum::<A, WARP>(sum);
        Partial {
            max,
            sum: if Partial::can_refer(max) {
                sum
            } else {
                Pair::ZERO
            },
        }
    }

    /// Writes the chunk's results into the row of `cols` elements at `y`.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row at `y` is writable, and no other warp touches this chunk's part of it.
    /// * **scored**: the place has what `finish` takes.
    #[inline(always)]
    unsafe fn write<In: Element, Out: Element, A: Accuracy>(
        self,
        row: &RowScores<'_, In>,
        y: Global<Out::Word>,
        cols: u32,
        finish: Finish,
    ) {
        let (begin, end) = self.steps(row);
        let vector_bytes = V * size_of::<Out::Word>();
        let is_wide = y.address().is_multiple_of(vector_bytes.min(16) as u64) && !finish.is_nan();
        let steps = cols
            .saturating_sub(self.first)
            .min(CHUNK)
            .div_ceil(Self::STRIDE);
        let mut step = 0;
        while step < steps {
            let key = self.key(step);
            let mut results = [finish.hidden(); V];
            if step >= begin && step < end {
                // SAFETY: written: scored.
                let values = unsafe { self.get(step) };
                results = finish.results::<A, V>(values);
            }
            let to = y.at(u64::from(key));
            if is_wide && key + V as u32 <= cols {
                // SAFETY: in-bounds: whole; aligned: a whole vector of a row that begins at one.
                unsafe { Out::store_wide(to, results) };
            } else {
                let mut i = 0;
                while i < V {
                    if key + (i as u32) < cols {
                        let word = Out::narrow_any(results[i]);
                        // SAFETY: in-bounds: the row's element.
                        unsafe { to.at(i as u64).store_streaming(word) };
                    }
                    i += 1;
                }
            }
            step += 1;
        }
    }
}

/// Exponentials relative to a maximum; of those that are too far below it to count, 0 where a logarithm may be taken of
/// their sum, and else what is too little to change it.
#[inline(always)]
fn exponentials<A: Accuracy, const V: usize>(z: [f32; V], reference: Reference) -> [f32; V] {
    each(z, |_, z| {
        if !A::PAIRS || reference.reaches(z) {
            A::exp(z, reference)
        } else {
            0.0
        }
    })
}

/// What rounding took from an exponential, if it counts.
#[inline(always)]
fn rest_of_exponential(z: f32, reference: Reference) -> f32 {
    if reference.reaches(z) {
        Full::rest(z, reference)
    } else {
        0.0
    }
}

/// How results are made of what a chunk has kept.
#[derive(Clone, Copy)]
enum Finish {
    /// All of them are this.
    Fill(f32),
    /// Of exponentials.
    Normalise(Normaliser),
    /// Of scores.
    Exponentiate(Reference, Normaliser),
    /// Of scores: less the maximum, less the logarithm of the sum relative to it.
    Log { max: f32, log_sum: Pair },
}

impl Finish {
    /// What a hidden element gives.
    #[inline(always)]
    fn hidden(self) -> f32 {
        match self {
            Self::Fill(value) => value,
            Self::Normalise(_) | Self::Exponentiate(..) => 0.0,
            Self::Log { .. } => f32::NEG_INFINITY,
        }
    }

    #[inline(always)]
    fn is_nan(self) -> bool {
        matches!(self, Self::Fill(value) if value.is_nan())
    }

    /// The results of what was kept.
    #[inline(always)]
    fn results<A: Accuracy, const V: usize>(self, kept: [f32; V]) -> [f32; V] {
        match self {
            Self::Fill(value) => [value; V],
            Self::Normalise(normaliser) => {
                let mut e = kept;
                if normaliser.rescales() {
                    e = each(e, |_, e| normaliser.rescale(e));
                }
                each(e, |_, e| normaliser.apply::<A>(e))
            }
            Self::Exponentiate(reference, normaliser) => {
                let e = exponentials::<A, V>(kept, reference);
                each(e, |_, e| normaliser.apply::<A>(e))
            }
            Self::Log { max, log_sum } => each(kept, |_, z| {
                let below = Pair::two_sum(z, -max);
                let result = Pair::two_sum(below.hi, -log_sum.hi);
                let result = result.hi + (result.lo + (below.lo - log_sum.lo));
                // The rounding errors of infinity are NaN.
                if z == f32::NEG_INFINITY { z } else { result }
            }),
        }
    }
}

/// A row, once the whole of it is known.
struct Whole<'a> {
    /// Its sink included.
    partial: Partial,
    /// The same, with what rounding took from the exponentials, where that matters.
    fine: Option<Partial>,
    /// What its scores are less.
    shift: f32,
    cols: u32,
    options: &'a Options,
    scores: &'a Scores,
}

impl Whole<'_> {
    /// Logarithm of the sum of exponentials relative to the maximum. `finely`: the sum is one of exponentials
    /// with what rounding took from them.
    #[inline(always)]
    fn log_sum(&self, Partial { max, sum }: Partial, finely: bool) -> Pair {
        // The maximum's own term is in the sum, with these very bits: a row of one element has a sum of exactly 1.
        let reference = Reference::of_max(max);
        let one = Full::exp(max, reference);
        let rest_of_one = if finely {
            Full::rest(max, reference)
        } else {
            0.0
        };
        let quotient = sum.hi / one;
        let missing = fma(-quotient, one, sum.hi) + fma(-quotient, rest_of_one, sum.lo);
        ln_pair(Pair::two_sum(quotient, missing / one))
    }

    /// How a chunk whose largest score is `part_max` is finished; `kept` are exponentials, or else scores.
    #[inline(always)]
    fn finish<A: Accuracy>(&self, part_max: f32, kept: bool) -> Finish {
        let log = A::PAIRS && self.scores.results == Results::Log;
        match Outcome::of(self.partial, self.cols, self.options) {
            Outcome::Fill(value) if !log || value.is_nan() => Finish::Fill(value),
            Outcome::Fill(_) => Finish::Fill(match self.options.fully_masked {
                FullyMasked::Uniform => -ln(self.cols as f32),
                FullyMasked::Zero | FullyMasked::Nan => f32::NEG_INFINITY,
            }),
            Outcome::Normalise(_) if log => Finish::Log {
                max: self.partial.max,
                log_sum: self.log_sum(self.partial, false),
            },
            outcome if kept => match outcome.for_part(part_max, self.partial.max) {
                Outcome::Fill(value) => Finish::Fill(value),
                Outcome::Normalise(normaliser) => Finish::Normalise(normaliser),
            },
            Outcome::Normalise(normaliser) => {
                Finish::Exponentiate(Reference::of_max(self.partial.max), normaliser)
            }
        }
    }

    /// The logarithm of the row's sum.
    #[inline(always)]
    fn sum(&self) -> f32 {
        let max = self.partial.max;
        if max == f32::NEG_INFINITY {
            max
        } else if max < f32::INFINITY {
            let log_sum = match self.fine {
                Some(fine) => self.log_sum(fine, true),
                None => self.log_sum(self.partial, false),
            };
            // One of the two is 0.
            let sum = Pair::two_sum(self.shift + max, log_sum.hi);
            sum.hi + (sum.lo + log_sum.lo)
        } else {
            f32::NAN
        }
    }
}

/// `part`, and the sink's exponential where there is a sink.
#[inline(always)]
fn with_sink<A: Accuracy>(part: Partial, sink: f32, finely: bool) -> Partial {
    if sink == f32::NEG_INFINITY {
        return part;
    }
    let mut sum = Pair::ZERO;
    if Partial::can_refer(sink) {
        let reference = Reference::of_max(sink);
        sum.hi = A::exp(sink, reference);
        if A::PAIRS && finely {
            sum.lo = Full::rest(sink, reference);
        }
    }
    part.merge(Partial { max: sink, sum })
}

/// Whether the logarithm of a row's sum is asked for, and so small that the sum has to be known better than
/// exponentials are: below 1, as the maximum.
#[inline(always)]
fn wants_finely(scores: &Scores, shift: f32, whole: Partial) -> bool {
    const E: f32 = core::f32::consts::E;
    scores.sum != Sum::None
        && shift == 0.0
        && whole.max.abs() < 1.0
        && whole.sum.hi < E * Full::exp(whole.max, Reference::of_max(whole.max))
}

/// One warp's or block's share of a row.
///
/// # Safety
///
/// * **in-bounds**: for every row, `layout` leads to `cols` elements of `x` that can be read and of `y` that can be
///   written, and rows of `y` do not overlap; the strides of `scores` lead to an element of each operand that it
///   asks for, for each key of the masks, and those of the sums do not overlap; the block has [`chunks_bytes`] of shared
///   memory, and after them the exchange's.
/// * **covered**: the grid has the exchange's warps for each of `rows` rows; `cols` is at least 1; a row of one warp
///   has one chunk.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn rows<In, Out, A, X, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    rows: u32,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
    operands: &Operands,
    scores: &Scores,
) where
    In: Element,
    Out: Element,
    A: Accuracy,
    X: Exchange,
{
    const { assert!(V == In::VECTOR) };
    // All threads that share a row leave, or none.
    if X::row() >= rows {
        return;
    }
    let (warp, warps, all_chunks) = (X::warp(), X::warps(), chunks(cols));
    // SAFETY: nonzero: a row has a warp.
    let own = unsafe { unchecked_div_u32(all_chunks + warps - 1, warps) };
    // SAFETY: in-bounds: the caller's.
    let mut exchange = unsafe { X::new(block_dim_x() / WARP * own * CHUNK_BYTES, all_chunks) };
    // SAFETY: in-bounds: the caller's.
    let row = unsafe { RowScores::<In>::new(x, cols, layout, options, operands, scores, X::row()) };
    let first_place = thread_idx_x() / WARP * own;
    let chunk = |index: u32| Chunk::<V> {
        first: (warp + index * warps) * CHUNK,
        place: Parked::at((first_place + index) * CHUNK_BYTES),
    };
    let kept = scores.results == Results::Softmax;

    let mut shift = 0.0;
    let mut coarse = None;
    let whole = loop {
        let mut index = 0;
        while index < own {
            // SAFETY: in-bounds: the caller's; own: a place a chunk, and a chunk one warp's.
            unsafe { chunk(index).bring(&row) };
            commit_group();
            index += 1;
        }
        exchange.begin();
        index = 0;
        while index < own {
            match own - 1 - index {
                0 => wait_group::<0>(),
                1 => wait_group::<1>(),
                2 => wait_group::<2>(),
                _ => wait_group::<3>(),
            }
            // SAFETY: in-bounds: the caller's; written: no more copies are under way than came after.
            let part = unsafe {
                let max = chunk(index).score(&row, shift);
                chunk(index).exponentiate::<In, A>(&row, max, kept, coarse.is_some())
            };
            if index == 0 {
                exchange.meet();
            }
            // SAFETY: own: a chunk of this warp's, once.
            unsafe { exchange.tell(warp + index * warps, part) };
            index += 1;
        }
        // SAFETY: in-bounds: the caller's.
        let sink = unsafe { scores.sink(layout, options, operands, opaque_u32(X::row())) };
        let whole = with_sink::<A>(exchange.collect(), sink - shift, coarse.is_some());
        // All threads of the row agree, so all go round again, or none.
        if Outcome::needs_shift(whole.max) {
            shift = whole.max;
        } else if A::PAIRS && coarse.is_none() && wants_finely(scores, shift, whole) {
            coarse = Some(whole);
        } else {
            break whole;
        }
        exchange.again();
    };

    let whole = Whole {
        partial: coarse.unwrap_or(whole),
        fine: coarse.is_some().then_some(whole),
        shift,
        cols,
        options,
        scores,
    };
    if A::PAIRS && scores.sum != Sum::None && warp == 0 && lane_id() == 0 {
        // SAFETY: in-bounds: the row's own, by one thread.
        unsafe { scores.put_sum(layout, operands, opaque_u32(X::row()), whole.sum()) };
    }
    if scores.results == Results::Nothing {
        return;
    }
    // Opaque, so that the address is computed here, and not kept in registers from the beginning on.
    let (_, offset) = layout.locate(opaque_u32(X::row()));
    let mut index = 0;
    while index < own && warp + index * warps < all_chunks {
        // SAFETY: told: above; in-bounds: the row is this exchange's alone, and a chunk the warp's; scored: above.
        unsafe {
            let part = exchange.told(warp + index * warps);
            let finish = whole.finish::<A>(part.max, kept);
            chunk(index).write::<In, Out, A>(&row, y.at(offset), cols, finish);
        }
        index += 1;
    }
}

/// Warps of a block that streams a row. Each keeps running partials of two of 32 classes of chunks.
pub const STREAM_WARPS: u32 = 16;

/// Shared memory of a block that streams.
pub const STREAM_BYTES: u32 = STREAM_WARPS * CHUNK_BYTES + PartialSlots::bytes(MAX_WARPS);

/// One block's row, of any length.
///
/// # Safety
///
/// * **in-bounds**: as for [`rows`], and the block has [`STREAM_BYTES`] of shared memory.
/// * **covered**: the grid has a block a row, a block has [`STREAM_WARPS`] warps, and `cols` is below 2^31.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn stream<In, Out, A, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
    operands: &Operands,
    scores: &Scores,
) where
    In: Element,
    Out: Element,
    A: Accuracy,
{
    const { assert!(V == In::VECTOR) };
    // SAFETY: in-bounds: the caller's.
    let row =
        unsafe { RowScores::<In>::new(x, cols, layout, options, operands, scores, block_idx_x()) };
    let warp = thread_idx_x() / WARP;
    let slots = PartialSlots::at(STREAM_WARPS * CHUNK_BYTES);
    let chunk = |first: u32| Chunk::<V> {
        first,
        place: Parked::at(warp * CHUNK_BYTES),
    };

    let mut shift = 0.0;
    let mut coarse = None;
    let whole = loop {
        let mut class = warp;
        while class < MAX_WARPS {
            let mut running = Partial::EMPTY;
            let mut first = class * CHUNK;
            while first < cols {
                // SAFETY: in-bounds: the caller's; own: a place a warp, whose loads are done when the next chunk is
                // brought; written: waited for; scored: just now.
                let part = unsafe {
                    chunk(first).bring(&row);
                    wait_all();
                    let max = chunk(first).score(&row, shift);
                    chunk(first).exponentiate::<In, A>(&row, max, false, coarse.is_some())
                };
                running = running.merge(part);
                first += MAX_WARPS * CHUNK;
            }
            if lane_id() == 0 {
                // SAFETY: in-bounds: a slot a class; unshared: this warp's own, read after the barrier only.
                unsafe { slots.put(class, running) };
            }
            class += STREAM_WARPS;
        }
        sync_threads();
        // SAFETY: written: every class before the barrier, and not again before the one below.
        let whole = combine_lanes(MAX_WARPS, |slot| unsafe { slots.get(slot) });
        // SAFETY: in-bounds: the caller's.
        let sink = unsafe { scores.sink(layout, options, operands, opaque_u32(block_idx_x())) };
        let whole = with_sink::<A>(whole, sink - shift, coarse.is_some());
        if Outcome::needs_shift(whole.max) {
            shift = whole.max;
        } else if A::PAIRS && coarse.is_none() && wants_finely(scores, shift, whole) {
            coarse = Some(whole);
        } else {
            break whole;
        }
        // All threads agree, so all are here, and read the slots before any warp fills them again.
        sync_threads();
    };

    let whole = Whole {
        partial: coarse.unwrap_or(whole),
        fine: coarse.is_some().then_some(whole),
        shift,
        cols,
        options,
        scores,
    };
    if A::PAIRS && scores.sum != Sum::None && thread_idx_x() == 0 {
        // SAFETY: in-bounds: the row's own, by one thread.
        unsafe { scores.put_sum(layout, operands, opaque_u32(block_idx_x()), whole.sum()) };
    }
    if scores.results == Results::Nothing {
        return;
    }
    let (_, offset) = layout.locate(opaque_u32(block_idx_x()));
    let finish = whole.finish::<A>(0.0, false);
    let mut first = warp * CHUNK;
    while first < cols {
        // SAFETY: in-bounds: the row is this block's alone, and a chunk the warp's; own, written, scored: as above.
        unsafe {
            chunk(first).bring(&row);
            wait_all();
            chunk(first).score(&row, shift);
            chunk(first).write::<In, Out, A>(&row, y.at(offset), cols, finish);
        }
        first += STREAM_WARPS * CHUNK;
    }
}
