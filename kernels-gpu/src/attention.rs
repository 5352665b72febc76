//! The softmax of scores as attention has them: masked, biased, capped, with a sink; of a row also the
//! logarithm, and the logarithm of its sum of exponentials.
//!
//! | way | a row is held by | row length |
//! |---|---|---|
//! | `attention_warp` | half a warp | up to 512 |
//! | `attention_block` | a block, a chunk a warp | up to 28,672 or 32,768 |
//! | `attention_split` | the blocks of a cluster (sm_90 on), likewise | up to 262,144 |
//! | `attention_stream` | nobody: a block reads it twice | any |
//!
//! A warp has a [chunk's scores](crate::scored) in registers. Where the arithmetic takes longer than the memory, a block walks up to
//! eight rows, one after the other: where the next one lies, and much else, then follows from the one before.
//!
//! | kernels | can do | of operands |
//! |---|---|---|
//! | `attention_block`, `attention_warp` | masks, causality, windows, lengths, sinks | that move in whole vectors |
//! | `attention_block_any` | soft caps and distances as well | wherever they lie |
//! | `attention_block_log` | logarithms as well | wherever they lie |
//!
//! What only the latter two can do (`ANY`) would take registers, and with them warps, from the first. Kernels whose results may be
//! logarithms (`LOGS`) have the accuracy of f32 results and keep the scores, in shared memory, not the exponentials. There a hidden
//! element adds nothing to a sum; elsewhere it adds what is too little to change a result. Chunks and trees are those of the other
//! ways.

use cuda_std::ext::Global;
use cuda_std::ext::math::{fma, opaque_u32};
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::warp::{lane_id, warp_vote_any};

use crate::chunked::chunks;
use crate::element::Element;
use crate::exchange::Exchange;
use crate::exp::{Accuracy, Full, Reference};
use crate::ln::{ln, ln_pair};
use crate::online::{Outcome, Pair, Partial};
use crate::options::{FullyMasked, Options};
use crate::reduce::{MAX_WARPS, PartialSlots, WARP, combine_lanes};
use crate::row::RowLayout;
use crate::scored::{Chunk, Finish, PLACE_BYTES};
use crate::scores::{Operands, Results, RowScores, Scores, Sum};
use crate::stage::Parked;
use crate::tile::CHUNK;

/// Shared memory of a block of `warps` warps, the first of it the exchange's.
#[inline(always)]
pub const fn shared_bytes(exchange_bytes: u32, warps: u32) -> u32 {
    exchange_bytes + warps * PLACE_BYTES
}

/// Whether blocks of the way `block` walk rows: where the arithmetic takes longer than the memory. `input_bytes`: size of a score;
/// `only_masks`: kernels that cannot do `ANY`.
pub const fn block_walks(input_bytes: usize, only_masks: bool) -> bool {
    input_bytes < 4 || !only_masks
}

/// What rounds over a row have found.
struct Rounds {
    /// What its scores are less.
    shift: f32,
    /// The row's partial, where another round is there to know its sum better.
    coarse: Option<Partial>,
}

impl Rounds {
    const FIRST: Self = Self {
        shift: 0.0,
        coarse: None,
    };

    /// Whether the row has to be gone over again, now that `whole` is known.
    #[inline(always)]
    fn another<const LOGS: bool>(&mut self, whole: Partial, scores: &Scores) -> bool {
        if Outcome::needs_shift(whole.max) {
            self.shift = whole.max;
        } else if LOGS && self.coarse.is_none() && self.wants_finely(whole, scores) {
            self.coarse = Some(whole);
        } else {
            return false;
        }
        true
    }

    /// Whether the logarithm of a row's sum is asked for, and so small that the sum has to be known better than
    /// exponentials are: below 1, as the maximum.
    #[inline(always)]
    fn wants_finely(&self, whole: Partial, scores: &Scores) -> bool {
        const E: f32 = core::f32::consts::E;
        scores.sum != Sum::None
            && self.shift == 0.0
            && whole.max.abs() < 1.0
            && whole.sum.hi < E * Full::exp(whole.max, Reference::of_max(whole.max))
    }

    /// The row, `last` being the partial of the last round.
    #[inline(always)]
    fn whole<'a>(
        &self,
        last: Partial,
        cols: u32,
        options: &'a Options,
        scores: &'a Scores,
    ) -> Whole<'a> {
        Whole {
            partial: self.coarse.unwrap_or(last),
            fine: self.coarse.is_some().then_some(last),
            shift: self.shift,
            cols,
            options,
            scores,
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

    /// How a chunk whose largest score is `part_max` is finished: from exponentials relative to it or, with `LOGS`, from
    /// scores.
    #[inline(always)]
    fn finish<const LOGS: bool>(&self, part_max: f32) -> Finish {
        let log = LOGS && self.scores.results == Results::Log;
        // Opaque, or every row would have its number of columns inverted in advance.
        let outcome = Outcome::of(self.partial, opaque_u32(self.cols), self.options);
        match outcome {
            Outcome::Fill(value) if !log || value.is_nan() => Finish::Fill(value),
            Outcome::Fill(_) => Finish::Fill(match self.options.fully_masked {
                FullyMasked::Uniform => -ln(self.cols as f32),
                FullyMasked::Zero | FullyMasked::Nan => f32::NEG_INFINITY,
            }),
            Outcome::Normalise(_) if log => Finish::Log {
                max: self.partial.max,
                log_sum: self.log_sum(self.partial, false),
            },
            Outcome::Normalise(_) => match outcome.for_part(part_max, self.partial.max) {
                Outcome::Fill(value) => Finish::Fill(value),
                Outcome::Normalise(normaliser) if LOGS => {
                    Finish::Exponentiate(Reference::of_max(part_max), normaliser)
                }
                Outcome::Normalise(normaliser) => Finish::Normalise(normaliser),
            },
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
    let reference = Reference::of_max(sink);
    let mut sum = Pair {
        hi: A::exp(sink, reference),
        lo: 0.0,
    };
    if A::PAIRS && finely {
        sum.lo = Full::rest(sink, reference);
    }
    part.merge(Partial::of(sink, sum))
}

/// One block's or cluster's share of the rows that it walks, a chunk a warp.
///
/// # Safety
///
/// * **in-bounds**: for every row, `layout` leads to `cols` elements of `x` that can be read and of `y` that can be
///   written, and rows of `y` do not overlap; the strides of `scores` lead to an element of each operand that it
///   asks for, for each key of the masks, and those of the sums do not overlap; the block has [`shared_bytes`] of shared
///   memory.
/// * **covered**: the grid has the exchange's warps, no fewer than a row has chunks, for as many of the `rows` rows at a time as
///   `layout` says, one unless the exchange [walks](Exchange::WALKS); `cols` is at least 1, and no more than `LANES` lanes hold.
/// * **aligned**: without `ANY`, `cols` is whole vectors of `V`; rows of scores, of results and of each mask begin at a
///   multiple of a vector's bytes or of 16, whichever is less; elements of masks are adjacent, those of an additive one no smaller than
///   scores; and `scores` has neither cap nor slopes.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn rows<
    In,
    Out,
    A,
    X,
    const ANY: bool,
    const LOGS: bool,
    const LANES: u32,
    const STEPS: usize,
    const V: usize,
>(
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
    const {
        assert!(V == In::VECTOR && STEPS * V * WARP as usize == CHUNK as usize);
        // Logarithms are for whole warps.
        assert!(LANES == WARP || !LOGS && LANES == WARP / 2);
    }
    let (first, end) = layout.walk(X::row(), rows);
    // All threads that share a row leave, or none.
    if first >= end {
        return;
    }
    // SAFETY: in-bounds: the caller's.
    let mut exchange = unsafe { X::new(0, chunks(cols)) };
    let count = end - first;
    let mut next = 0;
    let mut row = RowScores::<In>::first(x, cols, options, operands, scores);
    let mut is_found = false;
    loop {
        if LANES == WARP && !is_found {
            // SAFETY: in-bounds: the caller's.
            row = unsafe {
                RowScores::new(x, cols, layout, options, operands, scores, first + next, 0)
            }
            .shared_by_warp();
        }
        // SAFETY: in-bounds, covered, aligned: the caller's.
        unsafe {
            one_row::<In, Out, A, X, ANY, LOGS, LANES, STEPS, V>(
                x,
                y,
                cols,
                layout,
                options,
                operands,
                scores,
                &mut exchange,
                &row,
                (first, next, count),
            );
        }
        next += WARP / LANES;
        if !X::WALKS || next >= count {
            return;
        }
        exchange.again();
        is_found = LANES == WARP && row.advance(layout);
    }
}

/// Of the `count` rows from `first` on, the caller's share of the `next`-th, a chunk a warp; or of that and the one after it,
/// if there is one, half a warp a row.
///
/// # Safety
///
/// As for [`rows`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn one_row<
    In,
    Out,
    A,
    X,
    const ANY: bool,
    const LOGS: bool,
    const LANES: u32,
    const STEPS: usize,
    const V: usize,
>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
    operands: &Operands,
    scores: &Scores,
    exchange: &mut X,
    whole_row: &RowScores<'_, In>,
    (first, next, count): (u32, u32, u32),
) where
    In: Element,
    Out: Element,
    A: Accuracy,
    X: Exchange,
{
    let (number, cols) = if LANES == WARP {
        (next, cols)
    } else {
        // The second half may have no row. It has the first's then, but no key of it.
        let number = next + lane_id() / LANES;
        if number < count {
            (number, cols)
        } else {
            (next, 0)
        }
    };
    // SAFETY: in-bounds: the caller's, for so many keys or none.
    let row = || unsafe {
        // Opaque for a row to half a warp, whose lanes have in registers where the row's operands are: so not for longer than
        // they have to.
        if LANES == WARP {
            return *whole_row;
        }
        let number = opaque_u32(number);
        let follows = if number < WARP / LANES {
            0
        } else {
            WARP / LANES
        };
        RowScores::<In>::new(
            x,
            cols,
            layout,
            options,
            operands,
            scores,
            first + number,
            follows,
        )
    };
    let places = X::bytes(chunks(cols));
    let own = Parked::at(places + thread_idx_x() / WARP * PLACE_BYTES);
    // Opaque, or what can be known of a chunk before a round would be kept in registers for a next one.
    let chunk_first = || opaque_u32(X::warp() * CHUNK);

    let mut rounds = Rounds::FIRST;
    let (row, z, part, whole) = loop {
        let row = row();
        // SAFETY: own: a place a warp.
        let chunk = unsafe { Chunk::<In, ANY, LANES, STEPS, V>::new(&row, chunk_first(), own) };
        let finely = rounds.coarse.is_some();
        // SAFETY: in-bounds: the caller's; brought: by the row before, whose chunk of this number was this warp's.
        let mut z = unsafe {
            let x = chunk.bring();
            exchange.begin();
            chunk.score(&x, rounds.shift)
        };
        let part = if LOGS {
            chunk.sum_up::<A>(&mut z, finely)
        } else {
            chunk.exponentiate::<A>(&mut z)
        };
        // SAFETY: own: the warp's.
        let mut whole = unsafe { exchange.share(X::warp(), part) };
        if scores.has(Scores::SINKS) {
            // SAFETY: in-bounds: the caller's.
            let sink =
                unsafe { scores.sink(layout, options, operands, opaque_u32(first + number)) };
            whole = with_sink::<A>(whole, sink - rounds.shift, finely);
        }
        let mut another = rounds.another::<LOGS>(whole, scores);
        if LANES < WARP {
            // The other half has to come along, and finds the same again.
            // SAFETY: all lanes of the warp call, and the mask names them all.
            another = unsafe { warp_vote_any(u32::MAX, another) };
        }
        // All threads that share rows agree, so all go round again, or none.
        if !another {
            break (row, z, part, whole);
        }
        exchange.again();
    };

    let whole = rounds.whole(whole, cols, options, scores);
    if LOGS && scores.sum != Sum::None && X::warp() == 0 && lane_id() == 0 {
        // SAFETY: in-bounds: the row's own, by one thread.
        unsafe { scores.put_sum(layout, operands, opaque_u32(first + number), whole.sum()) };
    }
    // SAFETY: own: a place a warp.
    let chunk = unsafe { Chunk::<In, ANY, LANES, STEPS, V>::new(&row, chunk_first(), own) };
    if LOGS && scores.results == Results::Nothing || X::warp() * CHUNK >= cols {
        return;
    }
    // SAFETY: in-bounds: the row is this exchange's alone, and a chunk the warp's.
    unsafe {
        let offset = row.offset_out;
        let finish = whole.finish::<LOGS>(part.max);
        if LOGS {
            chunk.write_kept::<Out, A>(y.at(offset), finish);
        } else {
            chunk.write::<Out, A>(z, y.at(offset), finish);
        }
    }
}

/// Warps of a block that streams a row. Each keeps running partials of two of 32 classes of chunks.
pub const STREAM_WARPS: u32 = 16;

/// Shared memory of a block that streams.
pub const STREAM_BYTES: u32 = shared_bytes(PartialSlots::bytes(MAX_WARPS), STREAM_WARPS);

/// One block's row, of any length.
///
/// # Safety
///
/// * **in-bounds**: as for [`rows`], and the block has [`STREAM_BYTES`] of shared memory.
/// * **covered**: the grid has a block a row, a block has [`STREAM_WARPS`] warps, and `cols` is below 2^31.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn stream<In, Out, A, const LOGS: bool, const STEPS: usize, const V: usize>(
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
    const { assert!(V == In::VECTOR && STEPS * V * WARP as usize == CHUNK as usize) };
    // SAFETY: in-bounds: the caller's.
    let row = unsafe {
        RowScores::<In>::new(x, cols, layout, options, operands, scores, block_idx_x(), 0)
    };
    let warp = thread_idx_x() / WARP;
    let slots = PartialSlots::at(0);
    let own = Parked::at(PartialSlots::bytes(MAX_WARPS) + warp * PLACE_BYTES);
    let mut rounds = Rounds::FIRST;
    let mut finish = None;
    loop {
        let finely = rounds.coarse.is_some();
        let mut class = warp;
        while class < MAX_WARPS {
            let mut running = Partial::EMPTY;
            let mut first = class * CHUNK;
            while first < cols {
                // SAFETY: own: a place a warp.
                let chunk = unsafe { Chunk::<In, true, WARP, STEPS, V>::new(&row, first, own) };
                // SAFETY: in-bounds: the caller's; the row is this block's alone, and a chunk the warp's.
                unsafe {
                    let mut z = chunk.score(&chunk.bring(), rounds.shift);
                    match finish {
                        None => {
                            let part = if LOGS {
                                chunk.sum_up::<A>(&mut z, finely)
                            } else {
                                chunk.exponentiate::<A>(&mut z)
                            };
                            running = running.merge(part);
                        }
                        Some((offset, finish)) => {
                            chunk.put(&z);
                            chunk.write_kept::<Out, A>(y.at(offset), finish);
                        }
                    }
                }
                first += MAX_WARPS * CHUNK;
            }
            if finish.is_none() && lane_id() == 0 {
                // SAFETY: in-bounds: a slot a class; unshared: this warp's own, read after the barrier only.
                unsafe { slots.put(class, running) };
            }
            class += STREAM_WARPS;
        }
        if finish.is_some() {
            return;
        }
        sync_threads();
        // SAFETY: written: every class before the barrier, and not again before the one below.
        let whole = combine_lanes(MAX_WARPS, |slot| unsafe { slots.get(slot) });
        // SAFETY: in-bounds: the caller's.
        let sink = unsafe { scores.sink(layout, options, operands, opaque_u32(block_idx_x())) };
        let whole = with_sink::<A>(whole, sink - rounds.shift, finely);
        // All threads agree, so all are here, and read the slots before any warp fills them again.
        sync_threads();
        if rounds.another::<LOGS>(whole, scores) {
            continue;
        }
        let whole = rounds.whole(whole, cols, options, scores);
        if LOGS && scores.sum != Sum::None && thread_idx_x() == 0 {
            // SAFETY: in-bounds: the row's own, by one thread.
            unsafe { scores.put_sum(layout, operands, opaque_u32(block_idx_x()), whole.sum()) };
        }
        if LOGS && scores.results == Results::Nothing {
            return;
        }
        // Exponentials are taken again, relative to the row's own maximum.
        let of_scores = match whole.finish::<LOGS>(whole.partial.max) {
            Finish::Normalise(normaliser) => {
                Finish::Exponentiate(Reference::of_max(whole.partial.max), normaliser)
            }
            finish => finish,
        };
        finish = Some((row.offset_out, of_scores));
    }
}
