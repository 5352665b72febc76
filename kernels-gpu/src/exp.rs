//! The exponential, in plain IEEE f32 operations, relative to a power of two.
//!
//! With `n = rint(x * log2 e)` and `r = x - n * ln 2`, `e^x = p(r) * 2^n` where `p` is a polynomial
//! on |r| <= ln 2 / 2 (Cody and Waite, *Software Manual for the Elementary Functions*, 1980).
//! That is [`Full`]; for 16-bit results `r = x * LOG2_E - n` and `p(r) = 2^r` on |r| <= 1/2, `LOG2_E` being log2 e rounded
//! to f32. [`Fast`] alone is the GPU's own exponential.
//!
//! A [`Reference`] is the integer K that a chunk's maximum rounds to, and what is computed is
//! `e^x * 2^(BIAS - K)`. The polynomial's bits do not depend on K: K only moves the exponent, so
//! results relative to different references differ by an exact power of two. `BIAS` keeps every term
//! normal down to 2^-154 of the maximum; what is smaller, or nothing at all, counts as that, which
//! is too little to change any sum, and in any result rounds to 0.

use cuda_std::ext::math::{ex2_approx, fma};

/// log2(e), rounded to f32.
const LOG2_E: f32 = f32::from_bits(0x3fb8_aa3b);
/// ln(2), rounded to f32, and what the rounding left.
const LN_2: f32 = f32::from_bits(0x3f31_7218);
const LN_2_REST: f32 = f32::from_bits(0xb102_e308);
/// 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;
/// Exponent given to the maximum, so that terms far below it are still normal numbers.
pub const BIAS: f32 = 30.0;
/// Terms below 2^-CUTOFF of the maximum are raised to that: results of 2^-152 of the maximum are 0 already.
pub const CUTOFF: f32 = 154.0;

/// Inputs of at least this magnitude are exponentiated relative to their row's maximum instead of
/// directly. Below it `n` is right to within 0.5013, and `x - n * ln 2` loses nothing: the first product's
/// bits stop at 2^-21, and the rest of ln 2 is known to 2^-55.
pub const DIRECT_LIMIT: f32 = 65_536.0;

/// Parts are referred to up to this magnitude: a part that is beyond it, in a row that is not beyond
/// [`DIRECT_LIMIT`], is so far below the row's maximum that its terms are 0.
pub const REFERENCE_LIMIT: f32 = DIRECT_LIMIT + 256.0;

/// The integer K nearest to `log2(e^max)`, as an f32; -inf, +inf and NaN stay what they are.
#[inline(always)]
pub fn exponent_of(max: f32) -> f32 {
    fma(max, LOG2_E, ROUND) - ROUND
}

/// `2^d` for an integer `d <= 0`; 0 below -126, and where `d` is -inf or NaN.
#[inline(always)]
pub fn power_of_two(d: f32) -> f32 {
    if d >= -126.0 {
        f32::from_bits(((d + ROUND).to_bits() << 23).wrapping_add(0x3f80_0000))
    } else {
        0.0
    }
}

/// The power of two that terms are taken relative to.
#[derive(Clone, Copy)]
pub struct Reference {
    /// ROUND + BIAS - K.
    offset: f32,
    /// Inputs below this count as this.
    cutoff: f32,
}

impl Reference {
    /// The reference of a chunk whose largest element is `max`, with |max| < [`REFERENCE_LIMIT`].
    #[inline(always)]
    pub fn of_max(max: f32) -> Self {
        let exponent = exponent_of(max);
        Self {
            offset: ROUND + (BIAS - exponent),
            cutoff: (exponent - CUTOFF) * LN_2,
        }
    }

    /// `(n + BIAS - K + ROUND, n)` for the `n` nearest to `x * log2 e`.
    ///
    /// The fused sum rounds at 1, and never to a tie, so `n` is the same for every K.
    #[inline(always)]
    fn split(self, x: f32) -> (f32, f32) {
        let shifted = fma(x, LOG2_E, self.offset);
        (shifted, shifted - self.offset)
    }

    /// `x`, or the cutoff where `x` is below it: an exponential of 2^-CUTOFF instead of a smaller one, or of
    /// none for -inf. Sums have the maximum's term, which leaves no bit for 2^31 of these.
    #[inline(always)]
    fn clamp(self, x: f32) -> f32 {
        x.max(self.cutoff)
    }

    /// Whether `x` is near enough to the maximum for its exponential to be its own, and not the cutoff's.
    #[inline(always)]
    pub fn reaches(self, x: f32) -> bool {
        x >= self.cutoff
    }
}

/// `p * 2^(shifted - ROUND)`.
#[inline(always)]
fn scale(p: f32, shifted: f32) -> f32 {
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// How exact a kernel's exponentials and sums have to be; the type of the output decides, except for [`Fast`].
pub trait Accuracy {
    /// Whether sums within a chunk are pairs (high part, low part) or plain f32.
    const PAIRS: bool;

    /// Whether an exponential's bits depend on its reference: then sums are of those relative to the chunk's
    /// maximum, and results are made from new ones relative to the row's, whatever the way.
    const TWICE: bool = false;

    /// `e^x * 2^(BIAS - K)`; `x` is at most the maximum that `reference` was made from.
    fn exp(x: f32, reference: Reference) -> f32;
}

/// For f32 results: the exponential within 1 ulp.
pub struct Full;

/// For f16 results: the exponential within 3e-7, of a base within 1.4e-8 of e, relatively.
///
/// The base is `2^LOG2_E`, that is `e^(1 - 1.4e-8)`. In a quotient that is an error of 1.4e-8 for each unit between an
/// element and the maximum: next to nothing where the result is not 0 anyway. So is the base of all 16-bit results.
pub struct Half;

/// For bf16 results: the exponential within 3e-6, of the base that [`Half`] has.
pub struct Short;

/// For 16-bit results of long rows, where the arithmetic of the others takes longer than the memory: the
/// GPU's own exponential of the same base, within 1.6e-6 down to 2^-60 of the maximum and 6e-6
/// below. Its last bits are the device's.
pub struct Fast;

impl Accuracy for Fast {
    const PAIRS: bool = false;
    const TWICE: bool = true;

    #[inline(always)]
    fn exp(x: f32, reference: Reference) -> f32 {
        // What is far below the maximum, -inf too, comes out as 0.
        ex2_approx(fma(x, LOG2_E, reference.offset - ROUND))
    }
}

impl Full {
    /// What rounding to f32 took from [`Full::exp`] of an `x` that the reference reaches, but for the rounding of the
    /// polynomial's lesser terms: both together are right to within half as much as the exponential alone.
    #[inline(always)]
    pub fn rest(x: f32, reference: Reference) -> f32 {
        let (shifted, n) = reference.split(x);
        let r = fma(n, -LN_2_REST, fma(n, -LN_2, x));
        let q = Self::without_one(r);
        let p = fma(q, r, 1.0);
        // p is within a factor of two of 1, so that nothing is lost before the sum is rounded.
        fma(q, r, 1.0 - p) * scale(1.0, shifted)
    }

    /// `(e^r - 1) / r`.
    #[inline(always)]
    fn without_one(r: f32) -> f32 {
        // Minimax on |r| <= 0.3466 with the first two coefficients fixed at 1.
        let mut p = fma(0.001_381_422_2, r, 0.008_368_899);
        p = fma(p, r, 0.041_668_406);
        p = fma(p, r, 0.166_665_2);
        p = fma(p, r, 0.499_999_93);
        fma(p, r, 1.0)
    }
}

impl Accuracy for Full {
    const PAIRS: bool = true;

    #[inline(always)]
    fn exp(x: f32, reference: Reference) -> f32 {
        let x = reference.clamp(x);
        let (shifted, n) = reference.split(x);
        let r = fma(n, -LN_2_REST, fma(n, -LN_2, x));
        let p = fma(Self::without_one(r), r, 1.0);
        scale(p, shifted)
    }
}

/// What base-2 polynomials need: (n + BIAS - K + ROUND, r) with `x * LOG2_E = n + r`.
#[inline(always)]
fn split_base_2(x: f32, reference: Reference) -> (f32, f32) {
    let x = reference.clamp(x);
    let (shifted, n) = reference.split(x);
    (shifted, fma(x, LOG2_E, -n))
}

impl Accuracy for Half {
    const PAIRS: bool = false;

    #[inline(always)]
    fn exp(x: f32, reference: Reference) -> f32 {
        let (shifted, r) = split_base_2(x, reference);
        // Minimax of 2^r on |r| <= 0.5, relative error 7.6e-8.
        let mut p = fma(0.001_327_640_4, r, 0.009_675_61);
        p = fma(p, r, 0.055_507_14);
        p = fma(p, r, 0.240_221_19);
        p = fma(p, r, 0.693_146_97);
        p = fma(p, r, 1.0);
        scale(p, shifted)
    }
}

impl Accuracy for Short {
    const PAIRS: bool = false;

    #[inline(always)]
    fn exp(x: f32, reference: Reference) -> f32 {
        let (shifted, r) = split_base_2(x, reference);
        // Minimax of 2^r on |r| <= 0.5, relative error 2.6e-6.
        let mut p = fma(0.009_570_102, r, 0.055_917_86);
        p = fma(p, r, 0.240_247_45);
        p = fma(p, r, 0.693_121_8);
        p = fma(p, r, 0.999_999_3);
        scale(p, shifted)
    }
}
