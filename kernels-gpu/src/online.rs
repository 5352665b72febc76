//! The running pair of the online softmax, and its merge.
//!
//! A [`Partial`] is what part of a row knows: its maximum, and the sum of `e^x` over the part. Two
//! of them merge by bringing both sums to the larger maximum's scale (Milakov and Gimelshein,
//! "Online normalizer calculation for softmax", 2018). Here a scale is an integer power of two, so
//! that bringing a sum to it is exact. The sum itself is a pair: `hi`, and in `lo` what was cut or rounded off it.

use cuda_std::ext::math::{fma, max_nan};

use crate::element::Element;
use crate::exp::{
    Accuracy, BIAS, CUTOFF, DIRECT_LIMIT, Full, REFERENCE_LIMIT, exponent_of, power_of_two,
};
use crate::options::{FullyMasked, Options};

/// A sum in two parts, `hi + lo`: the larger, and what has been cut or rounded off it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Nearly all of it.
    pub hi: f32,
    /// The rest.
    pub lo: f32,
}

impl Pair {
    /// The empty sum.
    pub const ZERO: Self = Self { hi: 0.0, lo: 0.0 };

    /// An exponential relative to its chunk's maximum, cut in two: `hi` is a multiple of 2^-18 of the maximum's scale,
    /// so that sums of up to 32 of them are exact; `lo` is so small that what its sums lose does not count.
    #[inline(always)]
    pub fn cut(e: f32) -> Self {
        // Adding this rounds to a multiple of 2^12, which is 2^-18 times 2^BIAS.
        const LAST_BIT: f32 = 1.5 * (1u64 << 35) as f32;
        const { assert!(BIAS == 30.0) };
        let hi = (e + LAST_BIT) - LAST_BIT;
        Self { hi, lo: e - hi }
    }

    /// The sum of a lane's pairs that were [`Pair::cut`], up to 32 of them in all.
    #[inline(always)]
    pub fn plus_cut(self, other: Self) -> Self {
        Self {
            hi: self.hi + other.hi,
            lo: self.lo + other.lo,
        }
    }

    /// `a + b`, and what rounding took from it (Knuth's TwoSum).
    #[inline(always)]
    pub fn two_sum(a: f32, b: f32) -> Self {
        let hi = a + b;
        let of_b = hi - a;
        Self {
            hi,
            lo: (a - (hi - of_b)) + (b - of_b),
        }
    }

    /// The sum of two pairs. The same bits either way round; adding [`Pair::ZERO`] changes none.
    #[inline(always)]
    pub fn plus<A: Accuracy>(self, other: Self) -> Self {
        if !A::PAIRS {
            return Self {
                hi: self.hi + other.hi,
                lo: 0.0,
            };
        }
        let Self { hi, lo: error } = Self::two_sum(self.hi, other.hi);
        Self {
            hi,
            lo: (self.lo + other.lo) + error,
        }
    }

    /// Exact where `factor` is a power of two and nothing underflows.
    #[inline(always)]
    pub fn times(self, factor: f32) -> Self {
        Self {
            hi: self.hi * factor,
            lo: self.lo * factor,
        }
    }
}

/// What part of a row knows: its maximum and its sum of exponentials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partial {
    /// The largest element; -inf where the part has none, NaN where one of them is NaN.
    pub max: f32,
    /// Sum of `e^x * 2^(BIAS - K)`, K being the exponent of `max`; 0 unless [`Partial::can_refer`].
    pub sum: Pair,
}

impl Partial {
    /// The part without elements: merging it changes no bit.
    pub const EMPTY: Self = Self {
        max: f32::NEG_INFINITY,
        sum: Pair::ZERO,
    };

    /// The part whose largest element is `max`, its exponentials relative to that having this sum; anything where they
    /// cannot be taken.
    #[inline(always)]
    pub fn of(max: f32, sum: Pair) -> Self {
        Self {
            max,
            sum: if Self::can_refer(max) {
                sum
            } else {
                Pair::ZERO
            },
        }
    }

    /// The sum, brought from the scale of its own maximum to that of `max`, which is no smaller.
    #[inline(always)]
    pub fn sum_relative_to(self, max: f32) -> Pair {
        self.sum
            .times(power_of_two(exponent_of(self.max) - exponent_of(max)))
    }

    /// What both parts know together. The same bits either way round.
    #[inline(always)]
    pub fn merge(self, other: Self) -> Self {
        let max = max_nan(self.max, other.max);
        Self {
            max,
            sum: self
                .sum_relative_to(max)
                .plus::<Full>(other.sum_relative_to(max)),
        }
    }

    /// Whether exponentials can be taken relative to `max`.
    #[inline(always)]
    pub fn can_refer(max: f32) -> bool {
        max.abs() < REFERENCE_LIMIT
    }
}

/// What becomes of a row, once the whole of it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Every result is this one value.
    Fill(f32),
    /// Every result is its exponential over the sum of the exponentials.
    Normalise(Normaliser),
}

/// One over a sum, to twice the precision of f32: `hi + lo`. So a single live element gives exactly 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reciprocal {
    hi: f32,
    /// 0, or at least 2^-34 of `hi`: the factors made from it stay normal.
    lo: f32,
}

impl Reciprocal {
    #[inline(always)]
    fn of(sum: Pair) -> Self {
        let hi = 1.0 / (sum.hi + sum.lo);
        // One Newton step for the rest. `LAST_BIT` rounds it to a multiple of 2^-34.
        const LAST_BIT: f32 = 1.5 / 2048.0;
        let missing = fma(-sum.lo, hi, fma(-sum.hi, hi, 1.0));
        Self {
            hi,
            lo: ((missing + LAST_BIT) - LAST_BIT) * hi,
        }
    }
}

impl Outcome {
    /// Whether a row with this maximum has to be taken less its maximum: the maximum is too large to
    /// take exponentials directly, and finite. Every difference that matters is then exact.
    #[inline(always)]
    pub fn needs_shift(row_max: f32) -> bool {
        row_max.abs() >= DIRECT_LIMIT && row_max.abs() < f32::INFINITY
    }

    /// The outcome of a row of `cols` elements that `whole` is the partial of, for exponentials
    /// relative to the row's maximum.
    #[inline(always)]
    pub fn of(whole: Partial, cols: u32, options: &Options) -> Self {
        if whole.max.abs() < f32::INFINITY {
            Self::Normalise(Normaliser {
                power: 1.0,
                factor: Reciprocal::of(whole.sum),
            })
        } else if whole.max == f32::NEG_INFINITY {
            Self::Fill(Self::of_nothing(cols, options))
        } else {
            Self::Fill(f32::NAN)
        }
    }

    /// Every result of a row of `cols` elements with nothing left.
    #[inline(always)]
    fn of_nothing(cols: u32, options: &Options) -> f32 {
        match options.fully_masked {
            FullyMasked::Zero => 0.0,
            FullyMasked::Uniform => 1.0 / cols as f32,
            FullyMasked::Nan => f32::NAN,
        }
    }

    /// [`Outcome::of`] for exponentials relative to a part's maximum, with one branch, and what need not wait for the sum
    /// before what does.
    #[inline(always)]
    pub fn of_part(whole: Partial, part_max: f32, cols: u32, options: &Options) -> Self {
        if whole.max.abs() < f32::INFINITY && Partial::can_refer(part_max) {
            let part = PartFactors::new(part_max, whole.max);
            Self::Normalise(part.normaliser(Reciprocal::of(whole.sum)))
        } else if whole.max == f32::NEG_INFINITY {
            Self::Fill(Self::of_nothing(cols, options))
        } else if whole.max < f32::INFINITY {
            // A part without elements, or as far below the rest as that.
            Self::Fill(0.0)
        } else {
            Self::Fill(f32::NAN)
        }
    }

    /// The result for an exponential, as a word.
    #[inline(always)]
    pub fn result<Out: Element, A: Accuracy>(self, e: f32) -> Out::Word {
        match self {
            Self::Normalise(normaliser) => Out::narrow(normaliser.apply::<A>(e)),
            Self::Fill(value) => Out::narrow_any(value),
        }
    }

    /// The same, for exponentials relative to a part's maximum.
    #[inline(always)]
    pub fn for_part(self, part_max: f32, whole_max: f32) -> Self {
        match self {
            Self::Fill(value) => Self::Fill(value),
            // A part without elements, or as far below the rest as that: all its results are 0.
            Self::Normalise(_) if !Partial::can_refer(part_max) => Self::Fill(0.0),
            Self::Normalise(whole) => Self::Normalise(whole.for_part(part_max, whole_max)),
        }
    }
}

/// Factors that take exponentials relative to one part's maximum to results.
///
/// A result is rounded once: unless it is 0, multiplying by the first factor, a power of two, is
/// exact, and the others are normal. So a result has the same bits whatever part its exponential was
/// taken in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normaliser {
    power: f32,
    factor: Reciprocal,
}

/// Powers of two from the whole row's scale to a part's: to multiply the exponentials by, and the reciprocal.
#[derive(Clone, Copy)]
struct PartFactors {
    power: f32,
    in_factor: f32,
}

impl PartFactors {
    #[inline(always)]
    fn new(part_max: f32, whole_max: f32) -> Self {
        // That far below the maximum all results are 0.
        let distance = (exponent_of(part_max) - exponent_of(whole_max)).max(-CUTOFF);
        // The reciprocal has the bias, 2^-30, up to 2^-32 for 2^31 columns, and 34 bits in `lo`: 30 more
        // powers of two leave it normal.
        let in_power = if distance >= -30.0 {
            0.0
        } else {
            distance.max(-126.0)
        };
        Self {
            power: power_of_two(in_power),
            in_factor: power_of_two(distance - in_power),
        }
    }

    /// The factors for the part, from that for the whole row.
    #[inline(always)]
    fn normaliser(self, whole: Reciprocal) -> Normaliser {
        Normaliser {
            power: self.power,
            factor: Reciprocal {
                hi: whole.hi * self.in_factor,
                lo: whole.lo * self.in_factor,
            },
        }
    }
}

impl Normaliser {
    /// From factors for the whole row's scale to those for a part's.
    #[inline(always)]
    fn for_part(self, part_max: f32, whole_max: f32) -> Self {
        PartFactors::new(part_max, whole_max).normaliser(self.factor)
    }

    /// Whether exponentials have to go through [`Normaliser::rescale`] first: not so for parts whose
    /// maximum is near the row's.
    #[inline(always)]
    pub fn rescales(self) -> bool {
        self.power != 1.0
    }

    /// An exponential brought nearer to the row's scale.
    #[inline(always)]
    pub fn rescale(self, e: f32) -> f32 {
        e * self.power
    }

    /// The result for an exponential. A short one needs no more than the reciprocal's high part.
    #[inline(always)]
    pub fn apply<A: Accuracy>(self, e: f32) -> f32 {
        if A::PAIRS {
            fma(e, self.factor.hi, e * self.factor.lo)
        } else {
            e * self.factor.hi
        }
    }
}
