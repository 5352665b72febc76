//! `stream`: a block reads its row twice, a chunk a warp at a time: once for maximum and sum, by the
//! online softmax, and once to write the results. Any length on any device: the fallback.

use cuda_std::ext::Global;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::warp::lane_id;

use crate::element::Element;
use crate::online::{Outcome, Partial};
use crate::options::Options;
use crate::reduce::{MAX_WARPS, PartialSlots, WARP, combine_lanes};
use crate::row::RowLayout;
use crate::tile::{CHUNK, Row, Tile};

/// Threads of a block. A warp keeps a running partial of every 32nd chunk.
pub const BLOCK_THREADS: u32 = MAX_WARPS * WARP;

/// Shared memory of a block.
pub const SHARED_BYTES: u32 = PartialSlots::bytes(MAX_WARPS);

/// One block's row.
///
/// # Safety
///
/// * **in-bounds**: for every row, `layout` leads to `cols` elements of `x` that can be read and of `y` that
///   can be written, and rows of `y` do not overlap; the block has [`SHARED_BYTES`] of shared memory.
/// * **covered**: the grid has a block a row, a block has [`BLOCK_THREADS`], and `cols` is below 2^31.
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
    let slots = PartialSlots::at(0);
    let load = |chunk_first, shift| {
        let mut tile = Tile::<WARP, STEPS, V>::load(input, chunk_first, options);
        tile.map(|z| z - shift);
        tile
    };

    let mut shift = 0.0;
    let whole = loop {
        let mut running = Partial::EMPTY;
        let mut first = warp * CHUNK;
        while first < cols {
            let mut tile = load(first, shift);
            let max = tile.max();
            running = running.merge(tile.exponentiate::<Out::Accuracy>(max));
            first += MAX_WARPS * CHUNK;
        }
        if lane_id() == 0 {
            // SAFETY: in-bounds: a slot a warp; unshared: this warp's own, read after the barrier only.
            unsafe { slots.put(warp, running) };
        }
        sync_threads();
        // SAFETY: written: by every warp before the barrier, and not again before the one below.
        let whole = combine_lanes(MAX_WARPS, |slot| unsafe { slots.get(slot) });
        if !Outcome::needs_shift(whole.max) {
            break whole;
        }
        // All threads agree, so all are here, and read the slots before any warp fills them again.
        shift = whole.max;
        sync_threads();
    };

    let outcome = Outcome::of(whole, cols, options);
    let mut first = warp * CHUNK;
    while first < cols {
        let mut tile = load(first, shift);
        tile.exponentials_relative_to::<Out::Accuracy>(whole.max);
        // SAFETY: in-bounds: the row is this block's alone, and chunks and lanes write different elements.
        unsafe { tile.store(output, outcome) };
        first += MAX_WARPS * CHUNK;
    }
}
