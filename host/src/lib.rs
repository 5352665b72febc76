//! Softmax on NVIDIA GPUs, from kernels written in Rust. Where there is no GPU, the same kernels
//! run on an emulator, with the same results to the bit; for long 16-bit rows
//! [`Softmax::reproducible`] asks for them. [`how_it_works`] has the reasons, the errors and the limits.
//!
//! ```
//! use warp_softmax::{Device, Softmax};
//!
//! let device = Device::auto()?;
//! let x = device.tensor_from(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
//! let y = Softmax::new().forward(&x)?;
//! println!("{:?} on {}", y.to_vec()?, device.name());
//! # let expected = [0.26894143, 0.7310586, 0.26894143, 0.7310586];
//! # assert!(y.to_vec()?.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-7));
//! # Ok::<(), warp_softmax::Error>(())
//! ```
//!
//! # Operations
//!
//! | call | result | types |
//! |---|---|---|
//! | [`Softmax::forward`] | a new tensor | f32, f16, bf16; same type out |
//! | [`Softmax::forward_as`] | a new tensor of another type | from or to f32 |
//! | [`Softmax::forward_into`] | written into a tensor or view | same type, or from or to f32 |
//! | [`Softmax::forward_in_place`] | replaces the input | same type |
//! | [`Softmax::log_softmax`], [`Softmax::logsumexp`] | a new tensor: the logarithm of the softmax, or of each row's sum | same type; f32 |
//! | [`Softmax::forward_with_logsumexp`] | both, in one pass | same type, and f32 |
//! | [`Softmax::masked`] | all of these with masks, biases, a soft cap, sinks: [`MaskedSoftmax`] | same type, or from or to f32 |
//! | [`Softmax::plan`] | which kernel, with what grid | |
//! | [`Softmax::prepare`] | loads kernels, before latency matters or a CUDA graph is captured | |
//!
//! | level | types | what stays unsafe |
//! |---|---|---|
//! | operation | [`Softmax`], [`MaskedSoftmax`] | nothing |
//! | memory | [`Tensor`], [`TensorView`], [`TensorViewMut`] | `from_raw`: memory that something else owns |
//! | device | [`Device`] | [`Device::from_raw_stream`]: a stream that something else owns |
//! | choice | [`Problem`], [`Plan`] | nothing; no GPU is needed |
//!
//! # Environment
//!
//! | variable | values | effect |
//! |---|---|---|
//! | `WARP_SOFTMAX_DEVICE` | `auto`, `cuda`, `cuda:N`, `emulator` | what [`Device::auto`] takes |
//! | `WARP_SOFTMAX_ARCH` | `sm_80`, `sm_90` | which PTX a GPU gets, instead of the newest that it runs |
//! | `WARP_SOFTMAX_CODE` | `cubin`, `ptx` | what kernels are loaded from: machine code where there is some for the GPU, which is the default, or PTX always |
//! | `WARP_SOFTMAX_LIBCUDA` | a path or name | the driver's library, instead of `libcuda.so.1` |
//! | `WARP_SOFTMAX_EMULATOR_THREADS` | a number from 1 | worker threads of the emulator, instead of one a core |
//!
//! # Other libraries' memory
//!
//! Tensors of another library are views: its stream goes to [`Device::from_raw_stream`], its
//! addresses to [`TensorView::from_raw`] and [`TensorViewMut::from_raw`]. Nothing is copied, and
//! nothing waits. What these promise and ask for, SECURITY.md in the repository sums up.

#[cfg(test)]
mod allocations;
mod device;
mod dtype;
mod error;
pub mod how_it_works;
mod launch;
mod layout;
mod masked;
#[cfg(doctest)]
mod misuse;
mod overlap;
mod plan;
mod problem;
mod softmax;
mod tensor;
mod walk;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[doc(hidden)]
pub use device::bench_support;
pub use device::{Device, DeviceProperties};
pub use dtype::{DType, Element, Scalar, Truth};
pub use error::{Error, Operand};
pub use kernels_gpu::options::{FullyMasked, NanPolicy};
pub use masked::{Align, MaskedSoftmax};
pub use plan::{Plan, Way};
pub use problem::{MAX_COLS, MAX_ROW_ALIGNMENT, Problem};
pub use softmax::Softmax;
pub use tensor::{Input, Output, Tensor, TensorView, TensorViewMut};

/// The README's example, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
