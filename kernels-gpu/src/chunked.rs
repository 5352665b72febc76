//! `block`, `staged` and `split`: warps share a row, a chunk each.
//!
//! Each warp takes its exponentials relative to its own chunk's maximum, so that one exchange
//! settles maximum and sum together.
//!
//! | way | access | exchange | row length |
//! |---|---|---|---|
//! | `block` | registers | a block | up to 32,768 |
//! | `staged` | staged | a block | up to 32,768 |
//! | `split` | registers | a cluster | up to 524,288 |
//! | `split_staged` | staged | a cluster | up to 524,288 |

use cuda_std::ext::Global;
use cuda_std::thread::{block_dim_x, thread_idx_x};

use crate::access::Access;
use crate::element::Element;
use crate::exchange::Exchange;
use crate::online::Outcome;
use crate::options::Options;
use crate::reduce::WARP;
use crate::row::RowLayout;
use crate::tile::{CHUNK, Row};

/// Chunks of a row.
#[inline(always)]
pub const fn chunks(cols: u32) -> u32 {
    cols.div_ceil(CHUNK)
}

/// Shared memory of a block of `warps` warps: each warp's, then the exchange's.
#[inline(always)]
pub fn shared_bytes<In, Out, A, X, const STEPS: usize, const V: usize>(warps: u32, cols: u32) -> u32
where
    In: Element,
    Out: Element,
    A: Access<In, Out, STEPS, V>,
    X: Exchange,
{
    warps * A::BYTES + X::bytes(chunks(cols))
}

/// One block's share of its row.
///
/// # Safety
///
/// * **in-bounds**: for every row, `layout` leads to `cols` elements of `x` that can be read and of `y` that
///   can be written, and rows of `y` do not overlap; the block has [`shared_bytes`] of shared memory.
/// * **covered**: the grid has as many blocks a row as the exchange is among; a block has whole warps, and
///   [`CHUNK`] elements for each warp of the row are at least `cols`, which is at least 1.
#[inline(always)]
pub unsafe fn softmax<In, Out, A, X, const STEPS: usize, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
) where
    In: Element,
    Out: Element,
    A: Access<In, Out, STEPS, V>,
    X: Exchange,
{
    const { assert!(STEPS * V * WARP as usize == CHUNK as usize) };
    let (offset_in, offset_out) = layout.locate(X::row());
    let first = X::chunk() * CHUNK;
    // SAFETY: in-bounds: the caller's; a chunk and a share of the shared memory to a warp.
    let access = unsafe {
        A::new(
            Row::new(x.at(offset_in), cols),
            Row::new(y.at(offset_out), cols),
            first,
            thread_idx_x() / WARP * A::BYTES,
        )
    };
    let mut exchange = X::new(block_dim_x() / WARP * A::BYTES, chunks(cols));
    let mut shift = 0.0;
    let mut begun = false;
    let (held, max, whole) = loop {
        let mut tile = access.load(options);
        if !begun {
            exchange.begin();
            begun = true;
        }
        if shift != 0.0 {
            tile.map(|z| z - shift);
        }
        let max = tile.max();
        let part = tile.exponentiate::<Out::Accuracy>(max);
        let held = access.hold(tile);
        // SAFETY: in-bounds: the caller's; begun: above.
        let whole = unsafe { exchange.share(part) };
        if !Outcome::needs_shift(whole.max) {
            break (held, max, whole);
        }
        // All threads of the row agree, so all are here.
        shift = whole.max;
        exchange.again();
    };
    let outcome = Outcome::of(whole, cols, options).for_part(max, whole.max);
    access.store(held, outcome);
}
