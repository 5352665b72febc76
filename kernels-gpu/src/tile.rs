//! A tile: the elements of a row that a group of lanes holds in registers.
//!
//! Lane `l` of a group of `LANES` holds vectors `l`, `l + LANES`, .. of the tile, a vector being
//! the input elements in 16 bytes. Which lane holds an element, and the order in which a tile is
//! summed, follow from the element's index in the row alone, never from where the row lies in memory.

use cuda_std::ext::math::{max_nan, opaque_u32};
use cuda_std::ext::{Global, U32x4};
use cuda_std::warp::lane_id;

use crate::element::{Element, F32};
use crate::exp::{Accuracy, Reference};
use crate::online::{Normaliser, Outcome, Pair, Partial};
use crate::options::{NanPolicy, Options};
use crate::packed;
use crate::reduce::{WARP, lanes_max, lanes_sum};
use crate::stage::{Parked, Span, Stage};

/// Elements of a tile that a whole warp holds when it shares a row with others: the row is cut
/// into chunks of this many, each summed by itself, whatever the way.
pub const CHUNK: u32 = 1024;

/// A row in memory.
#[derive(Clone, Copy)]
pub struct Row<E: Element> {
    start: Global<E::Word>,
    cols: u32,
    /// Whether it is known to be [`aligned`](Self::aligned); others are looked at.
    is_aligned: bool,
}

impl<E: Element> Row<E> {
    /// The row of `cols` elements from `start`.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the elements are readable if an input's, writable if an output's, for as
    ///   long as the row is used; `cols` may be 0.
    #[inline(always)]
    pub unsafe fn new(start: Global<E::Word>, cols: u32) -> Self {
        Self {
            start,
            cols,
            is_aligned: false,
        }
    }

    /// The same of a row that is known to be aligned: what other rows need is not compiled for it.
    ///
    /// # Safety
    ///
    /// As for [`Row::new`], and
    ///
    /// * **aligned**: the row is whole vectors, of as many elements as the input has in 16 bytes, and begins at a multiple
    ///   of 16 bytes, or of what a vector takes here if that is less.
    #[inline(always)]
    pub unsafe fn aligned(start: Global<E::Word>, cols: u32) -> Self {
        Self {
            start,
            cols,
            is_aligned: true,
        }
    }

    /// The chunk from element `first` on: less than a chunk at the row's end, nothing after it.
    #[inline(always)]
    pub fn span(self, first: u32) -> Span<E> {
        let left = self.cols.saturating_sub(first);
        let count = left.min(CHUNK);
        let start = self.start.at(u64::from(first));
        Span::within_row(start, count, first > 0 && count > 0, left - count)
    }

    /// Whether the row is whole vectors of `elements`, each at a multiple of `bytes` bytes.
    #[inline(always)]
    fn is_wide(self, elements: usize, bytes: u64) -> bool {
        self.is_aligned
            || self.cols.is_multiple_of(elements as u32) && self.start.address() & (bytes - 1) == 0
    }
}

/// `STEPS` vectors of `V` elements in each of `LANES` lanes.
#[derive(Clone)]
pub struct Tile<const LANES: u32, const STEPS: usize, const V: usize> {
    /// Index, in the row, of this lane's first element.
    first: u32,
    values: [[f32; V]; STEPS],
}

impl<const LANES: u32, const STEPS: usize, const V: usize> Tile<LANES, STEPS, V> {
    /// Elements from one of a lane's vectors to its next.
    const STRIDE: u32 = LANES * V as u32;

    /// Brings in the elements from index `tile_first` on, scaled; those past the row's end are -inf,
    /// as are NaNs that the policy ignores.
    #[inline(always)]
    pub fn load<In: Element>(row: Row<In>, tile_first: u32, options: &Options) -> Self {
        const { assert!(V == In::VECTOR) };
        let first = tile_first + (lane_id() & (LANES - 1)) * V as u32;
        let left = row.cols.saturating_sub(first);
        let from = row.start.at(u64::from(first));
        let mut values = [[f32::NEG_INFINITY; V]; STEPS];
        if row.is_wide(V, 16) {
            let mut step = 0;
            while step < STEPS {
                let offset = step as u32 * Self::STRIDE;
                if offset < left {
                    // SAFETY: in-bounds: the row is whole vectors; aligned: from a multiple of 16 bytes on.
                    values[step] = unsafe { In::load_wide(from.at(u64::from(offset))) };
                }
                step += 1;
            }
        } else {
            let mut step = 0;
            while step < STEPS {
                let mut i = 0;
                while i < V {
                    let offset = step as u32 * Self::STRIDE + i as u32;
                    if offset < left {
                        // SAFETY: in-bounds: the row's element.
                        values[step][i] = In::widen(unsafe { from.at(u64::from(offset)).load() });
                    }
                    i += 1;
                }
                step += 1;
            }
        }
        let mut tile = Self { first, values };
        tile.transform(options, |zero, step, i| {
            step as u32 * Self::STRIDE + (i as u32) < left + zero
        });
        tile
    }

    /// Takes a row of `cols` elements from a stage, where its first element is the `skew`-th; a lane has at most `LAST`
    /// elements in its last vector. With it comes the largest of the lane's elements, where the words tell it sooner.
    ///
    /// # Safety
    ///
    /// * **written**: the row was brought to the stage before a [`sync_warp`], and so was what [`Stage::bring`] puts around it.
    ///
    /// [`sync_warp`]: cuda_std::warp::sync_warp
    #[inline(always)]
    pub unsafe fn from_packed<In: Element, const LAST: usize>(
        stage: Stage,
        skew: u32,
        cols: u32,
        options: &Options,
    ) -> (Self, Option<f32>) {
        const { assert!(V == In::VECTOR) };
        let first = (lane_id() & (LANES - 1)) * V as u32;
        let left = cols.saturating_sub(first);
        // So many elements a lane has for certain.
        let certain = match LANES {
            1 => packed::shortest(LANES, STEPS as u32, V as u32),
            _ => 0,
        };
        let per_word = V / 4;
        let mut vectors = [In::NOTHING; STEPS];
        let mut step = 0;
        while step < STEPS {
            let offset = step as u32 * Self::STRIDE;
            if offset < certain || offset < left {
                // SAFETY: written: the row's elements; before them at most one, and after them nine.
                let U32x4(words) = unsafe { stage.vector::<In>(skew + first + offset) };
                let in_vector = if step + 1 == STEPS { LAST } else { V };
                let used = in_vector.div_ceil(per_word);
                vectors[step].0[..used].copy_from_slice(&words[..used]);
                let whole = offset + in_vector as u32;
                if whole > certain && whole > left {
                    let mut i = 0;
                    while i < used {
                        let before = offset + (i * per_word) as u32;
                        vectors[step].0[i] = In::first_of(words[i], left.saturating_sub(before));
                        i += 1;
                    }
                }
            }
            step += 1;
        }
        // Multiplying keeps the order, rounded or not.
        let keeps_order = options.scale > 0.0 && matches!(options.nan_policy, NanPolicy::Propagate);
        let largest = match In::largest(&vectors) {
            Some(largest) if LANES == 1 && keeps_order => Some(largest * options.scale),
            _ => None,
        };
        let mut tile = Self {
            first,
            values: vectors.map(|vector| In::unpack_wide(vector)),
        };
        tile.transform(options, |zero, step, i| {
            step as u32 * Self::STRIDE + (i as u32) < left + zero
        });
        (tile, largest)
    }

    /// Puts the results of a tile of exponentials into a stage, the row's first element the `skew`-th; a lane has at most
    /// `LAST` elements in its last vector.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the stage has room for the row.
    /// * **unshared**: no lane reads the stage until a [`sync_warp`] after this.
    ///
    /// [`sync_warp`]: cuda_std::warp::sync_warp
    #[inline(always)]
    pub unsafe fn to_packed<Out: Element, const LAST: usize>(
        &self,
        stage: Stage,
        skew: u32,
        cols: u32,
        outcome: Outcome,
    ) {
        let left = cols.saturating_sub(self.first);
        if left == 0 {
            return;
        }
        // So many elements a lane has for certain, if any.
        let certain = match LANES {
            1 => packed::shortest(LANES, STEPS as u32, V as u32),
            _ => 0,
        };
        let to = stage.place::<Out>(skew + self.first);
        // SAFETY: in-bounds, unshared: the caller's, and lanes have different elements.
        let put = |offset: u32, word: Out::Word| unsafe { to.at(offset).store(word) };
        let normaliser = match outcome {
            Outcome::Normalise(normaliser) => normaliser,
            Outcome::Fill(value) => {
                let word = Out::narrow_any(value);
                let mut offset = 0;
                while offset < left.min(STEPS as u32 * Self::STRIDE) {
                    let mut i = 0;
                    while i < (left - offset).min(V as u32) {
                        put(offset + i, word);
                        i += 1;
                    }
                    offset += Self::STRIDE;
                }
                return;
            }
        };
        let mut step = 0;
        while step < STEPS {
            let offset = step as u32 * Self::STRIDE;
            let word =
                |i: usize| Out::narrow(normaliser.apply::<Out::Accuracy>(self.values[step][i]));
            let in_vector = if step + 1 == STEPS { LAST } else { V };
            let whole = offset + in_vector as u32;
            if whole <= certain || whole <= left {
                let mut i = 0;
                while i < in_vector {
                    put(offset + i as u32, word(i));
                    i += 1;
                }
            } else {
                let mut i = 0;
                while i < in_vector - 1 {
                    if offset + (i as u32) < left {
                        put(offset + i as u32, word(i));
                    }
                    i += 1;
                }
            }
            step += 1;
        }
    }

    /// Takes up to a tile of a whole warp from its stage, where the first of its `count` elements is the `skew`-th.
    ///
    /// # Safety
    ///
    /// * **whole**: `LANES` is 32.
    /// * **written**: a whole tile was brought to the stage, before a [`sync_warp`].
    ///
    /// [`sync_warp`]: cuda_std::warp::sync_warp
    #[inline(always)]
    pub unsafe fn from_stage<In: Element>(
        stage: Stage,
        skew: u32,
        count: u32,
        options: &Options,
    ) -> Self {
        const { assert!(V == In::VECTOR) };
        let mut values = [[0.0; V]; STEPS];
        // SAFETY: written: the caller's.
        let vectors = unsafe { stage.vectors::<In, STEPS>(skew) };
        let mut step = 0;
        while step < STEPS {
            values[step] = In::unpack_wide(vectors[step]);
            step += 1;
        }
        let mut tile = Self {
            first: lane_id() * V as u32,
            values,
        };
        let left = count.saturating_sub(tile.first);
        tile.transform(options, |zero, step, i| {
            step as u32 * Self::STRIDE + (i as u32) < left + zero
        });
        tile
    }

    /// Puts the results of a whole warp's tile of exponentials into its stage, from the start on.
    ///
    /// # Safety
    ///
    /// * **whole**: `LANES` is 32.
    /// * **in-bounds**: the stage has room for a whole tile of results.
    /// * **unshared**: no lane reads the stage until a [`sync_warp`] after this.
    ///
    /// [`sync_warp`]: cuda_std::warp::sync_warp
    #[inline(always)]
    pub unsafe fn results_to_stage<Out: Element, E: Accuracy>(
        mut self,
        stage: Stage,
        normaliser: Normaliser,
    ) {
        let to = stage.place::<Out>(lane_id() * V as u32);
        // SAFETY: in-bounds, unshared: the caller's, and lanes have different elements; aligned: whole vectors
        // from the stage's start on.
        let put = |step: usize, values: [f32; V]| unsafe {
            Out::put_wide(to.at(step as u32 * Self::STRIDE), values);
        };
        if normaliser.rescales() {
            self.map(|e| normaliser.rescale(e));
        }
        let mut step = 0;
        while step < STEPS {
            put(step, self.values[step].map(|e| normaliser.apply::<E>(e)));
            step += 1;
        }
    }

    /// From inputs to what the exponentials are taken of. Where the row has no element, -inf stays -inf
    /// whatever the scale: `is_live(zero, step, i)` tells, `zero` being 0.
    #[inline(always)]
    fn transform(&mut self, options: &Options, is_live: impl Fn(u32, usize, usize) -> bool) {
        if options.scale != 1.0 {
            self.map(|x| x * options.scale);
        }
        if options.scale <= 0.0 {
            // Opaque, so that nobody keeps ready in registers what only this needs.
            let zero = opaque_u32(0);
            let mut step = 0;
            while step < STEPS {
                let mut i = 0;
                while i < V {
                    if !is_live(zero, step, i) {
                        self.values[step][i] = f32::NEG_INFINITY;
                    }
                    i += 1;
                }
                step += 1;
            }
        }
        if options.nan_policy == NanPolicy::Ignore {
            self.map(|z| if z.is_nan() { f32::NEG_INFINITY } else { z });
        }
    }

    /// Replaces every element.
    #[inline(always)]
    pub fn map(&mut self, f: impl Fn(f32) -> f32) {
        let mut step = 0;
        while step < STEPS {
            let mut i = 0;
            while i < V {
                self.values[step][i] = f(self.values[step][i]);
                i += 1;
            }
            step += 1;
        }
    }

    /// The largest element of the group's tile, in every lane; NaN if one of them is.
    #[inline(always)]
    pub fn max(&self) -> f32 {
        // One for each place in a vector, so that comparisons need not wait for each other.
        let mut max = self.values[0];
        let mut step = 1;
        while step < STEPS {
            let mut i = 0;
            while i < V {
                max[i] = max_nan(max[i], self.values[step][i]);
                i += 1;
            }
            step += 1;
        }
        let mut half = V / 2;
        while half > 0 {
            let mut i = 0;
            while i < half {
                max[i] = max_nan(max[i], max[i + half]);
                i += 1;
            }
            half /= 2;
        }
        lanes_max::<LANES>(max[0])
    }

    /// Replaces every element by its exponential relative to `max`, which none exceeds.
    #[inline(always)]
    pub fn exponentials_relative_to<A: Accuracy>(&mut self, max: f32) {
        let reference = Reference::of_max(max);
        self.map(|z| A::exp(z, reference));
    }

    /// Replaces every element by its exponential relative to `max`, the tile's maximum, and gives
    /// the partial of the tile, in every lane of the group.
    #[inline(always)]
    pub fn exponentiate<A: Accuracy>(&mut self, max: f32) -> Partial {
        self.exponentiate_up_to::<A, V>(max)
    }

    /// The same of a tile of which every lane has at most `LAST` elements in its last vector, which are then all that is
    /// worked on there.
    #[inline(always)]
    pub fn exponentiate_up_to<A: Accuracy, const LAST: usize>(&mut self, max: f32) -> Partial {
        let reference = Reference::of_max(max);
        let mut step = 0;
        while step < STEPS {
            let in_vector = if step + 1 == STEPS { LAST } else { V };
            let mut i = 0;
            while i < V {
                self.values[step][i] = if i < in_vector {
                    A::exp(self.values[step][i], reference)
                } else {
                    // The compiler knows that adding it changes nothing, which it does not of +0.
                    -0.0
                };
                i += 1;
            }
            step += 1;
        }
        Partial::of(max, lanes_sum::<A, LANES>(self.lane_sum::<A>()))
    }

    /// The sum of this lane's elements.
    ///
    /// Vectors 32 apart are added one after the other; those nearer in halves, as if each had a
    /// lane of its own: so a row's sum does not depend on how many lanes share it.
    #[inline(always)]
    fn lane_sum<A: Accuracy>(&self) -> Pair {
        // Steps from a vector to that 32 further.
        let apart = (WARP / LANES) as usize;
        let count = if apart < STEPS { apart } else { STEPS };
        let mut sums = [Pair::ZERO; STEPS];
        let mut first = 0;
        while first < count {
            let mut sum = self.vector_sum::<A>(first, None);
            let mut step = first + apart;
            while step < STEPS {
                sum = self.vector_sum::<A>(step, Some(sum));
                step += apart;
            }
            sums[first] = sum;
            first += 1;
        }
        let mut half = count.next_power_of_two() / 2;
        while half > 0 {
            let mut i = 0;
            while i < half && i + half < count {
                sums[i] = sums[i].plus::<A>(sums[i + half]);
                i += 1;
            }
            half /= 2;
        }
        sums[0]
    }

    /// The tile of these elements, from index `first` of their row on.
    #[inline(always)]
    pub fn of(first: u32, values: [[f32; V]; STEPS]) -> Self {
        Self { first, values }
    }

    /// `sum`, if any, and a vector's elements.
    #[inline(always)]
    pub fn vector_sum<A: Accuracy>(&self, step: usize, mut sum: Option<Pair>) -> Pair {
        let mut i = 0;
        while i < Self::FOURS {
            let four = self.four::<A>(step, i);
            sum = Some(match sum {
                Some(sum) => sum.plus_cut(four),
                None => four,
            });
            i += 1;
        }
        sum.unwrap_or(Pair::ZERO)
    }

    /// Fours of a vector, as many as a word has elements.
    const FOURS: usize = V / 4;

    /// The sum of a vector's `i`-th four.
    #[inline(always)]
    fn four<A: Accuracy>(&self, step: usize, i: usize) -> Pair {
        // Four elements a 16-byte vector's words apart: the same bits however the words are rotated.
        let word = Self::FOURS;
        let e = &self.values[step];
        let part = |i: usize| {
            if A::PAIRS {
                Pair::cut(e[i])
            } else {
                Pair { hi: e[i], lo: 0.0 }
            }
        };
        (part(i).plus_cut(part(i + 2 * word))).plus_cut(part(i + word).plus_cut(part(i + 3 * word)))
    }

    /// The sums of all `COUNT` fours of this lane's vectors, in the order in which they are added.
    #[inline(always)]
    pub fn fours<A: Accuracy, const COUNT: usize>(&self) -> [Pair; COUNT] {
        const { assert!(COUNT == STEPS * Self::FOURS) };
        let mut fours = [Pair::ZERO; COUNT];
        let mut index = 0;
        while index < COUNT {
            fours[index] = self.four::<A>(index / Self::FOURS, index % Self::FOURS);
            index += 1;
        }
        fours
    }

    /// Writes the results of a tile of exponentials, which `outcome` is for.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: `row` is an output's, and no other thread touches this tile's part of it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store<Out: Element>(mut self, row: Row<Out>, outcome: Outcome) {
        let normaliser = match outcome {
            Outcome::Normalise(normaliser) => normaliser,
            // SAFETY: in-bounds: the caller's.
            Outcome::Fill(value) => return unsafe { self.fill(row, Out::narrow_any(value)) },
        };
        if normaliser.rescales() {
            self.map(|e| normaliser.rescale(e));
        }
        self.map(|e| normaliser.apply::<Out::Accuracy>(e));
        let left = row.cols.saturating_sub(self.first);
        let to = row.start.at(u64::from(self.first));
        let bytes = V * size_of::<Out::Word>();
        if row.is_wide(V, if bytes < 16 { bytes as u64 } else { 16 }) {
            let mut step = 0;
            while step < STEPS {
                let offset = step as u32 * Self::STRIDE;
                if offset < left {
                    // SAFETY: in-bounds: the row is whole vectors; aligned: from a multiple of their size on.
                    unsafe { Out::store_wide(to.at(u64::from(offset)), self.values[step]) };
                }
                step += 1;
            }
        } else {
            let mut step = 0;
            while step < STEPS {
                let mut i = 0;
                while i < V {
                    let offset = step as u32 * Self::STRIDE + i as u32;
                    if offset < left {
                        let word = Out::narrow(self.values[step][i]);
                        // SAFETY: in-bounds: the row's element.
                        unsafe { to.at(u64::from(offset)).store_streaming(word) };
                    }
                    i += 1;
                }
                step += 1;
            }
        }
    }

    /// Writes one word to all of a tile.
    ///
    /// # Safety
    ///
    /// As for [`Tile::store`].
    #[inline(always)]
    #[track_caller]
    unsafe fn fill<Out: Element>(&self, row: Row<Out>, word: Out::Word) {
        let left = row.cols.saturating_sub(self.first);
        let to = row.start.at(u64::from(self.first));
        let mut offset = 0;
        while offset < left.min(STEPS as u32 * Self::STRIDE) {
            let mut i = 0;
            while i < (left - offset).min(V as u32) {
                // SAFETY: in-bounds: the row's element.
                unsafe { to.at(u64::from(offset + i)).store_streaming(word) };
                i += 1;
            }
            offset += Self::STRIDE;
        }
    }
}

impl<const STEPS: usize, const V: usize> Tile<WARP, STEPS, V> {
    /// Takes a chunk from where it was parked; it has `left` elements from the lane's first on.
    ///
    /// # Safety
    ///
    /// * **written**: this lane's copies to its place are done, and -inf is where there was nothing to copy.
    #[inline(always)]
    pub unsafe fn from_parked<In: Element>(place: Parked, left: u32, options: &Options) -> Self {
        let mut values = [[f32::NEG_INFINITY; V]; STEPS];
        let mut step = 0;
        while step < STEPS {
            // SAFETY: written: the lane's own.
            values[step] = In::unpack_wide(unsafe { place.vector(step as u32).load() });
            step += 1;
        }
        let mut tile = Self {
            first: lane_id() * V as u32,
            values,
        };
        tile.transform(options, |zero, step, i| {
            step as u32 * Self::STRIDE + (i as u32) < left + zero
        });
        tile
    }

    /// Puts a chunk's exponentials where its f32 inputs were parked; for `V` of 4, 16 bytes of f32.
    ///
    /// # Safety
    ///
    /// * **own**: the place is this lane's, and nothing is on the way to it.
    #[inline(always)]
    pub unsafe fn to_parked(&self, place: Parked) {
        let mut step = 0;
        while step < STEPS {
            let e = &self.values[step];
            let words = [e[0], e[1], e[2], e[3]].map(f32::to_bits);
            // SAFETY: own: the caller's.
            unsafe { place.vector(step as u32).store(U32x4(words)) };
            step += 1;
        }
    }

    /// The same tile, of the chunk that begins at `first` of its row.
    #[inline(always)]
    pub fn placed_at(mut self, first: u32) -> Self {
        // Opaque, so that what follows from it is computed where the tile is stored, and not kept in registers from its
        // loading on.
        self.first = first + opaque_u32(lane_id()) * V as u32;
        self
    }

    /// Takes elements of the row, whichever they are, from the words of its lanes' vectors.
    #[inline(always)]
    pub fn from_words<In: Element>(words: [U32x4; STEPS], options: &Options) -> Self {
        const { assert!(V == In::VECTOR) };
        let mut tile = Self {
            first: 0,
            values: words.map(|vector| In::unpack_wide(vector)),
        };
        tile.transform(options, |_, _, _| true);
        tile
    }

    /// The results of a tile of exponentials, relative to the row's maximum, of a type as large as the input's.
    #[inline(always)]
    pub fn result_words<Out: Element, E: Accuracy>(self, normaliser: Normaliser) -> [U32x4; STEPS] {
        self.values
            .map(|vector| Out::pack_wide(vector.map(|e| normaliser.apply::<E>(e))))
    }

    /// Takes a chunk of f32, in vectors of four, from the warp's stage, where the first of its `count` elements is the `skew`-th.
    ///
    /// A lane takes the four words of each vector in an order that starts at `lane / 8`, and keeps
    /// them so: the 32 lanes then meet 32 banks. Sums do not depend on it.
    ///
    /// # Safety
    ///
    /// As for [`Tile::from_stage`].
    #[inline(always)]
    pub unsafe fn from_stage_rotated(
        stage: Stage,
        skew: u32,
        count: u32,
        options: &Options,
    ) -> Self {
        // Opaque, or a loop over chunks would keep all the places in registers throughout.
        let lane = opaque_u32(lane_id());
        let mut values = [[0.0; V]; STEPS];
        let mut i = 0;
        while i < V {
            let from = stage.place::<F32>(skew + Self::rotated(lane, i));
            let mut step = 0;
            while step < STEPS {
                // SAFETY: written: within the chunk.
                values[step][i] = unsafe { from.at(step as u32 * Self::STRIDE).load() };
                step += 1;
            }
            i += 1;
        }
        let mut tile = Self {
            first: lane_id() * V as u32,
            values,
        };
        tile.transform(options, |zero, step, i| {
            Self::rotated(lane_id() + zero, i) + step as u32 * Self::STRIDE < count
        });
        tile
    }

    /// Puts the tile, taken by [`Tile::from_stage_rotated`], back as f32, its first element the `skew`-th.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the stage has room for a chunk of f32 from `skew` on.
    /// * **unshared**: no lane reads the stage until a [`sync_warp`] after this.
    ///
    /// [`sync_warp`]: cuda_std::warp::sync_warp
    #[inline(always)]
    pub unsafe fn to_stage_rotated(&self, stage: Stage, skew: u32) {
        let lane = opaque_u32(lane_id());
        let mut i = 0;
        while i < V {
            let to = stage.place::<F32>(skew + Self::rotated(lane, i));
            let mut step = 0;
            while step < STEPS {
                // SAFETY: in-bounds, unshared: the caller's, and lanes have different elements.
                unsafe {
                    to.at(step as u32 * Self::STRIDE)
                        .store(self.values[step][i])
                };
                step += 1;
            }
            i += 1;
        }
    }

    /// Index, in the chunk, of the element that `lane` takes as its `i`-th.
    #[inline(always)]
    fn rotated(lane: u32, i: usize) -> u32 {
        lane * V as u32 + (i as u32 + lane / 8) % 4
    }
}

const _: () = assert!(WARP == 32 && CHUNK.is_multiple_of(WARP * 8));
