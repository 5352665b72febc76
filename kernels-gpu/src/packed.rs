//! `packed`: rows that follow each other without a gap, whose starts need not be aligned. A warp
//! brings as many rows at once as it has groups of lanes, through shared memory, then covers each with its group as
//! `warp` does. The shortest rows have a lane each; the longest, of 16-bit inputs, a whole warp, which takes them in
//! whole vectors as `staged` does.

use cuda_std::ext::Global;
use cuda_std::ext::async_copy::wait_all;
use cuda_std::thread::{block_dim_x, block_idx_x, thread_idx_x};
use cuda_std::warp::{lane_id, sync_warp};

use crate::element::Element;
use crate::online::Outcome;
use crate::options::Options;
use crate::reduce::{WARP, lanes_max};
use crate::stage::{Span, Stage};
use crate::tile::Tile;

/// Whether a warp takes its one row as `staged` does, in whole vectors: rows of 16-bit inputs.
#[inline(always)]
const fn by_vectors(lanes: u32, elements_per_vector: usize) -> bool {
    lanes == WARP && elements_per_vector == 8
}

/// Fewest elements of a row that has `lanes` lanes with `steps` vectors of `v` elements each.
///
/// Where a lane has a row of 16-bit elements to itself, all its vectors but the last have to be whole: what is known to
/// the compiler is not looked at for each element.
#[inline(always)]
pub const fn shortest(lanes: u32, steps: u32, v: u32) -> u32 {
    if lanes == 1 && v == 8 {
        (steps - 1) * v + 1
    } else {
        1
    }
}

/// Shared memory of a warp, where a row has `lanes` lanes with `steps` vectors of `v` elements each, and elements
/// have up to `size` bytes.
#[inline(always)]
pub const fn stage_bytes(lanes: u32, steps: u32, v: u32, cols: u32, size: u32) -> u32 {
    if by_vectors(lanes, v as usize) {
        Stage::bytes(lanes * steps * v, size)
    } else {
        Stage::bytes(WARP / lanes * cols, size)
    }
}

/// One block's rows: one for each group of `LANES` lanes.
///
/// # Safety
///
/// * **in-bounds**: the `rows * cols` elements from `x` are readable and those from `y` writable; the block has
///   shared memory of [`stage_bytes`] a warp.
/// * **covered**: `cols` is at least [`shortest`] and at most `LANES * STEPS * V`; blocks are whole warps.
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
    // 33 columns would be worked on as 40, if the compiler did not know that a lane has next to nothing in its last vector.
    let in_last = if shortest(LANES, STEPS as u32, V as u32) > 1 {
        cols - (STEPS as u32 - 1) * V as u32
    } else {
        V as u32
    };
    // SAFETY: the caller's; covered: by as many of the last vector as there are.
    unsafe {
        if in_last <= 2 {
            rows_of::<In, Out, LANES, STEPS, V, 2>(x, y, rows, cols, options);
        } else {
            rows_of::<In, Out, LANES, STEPS, V, V>(x, y, rows, cols, options);
        }
    }
}

/// [`softmax`] of rows that have at most `LAST` elements in a lane's last vector.
///
/// # Safety
///
/// As for [`softmax`].
#[inline(always)]
unsafe fn rows_of<
    In,
    Out,
    const LANES: u32,
    const STEPS: usize,
    const V: usize,
    const LAST: usize,
>(
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
    let bytes = stage_bytes(LANES, STEPS as u32, V as u32, cols, size);
    let stage = Stage::at(warp_in_block * bytes);
    let (row_in_warp, by_vectors) = (lane_id() / LANES, by_vectors(LANES, V));
    let each = (STEPS * V) as u32;
    // SAFETY: in-bounds: the caller's; own: a stage a warp; all lanes call the barrier; written: the rows were brought.
    // Lanes past the last row work on it as well, so that all do the same, and write nothing.
    let (mut tile, largest) = unsafe {
        stage.bring_once(input, each);
        if by_vectors {
            stage.fill(input, each * WARP);
        }
        wait_all();
        sync_warp(u32::MAX);
        if by_vectors {
            let tile = Tile::<LANES, STEPS, V>::from_stage::<In>(stage, input.skew, cols, options);
            (tile, None)
        } else {
            let first = row_in_warp.min(rows_here - 1) * cols;
            Tile::<LANES, STEPS, V>::from_packed::<In, LAST>(
                stage,
                input.skew + first,
                cols,
                options,
            )
        }
    };
    let mut max = match largest {
        Some(largest) => lanes_max::<LANES>(largest),
        None => tile.max(),
    };
    if Outcome::needs_shift(max) {
        tile.map(|z| z - max);
        max = 0.0;
    }
    let part = tile.exponentiate_up_to::<Out::Accuracy, LAST>(max);
    let outcome = Outcome::of(part, cols, options);
    // SAFETY: all lanes call the barriers, of which the first ends the reading of inputs, the second the
    // writing of results; in-bounds: the stage has room for the rows; the output's rows are this warp's.
    unsafe {
        sync_warp(u32::MAX);
        if by_vectors {
            match outcome {
                Outcome::Normalise(normaliser) => {
                    tile.results_to_stage::<Out, Out::Accuracy>(stage, normaliser);
                    sync_warp(u32::MAX);
                    stage.send_shifted(output, each);
                }
                Outcome::Fill(value) => output.fill(Out::narrow_any(value)),
            }
        } else {
            let cols_here = if row_in_warp < rows_here { cols } else { 0 };
            let first = output.skew + row_in_warp * cols;
            tile.to_packed::<Out, LAST>(stage, first, cols_here, outcome);
            sync_warp(u32::MAX);
            stage.send(output, each);
        }
    }
}
