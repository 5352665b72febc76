//! The standard library of device code, with [rust-cuda]'s names, for rustc's own PTX backend; and, behind
//! the same names, an emulator that runs kernels on the CPU.
//!
//! | module | what | who calls |
//! |---|---|---|
//! | [`thread`] | indices, the block barrier | kernels |
//! | [`warp`] | shuffles, votes, the warp barrier | kernels, lanes of one warp together |
//! | [`shared`] | shared memory as raw pointers | kernels |
//! | [`ext`] | what rust-cuda lacks: checked memory, arithmetic of stated bits, clusters | kernels |
//! | [`kernel`] | the attribute that makes an entry point | kernels |
//! | `emulator` | launches a kernel on the CPU | the host; absent on the device |
//!
//! Each primitive has two bodies under one doc: the device's, and the emulator's. Compiled for
//! `nvptx64-nvidia-cuda` the crate is `no_std`; the compiler's unstable features are needed there alone.
//!
//! ```
//! use cuda_std::emulator::{Buffer, Launch, launch};
//! use cuda_std::ext::Global;
//! use cuda_std::prelude::*;
//!
//! /// Multiplies `n` elements of `x` by `by`.
//! ///
//! /// # Safety
//! ///
//! /// `x` points at `n` elements, which nobody else touches.
//! #[kernel(max_threads = 256)]
//! pub unsafe fn scale(x: *mut f32, n: u32, by: f32) {
//!     let index = thread::index_1d();
//!     if index < n {
//!         // SAFETY: in bounds, aligned, and no other thread's.
//!         unsafe {
//!             let element = Global::new_mut(x).at(index.into());
//!             element.store(element.load() * by);
//!         }
//!     }
//! }
//!
//! let mut x = vec![1.5f32; 1000];
//! let buffer = Buffer { address: x.as_mut_ptr() as u64, bytes: 4000, writable: true };
//! let shape = Launch { grid: 4, block: 256, cluster: 1, shared_bytes: 0, buffers: &[buffer] };
//! let (pointer, n, by) = (x.as_mut_ptr(), 1000u32, 2f32);
//! let params = [(&raw const pointer).cast(), (&raw const n).cast(), (&raw const by).cast()];
//! // SAFETY: the parameters are of the kernel's types, and the buffer is this function's own.
//! unsafe { launch(&scale::KERNEL, &shape, &params)? };
//! assert_eq!(x, [3.0; 1000]);
//! # Ok::<(), cuda_std::emulator::Fault>(())
//! ```
//!
//! [rust-cuda]: https://github.com/Rust-GPU/Rust-CUDA
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        abi_unadjusted,
        asm_experimental_arch,
        core_float_math,
        link_llvm_intrinsics,
        stdarch_nvptx
    )
)]
// `link_llvm_intrinsics` and `abi_unadjusted` are meant for the compiler's own libraries. LLVM's intrinsics
// are the only collectives that its passes know not to duplicate.
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

// The attribute's expansion names `::cuda_std`; in the crate's own tests that is the crate itself.
extern crate self as cuda_std;

/// Compiles one of two bodies: the device's or the host's.
macro_rules! by_target {
    (device: $device:expr, host: $host:expr $(,)?) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            $device
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            $host
        }
    }};
}

#[cfg(not(target_arch = "nvptx64"))]
pub mod emulator;
pub mod ext;
mod parameter;
pub mod prelude;
pub mod shared;
pub mod thread;
pub mod warp;

pub use cuda_std_macros::kernel;
#[doc(hidden)]
pub use parameter::{KernelParameter, assert_kernel_parameter};

/// A panic on the device has nobody to tell: it stops the kernel, and the launch reports an error.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn trap_on_panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: ends the grid; nothing runs after it.
    unsafe { core::arch::nvptx::trap() }
}
