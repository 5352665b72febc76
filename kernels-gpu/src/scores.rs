//! What becomes of a row of scores before its softmax: scale, soft cap, biases, and what is hidden.
//!
//! For the score `x` of query `q` and key `k`, each step rounded to f32 once:
//!
//! ```text
//! z = scale * x
//! z = cap * tanh(z / cap)            if there is a cap
//! z = z + bias[q, k]                 if there is an additive mask
//! z = z - slope * |q + offset - k|   if there are ALiBi slopes
//! ```
//!
//! and then keys that are hidden are taken out, as if there were none. What a mask, causality, a window or a
//! length hides may hold anything; what the latter three hide is not even read, but for a vector at the edge.

use cuda_std::ext::math::opaque_u32;
use cuda_std::ext::{Global, U32x2, U32x4};

use crate::element::{Bf16, Element, F16};
use crate::options::{NanPolicy, Options};
use crate::row::{MAX_DIMS, RowLayout};
use crate::tanh::soft_cap;

/// The type of an additive mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Bias {
    /// There is none.
    #[default]
    None = 0,
    /// f32.
    F32 = 1,
    /// f16.
    F16 = 2,
    /// bf16.
    Bf16 = 3,
}

/// The keys that a query sees: `q + offset - left ..= q + offset + right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Reach {
    /// Keys before the query's own; [`Reach::UNBOUNDED`]: all.
    pub left: u32,
    /// Keys after the query's own; [`Reach::UNBOUNDED`]: all.
    pub right: u32,
    /// What is added to the query's number to get its own key's.
    pub offset: i32,
}

impl Reach {
    /// No bound on that side.
    pub const UNBOUNDED: u32 = u32::MAX;

    /// All keys.
    pub const ALL: Self = Self {
        left: Self::UNBOUNDED,
        right: Self::UNBOUNDED,
        offset: 0,
    };

    /// `begin..end`, cut to what query `query` sees.
    #[inline(always)]
    fn cut(self, query: u32, (begin, end): (u32, u32)) -> (u32, u32) {
        let own = i64::from(query) + i64::from(self.offset);
        // Cut to the range of `u32` as well.
        let begin = if self.left == Self::UNBOUNDED {
            begin
        } else {
            (own - i64::from(self.left)).clamp(i64::from(begin), i64::from(u32::MAX)) as u32
        };
        let end = if self.right == Self::UNBOUNDED {
            end
        } else {
            (own + i64::from(self.right) + 1).clamp(0, i64::from(end)) as u32
        };
        (begin, end)
    }
}

impl Default for Reach {
    fn default() -> Self {
        Self::ALL
    }
}

/// What is written of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Results {
    /// Its softmax.
    #[default]
    Softmax = 0,
    /// The logarithm of its softmax.
    Log = 1,
    /// Nothing but the logarithm of its sum.
    Nothing = 2,
}

/// The type that the logarithm of a row's sum of exponentials is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Sum {
    /// It is not written.
    #[default]
    None = 0,
    /// f32.
    F32 = 1,
    /// f16.
    F16 = 2,
    /// bf16.
    Bf16 = 3,
}

/// From one index of a leading dimension to the next, in elements of each operand that is not the scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Strides {
    /// Of the additive mask.
    pub bias: u64,
    /// Of the mask of keys to keep.
    pub keep: u64,
    /// Of the mask of keys to hide.
    pub hide: u64,
    /// Of the rows' logarithms of sums.
    pub sum: u64,
    /// Of the lengths.
    pub lengths: u64,
    /// Of the ALiBi slopes.
    pub slopes: u64,
    /// Of the sink logits.
    pub sinks: u64,
    /// Of the query's number itself.
    pub query: u64,
}

/// What is done to the scores of one launch besides what [`Options`] say, the same for all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Scores {
    /// The soft cap; 0: none.
    pub cap: f32,
    /// One over the cap.
    pub cap_inverse: f32,
    /// The additive mask.
    pub bias: Bias,
    /// What is written of a row.
    pub results: Results,
    /// What is written of its sum.
    pub sum: Sum,
    /// Bit by bit: [`Scores::LENGTHS`], [`Scores::SLOPES`], [`Scores::SINKS`], [`Scores::KEEP`], [`Scores::HIDE`].
    pub has: u32,
    /// Causality.
    pub causal: Reach,
    /// The window.
    pub window: Reach,
    /// What is added to a query's number for its distance from a key.
    pub slope_offset: i32,
    /// Elements of the additive mask from a key to the next.
    pub bias_step: u32,
    /// Elements of the mask of keys to keep from a key to the next.
    pub keep_step: u32,
    /// Elements of the mask of keys to hide from a key to the next.
    pub hide_step: u32,
    /// Strides of the leading dimensions, innermost first.
    pub strides: [Strides; MAX_DIMS],
}

impl Scores {
    /// In the field `has`: there are lengths.
    pub const LENGTHS: u32 = 1;
    /// In the field `has`: there are ALiBi slopes.
    pub const SLOPES: u32 = 2;
    /// In the field `has`: there are sink logits.
    pub const SINKS: u32 = 4;
    /// In the field `has`: there is a mask of keys to keep.
    pub const KEEP: u32 = 8;
    /// In the field `has`: there is a mask of keys to hide.
    pub const HIDE: u32 = 16;

    #[inline(always)]
    fn has(&self, what: u32) -> bool {
        self.has & what != 0
    }

    /// Offset of a row in an operand, in elements.
    #[inline(always)]
    fn index_of(&self, at: [u32; MAX_DIMS], stride: impl Fn(&Strides) -> u64) -> u64 {
        // Written out, since a by-value parameter indexed at run time would be copied to local memory.
        let term = |stride: u64, coordinate: u32| stride.wrapping_mul(u64::from(coordinate));
        term(stride(&self.strides[0]), at[0])
            .wrapping_add(term(stride(&self.strides[1]), at[1]))
            .wrapping_add(term(stride(&self.strides[2]), at[2]))
            .wrapping_add(term(stride(&self.strides[3]), at[3]))
    }
}

/// Where the operands of a launch are that are not the scores. Those that are not asked for are nowhere.
#[derive(Clone, Copy)]
pub struct Operands {
    /// The additive mask.
    pub bias: Global<u8>,
    /// The keys to keep: a byte for each, not 0 for those that take part.
    pub keep: Global<u8>,
    /// The keys to hide: a byte for each, not 0 for those that take no part.
    pub hide: Global<u8>,
    /// Keys that there are, for each row.
    pub lengths: Global<u32>,
    /// ALiBi slopes.
    pub slopes: Global<f32>,
    /// Sink logits.
    pub sinks: Global<f32>,
    /// The logarithms of sums, to be written.
    pub sums: Global<u8>,
}

/// What masks have for four keys, as it lies in memory: loaded ahead of its use, so that nothing waits for it.
#[derive(Clone, Copy)]
pub struct Masks {
    /// Four f32, or four halves in the first two words.
    bias: [u32; 4],
    /// A byte a key.
    keep: u32,
    /// A byte a key.
    hide: u32,
}

impl Masks {
    /// Of keys that nobody asks for.
    pub const NONE: Self = Self {
        bias: [0; 4],
        keep: 0,
        hide: 0,
    };
}

/// The scores of one row.
pub struct RowScores<'a, In: Element> {
    options: &'a Options,
    scores: &'a Scores,
    x: Global<In::Word>,
    bias: Global<u8>,
    keep: Global<u8>,
    hide: Global<u8>,
    cols: u32,
    /// Keys from `begin` to before `end` are seen; the others are hidden.
    begin: u32,
    end: u32,
    slope: f32,
    /// The key from which distances are counted.
    own_key: i32,
}

impl Scores {
    /// The sink logit of row `row`, or -inf.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: as for [`RowScores::new`].
    #[inline(always)]
    pub unsafe fn sink(
        &self,
        layout: &RowLayout,
        options: &Options,
        operands: &Operands,
        row: u32,
    ) -> f32 {
        if !self.has(Self::SINKS) {
            return f32::NEG_INFINITY;
        }
        let at = layout.coordinates(row);
        let place = operands
            .sinks
            .at(self.index_of(at, |strides| strides.sinks));
        // SAFETY: in-bounds: the caller's.
        let sink = unsafe { place.load() };
        if options.nan_policy == NanPolicy::Ignore && sink.is_nan() {
            f32::NEG_INFINITY
        } else {
            sink
        }
    }

    /// Writes the logarithm of row `row`'s sum, if it is asked for.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the strides lead to an element of `operands.sums` that can be written, and no other thread
    ///   writes it.
    #[inline(always)]
    pub unsafe fn put_sum(&self, layout: &RowLayout, operands: &Operands, row: u32, value: f32) {
        let index = self.index_of(layout.coordinates(row), |strides| strides.sum);
        let (wide, half) = (operands.sums.cast::<f32>(), operands.sums.cast::<u16>());
        // SAFETY: in-bounds: the caller's.
        unsafe {
            match self.sum {
                Sum::F32 => wide.at(index).store(value),
                Sum::F16 => half.at(index).store(F16::narrow_any(value)),
                Sum::Bf16 => half.at(index).store(Bf16::narrow_any(value)),
                Sum::None => {}
            }
        }
    }
}

impl<'a, In: Element> RowScores<'a, In> {
    /// The scores of row `row`.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: `layout` leads to `cols` elements of `x` that can be read, and the strides of `scores` to
    ///   an element of each operand that it asks for; of the masks, to one for each key.
    #[inline(always)]
    pub unsafe fn new(
        x: Global<In::Word>,
        cols: u32,
        layout: &RowLayout,
        options: &'a Options,
        operands: &Operands,
        scores: &'a Scores,
        row: u32,
    ) -> Self {
        let at = layout.coordinates(row);
        let mut this = Self {
            options,
            scores,
            x: x.at(layout.locate(row).0),
            bias: operands.bias,
            keep: operands.keep,
            hide: operands.hide,
            cols,
            begin: 0,
            end: cols,
            slope: 0.0,
            own_key: 0,
        };
        let query = scores.index_of(at, |strides| strides.query) as u32;
        (this.begin, this.end) = scores.causal.cut(query, (this.begin, this.end));
        (this.begin, this.end) = scores.window.cut(query, (this.begin, this.end));
        if scores.has(Scores::LENGTHS) {
            let place = operands
                .lengths
                .at(scores.index_of(at, |strides| strides.lengths));
            // SAFETY: in-bounds: the caller's.
            this.end = this.end.min(unsafe { place.load() });
        }
        if scores.has(Scores::SLOPES) {
            let place = operands
                .slopes
                .at(scores.index_of(at, |strides| strides.slopes));
            // SAFETY: in-bounds: the caller's.
            this.slope = unsafe { place.load() };
            this.own_key = (query as i32).wrapping_add(scores.slope_offset);
        }
        if scores.bias != Bias::None {
            let size = if scores.bias == Bias::F32 { 4 } else { 2 };
            this.bias = this
                .bias
                .at(scores.index_of(at, |strides| strides.bias) * size);
        }
        if scores.has(Scores::KEEP) {
            this.keep = this.keep.at(scores.index_of(at, |strides| strides.keep));
        }
        if scores.has(Scores::HIDE) {
            this.hide = this.hide.at(scores.index_of(at, |strides| strides.hide));
        }
        this
    }

    /// The keys that are seen, of those from `first` on before `last`: empty where it ends before it begins.
    #[inline(always)]
    pub fn seen(&self, first: u32, last: u32) -> (u32, u32) {
        (self.begin.max(first), self.end.min(last))
    }

    /// Whether any of the `V` keys from `key` on is seen.
    #[inline(always)]
    pub fn sees<const V: usize>(&self, key: u32) -> bool {
        key < self.end && key + V as u32 > self.begin
    }

    /// The scores of the `V` keys from `key` on, where they can be loaded at once and one of them is seen.
    #[inline(always)]
    pub fn whole_vector<const V: usize>(&self, key: u32) -> Option<Global<U32x4>> {
        (self.sees::<V>(key) && self.x.address().is_multiple_of(16) && key + V as u32 <= self.cols)
            .then(|| self.x.at(u64::from(key)).cast())
    }

    /// The scores of the four keys from `key` on, one by one; anything for those that are not seen.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row is readable.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn one_by_one(&self, key: u32) -> [f32; 4] {
        // SAFETY: in-bounds: keys that are seen are the row's.
        self.of_seen(key, |k| In::widen(unsafe { self.x.at(k).load() }))
    }

    /// What the masks have for the four keys from `key` on; anything where none is seen.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the row's operands are readable.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn masks(&self, key: u32) -> Masks {
        let scores = self.scores;
        let mut masks = Masks::NONE;
        if !self.sees::<4>(key) {
            return masks;
        }
        // SAFETY: in-bounds: the caller's.
        unsafe {
            if scores.bias != Bias::None {
                masks.bias = self.bias(key);
            }
            if scores.has(Scores::KEEP) {
                masks.keep = self.bytes(self.keep, scores.keep_step, key);
            }
            if scores.has(Scores::HIDE) {
                masks.hide = self.bytes(self.hide, scores.hide_step, key);
            }
        }
        masks
    }

    /// What the exponentials of the four keys from `key` on are taken of, `x` being their scores: -inf for those that
    /// are hidden.
    #[inline(always)]
    pub fn transform(&self, key: u32, x: [f32; 4], masks: Masks) -> [f32; 4] {
        let (options, scores) = (self.options, self.scores);
        let mut z = x;
        if options.scale != 1.0 {
            z = each(z, |_, z| z * options.scale);
        }
        if scores.cap != 0.0 {
            // One after the other, in a loop that stays one: four at a time would need registers that nothing else does.
            let mut turn = opaque_u32(0);
            while turn < 4 {
                let [a, b, c, d] = z;
                z = [b, c, d, soft_cap(a, scores.cap, scores.cap_inverse)];
                turn += 1;
            }
        }
        if scores.bias != Bias::None {
            let [a, b, c, d] = masks.bias;
            let bias = match scores.bias {
                Bias::F16 => halves::<F16>([a, b]),
                Bias::Bf16 => halves::<Bf16>([a, b]),
                Bias::F32 | Bias::None => [a, b, c, d].map(f32::from_bits),
            };
            z = each(z, |i, z| z + bias[i]);
        }
        if scores.has(Scores::SLOPES) {
            z = each(z, |i, z| {
                let distance = self.own_key.abs_diff((key + i as u32) as i32);
                z - self.slope * distance as f32
            });
        }
        if options.nan_policy == NanPolicy::Ignore {
            z = each(z, |_, z| if z.is_nan() { f32::NEG_INFINITY } else { z });
        }
        if scores.has(Scores::KEEP) {
            let keep = masks.keep.to_le_bytes();
            z = each(z, |i, z| if keep[i] != 0 { z } else { f32::NEG_INFINITY });
        }
        if scores.has(Scores::HIDE) {
            let hide = masks.hide.to_le_bytes();
            z = each(z, |i, z| if hide[i] == 0 { z } else { f32::NEG_INFINITY });
        }
        if key < self.begin || key + 4 > self.end {
            z = each(z, |i, z| {
                let key = key + i as u32;
                if key >= self.begin && key < self.end {
                    z
                } else {
                    f32::NEG_INFINITY
                }
            });
        }
        z
    }

    /// `load(k)` of those of the four keys from `key` on that are seen; anything for the others.
    #[inline(always)]
    fn of_seen<T: Default + Copy>(&self, key: u32, load: impl Fn(u64) -> T) -> [T; 4] {
        let mut values = [T::default(); 4];
        let mut i = 0;
        while i < 4 {
            let key = key + i as u32;
            if key >= self.begin && key < self.end {
                values[i] = load(u64::from(key));
            }
            i += 1;
        }
        values
    }

    /// Whether four elements of a mask can be loaded at once, `step` apart and `bytes` in all, from that of `key` on.
    #[inline(always)]
    fn is_whole(&self, mask: Global<u8>, step: u32, bytes: u64, key: u32) -> bool {
        step == 1 && mask.address().is_multiple_of(bytes) && key + 4 <= self.cols
    }

    /// The additive mask of the four keys from `key` on, as [`Masks`] have it.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: it is readable for every key of the row.
    #[inline(always)]
    #[track_caller]
    unsafe fn bias(&self, key: u32) -> [u32; 4] {
        let step = self.scores.bias_step;
        if self.scores.bias == Bias::F32 {
            let from = self.bias.cast::<u32>();
            if self.is_whole(self.bias, step, 16, key) {
                // SAFETY: in-bounds, aligned: whole.
                let U32x4(words) = unsafe { from.at(key.into()).cast().load() };
                return words;
            }
            // SAFETY: in-bounds: the caller's.
            return self.of_seen(key, |k| unsafe { from.at(k * u64::from(step)).load() });
        }
        let from = self.bias.cast::<u16>();
        if self.is_whole(self.bias, step, 8, key) {
            // SAFETY: in-bounds, aligned: whole.
            let U32x2([low, high]) = unsafe { from.at(key.into()).cast().load() };
            return [low, high, 0, 0];
        }
        // SAFETY: in-bounds: the caller's.
        let [a, b, c, d] = self.of_seen(key, |k| unsafe { from.at(k * u64::from(step)).load() });
        let word = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        [word(a, b), word(c, d), 0, 0]
    }

    /// What a boolean mask has for the four keys from `key` on, as [`Masks`] have it.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: it is readable for every key of the row.
    #[inline(always)]
    #[track_caller]
    unsafe fn bytes(&self, mask: Global<u8>, step: u32, key: u32) -> u32 {
        if self.is_whole(mask, step, 4, key) {
            // SAFETY: in-bounds, aligned: whole.
            return unsafe { mask.at(key.into()).cast().load() };
        }
        // SAFETY: in-bounds: the caller's.
        u32::from_le_bytes(self.of_seen(key, |k| unsafe { mask.at(k * u64::from(step)).load() }))
    }
}

/// The values of four halves.
#[inline(always)]
fn halves<E: Element>([low, high]: [u32; 2]) -> [f32; 4] {
    let ([a, b], [c, d]) = (E::unpack(low), E::unpack(high));
    [a, b, c, d]
}

/// `f` of every element, with its index.
#[inline(always)]
pub fn each<const V: usize>(mut values: [f32; V], f: impl Fn(usize, f32) -> f32) -> [f32; V] {
    let mut i = 0;
    while i < V {
        values[i] = f(i, values[i]);
        i += 1;
    }
    values
}
