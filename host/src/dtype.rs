//! The types of tensor elements.

use std::fmt;

use half::{bf16, f16};
use kernels_gpu::element;

/// The type of a tensor's elements, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::upper_case_acronyms)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
}

impl DType {
    /// Every type there is.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::BF16];

    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }

    /// The name that kernels are called by: `f32`, `f16` or `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
        }
    }

    /// Elements that a kernel with this input takes in one access.
    pub(crate) const fn vector_elems(self) -> u32 {
        let elems = match self {
            Self::F32 => <element::F32 as element::Element>::VECTOR,
            Self::F16 => <element::F16 as element::Element>::VECTOR,
            Self::BF16 => <element::Bf16 as element::Element>::VECTOR,
        };
        elems as u32
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What tensors may hold: an [`Element`], or for masks and lengths `u8`, `bool` and `u32`.
pub trait Scalar: sealed::Sealed + Copy + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The type's name.
    const NAME: &'static str;
}

/// A type of tensor element: `f32`, [`half::f16`] or [`half::bf16`].
///
/// Any bits are a value of such a type, and zero bits are 0.0.
pub trait Element: Scalar {
    /// The type as a value.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($ty:ty: $dtype:ident;)*) => { $(
        impl sealed::Sealed for $ty {}

        impl Scalar for $ty {
            const NAME: &'static str = DType::$dtype.name();
        }

        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }

        const _: () = assert!(size_of::<$ty>() == DType::$dtype.size_bytes());
    )* };
}

elements! {
    f32: F32;
    f16: F16;
    bf16: BF16;
}

macro_rules! scalars {
    ($($ty:ty)*) => { $(
        impl sealed::Sealed for $ty {}

        impl Scalar for $ty {
            const NAME: &'static str = stringify!($ty);
        }
    )* };
}

scalars! { u8 bool u32 }

/// A type of boolean masks: `bool`, or `u8`, of which anything but 0 is true.
pub trait Truth: Scalar {}

impl Truth for bool {}

impl Truth for u8 {}

const _: () = assert!(size_of::<bool>() == 1);
