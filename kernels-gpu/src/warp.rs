//! `warp`: a group of 1 to 32 lanes has a row to itself, in registers. No block barrier.
//!
//! For rows of up to [`CHUNK`](crate::tile::CHUNK) elements.

use cuda_std::ext::Global;
use cuda_std::thread::{block_dim_x, block_idx_x, thread_idx_x};

use crate::element::Element;
use crate::online::Outcome;
use crate::options::Options;
use crate::row::RowLayout;
use crate::tile::{Row, Tile};

/// One block's rows: as many as the block has groups of `LANES` lanes.
///
/// # Safety
///
/// * **in-bounds**: for every row, `layout` leads to `cols` elements of `x` that can be read and of `y` that
///   can be written, and rows of `y` do not overlap.
/// * **covered**: `cols` is at most `LANES * STEPS * V`, and blocks are whole warps.
#[inline(always)]
pub unsafe fn softmax<In, Out, const LANES: u32, const STEPS: usize, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    rows: u32,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
) where
    In: Element,
    Out: Element,
{
    let row = block_idx_x() * (block_dim_x() / LANES) + thread_idx_x() / LANES;
    // Lanes of a row past the last one take part in the shuffles, with no elements.
    let (cols_here, row) = if row < rows { (cols, row) } else { (0, 0) };
    let (offset_in, offset_out) = layout.locate(row);
    // SAFETY: in-bounds: the caller's, or no elements.
    let (input, output) = unsafe {
        (
            Row::<In>::new(x.at(offset_in), cols_here),
            Row::<Out>::new(y.at(offset_out), cols_here),
        )
    };
    let mut tile = Tile::<LANES, STEPS, V>::load(input, 0, options);
    let mut max = tile.max();
    if Outcome::needs_shift(max) {
        tile.map(|z| z - max);
        max = 0.0;
    }
    let whole = tile.exponentiate::<Out::Accuracy>(max);
    let outcome = Outcome::of(whole, cols, options);
    // SAFETY: in-bounds: the row is this group's alone, and the tile's lanes write different elements.
    unsafe { tile.store(output, outcome) };
}
