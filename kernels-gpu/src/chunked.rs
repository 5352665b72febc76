//! `block`, `parked`, `staged`, and the same split: warps share a row, one chunk or several each.
//!
//! Each warp takes its exponentials relative to its own chunk's maximum, so that one exchange
//! settles maximum and sum together.
//!
//! | way, among the warps of a block or of a cluster | a chunk comes and goes | and is held in | chunks a warp |
//! |---|---|---|---|
//! | `block`, `split` | straight | registers | 1 |
//! | `parked`, `split_parked` | straight | shared memory, each lane's vectors by themselves | any number |
//! | `staged`, `split_staged` of 16-bit inputs | through a stage | registers | 1 |
//! | the same, with fast exponentials | through a stage; results straight where input and output are skewed alike | the stage, as inputs | any number |
//! | the same of f32 inputs | through a stage | the stage, as exponentials | any number |

use cuda_std::ext::Global;
use cuda_std::ext::async_copy::{commit_group, copy_16, wait_all, wait_group};
use cuda_std::ext::math::opaque_u32;
use cuda_std::thread::{block_dim_x, thread_idx_x};
use cuda_std::warp::{lane_id, sync_warp};

use crate::element::{Element, F32};
use crate::exchange::{Exchange, ExchangeByChunks};
use crate::exp::{Accuracy, Reference};
use crate::online::Outcome;
use crate::options::Options;
use crate::reduce::{WARP, shared_by_warp};
use crate::row::RowLayout;
use crate::stage::{LINE, Parked, Stage};
use crate::tile::{CHUNK, Row, Tile};

/// Chunks of a row.
#[inline(always)]
pub const fn chunks(cols: u32) -> u32 {
    cols.div_ceil(CHUNK)
}

/// One block's share of its row, with exponentials of accuracy `E`, in registers. `STAGED` rows need not be aligned:
/// inputs and results go through a stage.
///
/// # Safety
///
/// * **in-bounds**: for every row, `layout` leads to `cols` elements of `x` that can be read and of `y` that
///   can be written, and rows of `y` do not overlap; the block has [`shared_bytes`] of shared memory, for the
///   exchange, as [`Exchange::new`] asks, and, if `STAGED`, [`stages_bytes`].
/// * **covered**: the grid has as many blocks a row as the exchange is among, a block has whole warps, and a
///   row no more chunks than warps; `cols` is at least 1.
/// * **aligned**: unless `STAGED`, every row of `x` begins at 16 bytes and is whole vectors, and every row of `y` begins
///   at 16 bytes, or at a multiple of the results of a vector where they take less.
#[inline(always)]
pub unsafe fn in_registers<In, Out, E, X, const STAGED: bool, const STEPS: usize, const V: usize>(
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
    const { assert!(STEPS * V * WARP as usize == CHUNK as usize) };
    let bytes = if STAGED {
        stage_bytes(size_of::<In::Word>() as u32, size_of::<Out::Word>() as u32)
    } else {
        0
    };
    // SAFETY: in-bounds: the caller's.
    let mut exchange = unsafe { X::new(0, chunks(cols)) };
    let chunk = X::warp();
    let stage = Stage::at(place_of::<X>(chunks(cols), 0, bytes));
    let mut shift = 0.0;
    let (tile, max, whole) = loop {
        let (offset, _) = layout.locate(X::row());
        // SAFETY: in-bounds, aligned: the caller's.
        let input = unsafe { row::<In, STAGED>(x.at(offset), cols) };
        let mut tile = if STAGED {
            let span = input.span(chunk * CHUNK);
            // SAFETY: in-bounds: the caller's; own: a stage a warp.
            unsafe {
                stage.bring_once(span, CHUNK / WARP);
                stage.fill(span, CHUNK);
            }
            exchange.begin();
            wait_all();
            // SAFETY: all lanes call the barrier; written: the chunk was brought.
            unsafe {
                sync_warp(u32::MAX);
                Tile::<WARP, STEPS, V>::from_stage::<In>(stage, span.skew, span.count(), options)
            }
        } else {
            let tile = Tile::<WARP, STEPS, V>::load(input, chunk * CHUNK, options);
            exchange.begin();
            tile
        };
        if shift != 0.0 {
            tile.map(|z| z - shift);
        }
        let max = tile.max();
        let inputs = if E::TWICE { Some(tile.clone()) } else { None };
        let part = tile.exponentiate::<E>(max);
        // SAFETY: own: the warp's.
        let whole = unsafe { exchange.share(chunk, part) };
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
        shift = whole.max;
        exchange.again();
    };
    let outcome = Outcome::of_part(whole, max, cols, options);
    // Opaque, so that the address is computed where it is used, and not kept in registers from the beginning on.
    let output = || {
        let (_, offset) = layout.locate(opaque_u32(X::row()));
        // SAFETY: in-bounds, aligned: the caller's.
        unsafe { row::<Out, STAGED>(y.at(offset), cols) }
    };
    // SAFETY: in-bounds: the row is this exchange's alone, and a chunk the warp's; all lanes call the barriers, the
    // first of which ends the reading of inputs, the second the writing of results.
    unsafe {
        match outcome {
            _ if !STAGED => {
                let first = opaque_u32(X::warp()) * CHUNK;
                tile.placed_at(first).store(output(), outcome)
            }
            Outcome::Normalise(normaliser) => {
                sync_warp(u32::MAX);
                tile.results_to_stage::<Out, E>(stage, normaliser);
                sync_warp(u32::MAX);
                stage.send_shifted(output().span(chunk * CHUNK), CHUNK / WARP);
            }
            Outcome::Fill(value) => output().span(chunk * CHUNK).fill(Out::narrow_any(value)),
        }
    }
}

/// A row of which it is known that it is aligned, unless it goes through a stage.
///
/// # Safety
///
/// As for [`Row::new`], and unless `STAGED` as for [`Row::aligned`].
#[inline(always)]
unsafe fn row<E: Element, const STAGED: bool>(start: Global<E::Word>, cols: u32) -> Row<E> {
    // SAFETY: the caller's.
    unsafe {
        if STAGED {
            Row::new(start, cols)
        } else {
            Row::aligned(start, cols)
        }
    }
}

/// Shared memory for a chunk in a stage: its inputs, wherever in a line they begin, and in their place either as many
/// f32, which begin wherever the output does, or from the start on the results.
#[inline(always)]
const fn stage_bytes(size_in: u32, size_out: u32) -> u32 {
    let inputs = Stage::bytes(CHUNK, size_in);
    if size_in == 4 {
        return inputs + 128;
    }
    let results = CHUNK * size_out;
    if inputs > results { inputs } else { results }
}

/// Shared memory of a block of `warps` warps, `blocks` of which share a row, for the stages of elements of `size_in`
/// bytes, results of `size_out`.
#[inline(always)]
pub const fn stages_bytes(warps: u32, blocks: u32, cols: u32, size_in: u32, size_out: u32) -> u32 {
    warps * chunks(cols).div_ceil(warps * blocks) * stage_bytes(size_in, size_out)
}

/// One block's share of its row, with exponentials of accuracy `E`, in shared memory: rows need not be aligned. f32
/// inputs are replaced by their exponentials, others exponentiated twice.
///
/// # Safety
///
/// As [`in_registers`], but a row may have any number of chunks, and the block always has its [`stages_bytes`].
#[inline(always)]
pub unsafe fn staged<In, Out, E, X, const STEPS: usize, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
) where
    In: Element,
    Out: Element,
    E: Accuracy,
    X: ExchangeByChunks,
{
    const { assert!(STEPS * V * WARP as usize == CHUNK as usize) };
    const { assert!(E::TWICE != (V == F32::VECTOR)) };
    let bytes = stage_bytes(size_of::<In::Word>() as u32, size_of::<Out::Word>() as u32);
    let (warp, warps, all_chunks) = (shared_by_warp(X::warp()), X::warps(), chunks(cols));
    // SAFETY: in-bounds: the caller's.
    let rows = |row: u32| unsafe {
        let (offset_in, offset_out) = layout.locate(row);
        (
            Row::<In>::new(x.at(offset_in), cols),
            Row::<Out>::new(y.at(offset_out), cols),
        )
    };
    // SAFETY: in-bounds: the caller's.
    let mut exchange = unsafe { X::new(0, all_chunks) };
    let chunk = |index: u32| warp + index * warps;
    let stage = |index: u32| Stage::at(place_of::<X>(all_chunks, index, bytes));
    // Elements of a chunk.
    let count = |index: u32| cols.saturating_sub(chunk(index) * CHUNK).min(CHUNK);

    let mut shift = 0.0;
    let (whole, skew_in) = loop {
        // Opaque, so that addresses are computed where they are used, and not kept in registers meanwhile.
        let (input, output) = rows(opaque_u32(X::row()));
        // The same for every chunk, since a chunk is whole lines.
        let (skew_in, skew_out) = (input.span(0).skew, output.span(0).skew);
        // Chunks that the warp has.
        let mut own = 0;
        while chunk(own) < all_chunks {
            // SAFETY: in-bounds: the caller's; own: a stage a chunk, and a chunk one warp's.
            unsafe {
                let span = input.span(chunk(own) * CHUNK);
                stage(own).bring(span, CHUNK / WARP);
                stage(own).fill(span, CHUNK);
            }
            commit_group();
            own += 1;
        }
        exchange.begin();
        exchange.meet();
        let mut index = 0;
        while index < own {
            wait_for_group(own - 1 - index);
            // SAFETY: all lanes call the barrier; written: no more copies are under way than came after.
            let mut tile = unsafe {
                sync_warp(u32::MAX);
                if E::TWICE {
                    Tile::<WARP, STEPS, V>::from_stage::<In>(
                        stage(index),
                        skew_in,
                        count(index),
                        options,
                    )
                } else {
                    Tile::from_stage_rotated(stage(index), skew_in, count(index), options)
                }
            };
            if shift != 0.0 {
                tile.map(|z| z - shift);
            }
            let max = tile.max();
            let part = tile.exponentiate::<E>(max);
            if !E::TWICE {
                // SAFETY: all lanes call: the first barrier ends the reading of inputs, the second the writing.
                unsafe {
                    sync_warp(u32::MAX);
                    tile.to_stage_rotated(stage(index), skew_out);
                    sync_warp(u32::MAX);
                }
            }
            // SAFETY: own: a chunk of the row's and this warp's, once.
            unsafe { exchange.tell(chunk(index), part) };
            index += 1;
        }
        let whole = exchange.collect();
        if !Outcome::needs_shift(whole.max) {
            break (whole, skew_in);
        }
        // All threads of the row agree, so all are here.
        shift = whole.max;
        exchange.again();
    };

    let outcome = Outcome::of(whole, cols, options);
    let (_, output) = rows(opaque_u32(X::row()));
    let mut index = 0;
    while chunk(index) < all_chunks {
        let span = output.span(chunk(index) * CHUNK);
        let outcome = if E::TWICE {
            outcome
        } else {
            // SAFETY: told: above.
            outcome.for_part(unsafe { exchange.told(chunk(index)) }.max, whole.max)
        };
        // SAFETY: in-bounds: the row is this exchange's alone, and a chunk or its share the warp's; written: the stage has
        // the chunk's inputs, or its exponentials; same: looked at, and fast exponentials are of inputs and outputs of
        // one type; all lanes call the barriers, the first of which ends the reading of inputs, the second the
        // writing of results.
        unsafe {
            match outcome {
                Outcome::Fill(value) => span.fill(Out::narrow_any(value)),
                Outcome::Normalise(normaliser) if E::TWICE && skew_in == span.skew => {
                    let reference = Reference::of_max(whole.max);
                    stage(index).send_results_straight::<In, Out, STEPS>(
                        span,
                        |words| {
                            let mut tile = Tile::<WARP, STEPS, V>::from_words::<In>(words, options);
                            if shift != 0.0 {
                                tile.map(|z| z - shift);
                            }
                            tile.map(|z| E::exp(z, reference));
                            tile.result_words::<Out, E>(normaliser)
                        },
                        |word| {
                            let z = options.transform(In::widen(word));
                            let z = if shift != 0.0 { z - shift } else { z };
                            Out::narrow(normaliser.apply::<E>(E::exp(z, reference)))
                        },
                    );
                }
                Outcome::Normalise(normaliser) if E::TWICE => {
                    let mut tile = Tile::<WARP, STEPS, V>::from_stage::<In>(
                        stage(index),
                        skew_in,
                        count(index),
                        options,
                    );
                    if shift != 0.0 {
                        tile.map(|z| z - shift);
                    }
                    tile.exponentials_relative_to::<E>(whole.max);
                    sync_warp(u32::MAX);
                    tile.results_to_stage::<Out, E>(stage(index), normaliser);
                    sync_warp(u32::MAX);
                    stage(index).send_shifted(span, CHUNK / WARP);
                }
                Outcome::Normalise(normaliser) if normaliser.rescales() => {
                    stage(index)
                        .send_results(span, |e| normaliser.apply::<E>(normaliser.rescale(e)));
                }
                Outcome::Normalise(normaliser) => {
                    stage(index).send_results(span, |e| normaliser.apply::<E>(e));
                }
            }
        }
        index += 1;
    }
}

/// Shared memory of a block for an exchange of `exchange` bytes, and from the next line on for `chunks` bytes of chunks.
#[inline(always)]
pub const fn shared_bytes(exchange: u32, chunks: u32) -> u32 {
    exchange.next_multiple_of(LINE) + chunks
}

/// Where the warp's `index`-th place for a chunk begins, of `bytes` bytes each.
#[inline(always)]
fn place_of<X: Exchange>(chunks: u32, index: u32, bytes: u32) -> u32 {
    shared_bytes(X::bytes(chunks), 0)
        + (index * (block_dim_x() / WARP) + thread_idx_x() / WARP) * bytes
}

/// Waits until at most the latest `later` groups of copies are under way, or the latest three.
#[inline(always)]
fn wait_for_group(later: u32) {
    match later {
        0 => wait_group::<0>(),
        1 => wait_group::<1>(),
        2 => wait_group::<2>(),
        _ => wait_group::<3>(),
    }
}

/// Shared memory of a block of `warps` warps, `blocks` of which share a row, for the chunks parked in it.
#[inline(always)]
pub const fn parked_bytes(warps: u32, blocks: u32, cols: u32, size: u32) -> u32 {
    warps * chunks(cols).div_ceil(warps * blocks) * Parked::bytes(CHUNK, size)
}

/// One block's share of its row, with exponentials of accuracy `E`, parked in shared memory: f32 inputs are
/// replaced by their exponentials, others exponentiated twice.
///
/// # Safety
///
/// As [`in_registers`] that is not `STAGED`, but a row may have any number of chunks, and the block has [`shared_bytes`]
/// for the exchange and [`parked_bytes`].
#[inline(always)]
pub unsafe fn parked<In, Out, E, X, const STEPS: usize, const V: usize>(
    x: Global<In::Word>,
    y: Global<Out::Word>,
    cols: u32,
    layout: &RowLayout,
    options: &Options,
) where
    In: Element,
    Out: Element,
    E: Accuracy,
    X: ExchangeByChunks,
{
    const { assert!(STEPS * V * WARP as usize == CHUNK as usize) };
    let (warp, warps, all_chunks) = (shared_by_warp(X::warp()), X::warps(), chunks(cols));
    let bytes = Parked::bytes(CHUNK, size_of::<In::Word>() as u32);
    // SAFETY: in-bounds: the caller's.
    let mut exchange = unsafe { X::new(0, all_chunks) };
    let place = |index: u32| Parked::at(place_of::<X>(all_chunks, index, bytes));
    let chunk = |index: u32| warp + index * warps;
    // Index, in the row, of this lane's first element of a chunk.
    let first = |index: u32| chunk(index) * CHUNK + lane_id() * V as u32;
    let load = |index: u32, shift: f32| {
        // SAFETY: written: waited for.
        let mut tile = unsafe {
            let left = cols.saturating_sub(first(index));
            Tile::<WARP, STEPS, V>::from_parked::<In>(place(index), left, options)
        };
        if shift != 0.0 {
            tile.map(|z| z - shift);
        }
        tile
    };

    let mut shift = 0.0;
    let whole = loop {
        // Opaque, so that addresses are computed where they are used, and not kept in registers meanwhile.
        let (offset, _) = layout.locate(opaque_u32(X::row()));
        // Chunks that the warp has.
        let mut own = 0;
        while chunk(own) < all_chunks {
            let from = x.at(offset + u64::from(first(own)));
            let left = cols.saturating_sub(first(own));
            let mut step = 0;
            while step < STEPS {
                let vector = step as u32 * WARP * V as u32;
                let to = place(own).vector(step as u32);
                // SAFETY: in-bounds: the row is whole vectors; aligned, own: the caller's, a lane's own place.
                unsafe {
                    if vector < left {
                        copy_16(to, from.at(u64::from(vector)).cast());
                    } else {
                        to.store(In::NOTHING);
                    }
                }
                step += 1;
            }
            commit_group();
            own += 1;
        }
        exchange.begin();
        exchange.meet();
        let mut index = 0;
        while index < own {
            wait_for_group(own - 1 - index);
            let mut tile = load(index, shift);
            let max = tile.max();
            let part = tile.exponentiate::<E>(max);
            if V == 4 && !E::TWICE {
                // SAFETY: own: nothing is on the way to a chunk that was waited for.
                unsafe { tile.to_parked(place(index)) };
            }
            // SAFETY: own: a chunk of the row's and this warp's, once.
            unsafe { exchange.tell(chunk(index), part) };
            index += 1;
        }
        let whole = exchange.collect();
        if !Outcome::needs_shift(whole.max) {
            break whole;
        }
        // All threads of the row agree, so all are here.
        shift = whole.max;
        exchange.again();
    };

    let outcome = Outcome::of(whole, cols, options);
    let (_, offset) = layout.locate(opaque_u32(X::row()));
    // SAFETY: in-bounds, aligned: the caller's.
    let output = unsafe { Row::<Out>::aligned(y.at(offset), cols) };
    let mut index = 0;
    while chunk(index) < all_chunks {
        let (tile, outcome) = if V == 4 && !E::TWICE {
            let left = cols.saturating_sub(first(index));
            // SAFETY: written: the chunk's exponentials; told: above.
            unsafe {
                let plain = Options::default();
                let tile = Tile::<WARP, STEPS, V>::from_parked::<In>(place(index), left, &plain);
                let part = exchange.told(chunk(index));
                (tile, outcome.for_part(part.max, whole.max))
            }
        } else {
            let mut tile = load(index, shift);
            tile.exponentials_relative_to::<E>(whole.max);
            (tile, outcome)
        };
        let tile = tile.placed_at(chunk(index) * CHUNK);
        // SAFETY: in-bounds: the row is this exchange's alone, and a chunk the warp's.
        unsafe { tile.store::<Out>(output, outcome) };
        index += 1;
    }
}
