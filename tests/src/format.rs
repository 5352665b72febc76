//! What the tests know of a data type, kept apart from the library's own knowledge: how its bits
//! read as a value, how far apart its neighbours are, and how exact results of it have to be.

use half::{bf16, f16};
use warp_softmax::DType;

use crate::settings;

/// All pairs of input and output type that softmax has: the same on both sides, or one of them f32.
pub const PAIRS: [(DType, DType); 7] = [
    (DType::F32, DType::F32),
    (DType::F16, DType::F16),
    (DType::BF16, DType::BF16),
    (DType::F16, DType::F32),
    (DType::BF16, DType::F32),
    (DType::F32, DType::F16),
    (DType::F32, DType::BF16),
];

/// Those of [`PAIRS`] that a run is for: all, unless `WARP_SOFTMAX_TYPES` names some.
pub fn pairs() -> Vec<(DType, DType)> {
    let are_run = |types: &(DType, DType)| settings::runs_types(*types);
    PAIRS.into_iter().filter(are_run).collect()
}

/// Those of [`pairs`] that are the same on both sides.
pub fn same_types() -> impl Iterator<Item = (DType, DType)> {
    pairs()
        .into_iter()
        .filter(|(input, output)| input == output)
}

/// A binary floating-point format. Elements travel as their bits, in the low end of a `u32`.
pub trait Format: Copy {
    /// Significant bits, the hidden one included.
    fn precision(self) -> i32;

    /// Exponent of the smallest normal number.
    fn min_exponent(self) -> i32;

    /// Largest finite value.
    fn largest(self) -> f32;

    /// The one NaN that results may have.
    fn canonical_nan(self) -> u32;

    /// Largest error of a result, in units in the last place of the exact value.
    fn tolerance_ulp(self) -> f64;

    /// The bits nearest to `value`, ties to even.
    fn bits(self, value: f32) -> u32;

    /// The value of `bits`.
    fn value(self, bits: u32) -> f32;

    /// The bits nearest to `value` among finite ones; infinities and NaN stay what they are.
    fn finite_bits(self, value: f32) -> u32 {
        if value.is_finite() {
            self.bits(value.clamp(-self.largest(), self.largest()))
        } else {
            self.bits(value)
        }
    }

    /// The distance of neighbouring numbers at `value`: in its binade, or among subnormals.
    fn ulp(self, value: f64) -> f64 {
        // A subnormal f64 reads as -1023 here, below every format's smallest exponent.
        let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let last_place = exponent.max(self.min_exponent()) - (self.precision() - 1);
        f64::from_bits(((last_place + 1023) as u64) << 52)
    }

    /// How far `bits` is from `exact`, in units in the last place of `exact`.
    fn error_ulp(self, bits: u32, exact: f64) -> f64 {
        (f64::from(self.value(bits)) - exact).abs() / self.ulp(exact)
    }
}

impl Format for DType {
    fn precision(self) -> i32 {
        match self {
            DType::F32 => 24,
            DType::F16 => 11,
            DType::BF16 => 8,
        }
    }

    fn min_exponent(self) -> i32 {
        match self {
            DType::F32 | DType::BF16 => -126,
            DType::F16 => -14,
        }
    }

    fn largest(self) -> f32 {
        match self {
            DType::F32 => f32::MAX,
            DType::F16 => f16::MAX.to_f32(),
            DType::BF16 => bf16::MAX.to_f32(),
        }
    }

    fn canonical_nan(self) -> u32 {
        match self {
            DType::F32 => 0x7fc0_0000,
            DType::F16 => 0x7e00,
            DType::BF16 => 0x7fc0,
        }
    }

    fn tolerance_ulp(self) -> f64 {
        match self {
            DType::F32 => 4.0,
            DType::F16 | DType::BF16 => 0.51,
        }
    }

    fn bits(self, value: f32) -> u32 {
        match self {
            DType::F32 => value.to_bits(),
            DType::F16 => u32::from(f16::from_f32(value).to_bits()),
            DType::BF16 => u32::from(bf16::from_f32(value).to_bits()),
        }
    }

    fn value(self, bits: u32) -> f32 {
        match self {
            DType::F32 => f32::from_bits(bits),
            DType::F16 => f16::from_bits(bits as u16).to_f32(),
            DType::BF16 => bf16::from_bits(bits as u16).to_f32(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ulp_is_the_distance_to_the_next_number() {
        for dtype in DType::ALL {
            for bits in [1, 2, 0x33, 0x3ff, 0x400, 0x401, 0x3c00, 0x3555, 0x3f80] {
                let (here, next) = (dtype.value(bits), dtype.value(bits + 1));
                let distance = f64::from(next) - f64::from(here);
                assert_eq!(dtype.ulp(f64::from(here)), distance, "{dtype:?} {bits:#x}");
            }
            // Below the smallest number, and at 0, it is still the smallest number.
            let smallest = f64::from(dtype.value(1));
            assert_eq!(dtype.ulp(0.0), smallest);
            assert_eq!(dtype.ulp(smallest / 1e6), smallest);
            assert_eq!(dtype.ulp(f64::from_bits(1)), smallest);
        }
    }

    #[test]
    fn rounding_errs_by_half_an_ulp_at_most() {
        for dtype in DType::ALL {
            for i in 1..2000 {
                let value = (i as f32 * -0.05).exp();
                let error = dtype.error_ulp(dtype.bits(value), f64::from(value));
                assert!(error <= 0.5, "{dtype:?} {value:e}: {error}");
            }
            // One number off is one ulp.
            let one = dtype.bits(1.0);
            assert_eq!(dtype.error_ulp(one + 1, 1.0), 1.0);
        }
    }

    #[test]
    fn finite_bits_are_finite() {
        for dtype in DType::ALL {
            assert_eq!(
                dtype.value(dtype.finite_bits(1e38)),
                dtype.largest().min(dtype.value(dtype.bits(1e38)))
            );
            assert_eq!(dtype.value(dtype.finite_bits(f32::MIN)), -dtype.largest());
            assert_eq!(
                dtype.value(dtype.finite_bits(f32::NEG_INFINITY)),
                f32::NEG_INFINITY
            );
            assert!(dtype.value(dtype.finite_bits(f32::NAN)).is_nan());
        }
    }

    #[test]
    fn the_canonical_nan_is_a_quiet_nan() {
        for dtype in DType::ALL {
            assert!(dtype.value(dtype.canonical_nan()).is_nan());
            assert_eq!(
                dtype.bits(f32::from_bits(0x7fc0_0000)),
                dtype.canonical_nan()
            );
        }
    }
}
