//! Conversions and arithmetic of the emulator against independent ones.

mod support;

use cuda_std::ext::convert::{
    bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, f32x2_to_bf16x2, f32x2_to_f16x2,
    max_nan_bf16x2, max_nan_f16x2,
};
use cuda_std::ext::math::{div, fma, max_nan, min_nan, mul_hi_u32, opaque_u32, unchecked_div_u32};
use half::{bf16, f16};
use support::Random;

/// Edges of f32: zeros, the smallest, around the normal and the largest, infinities, NaNs of every kind.
const EDGES: [u32; 18] = [
    0x0000_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7f80_0001,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0x807f_ffff,
    0x8080_0000,
    0xbf80_0000,
    0xff7f_ffff,
    0xff80_0000,
    0xff80_0001,
    0xffff_ffff,
];

#[test]
fn every_16_bit_value_to_f32() {
    for bits in 0..=u16::MAX {
        let (got, expected) = (f16_to_f32(bits), f16::from_bits(bits).to_f32());
        if expected.is_nan() {
            assert!(got.is_nan(), "f16 {bits:#06x}");
        } else {
            assert_eq!(got.to_bits(), expected.to_bits(), "f16 {bits:#06x}");
        }
        assert_eq!(
            bf16_to_f32(bits).to_bits(),
            u32::from(bits) << 16,
            "bf16 {bits:#06x}"
        );
    }
}

/// Checks both conversions of `value` against `half`, and NaN against the device's.
fn check_to_16_bits(value: f32) {
    let (f, b) = if value.is_nan() {
        (0x7fff, 0x7fff)
    } else {
        (
            f16::from_f32(value).to_bits(),
            bf16::from_f32(value).to_bits(),
        )
    };
    assert_eq!(f32_to_f16(value), f, "f16 of {:#010x}", value.to_bits());
    assert_eq!(f32_to_bf16(value), b, "bf16 of {:#010x}", value.to_bits());
    let other = 1.5f32;
    let pair = f32x2_to_f16x2(value, other);
    assert_eq!(pair, u32::from(f) | u32::from(f32_to_f16(other)) << 16);
    let pair = f32x2_to_bf16x2(other, value);
    assert_eq!(pair, u32::from(f32_to_bf16(other)) | u32::from(b) << 16);
}

#[test]
fn f32_to_16_bits_around_every_value_and_tie() {
    for bits in 0..=u16::MAX {
        for low in [
            f16::from_bits(bits).to_f32(),
            bf16::from_bits(bits).to_f32(),
        ] {
            // The tie above a value is exact in f32: half of the last place of the narrow type.
            let next = [
                f16::from_bits(bits.wrapping_add(1)).to_f32(),
                bf16::from_bits(bits.wrapping_add(1)).to_f32(),
            ];
            for value in [
                low,
                low + (next[0] - low) / 2.0,
                low + (next[1] - low) / 2.0,
            ] {
                for neighbour in [-1, 0, 1] {
                    check_to_16_bits(f32::from_bits(
                        value.to_bits().wrapping_add_signed(neighbour),
                    ));
                }
            }
        }
    }
}

#[test]
fn f32_to_16_bits_of_edges_and_random_values() {
    let mut random = Random::new(4);
    // Around the ends of f16: half its smallest, its smallest normal, its largest and half a unit above.
    for edge in [
        2f32.powi(-25),
        2f32.powi(-24),
        2f32.powi(-14),
        65504.0,
        65520.0,
        3.4e38,
    ] {
        for distance in -3..=3 {
            let value = f32::from_bits(edge.to_bits().wrapping_add_signed(distance));
            check_to_16_bits(value);
            check_to_16_bits(-value);
        }
    }
    for bits in EDGES {
        check_to_16_bits(f32::from_bits(bits));
    }
    for _ in 0..1_000_000 {
        check_to_16_bits(f32::from_bits(random.next() as u32));
    }
}

/// Operands: all pairs of edges, then random bits.
fn pairs() -> impl Iterator<Item = (f32, f32)> {
    let edges = EDGES.map(f32::from_bits);
    let edges = edges.into_iter().flat_map(move |a| edges.map(|b| (a, b)));
    let mut random = Random::new(5);
    let random = (0..100_000).map(move |_| {
        let bits = random.next();
        (
            f32::from_bits(bits as u32),
            f32::from_bits((bits >> 32) as u32),
        )
    });
    edges.chain(random)
}

#[test]
fn max_and_min_order_zeros_and_propagate_nan() {
    /// Orders the numbers, -0 below +0.
    fn rank(value: f32) -> i64 {
        let magnitude = i64::from(value.to_bits() & 0x7fff_ffff);
        if value.is_sign_negative() {
            -magnitude - 1
        } else {
            magnitude
        }
    }
    for (a, b) in pairs() {
        let (max, min) = (max_nan(a, b).to_bits(), min_nan(a, b).to_bits());
        if a.is_nan() || b.is_nan() {
            assert_eq!((max, min), (0x7fff_ffff, 0x7fff_ffff));
        } else {
            let (low, high) = if rank(a) <= rank(b) { (a, b) } else { (b, a) };
            assert_eq!((max, min), (high.to_bits(), low.to_bits()), "{a:?} {b:?}");
        }
    }
}

#[test]
fn max_of_each_half_is_that_of_the_numbers() {
    type Larger = fn(u32, u32) -> u32;
    type Value = fn(u16) -> f32;
    let kinds: [(Larger, Value); 2] = [
        (max_nan_f16x2, |bits| f16::from_bits(bits).to_f32()),
        (max_nan_bf16x2, |bits| bf16::from_bits(bits).to_f32()),
    ];
    for (larger, value) in kinds {
        let largest = |a: u16, b: u16| match max_nan(value(a), value(b)) {
            max if max.is_nan() => 0x7fff,
            max if max.to_bits() == value(a).to_bits() => a,
            _ => b,
        };
        let mut random = Random::new(5);
        for bits in 0..=u16::MAX {
            let [a, b, c] = [bits, random.next() as u16, bits ^ 0x8000];
            let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
            assert_eq!(
                larger(pair(a, b), pair(b, c)),
                pair(largest(a, b), largest(b, c)),
                "{a:#06x} {b:#06x} {c:#06x}"
            );
        }
    }
}

#[test]
fn fma_rounds_once() {
    let same = |got: f32, expected: f32| {
        got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan())
    };
    for (a, b) in pairs() {
        for c in [0.0, -0.0, 1.0, -a * b, a, f32::INFINITY, f32::NAN, 1e-45] {
            assert!(
                same(fma(a, b, c), f32::mul_add(a, b, c)),
                "{a:?} {b:?} {c:?}"
            );
        }
    }
    // 1 + 2^-23 squared, less its rounded self, is 2^-46; rounding the product first would give 0.
    let a = 1.0 + f32::EPSILON;
    assert_eq!(fma(a, a, -(a * a)), 2f32.powi(-46));
}

#[test]
fn division_and_integers() {
    assert_eq!(div(1.0, 3.0), 1.0 / 3.0);
    assert_eq!(div(1.0, -0.0), f32::NEG_INFINITY);
    // SAFETY: no divisor is 0.
    unsafe {
        assert_eq!(unchecked_div_u32(u32::MAX, 3), u32::MAX / 3);
        assert_eq!(unchecked_div_u32(2, 3), 0);
    }
    assert_eq!(mul_hi_u32(u32::MAX, u32::MAX), u32::MAX - 1);
    assert_eq!(mul_hi_u32(1 << 16, 1 << 16), 1);
    assert_eq!(mul_hi_u32(1 << 16, 1 << 15), 0);
    assert_eq!(opaque_u32(7), 7);
}
