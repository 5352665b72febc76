//! The data types: f32, IEEE half and bfloat16. What differs between them stands here alone.

use cuda_std::ext::convert::{
    bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, f32x2_to_bf16x2, f32x2_to_f16x2,
    max_nan_bf16x2, max_nan_f16x2,
};
use cuda_std::ext::math::max_nan;
use cuda_std::ext::{Global, Shared, U32x2, U32x4, Word};

use crate::exp::{Accuracy, Full, Half, Short};

/// A type of tensor element. Arithmetic is in f32 whatever the type.
pub trait Element: Copy {
    /// The bits as they lie in memory.
    type Word: Word;
    /// What results of this type ask of the arithmetic.
    type Accuracy: Accuracy;
    /// Elements in 16 bytes.
    const VECTOR: usize;

    /// The value of a word.
    fn widen(word: Self::Word) -> f32;

    /// The quiet NaN that results have.
    const NAN: Self::Word;
    /// Sixteen bytes of -inf.
    const NOTHING: U32x4;

    /// The word nearest to a value that is not NaN, ties to even.
    fn narrow(value: f32) -> Self::Word;

    /// The word nearest to any value; [`Element::NAN`] for a NaN.
    #[inline(always)]
    fn narrow_any(value: f32) -> Self::Word {
        if value.is_nan() {
            Self::NAN
        } else {
            Self::narrow(value)
        }
    }

    /// The values in a 32-bit word, lowest address first: one f32 and nothing, or two.
    fn unpack(word: u32) -> [f32; 2];

    /// The [`Element::VECTOR`] values in 16 bytes.
    fn unpack_wide<const V: usize>(words: U32x4) -> [f32; V];

    /// The 16 bytes of [`Element::VECTOR`] values, none of them NaN; of fewer, zeros after them.
    fn pack_wide<const V: usize>(values: [f32; V]) -> U32x4;

    /// The first `count` values of a 32-bit word, -inf after them.
    fn first_of(word: u32, count: u32) -> u32;

    /// The largest of the values in these vectors, NaN if one of them is; nothing where the words do not tell it sooner
    /// than the values.
    fn largest<const STEPS: usize>(vectors: &[U32x4; STEPS]) -> Option<f32>;

    /// Loads 16 bytes: [`Element::VECTOR`] values.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the 16 bytes at `from` are readable.
    /// * **aligned**: `from` is a multiple of 16 bytes.
    #[inline(always)]
    #[track_caller]
    unsafe fn load_wide<const V: usize>(from: Global<Self::Word>) -> [f32; V] {
        // SAFETY: in-bounds, aligned: the caller's.
        Self::unpack_wide(unsafe { from.cast().load() })
    }

    /// Stores `V` adjacent values, none of them NaN, in accesses of up to 16 bytes.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: `V` words at `to` are writable.
    /// * **aligned**: `to` is a multiple of 16 bytes, or of the `V` words' size if that is less.
    unsafe fn store_wide<const V: usize>(to: Global<Self::Word>, values: [f32; V]);

    /// The same, to shared memory.
    ///
    /// # Safety
    ///
    /// As for [`Element::store_wide`], and no other lane touches the words until a barrier after this.
    unsafe fn put_wide<const V: usize>(to: Shared<Self::Word>, values: [f32; V]);
}

/// IEEE binary32.
#[derive(Clone, Copy)]
pub struct F32;

/// IEEE binary16, in memory a `u16`.
#[derive(Clone, Copy)]
pub struct F16;

/// bfloat16, in memory a `u16`.
#[derive(Clone, Copy)]
pub struct Bf16;

impl Element for F32 {
    type Word = f32;
    type Accuracy = Full;
    const VECTOR: usize = 4;
    const NAN: f32 = f32::from_bits(0x7fc0_0000);
    const NOTHING: U32x4 = U32x4([0xff80_0000; 4]);

    #[inline(always)]
    fn widen(word: f32) -> f32 {
        word
    }

    #[inline(always)]
    fn narrow(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn unpack(word: u32) -> [f32; 2] {
        [f32::from_bits(word), 0.0]
    }

    #[inline(always)]
    fn unpack_wide<const V: usize>(U32x4(words): U32x4) -> [f32; V] {
        const { assert!(V == Self::VECTOR) };
        let mut values = [0.0; V];
        let mut i = 0;
        while i < V {
            values[i] = f32::from_bits(words[i]);
            i += 1;
        }
        values
    }

    #[inline(always)]
    fn pack_wide<const V: usize>(values: [f32; V]) -> U32x4 {
        U32x4([values[0], values[1], values[2], values[3]].map(f32::to_bits))
    }

    #[inline(always)]
    fn first_of(word: u32, count: u32) -> u32 {
        if count == 0 { Self::NOTHING.0[0] } else { word }
    }

    #[inline(always)]
    fn largest<const STEPS: usize>(_: &[U32x4; STEPS]) -> Option<f32> {
        None
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn store_wide<const V: usize>(to: Global<f32>, values: [f32; V]) {
        const { assert!(V.is_multiple_of(4)) };
        let mut i = 0;
        while i < V {
            let words = [values[i], values[i + 1], values[i + 2], values[i + 3]].map(f32::to_bits);
            // SAFETY: in-bounds, aligned: the caller's; `i` advances by 16 bytes.
            unsafe { to.at(i as u64).cast().store_streaming(U32x4(words)) };
            i += 4;
        }
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn put_wide<const V: usize>(to: Shared<f32>, values: [f32; V]) {
        const { assert!(V.is_multiple_of(4)) };
        let mut i = 0;
        while i < V {
            let words = [values[i], values[i + 1], values[i + 2], values[i + 3]].map(f32::to_bits);
            // SAFETY: in-bounds, aligned: the caller's; `i` advances by 16 bytes.
            unsafe { to.at(i as u32).cast().store(U32x4(words)) };
            i += 4;
        }
    }
}

/// What f16 and bf16 share: two elements in a 32-bit register.
macro_rules! sixteen_bits {
    ($type:ty, $accuracy:ty, $widen:ident, $narrow:ident, $narrow_pair:ident, $max_pair:ident, $nan:literal, $minus_infinity:literal) => {
        impl Element for $type {
            type Word = u16;
            type Accuracy = $accuracy;
            const VECTOR: usize = 8;
            const NAN: u16 = $nan;
            const NOTHING: U32x4 = U32x4([$minus_infinity; 4]);

            #[inline(always)]
            fn widen(word: u16) -> f32 {
                $widen(word)
            }

            #[inline(always)]
            fn narrow(value: f32) -> u16 {
                $narrow(value)
            }

            #[inline(always)]
            fn unpack(word: u32) -> [f32; 2] {
                [$widen(word as u16), $widen((word >> 16) as u16)]
            }

            #[inline(always)]
            fn unpack_wide<const V: usize>(U32x4(words): U32x4) -> [f32; V] {
                const { assert!(V == Self::VECTOR) };
                let mut values = [0.0; V];
                let mut i = 0;
                while i < V {
                    [values[i], values[i + 1]] = Self::unpack(words[i / 2]);
                    i += 2;
                }
                values
            }

            #[inline(always)]
            fn pack_wide<const V: usize>(values: [f32; V]) -> U32x4 {
                U32x4(Self::pack(values))
            }

            #[inline(always)]
            fn first_of(word: u32, count: u32) -> u32 {
                match count {
                    0 => $minus_infinity,
                    1 => word & 0xffff | $minus_infinity & !0xffff,
                    _ => word,
                }
            }

            #[inline(always)]
            fn largest<const STEPS: usize>(vectors: &[U32x4; STEPS]) -> Option<f32> {
                // One for each word of a vector, so that comparisons need not wait for each other.
                let mut max = vectors[0].0;
                let mut step = 1;
                while step < STEPS {
                    let mut i = 0;
                    while i < max.len() {
                        max[i] = $max_pair(max[i], vectors[step].0[i]);
                        i += 1;
                    }
                    step += 1;
                }
                let [a, b, c, d] = max;
                let [low, high] = Self::unpack($max_pair($max_pair(a, c), $max_pair(b, d)));
                Some(max_nan(low, high))
            }

            #[inline(always)]
            #[track_caller]
            unsafe fn store_wide<const V: usize>(to: Global<u16>, values: [f32; V]) {
                let words = Self::pack(values);
                // SAFETY: in-bounds, aligned: the caller's; as many bytes as `V` words have.
                unsafe {
                    if V == 8 {
                        to.cast().store_streaming(U32x4(words));
                    } else {
                        to.cast().store_streaming(U32x2([words[0], words[1]]));
                    }
                }
            }

            #[inline(always)]
            #[track_caller]
            unsafe fn put_wide<const V: usize>(to: Shared<u16>, values: [f32; V]) {
                let words = Self::pack(values);
                // SAFETY: in-bounds, aligned: the caller's; as many bytes as `V` words have.
                unsafe {
                    if V == 8 {
                        to.cast().store(U32x4(words));
                    } else {
                        to.cast().store(U32x2([words[0], words[1]]));
                    }
                }
            }
        }

        impl $type {
            /// Up to eight values, none of them NaN, as words, lowest address first.
            #[inline(always)]
            fn pack<const V: usize>(values: [f32; V]) -> [u32; 4] {
                const { assert!(V == 4 || V == 8) };
                let mut words = [0; 4];
                let mut i = 0;
                while i < V {
                    words[i / 2] = $narrow_pair(values[i], values[i + 1]);
                    i += 2;
                }
                words
            }
        }
    };
}

sixteen_bits!(
    F16,
    Half,
    f16_to_f32,
    f32_to_f16,
    f32x2_to_f16x2,
    max_nan_f16x2,
    0x7e00,
    0xfc00_fc00
);
sixteen_bits!(
    Bf16,
    Short,
    bf16_to_f32,
    f32_to_bf16,
    f32x2_to_bf16x2,
    max_nan_bf16x2,
    0x7fc0,
    0xff80_ff80
);
