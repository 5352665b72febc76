//! The hyperbolic tangent, in plain IEEE f32 operations.

use cuda_std::ext::math::fma;

use crate::exp::{Accuracy, Full, Reference};
use crate::online::Pair;

/// `1 / x` within some units in the last place, for a normal `x` whose inverse is normal: by Newton's method, from an
/// eighth off. In a kernel, `x / y` calls a function for rare operands, and registers are kept free for it throughout.
#[inline(always)]
fn about_one_over(x: f32) -> f32 {
    let mut inverse = f32::from_bits(0x7ef3_11c7u32.wrapping_sub(x.to_bits()));
    inverse = fma(fma(-x, inverse, 1.0), inverse, inverse);
    inverse = fma(fma(-x, inverse, 1.0), inverse, inverse);
    inverse = fma(fma(-x, inverse, 1.0), inverse, inverse);
    fma(fma(-x, inverse, 1.0), inverse, inverse)
}

/// `cap * tanh(z / cap)`, where `inverse` is `1 / cap` rounded: the quotient correctly rounded if it is neither very large nor
/// very small, then the tangent within 1 ulp, then the product rounded.
#[inline(always)]
pub fn soft_cap(z: f32, cap: f32, inverse: f32) -> f32 {
    let near = z * inverse;
    // Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990, theorem 5.
    let quotient = fma(fma(-near, cap, z), inverse, near);
    // Not of infinity, of which nothing can be taken.
    let quotient = if near.abs() < ONE_FROM {
        quotient
    } else {
        near
    };
    cap * tanh(quotient)
}

/// Below this the series in `x` is shorter than the exponential.
const SERIES_LIMIT: f32 = 0.55;
/// From here on the result rounds to 1.
const ONE_FROM: f32 = 10.0;

/// `tanh x` within 1 ulp; the sign of 0 is kept.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let magnitude = if a >= SERIES_LIMIT {
        // 1 - 2 / (e^2a + 1), numerator and denominator times e^0 as the exponential has it.
        let reference = Reference::of_max(0.0);
        let one = Full::exp(0.0, reference);
        let e = Full::exp(2.0 * a.min(ONE_FROM), reference);
        let below = Pair::two_sum(e, one);
        let inverse = about_one_over(below.hi);
        let quotient = 2.0 * one * inverse;
        let missing = fma(-quotient, below.hi, 2.0 * one);
        let rest = fma(-quotient, below.lo, missing) * inverse;
        let result = Pair::two_sum(1.0, -quotient);
        result.hi + (result.lo - rest)
    } else {
        // Minimax of (tanh x / x - 1) / x^2, error 4e-10. A NaN comes here, and stays one.
        let square = a * a;
        let mut p = fma(0.002_526_109, square, -0.008_526_141);
        p = fma(p, square, 0.021_818_403);
        p = fma(p, square, -0.053_964_696);
        p = fma(p, square, 0.133_333_24);
        p = fma(p, square, -0.333_333_33);
        fma(a * square, p, a)
    };
    magnitude.copysign(x)
}
