//! How a warp gets at its chunk of a row: two ways with one face.
//!
//! | access | a chunk is held | rows |
//! |---|---|---|
//! | [`Registers`] | in registers | fast where they start at 16 bytes and are whole vectors |
//! | [`Staged`] | as f32 exponentials in shared memory | of any alignment |

use cuda_std::warp::sync_warp;

use crate::element::Element;
use crate::online::Outcome;
use crate::options::Options;
use crate::reduce::WARP;
use crate::stage::{Span, Stage};
use crate::tile::{CHUNK, Row, Tile};

/// A chunk's inputs and outputs, for one warp.
pub trait Access<In: Element, Out: Element, const STEPS: usize, const V: usize> {
    /// Shared memory that a warp needs.
    const BYTES: u32;

    /// What keeps the exponentials until the row is known.
    type Held;

    /// The chunk from element `first` of the rows on.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the input row is readable; the output row is writable, and this chunk of it nobody
    ///   else's; [`Access::BYTES`] from `shared_offset` of the block's shared memory are this warp's.
    unsafe fn new(input: Row<In>, output: Row<Out>, first: u32, shared_offset: u32) -> Self;

    /// Brings the chunk in. All lanes call, and again only after a barrier since [`Access::hold`].
    fn load(&self, options: &Options) -> Tile<WARP, STEPS, V>;

    /// Takes the exponentials. All lanes call.
    fn hold(&self, tile: Tile<WARP, STEPS, V>) -> Self::Held;

    /// Writes the results. All lanes call.
    fn store(&self, held: Self::Held, outcome: Outcome);
}

/// The chunk stays in registers.
pub struct Registers<In: Element, Out: Element> {
    input: Row<In>,
    output: Row<Out>,
    first: u32,
}

impl<In: Element, Out: Element, const STEPS: usize, const V: usize> Access<In, Out, STEPS, V>
    for Registers<In, Out>
{
    const BYTES: u32 = 0;
    type Held = Tile<WARP, STEPS, V>;

    #[inline(always)]
    unsafe fn new(input: Row<In>, output: Row<Out>, first: u32, _: u32) -> Self {
        Self {
            input,
            output,
            first,
        }
    }

    #[inline(always)]
    fn load(&self, options: &Options) -> Tile<WARP, STEPS, V> {
        Tile::load(self.input, self.first, options)
    }

    #[inline(always)]
    fn hold(&self, tile: Tile<WARP, STEPS, V>) -> Tile<WARP, STEPS, V> {
        tile
    }

    #[inline(always)]
    fn store(&self, held: Tile<WARP, STEPS, V>, outcome: Outcome) {
        // SAFETY: in-bounds: what `new` was promised.
        unsafe { held.store(self.output, outcome) };
    }
}

/// The chunk goes through the warp's stage, in and out.
pub struct Staged<In: Element, Out: Element> {
    input: Span<In>,
    output: Span<Out>,
    stage: Stage,
}

impl<In: Element, Out: Element, const STEPS: usize, const V: usize> Access<In, Out, STEPS, V>
    for Staged<In, Out>
{
    /// A chunk of inputs of any type, and in its place one of f32, shifted by as many elements of the
    /// output as a line has at most.
    const BYTES: u32 = Stage::bytes(CHUNK, 4) + 128;
    type Held = ();

    #[inline(always)]
    unsafe fn new(input: Row<In>, output: Row<Out>, first: u32, shared_offset: u32) -> Self {
        Self {
            input: input.span(first),
            output: output.span(first),
            stage: Stage::at(shared_offset),
        }
    }

    #[inline(always)]
    fn load(&self, options: &Options) -> Tile<WARP, STEPS, V> {
        // SAFETY: in-bounds, own: what `new` was promised; written: a whole chunk is brought, and one element
        // more, since a word may straddle.
        unsafe {
            self.stage.bring(self.input, CHUNK + 1);
            Tile::from_stage::<In>(self.stage, self.input.skew, options)
        }
    }

    #[inline(always)]
    fn hold(&self, tile: Tile<WARP, STEPS, V>) {
        // SAFETY: all lanes call: the first barrier ends the reading of inputs, the second the writing.
        unsafe {
            sync_warp(u32::MAX);
            tile.to_stage(self.stage, self.output.skew);
            sync_warp(u32::MAX);
        }
    }

    #[inline(always)]
    fn store(&self, (): (), outcome: Outcome) {
        // SAFETY: in-bounds: what `new` was promised; written: by `hold`.
        unsafe {
            match outcome {
                Outcome::Normalise(normaliser) => {
                    self.stage.send_results(self.output, false, |e| {
                        normaliser.apply::<Out::Accuracy>(normaliser.rescale(e))
                    });
                }
                Outcome::Fill(value) => {
                    self.stage
                        .send_results(self.output, value.is_nan(), |_| value);
                }
            }
        }
    }
}
