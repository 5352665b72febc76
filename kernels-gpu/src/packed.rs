//! `packed`: rows that follow each other without a gap, whose starts need not be aligned. A warp
//! brings several rows at once through shared memory, then covers each with a group of lanes as
//! `warp` does; the shortest rows have a lane each.

use cuda_std::ext::Global;
use cuda_std::ext::async_copy::wait_all;
use cuda_std::thread::{block_dim_x, block_idx_x, thread_idx_x};
use cuda_std::warp::{lane_id, sync_warp};

use crate::element::Element;
use crate::online::Outcome;
use crate::options::Options;
use crate::reduce::WARP;
use crate::stage::{Span, Stage};
use crate::tile::Tile;

/// Shared memory of a warp, where a row has `lanes` lanes and elements have up to `size` bytes.
#[inline(always)]
pub const fn stage_bytes(lanes: u32, cols: u32, size: u32) -> u32 {
    Stage::bytes(WARP / lanes * cols, size)
}

/// One block's rows: one for each group of `LANES` lanes.
///
/// # Safety
///
/// * **in-bounds**: the `rows * cols` elements from `x` are readable and those from `y` writable; the block has
///   shared memory of [`stage_bytes`] a warp.
/// * **covered**: `cols` is at least 1 and at most `LANES * STEPS * V`; blocks are whole warps.
#[inline(always)]
pub unsafe fn softmax<In, Out, const LANES: u32, const STEPS: usize, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    rows: u32,
    cols: u32,
    options: &Options,
) where
    In: Element,
    Out: Element,
{
    let warp_in_block = thread_idx_x() / WARP;
    let first_row = (block_idx_x() * (block_dim_x() / WARP) + warp_in_block) * (WARP / LANES);
    if first_row >= rows {
        return;
    }
    let rows_here = (rows - first_row).min(WARP / LANES);
    let first = u64::from(first_row) * u64::from(cols);
    let input = Span::<In>::new(x.at(first), rows_here * cols);
    let output = Span::<Out>::new(y.at(first), rows_here * cols);
    let size = size_of::<In::Word>().max(size_of::<Out::Word>()) as u32;
    let stage = Stage::at(warp_in_block * stage_bytes(LANES, cols, size));
    // SAFETY: in-bounds: the caller's; own: a stage a warp; all lanes call the barrier.
    unsafe {
        stage.bring(input, rows_here * cols);
        wait_all();
        sync_warp(u32::MAX);
    }

    let row_in_warp = lane_id() / LANES;
    // Lanes of a row past the last one take part in the shuffles, with no elements.
    let cols_here = if row_in_warp < rows_here { cols } else { 0 };
    let row_first = row_in_warp * cols;
    // SAFETY: written: the row was brought.
    let mut tile = unsafe {
        Tile::<LANES, STEPS, V>::from_packed::<In>(
            stage,
            input.skew + row_first,
            cols_here,
            options,
        )
    };
    let mut max = tile.max();
    if Outcome::needs_shift(max) {
        tile.map(|z| z - max);
        max = 0.0;
    }
    let outcome = Outcome::of(tile.exponentiate::<Out::Accuracy>(max), cols, options);
    // SAFETY: all lanes call the barriers, of which the first ends the reading of inputs, the second the
    // writing of results; in-bounds: the stage has room for the rows; the output's rows are this warp's.
    unsafe {
        sync_warp(u32::MAX);
        tile.to_packed::<Out>(stage, output.skew + row_first, cols_here, outcome);
        sync_warp(u32::MAX);
        stage.send(output);
    }
}
