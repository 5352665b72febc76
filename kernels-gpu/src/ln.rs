//! The natural logarithm, in plain IEEE f32 operations.
//!
//! With `x = 2^k f` and `f` within a factor of the square root of 2 of 1, `ln x = k ln 2 + 2 atanh w` where
//! `w = (f - 1) / (f + 1)`. The first term of the series, `2 w`, is kept as a pair; the others are less than a
//! hundredth of it, and plain f32.

use cuda_std::ext::math::fma;

use crate::online::Pair;

/// ln(2) to 12 bits, so that its products with exponents are exact, and what is left of it.
const LN_2: f32 = f32::from_bits(0x3f31_7000);
const LN_2_REST: f32 = f32::from_bits(0x3805_fdf4);

/// The square root of one half.
const LOWEST: u32 = 0x3f35_04f3;

/// `ln(hi + lo)` within 2^-27 of itself, for a normal `hi` from 2^-126 to 2^127 whose last place `lo` does not reach.
#[inline(always)]
pub fn ln_pair(x: Pair) -> Pair {
    let exponent = (x.hi.to_bits().wrapping_sub(LOWEST) as i32) >> 23;
    let to_one = f32::from_bits(127u32.wrapping_sub(exponent as u32) << 23);
    let f = x.times(to_one);
    // Exact: f is within a factor of two of 1.
    let above_one = Pair::two_sum(f.hi - 1.0, f.lo);
    let below = Pair::two_sum(2.0, above_one.hi);
    let w = above_one.hi / below.hi;
    let missing = fma(-w, below.hi, above_one.hi) + above_one.lo;
    let w_rest = fma(-w, below.lo + above_one.lo, missing) / below.hi;
    let square = w * w;
    let mut p = fma(1.0 / 13.0, square, 1.0 / 11.0);
    p = fma(p, square, 1.0 / 9.0);
    p = fma(p, square, 1.0 / 7.0);
    p = fma(p, square, 1.0 / 5.0);
    p = fma(p, square, 1.0 / 3.0);
    let rest = fma(2.0 * w, square * p, 2.0 * w_rest);
    let exponent = exponent as f32;
    let sum = Pair::two_sum(exponent * LN_2, 2.0 * w);
    Pair::two_sum(sum.hi, sum.lo + fma(exponent, LN_2_REST, rest))
}

/// `ln x` within 1 ulp, for a normal `x` below 2^127.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    ln_pair(Pair { hi: x, lo: 0.0 }).hi
}
