//! The three types as numbers: rounding to them, and distances between them.

use half::{bf16, f16};
use warp_softmax::Element;

/// A type of tensor element, with what it takes to fill and to judge it.
pub trait Number: Element {
    /// A NaN whose bits no kernel writes; all its bytes are 0xff.
    const POISON: Self;
    /// Bits of precision, the leading one counted.
    const PRECISION: i32;
    /// Exponent of the smallest normal number.
    const MIN_EXPONENT: i32;
    /// Largest error of a result that is let pass, in units in the last place.
    const LIMIT_ULP: f64;

    /// The nearest number.
    fn round(value: f32) -> Self;

    /// The number itself.
    fn value(self) -> f64;

    /// Its bits, in the low end.
    fn bits(self) -> u32;

    /// Whether it is [`Number::POISON`].
    fn is_poison(self) -> bool {
        self.bits() == Self::POISON.bits()
    }

    /// How far this is from `exact`, in units in the last place of `exact`; NaN if this is NaN.
    fn error_ulp(self, exact: f64) -> f64 {
        // The exponent of a subnormal f64 reads as -1023, below every smallest exponent here.
        let exponent = ((exact.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let last_place = exponent.max(Self::MIN_EXPONENT) - (Self::PRECISION - 1);
        (self.value() - exact).abs() / f64::powi(2.0, last_place)
    }
}

impl Number for f32 {
    const POISON: Self = f32::from_bits(0xffff_ffff);
    const PRECISION: i32 = 24;
    const MIN_EXPONENT: i32 = -126;
    const LIMIT_ULP: f64 = 4.0;

    fn round(value: f32) -> Self {
        value
    }

    fn value(self) -> f64 {
        self.into()
    }

    fn bits(self) -> u32 {
        self.to_bits()
    }
}

macro_rules! sixteen_bits {
    ($type:ident, $precision:literal, $min_exponent:literal) => {
        impl Number for $type {
            const POISON: Self = $type::from_bits(0xffff);
            const PRECISION: i32 = $precision;
            const MIN_EXPONENT: i32 = $min_exponent;
            const LIMIT_ULP: f64 = 0.51;

            fn round(value: f32) -> Self {
                $type::from_f32(value)
            }

            fn value(self) -> f64 {
                self.to_f64()
            }

            fn bits(self) -> u32 {
                self.to_bits().into()
            }
        }
    };
}

sixteen_bits!(f16, 11, -14);
sixteen_bits!(bf16, 8, -126);

/// Calls a function that is generic over [`Number`] for the type that a [`DType`](warp_softmax::DType) is.
macro_rules! for_dtype {
    ($dtype:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $dtype {
            warp_softmax::DType::F32 => $function::<f32>($($argument),*),
            warp_softmax::DType::F16 => $function::<half::f16>($($argument),*),
            warp_softmax::DType::BF16 => $function::<half::bf16>($($argument),*),
        }
    };
}

pub(crate) use for_dtype;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_ulp_apart() {
        for value in [1.0f32, 1.5, 3e-3, 1e-37, 1e-39, f32::from_bits(1)] {
            let next = f32::from_bits(value.to_bits() + 1);
            assert_eq!(next.error_ulp(value.into()), 1.0, "{value:e}");
        }
        for bits in [1u16, 0x3ff, 0x400, 0x2345, 0x3c00] {
            let (value, next) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            assert_eq!(next.error_ulp(value.value()), 1.0, "{value}");
        }
        let (value, next) = (bf16::from_bits(0x3dcc), bf16::from_bits(0x3dcd));
        assert_eq!(next.error_ulp(value.value()), 1.0);
        assert!(f32::NAN.error_ulp(0.5).is_nan());
    }

    #[test]
    fn poison_is_a_nan_and_not_the_one_that_kernels_write() {
        assert!(f32::POISON.is_nan() && f16::POISON.is_nan() && bf16::POISON.is_nan());
        assert!(f32::POISON.is_poison() && !f32::from_bits(0x7fc0_0000).is_poison());
        assert!(bf16::POISON.is_poison() && !bf16::from_bits(0x7fc0).is_poison());
        assert!(f16::POISON.is_poison() && !f16::from_bits(0x7e00).is_poison());
    }
}
