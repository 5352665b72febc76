//! `block`: a block has a row to itself, a chunk a warp, in registers.
//!
//! Each warp takes its exponentials relative to its own chunk's maximum, so that one exchange
//! settles maximum and sum together.

use cuda_std::ext::Global;
use cuda_std::thread::{block_dim_x, block_idx_x, sync_threads, thread_idx_x};
use cuda_std::warp::lane_id;

use crate::element::Element;
use crate::online::Outcome;
use crate::options::Options;
use crate::reduce::{PartialSlots, WARP, combine};
use crate::row::RowLayout;
use crate::tile::{CHUNK, Row, Tile};

/// One block's row.
///
/// # Safety
///
/// * **in-bounds**: for every row, `layout` leads to `cols` elements of `x` that can be read and of `y` that
///   can be written, and rows of `y` do not overlap; the block has shared memory for a partial a warp.
/// * **covered**: the grid has a block a row; a block has whole warps, and [`CHUNK`] elements a warp are at least `cols`.
#[inline(always)]
pub unsafe fn softmax<In, Out, const STEPS: usize, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
) where
    In: Element,
    Out: Element,
{
    const { assert!(STEPS * V * WARP as usize == CHUNK as usize) };
    let (offset_in, offset_out) = layout.locate(block_idx_x());
    // SAFETY: in-bounds: the caller's.
    let (input, output) = unsafe {
        (
            Row::<In>::new(x.at(offset_in), cols),
            Row::<Out>::new(y.at(offset_out), cols),
        )
    };
    let warp = thread_idx_x() / WARP;
    let warps = block_dim_x() / WARP;
    let slots = PartialSlots::at(0);
    let mut shift = 0.0;
    let (tile, max, whole) = loop {
        let mut tile = Tile::<WARP, STEPS, V>::load(input, warp * CHUNK, options);
        if shift != 0.0 {
            tile.map(|z| z - shift);
        }
        let max = tile.max();
        let part = tile.exponentiate::<Out::Accuracy>(max);
        if lane_id() == 0 {
            // SAFETY: in-bounds: a slot a warp; unshared: this warp's own, read after the barrier only.
            unsafe { slots.put(warp, part) };
        }
        sync_threads();
        // SAFETY: written: by every warp before the barrier, and not again before the one below.
        let whole = combine(warps, |slot| unsafe { slots.get(slot) });
        if !Outcome::needs_shift(whole.max) {
            break (tile, max, whole);
        }
        // All threads agree, so all are here, and read the slots before any warp fills them again.
        shift = whole.max;
        sync_threads();
    };
    let outcome = Outcome::of(whole, cols, options).for_part(max, whole.max);
    // SAFETY: in-bounds: the row is this block's alone, and the tiles' lanes write different elements.
    unsafe { tile.store(output, outcome) };
}

/// Shared memory of a block of `warps` warps.
#[inline(always)]
pub const fn shared_bytes(warps: u32) -> u32 {
    PartialSlots::bytes(warps)
}
