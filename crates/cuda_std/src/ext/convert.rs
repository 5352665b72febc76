//! f16 and bf16, as their bits in `u16`, to and from f32; and the larger of two pairs of them.
//!
//! Rounding is to nearest even; subnormals are kept; overflow gives infinity. NaN: conversions to 16 bits
//! give `0x7fff`, whatever the input's payload and sign, on both targets, as the device's instructions do;
//! conversions to f32 are described at each function.

/// The NaN that the device's conversions to 16 bits return, the same for both types.
#[cfg(not(target_arch = "nvptx64"))]
const CANONICAL_NAN: u16 = 0x7fff;

#[cfg(target_arch = "nvptx64")]
macro_rules! convert {
    ($mnemonic:literal, $out_class:ident $out:ty, $in_class:ident, $($operand:ident),+) => {{
        let result: $out;
        // SAFETY: register arithmetic, defined for every operand.
        unsafe {
            core::arch::asm!(
                concat!($mnemonic, " {result}" $(, ", {", stringify!($operand), "}")+, ";"),
                result = out($out_class) result,
                $($operand = in($in_class) $operand,)+
                options(pure, nomem, nostack),
            );
        }
        result
    }};
}

/// The f32 of an f16, exactly. A NaN has unspecified payload and sign.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    by_target! {
        device: convert!("cvt.f32.f16", reg32 f32, reg16, bits),
        host: {
            let sign = (bits as u32 & 0x8000) << 16;
            let magnitude = bits as u32 & 0x7fff;
            if magnitude >= 0x7c00 {
                // Infinity or NaN: the exponent becomes all ones too.
                f32::from_bits(sign | 0x7f80_0000 | (magnitude & 0x3ff) << 13)
            } else {
                // As an f32 the same bits are 2^112 times too small, subnormal or not, and the product is exact.
                let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
                f32::from_bits(sign | scaled.to_bits())
            }
        },
    }
}

/// The f16 nearest to `value`. NaN gives `0x7fff`.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    by_target! {
        device: convert!("cvt.rn.f16.f32", reg16 u16, reg32, value),
        host: {
            if value.is_nan() {
                return CANONICAL_NAN;
            }
            let sign = (value.to_bits() >> 16) as u16 & 0x8000;
            let magnitude = value.abs();
            if magnitude >= 65520.0 {
                // Half a unit above the largest f16, or more.
                return sign | 0x7c00;
            }
            if magnitude < f32::from_bits((127 - 14) << 23) {
                // Subnormal: adding 0.5, whose last place is 2^-24, rounds to the f16's last place.
                return sign | (magnitude + 0.5).to_bits() as u16;
            }
            // 13 bits go; adding just under half, and the last bit that stays, rounds to even. The exponent's
            // bias falls by 112.
            let bits = magnitude.to_bits();
            let rounded = bits + 0xfff + ((bits >> 13) & 1);
            sign | ((rounded - (112 << 23)) >> 13) as u16
        },
    }
}

/// The f32 of a bf16, exactly: its bits above 16 zeros, NaN included.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The bf16 nearest to `value`. NaN gives `0x7fff`.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    by_target! {
        device: convert!("cvt.rn.bf16.f32", reg16 u16, reg32, value),
        host: {
            if value.is_nan() {
                return CANONICAL_NAN;
            }
            // Adding just under half, and the last bit that stays, rounds to even; the carry runs into the
            // exponent and, past the largest, into infinity.
            let bits = value.to_bits();
            ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
        },
    }
}

/// The f16s nearest to `lo` and `hi`, in the low and high half. NaN gives `0x7fff`.
#[inline(always)]
pub fn f32x2_to_f16x2(lo: f32, hi: f32) -> u32 {
    by_target! {
        device: convert!("cvt.rn.f16x2.f32", reg32 u32, reg32, hi, lo),
        host: f32_to_f16(lo) as u32 | (f32_to_f16(hi) as u32) << 16,
    }
}

/// The bf16s nearest to `lo` and `hi`, in the low and high half. NaN gives `0x7fff`.
#[inline(always)]
pub fn f32x2_to_bf16x2(lo: f32, hi: f32) -> u32 {
    by_target! {
        device: convert!("cvt.rn.bf16x2.f32", reg32 u32, reg32, hi, lo),
        host: f32_to_bf16(lo) as u32 | (f32_to_bf16(hi) as u32) << 16,
    }
}

/// The larger f16 of each half; NaN (`0x7fff`) where either is NaN; +0 is above -0. Subnormals are kept.
#[inline(always)]
pub fn max_nan_f16x2(a: u32, b: u32) -> u32 {
    by_target! {
        device: convert!("max.NaN.f16x2", reg32 u32, reg32, a, b),
        host: max_nan_halves(a, b, f16_to_f32, f32_to_f16),
    }
}

/// The larger bf16 of each half; NaN (`0x7fff`) where either is NaN; +0 is above -0. Subnormals are kept.
#[inline(always)]
pub fn max_nan_bf16x2(a: u32, b: u32) -> u32 {
    by_target! {
        device: convert!("max.NaN.bf16x2", reg32 u32, reg32, a, b),
        host: max_nan_halves(a, b, bf16_to_f32, f32_to_bf16),
    }
}

/// The larger value of each half, by way of f32, which has them all.
#[cfg(not(target_arch = "nvptx64"))]
fn max_nan_halves(a: u32, b: u32, widen: fn(u16) -> f32, narrow: fn(f32) -> u16) -> u32 {
    let larger = |shift: u32| {
        let max = super::math::max_nan(widen((a >> shift) as u16), widen((b >> shift) as u16));
        u32::from(narrow(max)) << shift
    };
    larger(0) | larger(16)
}
