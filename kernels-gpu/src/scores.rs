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

use cuda_std::ext::Global;

use crate::element::{Bf16, Element, F16};
use crate::options::{NanPolicy, Options};
use crate::reduce::shared_by_warp;
use crate::row::{Coordinates, MAX_DIMS, RowLayout};

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

/// The keys that a query `q` sees: from `q + begin` to before `q + end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Reach {
    /// How far from the query's number the first of them is. `i32::MIN` is no bound: it is before any key.
    pub begin: i32,
    /// How far the one after the last is. `i32::MAX` is no bound: it is after any key.
    pub end: i32,
}

impl Reach {
    /// All keys.
    pub const ALL: Self = Self {
        begin: i32::MIN,
        end: i32::MAX,
    };

    /// Of `cols` keys, the first that query `query` sees, and the one after the last.
    #[inline(always)]
    fn of(self, query: u32, cols: u32) -> (u32, u32) {
        let key = |offset: i32| (i64::from(query) + i64::from(offset)).clamp(0, i64::from(cols));
        (key(self.begin) as u32, key(self.end) as u32)
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
    /// What causality and the window leave.
    pub reach: Reach,
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

    /// Whether there is what the bit stands for.
    #[inline(always)]
    pub fn has(&self, what: u32) -> bool {
        self.has & what != 0
    }

    /// Whether rows one apart in the innermost dimension have the same length and the same slope.
    #[inline(always)]
    fn keeps_length(&self) -> bool {
        let by = &self.strides[0];
        by.lengths | by.slopes == 0
    }

    /// Whether they have the same row of the additive mask as well, and see the same keys.
    #[inline(always)]
    fn keeps_bias(&self) -> bool {
        let by = &self.strides[0];
        by.bias | by.query == 0 && self.keeps_length()
    }

    /// Bytes of an element of the additive mask, if there is one.
    #[inline(always)]
    fn bias_bytes(&self) -> u64 {
        if self.bias == Bias::F32 { 4 } else { 2 }
    }

    /// Offset of a row in an operand, in elements.
    #[inline(always)]
    fn index_of(&self, at: &Coordinates, stride: impl Fn(&Strides) -> u64) -> u64 {
        at.place(|dim| stride(&self.strides[dim]))
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

/// The scores of one row.
#[derive(Clone, Copy)]
pub struct RowScores<'a, In: Element> {
    /// What the call asks for.
    pub options: &'a Options,
    /// What is done to the scores.
    pub scores: &'a Scores,
    /// The row.
    pub x: Global<In::Word>,
    /// Where its results go, in elements.
    pub offset_out: u64,
    /// Its row of the additive mask.
    pub bias: Global<u8>,
    /// Its row of the mask of keys to keep.
    pub keep: Global<u8>,
    /// Its row of the mask of keys to hide.
    pub hide: Global<u8>,
    /// Keys that it has.
    pub cols: u32,
    /// Of these its length leaves so many.
    length: u32,
    /// The number of its query, where that says which keys it sees.
    query: u32,
    /// Causality, the window and the length hide the keys before this,
    pub begin: u32,
    /// and those from this on, at most `cols`.
    pub end: u32,
    /// The ALiBi slope.
    pub slope: f32,
    /// The key from which distances are counted.
    pub own_key: i32,
    /// Whether the caller has just had a row with the same row of the additive mask, that sees the same keys.
    pub repeats_bias: bool,
    /// Its index in the innermost dimension.
    innermost: u32,
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
            .at(self.index_of(&at, |strides| strides.sinks));
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
        let index = self.index_of(&layout.coordinates(row), |strides| strides.sum);
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
    /// What all rows start from: the first row, as if causality, a window, lengths and slopes had nothing to say about it.
    #[inline(always)]
    pub fn first(
        x: Global<In::Word>,
        cols: u32,
        options: &'a Options,
        operands: &Operands,
        scores: &'a Scores,
    ) -> Self {
        Self {
            options,
            scores,
            x,
            offset_out: 0,
            bias: operands.bias,
            keep: operands.keep,
            hide: operands.hide,
            cols,
            length: cols,
            query: 0,
            begin: 0,
            end: cols,
            slope: 0.0,
            own_key: 0,
            repeats_bias: false,
            innermost: 0,
        }
    }

    /// The scores of row `row`. The caller has just had the row that is `follows` before it, unless that is 0.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: `layout` leads to `cols` elements of `x` that can be read, and the strides of `scores` to
    ///   an element of each operand that it asks for; of the masks, to one for each key.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn new(
        x: Global<In::Word>,
        cols: u32,
        layout: &RowLayout,
        options: &'a Options,
        operands: &Operands,
        scores: &'a Scores,
        row: u32,
        follows: u32,
    ) -> Self {
        let at = layout.coordinates(row);
        let mut this = Self::first(x, cols, options, operands, scores);
        this.innermost = at.innermost();
        this.x = this.x.at(at.place(|dim| layout.strides(dim).0));
        this.offset_out = at.place(|dim| layout.strides(dim).1);
        this.repeats_bias = follows > 0 && this.innermost >= follows && scores.keeps_bias();
        let query = || scores.index_of(&at, |strides| strides.query) as u32;
        if scores.has(Scores::LENGTHS) {
            let place = operands
                .lengths
                .at(scores.index_of(&at, |strides| strides.lengths));
            // SAFETY: in-bounds: the caller's.
            this.length = cols.min(unsafe { place.load() });
        }
        if scores.reach != Reach::ALL {
            this.query = query();
        }
        this.look();
        if scores.has(Scores::SLOPES) {
            let place = operands
                .slopes
                .at(scores.index_of(&at, |strides| strides.slopes));
            // SAFETY: in-bounds: the caller's.
            this.slope = unsafe { place.load() };
            this.own_key = (query() as i32).wrapping_add(scores.slope_offset);
        }
        if scores.bias != Bias::None {
            let index = scores.index_of(&at, |strides| strides.bias);
            this.bias = this.bias.at(index * scores.bias_bytes());
        }
        if scores.has(Scores::KEEP) {
            this.keep = this.keep.at(scores.index_of(&at, |strides| strides.keep));
        }
        if scores.has(Scores::HIDE) {
            this.hide = this.hide.at(scores.index_of(&at, |strides| strides.hide));
        }
        this
    }

    /// The same row, which all lanes of the warp have: from here on the compiler knows it of the length.
    #[inline(always)]
    pub fn shared_by_warp(mut self) -> Self {
        if self.scores.has(Scores::LENGTHS) {
            self.length = shared_by_warp(self.length);
            self.look();
        }
        self
    }

    /// Finds the keys that the row sees.
    #[inline(always)]
    fn look(&mut self) {
        (self.begin, self.end) = (0, self.length);
        if self.scores.reach != Reach::ALL {
            let (begin, end) = self.scores.reach.of(self.query, self.cols);
            (self.begin, self.end) = (begin, end.min(self.length));
        }
    }

    /// Goes on to the next row, if that has the same length and slope: there is not much to reckon then.
    #[inline(always)]
    pub fn advance(&mut self, layout: &RowLayout) -> bool {
        let (next, scores) = (self.innermost + 1, self.scores);
        if next >= layout.innermost_extent() || !scores.keeps_length() {
            return false;
        }
        let (by, (by_in, by_out)) = (&scores.strides[0], layout.strides(0));
        self.innermost = next;
        self.x = self.x.at(by_in);
        self.offset_out = self.offset_out.wrapping_add(by_out);
        self.bias = self.bias.at(by.bias * scores.bias_bytes());
        self.keep = self.keep.at(by.keep);
        self.hide = self.hide.at(by.hide);
        self.repeats_bias = scores.keeps_bias();
        if by.query != 0 {
            self.query = self.query.wrapping_add(by.query as u32);
            self.own_key = self.own_key.wrapping_add(by.query as i32);
            self.look();
        }
        true
    }
}

/// `f` of every element, with its index.
#[inline(always)]
pub fn each<const V: usize>(
    mut values: [f32; V],
    mut f: impl FnMut(usize, f32) -> f32,
) -> [f32; V] {
    let mut i = 0;
    while i < V {
        values[i] = f(i, values[i]);
        i += 1;
    }
    values
}
