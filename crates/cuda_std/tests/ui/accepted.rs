//! Every form a kernel may have.
#![deny(warnings, missing_docs, unsafe_op_in_unsafe_fn)]

use cuda_std::kernel;
use cuda_std::prelude::*;

/// Nothing but a body.
///
/// # Safety
///
/// None is needed.
#[kernel]
pub unsafe fn bare() {}

/// All options, a trailing comma, patterns, a by-value struct, a const-generic call.
///
/// # Safety
///
/// None is needed.
#[kernel(min_blocks = 4, max_threads = 256,)]
pub unsafe fn full(_x: *const f32, mut n: u32, Layout { extents, .. }: Layout) {
    n += steps::<3>() + extents[0] + thread::thread_idx_x();
    let _ = n;
}

/// A parameter of a type defined here.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Layout {
    /// Extents.
    pub extents: [u32; 4],
    /// Strides.
    pub strides: [u64; 4],
}

fn steps<const N: u32>() -> u32 {
    N
}

mod inner {
    macro_rules! table {
        ($($name:ident: $type:ty;)*) => {$(
            #[cuda_std::kernel(max_threads = 32)]
            pub(super) unsafe fn $name(_x: *const $type) {}
        )*};
    }
    table! {
        first: f32;
        second: super::Layout;
    }
}

fn main() {
    assert_eq!(bare::KERNEL.param_bytes.len(), 0);
    assert_eq!(full::KERNEL.param_bytes, [8, 4, 48]);
    assert_eq!((full::KERNEL.max_threads, full::KERNEL.min_blocks), (256, 4));
    assert_eq!([inner::first::KERNEL.name, inner::second::KERNEL.name], ["first", "second"]);
}
