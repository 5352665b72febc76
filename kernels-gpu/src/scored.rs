//! A chunk of scores in a warp's registers: brought, made into what exponentials are taken of, summed up, written.
//!
//! What is done to scores is chosen for all of a lane's at once, in loops that are unrolled, a quarter of a chunk at a time: a quarter
//! that is hidden as a whole is neither read nor computed, only its results are written, and one that is seen as a
//! whole is not looked at key by key. What is rare, and only with `ANY`, goes through shared memory, an element
//! at a time, in loops that stay loops.

use cuda_std::ext::async_copy::{copy_16_or_zeros, wait_all};
use cuda_std::ext::math::{fma, max_nan, opaque_u32, rolled_u32};
use cuda_std::ext::{Global, U32x2, U32x4, Word};
use cuda_std::warp::lane_id;

use crate::element::{Bf16, Element, F16, F32};
use crate::exp::{Accuracy, Full, Reference};
use crate::online::{Normaliser, Pair, Partial};
use crate::options::NanPolicy;
use crate::reduce::{WARP, lanes_max, lanes_sum, shared_by_warp};
use crate::scores::{Bias, RowScores, Scores, each};
use crate::stage::Parked;
use crate::tanh::soft_cap;
use crate::tile::{CHUNK, Tile};

/// Shared memory of a warp, its lanes' places: as many f32 as a chunk has elements.
pub const PLACE_BYTES: u32 = Parked::bytes(CHUNK, 4);

/// Parts of a chunk that are computed or left out as a whole.
const PARTS: usize = 4;

/// What memory has for a lane's vectors: for each, up to 32 bytes.
pub type Words<const STEPS: usize> = [[u32; 8]; STEPS];

/// The `i`-th element of a vector.
#[inline(always)]
fn value<E: Element>(words: &[u32; 8], i: usize) -> f32 {
    let per_word = 4 / size_of::<E::Word>();
    E::unpack(words[i / per_word])[i % per_word]
}

/// The `i`-th byte of a vector, anywhere in a word.
#[inline(always)]
fn byte(words: &[u32; 8], i: usize) -> u32 {
    words[i / 4] & 0xff << (i % 4 * 8)
}

/// A chunk of a row of scores that `LANES` lanes of a warp have, each `STEPS` vectors of `V` elements, 32 in all: a whole
/// warp, or half of one where a row is no longer.
pub struct Chunk<
    'r,
    'a,
    In: Element,
    const ANY: bool,
    const LANES: u32,
    const STEPS: usize,
    const V: usize,
> {
    row: &'r RowScores<'a, In>,
    /// Index of its first element in the row.
    first: u32,
    /// Of its elements, the first that causality, window and length let the row see, and the one after the last.
    seen: (u32, u32),
    /// The same, known to be the whole warp's where that has one row: for branches.
    seen_by_all: (u32, u32),
    /// Where loops that stay loops have the lane's elements.
    place: Parked,
}

impl<'r, 'a, In: Element, const ANY: bool, const LANES: u32, const STEPS: usize, const V: usize>
    Chunk<'r, 'a, In, ANY, LANES, STEPS, V>
{
    /// Elements from one of a lane's vectors to its next.
    const STRIDE: u32 = LANES * V as u32;
    /// All elements.
    const ELEMENTS: u32 = STEPS as u32 * Self::STRIDE;
    /// Vectors of a part.
    const STEPS_OF_PART: usize = STEPS / PARTS;
    /// Elements of a part.
    const PART: u32 = Self::ELEMENTS / PARTS as u32;
    /// Steps from a vector to that 32 further: such vectors are summed one after the other, as by a lane of a whole warp.
    const APART: usize = (WARP / LANES) as usize;

    /// The chunk from element `first` of a row on.
    ///
    /// # Safety
    ///
    /// * **own**: the block has [`PLACE_BYTES`] of shared memory for a warp, of which `place` is the lane's share, and nothing
    ///   else uses them for as long as the chunk is used.
    #[inline(always)]
    pub unsafe fn new(row: &'r RowScores<'a, In>, first: u32, place: Parked) -> Self {
        let seen = (
            row.begin.saturating_sub(first),
            row.end.saturating_sub(first),
        );
        Self {
            row,
            first,
            seen,
            seen_by_all: if LANES == WARP {
                (shared_by_warp(seen.0), shared_by_warp(seen.1))
            } else {
                seen
            },
            place,
        }
    }

    /// Index in the chunk of the lane's `step`-th vector's first element.
    #[inline(always)]
    fn index(step: u32) -> u32 {
        step * Self::STRIDE + (lane_id() & (LANES - 1)) * V as u32
    }

    /// Whether any lane sees anything of a part.
    #[inline(always)]
    fn sees_part(&self, part: usize) -> bool {
        let first = part as u32 * Self::PART;
        self.seen_by_all.0 < first + Self::PART && self.seen_by_all.1 > first
    }

    /// Whether some lane does not see something of a part.
    #[inline(always)]
    fn cuts_part(&self, part: usize) -> bool {
        let first = part as u32 * Self::PART;
        self.seen_by_all.0 > first || self.seen_by_all.1 < first + Self::PART
    }

    /// Replaces what is seen of `z` by `f` of each step and its vector, part by part.
    #[inline(always)]
    fn map(&self, z: &mut [[f32; V]; STEPS], mut f: impl FnMut(usize, [f32; V]) -> [f32; V]) {
        let mut part = 0;
        while part < PARTS {
            if self.sees_part(part) {
                let mut step = part * Self::STEPS_OF_PART;
                while step < (part + 1) * Self::STEPS_OF_PART {
                    z[step] = f(step, z[step]);
                    step += 1;
                }
            }
            part += 1;
        }
    }

    /// Whether an operand is loaded in whole vectors.
    #[inline(always)]
    fn loads_wide<W: Word>(&self, from: Global<W>, stride: u32) -> bool {
        let bytes = V * size_of::<W>();
        !ANY || stride == 1
            && from.address().is_multiple_of(bytes.min(16) as u64)
            && self.row.cols.is_multiple_of(V as u32)
    }

    /// Of which of the lane's vectors anything is seen: of the `step`-th if `(start + step * STRIDE) % 2^32 < count`, for
    /// `(start, count)`.
    #[inline(always)]
    fn seen_vectors(&self) -> (u32, u32) {
        const { assert!(V.is_power_of_two()) };
        let before = V as u32 - 1;
        let count = self.seen.1.saturating_sub(self.seen.0);
        (
            (Self::index(0) + before).wrapping_sub(self.seen.0),
            if count > 0 { count + before } else { 0 },
        )
    }

    /// What an operand of which the row begins at `from` has for the chunk, from a key to the next `stride` elements; for
    /// vectors of which nothing is seen, zeros.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: it is readable for every key of the row.
    #[inline(always)]
    #[track_caller]
    unsafe fn load<W: Word + Default>(&self, from: Global<W>, stride: u32) -> Words<STEPS> {
        let bytes = V * size_of::<W>();
        let mut words = [[0; 8]; STEPS];
        if self.loads_wide(from, stride) {
            let from = from.at(u64::from(self.first + Self::index(0)));
            let (start, count) = self.seen_vectors();
            let mut step = 0;
            while step < STEPS {
                if start.wrapping_add(step as u32 * Self::STRIDE) < count {
                    let offset = step as u64 * u64::from(Self::STRIDE);
                    // SAFETY: in-bounds: the row is whole vectors; aligned: looked at.
                    words[step] = unsafe { wide_words(from.at(offset), bytes) };
                }
                step += 1;
            }
        } else {
            // SAFETY: in-bounds: the caller's; written: all of the lane's, by itself.
            unsafe {
                self.gather(from, stride);
                let mut step = 0;
                while step < STEPS {
                    words[step] = self.gathered(step, bytes);
                    step += 1;
                }
            }
        }
        words
    }

    /// Brings an operand's elements to the lane's place, one after the other as they are in the row.
    ///
    /// # Safety
    ///
    /// As for [`Self::load`].
    #[inline(always)]
    #[track_caller]
    unsafe fn gather<W: Word + Default>(&self, from: Global<W>, stride: u32) {
        let per_vector = 16 / size_of::<W>() as u32;
        let mut next = 0;
        while next < STEPS as u32 {
            let step = rolled_u32(next);
            let mut i = 0;
            while i < V as u32 {
                let index = Self::index(step) + i;
                let mut word = W::default();
                if self.seen.0 <= index && index < self.seen.1 {
                    let key = u64::from(self.first + index);
                    // SAFETY: in-bounds: keys that are seen are the row's.
                    word = unsafe { from.at(key * u64::from(stride)).load() };
                }
                let own = step * V as u32 + i;
                let to = self.place.vector(own / per_vector).cast::<W>();
                // SAFETY: in-bounds, own: the lane's place, of four bytes an element.
                unsafe { to.at(own % per_vector).store(word) };
                i += 1;
            }
            next = step + 1;
        }
    }

    /// The lane's `step`-th vector of `bytes` bytes, as gathered.
    ///
    /// # Safety
    ///
    /// * **written**: by [`Self::gather`].
    #[inline(always)]
    #[track_caller]
    unsafe fn gathered(&self, step: usize, bytes: usize) -> [u32; 8] {
        let from = |byte: usize| self.place.vector((byte / 16) as u32);
        let (first, mut words) = (step * bytes, [0; 8]);
        // SAFETY: written: the caller's.
        unsafe {
            match bytes {
                4 => words[0] = from(first).cast::<u32>().at(first as u32 % 16 / 4).load(),
                8 => {
                    let half = from(first).cast().at(first as u32 % 16 / 8);
                    U32x2([words[0], words[1]]) = half.load();
                }
                _ => {
                    U32x4([words[0], words[1], words[2], words[3]]) = from(first).load();
                    if bytes == 32 {
                        U32x4([words[4], words[5], words[6], words[7]]) = from(first + 16).load();
                    }
                }
            }
        }
        words
    }

    /// Replaces every element by `f` of its key and itself, one after the other, in a loop that stays one.
    #[inline(always)]
    fn map_in_place(&self, z: &mut [[f32; V]; STEPS], f: impl Fn(u32, f32) -> f32) {
        self.put(z);
        let mut next = 0;
        while next < (STEPS * V) as u32 {
            let own = rolled_u32(next);
            let key = self.first + Self::index(own / V as u32) + own % V as u32;
            let place = self.place.vector(own / 4).cast::<f32>().at(own % 4);
            // SAFETY: written: above; own: the lane's place.
            unsafe { place.store(f(key, place.load())) };
            next = own + 1;
        }
        let mut step = 0;
        while step < STEPS {
            z[step] = self.get(step as u32);
            step += 1;
        }
    }

    /// The lane's `step`-th vector, from its place.
    #[inline(always)]
    fn get(&self, step: u32) -> [f32; V] {
        let mut z = [0.0; V];
        let mut i = 0;
        while i < V {
            let from = self.place.vector(step * (V as u32 / 4) + i as u32 / 4);
            // SAFETY: written: before, by this lane.
            let U32x4([a, b, c, d]) = unsafe { from.load() };
            [z[i], z[i + 1], z[i + 2], z[i + 3]] = [a, b, c, d].map(f32::from_bits);
            i += 4;
        }
        z
    }

    /// Puts the lane's elements in its place, one after the other.
    #[inline(always)]
    pub fn put(&self, z: &[[f32; V]; STEPS]) {
        let mut step = 0;
        while step < STEPS {
            let mut i = 0;
            while i < V {
                let words = [z[step][i], z[step][i + 1], z[step][i + 2], z[step][i + 3]];
                let to = self.place.vector((step * V + i) as u32 / 4);
                // SAFETY: in-bounds, own: the lane's place.
                unsafe { to.store(U32x4(words.map(f32::to_bits))) };
                i += 4;
            }
            step += 1;
        }
    }

    /// The scores as they lie in memory.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row is readable.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn bring(&self) -> Words<STEPS> {
        // SAFETY: in-bounds: the caller's.
        unsafe {
            if size_of::<In::Word>() == 4 {
                self.load(self.row.x.cast::<u32>(), 1)
            } else {
                self.load(self.row.x.cast::<u16>(), 1)
            }
        }
    }

    /// What a boolean mask says of the chunk, the one of keys to keep if there are both: for each key a byte.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row's masks are readable.
    #[inline(always)]
    #[track_caller]
    unsafe fn mask(&self) -> Words<STEPS> {
        let (row, scores) = (self.row, self.row.scores);
        // SAFETY: in-bounds: the caller's.
        unsafe {
            if scores.has(Scores::KEEP) {
                self.load(row.keep, scores.keep_step)
            } else if scores.has(Scores::HIDE) {
                self.load(row.hide, scores.hide_step)
            } else {
                [[0; 8]; STEPS]
            }
        }
    }

    /// Takes out what the boolean masks hide, `mask` being the first of them.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row's masks are readable.
    #[inline(always)]
    #[track_caller]
    unsafe fn hide(&self, z: &mut [[f32; V]; STEPS], mask: Words<STEPS>) {
        let (row, scores) = (self.row, self.row.scores);
        let mut keep_if = |mask: &Words<STEPS>, is_kept: fn(u32) -> bool| {
            self.map(z, |step, z| {
                each(z, |i, z| {
                    if is_kept(byte(&mask[step], i)) {
                        z
                    } else {
                        f32::NEG_INFINITY
                    }
                })
            });
        };
        if scores.has(Scores::KEEP) {
            keep_if(&mask, |byte| byte != 0);
        }
        if scores.has(Scores::HIDE) {
            let hide = if scores.has(Scores::KEEP) {
                // SAFETY: in-bounds: the caller's.
                unsafe { self.load(row.hide, scores.hide_step) }
            } else {
                mask
            };
            keep_if(&hide, |byte| byte == 0);
        }
    }

    /// The scores `x`, scaled and capped; 0 in parts that are not seen.
    #[inline(always)]
    fn scaled(&self, x: &Words<STEPS>) -> [[f32; V]; STEPS] {
        let (scores, scale) = (self.row.scores, self.row.options.scale);
        let mut z = [[0.0; V]; STEPS];
        let mut step = 0;
        while step < STEPS {
            z[step] = each(z[step], |i, _| value::<In>(&x[step], i));
            step += 1;
        }
        if scale != 1.0 {
            // The sum is the product but for the sign of 0: what is not seen stays 0.
            z = z.map(|z| each(z, |_, z| fma(z, scale, 0.0)));
        }
        if ANY && scores.cap != 0.0 {
            self.map_in_place(&mut z, |_, z| soft_cap(z, scores.cap, scores.cap_inverse));
        }
        z
    }

    /// Begins to bring the additive mask, if there is one, to the lane's place. Registers are for scores.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row's operands are readable.
    #[inline(always)]
    #[track_caller]
    unsafe fn bring_bias(&self) {
        let bias = self.row.bias;
        // SAFETY: in-bounds: the caller's.
        unsafe {
            match self.row.scores.bias {
                Bias::None => {}
                Bias::F32 => self.bring_bias_of(bias.cast::<u32>()),
                Bias::F16 | Bias::Bf16 => self.bring_bias_of(bias.cast::<u16>()),
            }
        }
    }

    /// The same, for elements as large as a `W`.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row of the mask at `from` is readable.
    #[inline(always)]
    #[track_caller]
    unsafe fn bring_bias_of<W: Word + Default>(&self, from: Global<W>) {
        let bytes = V * size_of::<W>();
        let stride = self.row.scores.bias_step;
        if bytes < 16 || !self.loads_wide(from, stride) {
            if ANY {
                // SAFETY: in-bounds: the caller's.
                unsafe { self.gather(from, stride) };
            }
            return;
        }
        let from = from.at(u64::from(self.first + Self::index(0)));
        let (start, count) = self.seen_vectors();
        let mut step = 0;
        while step < STEPS {
            let from = from
                .at(step as u64 * u64::from(Self::STRIDE))
                .cast::<U32x4>();
            let mut vector = 0;
            while vector < bytes / 16 {
                let to = self.place.vector((step * bytes / 16 + vector) as u32);
                let is_seen = start.wrapping_add(step as u32 * Self::STRIDE) < count;
                // SAFETY: in-bounds: the row is whole vectors; aligned: looked at; own: the lane's place.
                unsafe { copy_16_or_zeros(to, from.at(vector as u64), is_seen) };
                vector += 1;
            }
            step += 1;
        }
    }

    /// Adds the additive mask that was brought.
    #[inline(always)]
    fn add<B: Element>(&self, z: &mut [[f32; V]; STEPS]) {
        wait_all();
        self.map(z, |step, z| {
            // SAFETY: written: brought.
            let bias = unsafe { self.gathered(step, V * size_of::<B::Word>()) };
            each(z, |i, z| z + value::<B>(&bias, i))
        });
    }

    /// What the exponentials are taken of, less `shift`: -inf for keys that are hidden; without `ANY`, 0 in parts of which nothing
    /// is seen.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row's operands are readable.
    /// * **brought**: without `ANY`, where the row repeats the additive mask of the one before, the lane's place has it from there.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn score(&self, x: &Words<STEPS>, shift: f32) -> [[f32; V]; STEPS] {
        let (row, scores, options) = (self.row, self.row.scores, self.row.options);
        // Loads begin before the first look at a score, in branches of their own: else they would be moved behind it. Where
        // other things may need the lane's place, the additive mask comes there after them.
        // SAFETY: in-bounds: the caller's.
        let mask = unsafe {
            if !ANY && !row.repeats_bias {
                self.bring_bias();
            }
            self.mask()
        };
        let mut z = self.scaled(x);
        if ANY {
            // SAFETY: in-bounds: the caller's.
            unsafe { self.bring_bias() };
        }
        match scores.bias {
            Bias::None => {}
            Bias::F32 => self.add::<F32>(&mut z),
            Bias::F16 => self.add::<F16>(&mut z),
            Bias::Bf16 => self.add::<Bf16>(&mut z),
        }
        if ANY && scores.has(Scores::SLOPES) {
            self.map_in_place(&mut z, |key, z| {
                let distance = row.own_key.abs_diff(key as i32);
                z - row.slope * distance as f32
            });
        }
        if options.nan_policy == NanPolicy::Ignore {
            self.map(&mut z, |_, z| {
                each(z, |_, z| if z.is_nan() { f32::NEG_INFINITY } else { z })
            });
        }
        if shift != 0.0 {
            self.map(&mut z, |_, z| each(z, |_, z| z - shift));
        }
        if scores.has(Scores::KEEP | Scores::HIDE) {
            // SAFETY: in-bounds: the caller's.
            unsafe { self.hide(&mut z, mask) };
        }
        if self.seen_by_all.0 > 0 || self.seen_by_all.1 < Self::ELEMENTS {
            self.cut(&mut z);
        }
        z
    }

    /// Takes out of `z` what is not seen of parts that are seen in part; with `ANY`, where scores may be kept, of all parts.
    #[inline(always)]
    fn cut(&self, z: &mut [[f32; V]; STEPS]) {
        let count = self.seen.1.saturating_sub(self.seen.0);
        let mut step = 0;
        while step < STEPS {
            let part = step / Self::STEPS_OF_PART;
            // Opaque, so that nothing of this is done where all is seen.
            if (ANY || self.sees_part(part)) && self.cuts_part(part) {
                let first = opaque_u32(Self::index(step as u32)).wrapping_sub(self.seen.0);
                z[step] = each(z[step], |i, z| {
                    if first.wrapping_add(i as u32) < count {
                        z
                    } else {
                        f32::NEG_INFINITY
                    }
                });
            }
            step += 1;
        }
    }

    /// The largest element, in every lane.
    #[inline(always)]
    fn max(&self, z: &mut [[f32; V]; STEPS]) -> f32 {
        let mut max = f32::NEG_INFINITY;
        self.map(z, |_, z| {
            each(z, |_, z| {
                max = max_nan(max, z);
                z
            })
        });
        lanes_max::<LANES>(max)
    }

    /// The partial of the chunk with the scores `z`, in every lane. Exponentials take the scores' place.
    #[inline(always)]
    pub fn exponentiate<A: Accuracy>(&self, z: &mut [[f32; V]; STEPS]) -> Partial {
        let max = self.max(z);
        let reference = Reference::of_max(max);
        const { assert!(Self::APART <= 2) };
        let mut sums = [Pair::ZERO; 2];
        let mut part = 0;
        while part < PARTS {
            let sees = self.sees_part(part);
            let mut step = part * Self::STEPS_OF_PART;
            while step < (part + 1) * Self::STEPS_OF_PART {
                if sees {
                    z[step] = each(z[step], |_, z| A::exp(z, reference));
                    let sum = &mut sums[step % Self::APART];
                    *sum = Tile::<WARP, 1, V>::of(0, [z[step]]).vector_sum::<A>(0, Some(*sum));
                } else if ANY {
                    // Else they are 0 already.
                    z[step] = [0.0; V];
                }
                step += 1;
            }
            part += 1;
        }
        let [mut sum, other] = sums;
        if Self::APART == 2 {
            sum = sum.plus::<A>(other);
        }
        Partial::of(max, lanes_sum::<A, LANES>(sum))
    }

    /// The partial of the chunk with the scores `z`, in every lane, where logarithms may be taken of it. The scores stay, in the lane's place. `finely`:
    /// what rounding took from exponentials is summed as well.
    #[inline(always)]
    pub fn sum_up<A: Accuracy>(&self, z: &mut [[f32; V]; STEPS], finely: bool) -> Partial {
        let max = self.max(z);
        let reference = Reference::of_max(max);
        self.put(z);
        let mut sum = Pair::ZERO;
        let mut next = 0;
        while next < STEPS as u32 {
            let step = rolled_u32(next);
            let z = self.get(step);
            let e = exponentials::<A, V>(z, reference);
            if finely {
                let mut i = 0;
                while i < V {
                    sum.lo += rest_of_exponential(z[i], reference);
                    i += 1;
                }
            }
            sum = Tile::<WARP, 1, V>::of(0, [e]).vector_sum::<A>(0, Some(sum));
            next = step + 1;
        }
        Partial::of(max, lanes_sum::<A, WARP>(sum))
    }

    /// Writes the chunk's results, those of the exponentials `e`, into the row at `y`.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row at `y` is writable, the chunk begins in it, and no other warp touches its part of it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn write<Out: Element, A: Accuracy>(
        &self,
        mut e: [[f32; V]; STEPS],
        y: Global<Out::Word>,
        finish: Finish,
    ) {
        let normaliser = match finish {
            Finish::Normalise(normaliser) => normaliser,
            Finish::Fill(value) if !value.is_nan() && self.writes_wide::<Out>(y) => {
                // SAFETY: in-bounds: the caller's.
                return unsafe { self.write_wide::<Out>(&[[value; V]; STEPS], y) };
            }
            // SAFETY: in-bounds: the caller's.
            _ => return unsafe { self.write_kept::<Out, A>(y, finish) },
        };
        if normaliser.rescales() {
            e = e.map(|e| each(e, |_, e| normaliser.rescale(e)));
        }
        let results = e.map(|e| each(e, |_, e| normaliser.apply::<A>(e)));
        if self.writes_wide::<Out>(y) {
            // SAFETY: in-bounds: the caller's.
            unsafe { self.write_wide::<Out>(&results, y) };
        } else {
            self.put(&results);
            // SAFETY: in-bounds: the caller's.
            unsafe { self.write_kept::<Out, A>(y, Finish::Done) };
        }
    }

    /// Writes results in whole vectors.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: as for [`Self::write`].
    #[inline(always)]
    #[track_caller]
    unsafe fn write_wide<Out: Element>(&self, results: &[[f32; V]; STEPS], y: Global<Out::Word>) {
        let to = y.at(u64::from(self.first + Self::index(0)));
        let mut step = 0;
        while step < STEPS {
            if self.first + Self::index(step as u32) < self.row.cols {
                let offset = step as u64 * u64::from(Self::STRIDE);
                // SAFETY: in-bounds: whole; aligned: a whole vector of a row that begins at one.
                unsafe { Out::store_wide(to.at(offset), results[step]) };
            }
            step += 1;
        }
    }

    /// Whether results for the row at `y` are written in whole vectors.
    #[inline(always)]
    fn writes_wide<Out: Element>(&self, y: Global<Out::Word>) -> bool {
        let bytes = V * size_of::<Out::Word>();
        !ANY || y.address().is_multiple_of(bytes.min(16) as u64)
            && self.row.cols.is_multiple_of(V as u32)
    }

    /// Writes the chunk's results, those of what the lane's place has, into the row at `y`, in a loop that stays one.
    ///
    /// # Safety
    ///
    /// As for [`Self::write`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn write_kept<Out: Element, A: Accuracy>(
        &self,
        y: Global<Out::Word>,
        finish: Finish,
    ) {
        let is_wide = self.writes_wide::<Out>(y);
        let mut next = 0;
        while next < STEPS as u32 {
            let step = rolled_u32(next);
            let key = self.first + Self::index(step);
            let results = match finish {
                Finish::Fill(value) => [value; V],
                _ => finish.results::<A, V>(self.get(step)),
            };
            let is_nan = matches!(finish, Finish::Fill(value) if value.is_nan());
            if is_wide && !is_nan {
                if key < self.row.cols {
                    // SAFETY: in-bounds: whole; aligned: a whole vector of a row that begins at one.
                    unsafe { Out::store_wide(y.at(key.into()), results) };
                }
            } else {
                let mut i = 0;
                while i < V {
                    let key = key + i as u32;
                    if key < self.row.cols {
                        // SAFETY: in-bounds: the row's element.
                        unsafe {
                            y.at(key.into())
                                .store_streaming(Out::narrow_any(results[i]));
                        }
                    }
                    i += 1;
                }
            }
            next = step + 1;
        }
    }
}

/// As many bytes as a vector has, 32 at most, from a multiple of them or of 16 on.
///
/// # Safety
///
/// * **in-bounds**: they are readable.
/// * **aligned**: `from` is a multiple of `bytes`, or of 16 where that is less.
#[inline(always)]
#[track_caller]
unsafe fn wide_words<W: Word>(from: Global<W>, bytes: usize) -> [u32; 8] {
    let mut words = [0; 8];
    // SAFETY: in-bounds, aligned: the caller's.
    unsafe {
        match bytes {
            4 => words[0] = from.cast::<u32>().load(),
            8 => U32x2([words[0], words[1]]) = from.cast().load(),
            _ => {
                U32x4([words[0], words[1], words[2], words[3]]) = from.cast().load();
                if bytes == 32 {
                    U32x4([words[4], words[5], words[6], words[7]]) =
                        from.cast::<U32x4>().at(1).load();
                }
            }
        }
    }
    words
}

/// Exponentials relative to a maximum, of which a logarithm may be taken: 0 for those that are too far below it to count.
#[inline(always)]
fn exponentials<A: Accuracy, const V: usize>(z: [f32; V], reference: Reference) -> [f32; V] {
    each(z, |_, z| {
        if reference.reaches(z) {
            A::exp(z, reference)
        } else {
            0.0
        }
    })
}

/// What rounding took from an exponential, if it counts.
#[inline(always)]
fn rest_of_exponential(z: f32, reference: Reference) -> f32 {
    if reference.reaches(z) {
        Full::rest(z, reference)
    } else {
        0.0
    }
}

/// How results are made of what a warp has of a chunk.
#[derive(Clone, Copy)]
pub enum Finish {
    /// All of them are this.
    Fill(f32),
    /// They are there.
    Done,
    /// Of exponentials.
    Normalise(Normaliser),
    /// Of scores.
    Exponentiate(Reference, Normaliser),
    /// Of scores: less the maximum, less the logarithm of the sum relative to it.
    Log {
        /// The row's.
        max: f32,
        /// The logarithm.
        log_sum: Pair,
    },
}

impl Finish {
    /// The results of a vector.
    #[inline(always)]
    fn results<A: Accuracy, const V: usize>(self, kept: [f32; V]) -> [f32; V] {
        match self {
            Self::Fill(value) => [value; V],
            Self::Done => kept,
            Self::Normalise(normaliser) => {
                each(kept, |_, e| normaliser.apply::<A>(normaliser.rescale(e)))
            }
            Self::Exponentiate(reference, normaliser) => {
                let e = exponentials::<A, V>(kept, reference);
                each(e, |_, e| normaliser.apply::<A>(normaliser.rescale(e)))
            }
            Self::Log { max, log_sum } => each(kept, |_, z| {
                let below = Pair::two_sum(z, -max);
                let result = Pair::two_sum(below.hi, -log_sum.hi);
                let result = result.hi + (result.lo + (below.lo - log_sum.lo));
                // The rounding errors of infinity are NaN.
                if z == f32::NEG_INFINITY { z } else { result }
            }),
        }
    }
}
