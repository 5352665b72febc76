//! `spread`, and the same split: as `block`, each chunk by four warps, for rows so few that time is what the latency of one
//! warp's work makes it.
//!
//! What four warps do has the bits of what one does: a chunk's maximum comes first, so that exponentials and
//! cuts are relative to it, and then each lane adds the fours of its vectors in their order, wherever they were made.

use cuda_std::ext::math::max_nan;
use cuda_std::ext::{Global, Shared, U32x4};
use cuda_std::thread::{sync_threads, thread_idx_x};
use cuda_std::warp::lane_id;

use crate::chunked::{chunks, shared_bytes};
use crate::element::Element;
use crate::exchange::Exchange;
use crate::exp::Accuracy;
use crate::online::{Outcome, Pair, Partial};
use crate::options::Options;
use crate::reduce::{WARP, lanes_sum};
use crate::row::RowLayout;
use crate::tile::{CHUNK, Row, Tile};

/// Warps that a chunk is spread over.
pub const QUARTERS: u32 = 4;

/// One block's share of its row, with exponentials of accuracy `E`.
///
/// # Safety
///
/// * **in-bounds**: for every row, `layout` leads to `cols` elements of `x` that can be read and of `y` that
///   can be written, and rows of `y` do not overlap; the block has [`shared_bytes`] of shared memory, for the
///   exchange and [`Quarters::bytes`].
/// * **covered**: the grid has as many blocks a row as the exchange is among, a block has a multiple of four warps, and the
///   row as many chunks as there are fours, or no more if blocks share it; `cols` is at least 1.
/// * **aligned**: every row of `x` begins at 16 bytes and is whole vectors, and every row of `y` begins
///   at 16 bytes, or at a multiple of the results of a vector where they take less.
#[inline(always)]
pub unsafe fn softmax<In, Out, E, X, const STEPS: usize, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
) where
    In: Element,
    Out: Element,
    E: Accuracy,
    X: Exchange,
{
    const { assert!(STEPS as u32 * V as u32 * WARP * QUARTERS == CHUNK) };
    const { assert!(X::HOLDERS == QUARTERS) };
    // SAFETY: in-bounds: the caller's.
    let mut exchange = unsafe { X::new(0, chunks(cols)) };
    let chunk = X::warp();
    let first = chunk * CHUNK + quarter() * (CHUNK / QUARTERS);
    let (offset_in, offset_out) = layout.locate(X::row());
    // SAFETY: in-bounds, aligned: the caller's.
    let (input, output) = unsafe {
        (
            Row::<In>::aligned(x.at(offset_in), cols),
            Row::<Out>::aligned(y.at(offset_out), cols),
        )
    };
    let load = |exchange: &X| {
        let tile = Tile::<WARP, STEPS, V>::load(input, first, options);
        exchange.begin();
        tile
    };
    // Before the loop, so that what the compiler takes out of that is computed while the row is on its way.
    let mut tile = load(&exchange);
    let quarters = Quarters::at(shared_bytes(X::bytes(chunks(cols)), 0));
    let (tile, max, whole) = loop {
        // SAFETY: in-bounds: the caller's; in turns: here.
        let max = unsafe { quarters.largest(&tile) };
        let inputs = if E::TWICE { Some(tile.clone()) } else { None };
        // SAFETY: as above; own: the warps'.
        let whole = unsafe {
            let part = quarters.exponentiate::<E, STEPS, V>(&mut tile, max);
            exchange.share(chunk, part)
        };
        if !Outcome::needs_shift(whole.max) {
            break match inputs {
                Some(mut tile) => {
                    tile.exponentials_relative_to::<E>(whole.max);
                    (tile, whole.max, whole)
                }
                None => (tile, max, whole),
            };
        }
        // All threads of the row agree, so all are here.
        exchange.again();
        tile = load(&exchange);
        tile.map(|z| z - whole.max);
    };
    let outcome = Outcome::of_part(whole, max, cols, options);
    // SAFETY: in-bounds: the row is this exchange's alone, and a quarter of a chunk the warp's.
    unsafe { tile.store(output, outcome) };
}

/// Which of a chunk's warps the caller is in.
#[inline(always)]
fn quarter() -> u32 {
    thread_idx_x() / WARP % QUARTERS
}

/// Where the four warps of a chunk tell each other what they find, in shared memory.
pub struct Quarters {
    /// The largest element of each quarter.
    maxima: Shared<U32x4>,
    /// Two sums of four by quarter and lane.
    fours: Shared<U32x4>,
}

impl Quarters {
    const BYTES: u32 = 16 + QUARTERS * WARP * 16;

    /// Shared memory for the chunks of a block of `warps` warps.
    #[inline(always)]
    pub const fn bytes(warps: u32) -> u32 {
        warps / QUARTERS * Self::BYTES
    }

    /// Those of the caller's chunk, in the block's shared memory from `byte_offset` on.
    #[inline(always)]
    fn at(byte_offset: u32) -> Self {
        let own = byte_offset + thread_idx_x() / (QUARTERS * WARP) * Self::BYTES;
        Self {
            maxima: Shared::dynamic(own),
            fours: Shared::dynamic(own + 16),
        }
    }

    /// The largest element of the chunk, in every lane of its warps; NaN if one of them is. All threads of the block call.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the block has [`Quarters::bytes`] of shared memory from there on.
    /// * **in turns**: between two calls lies one of [`Quarters::exponentiate`], whose barrier ends the reading of maxima as
    ///   the one in here does that of fours.
    #[inline(always)]
    unsafe fn largest<const STEPS: usize, const V: usize>(
        &self,
        tile: &Tile<WARP, STEPS, V>,
    ) -> f32 {
        let max = tile.max();
        if lane_id() == 0 {
            // SAFETY: in-bounds: the caller's; in turns: a quarter's own, read after the barrier only.
            unsafe { self.maxima.cast::<f32>().at(quarter()).store(max) };
        }
        sync_threads();
        // SAFETY: written: by all four, before the barrier.
        let [a, b, c, d] = unsafe { self.maxima.load() }.0.map(f32::from_bits);
        max_nan(max_nan(a, b), max_nan(c, d))
    }

    /// Replaces every element by its exponential relative to `max`, the chunk's maximum, and gives the
    /// partial of the chunk, in every lane of its warps. All threads of the block call.
    ///
    /// # Safety
    ///
    /// As for [`Quarters::largest`], of which a call lies before each.
    #[inline(always)]
    unsafe fn exponentiate<E: Accuracy, const STEPS: usize, const V: usize>(
        &self,
        tile: &mut Tile<WARP, STEPS, V>,
        max: f32,
    ) -> Partial {
        tile.exponentials_relative_to::<E>(max);
        let [a, b] = tile.fours::<E, 2>();
        let place = |quarter: u32| self.fours.at(quarter * WARP + lane_id());
        // SAFETY: in-bounds: the caller's; in turns: a lane's own, read after the barrier only.
        unsafe {
            place(quarter()).store(U32x4([a.hi, a.lo, b.hi, b.lo].map(f32::to_bits)));
        }
        sync_threads();
        let fours = |quarter: u32| {
            // SAFETY: written: by all four, before the barrier.
            let [a_hi, a_lo, b_hi, b_lo] = unsafe { place(quarter).load() }.0.map(f32::from_bits);
            (Pair { hi: a_hi, lo: a_lo }, Pair { hi: b_hi, lo: b_lo })
        };
        let (a, b) = fours(0);
        let mut sum = a.plus_cut(b);
        let mut quarter = 1;
        while quarter < QUARTERS {
            let (a, b) = fours(quarter);
            sum = sum.plus_cut(a).plus_cut(b);
            quarter += 1;
        }
        Partial::of(max, lanes_sum::<E, WARP>(sum))
    }
}
