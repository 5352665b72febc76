//! How the tests launch kernels and name their parameters.
#![allow(dead_code, reason = "each test file uses its part")]

use cuda_std::emulator::{Buffer, Fault, Kernel, Launch, SourceLocation, launch};
use std::ffi::c_void;

/// A launch without clusters.
pub fn run(
    kernel: &Kernel,
    (grid, block, shared_bytes): (u32, u32, u32),
    buffers: &[Buffer],
    params: &[*const c_void],
) -> Result<(), Fault> {
    let shape = Launch {
        grid,
        block,
        cluster: 1,
        shared_bytes,
        buffers,
    };
    // SAFETY: every test passes values of its kernel's types, and buffers that live in the test.
    unsafe { launch(kernel, &shape, params) }
}

/// A pointer to a parameter.
pub fn param<T>(value: &T) -> *const c_void {
    (value as *const T).cast()
}

/// A buffer the kernel may load from and store to.
pub fn writable<T>(data: &mut [T]) -> Buffer {
    Buffer {
        address: data.as_mut_ptr() as u64,
        bytes: size_of_val(data) as u64,
        writable: true,
    }
}

/// A buffer the kernel may only load from.
pub fn readable<T>(data: &[T]) -> Buffer {
    Buffer {
        address: data.as_ptr() as u64,
        bytes: size_of_val(data) as u64,
        writable: false,
    }
}

/// Checks that `location` is the line of `source` that ends in the comment `// MARK`.
#[track_caller]
pub fn assert_marked(source: &str, location: &SourceLocation, mark: &str) {
    let line = source.lines().nth(location.line as usize - 1).unwrap_or("");
    assert!(
        line.ends_with(&format!("// {mark}")),
        "{location} is `{line}`, not the line marked {mark}"
    );
}

/// A cheap sequence of well mixed numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Splitmix64's next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
