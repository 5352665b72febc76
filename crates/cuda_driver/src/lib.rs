//! The CUDA driver, found when the program runs.
//!
//! Nothing here links to `libcuda`: the driver is opened with `dlopen` at the first use. A program
//! that uses this crate builds and starts on a machine without a driver, and there gets an error
//! that says so.
//!
//! | part | who uses it | where it goes |
//! |---|---|---|
//! | [`Driver`] | code that calls the driver itself | straight to the function `dlsym` found |
//! | the `cu*` symbols | `cust`, through `cust_raw`'s declarations | through a slot each, status clamped |
//!
//! # `cust` without linking to the driver
//!
//! `cust_raw` declares 353 `cu*` functions and expects the linker to find them. This crate defines
//! all of them, hidden, so that a shared library does not export them in turn. A crate that uses
//! `cust` has to name this one, or the symbols are dropped:
//!
//! ```
//! use cuda_driver as _;
//! ```
//!
//! `cust`'s build script wants to see a CUDA folder: set `CUDA_LIBRARY_PATH` to any folder that
//! holds a `lib64`, such as `/usr`. The `-lcuda` that it asks for is found in an empty archive of
//! this crate's.
//!
//! What a `cu*` symbol does:
//!
//! * Before `cuInit` it returns `CUDA_ERROR_NOT_INITIALIZED` (3), as the driver itself would.
//!   `cuInit` opens the driver; so do the few functions that may be called before it.
//! * Where no driver can be opened, `cuInit` returns `CUDA_ERROR_NO_DEVICE` (100).
//! * A function that the driver lacks returns `CUDA_ERROR_NOT_FOUND` (500).
//! * Every status is clamped: `cust_raw` holds it in a Rust enum of CUDA 11.4, in which any other
//!   number would be undefined behaviour, so a newer code becomes `CUDA_ERROR_UNKNOWN` (999).
//!   [`Driver`] keeps the number as it is. The clamp costs a compare. It cannot reach function
//!   pointers that a program gets from `cuGetProcAddress`, or a callback's status.
//!
//! # Which library
//!
//! `libcuda.so.1`, as the dynamic linker finds it. The environment variable `WARP_SOFTMAX_LIBCUDA`
//! ([`LIBRARY_VARIABLE`]) overrides it with a path or another name; empty counts as unset. It is
//! read once, at the first use, and the library stays open until the process ends.
//!
//! # Platforms
//!
//! Linux on x86-64 and aarch64. Elsewhere the crate compiles without the `cu*` symbols, and
//! [`Driver::load`] returns [`DriverError::UnsupportedPlatform`].

mod codes;
mod driver;
mod error;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod forward;
mod functions;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "no_library.rs"
)]
mod library;
mod types;

pub use driver::{
    AddressRange, CaptureMode, CaptureStatus, Driver, EventTiming, LaunchConfig, MemoryInfo,
    StreamOrder, Version,
};
pub use error::{CuError, DriverError, ModuleLoadError};
pub use types::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmemoryPool,
    CUmodule, CUresult, CUstream, DeviceAttribute, FunctionAttribute, MemoryType,
};

/// The environment variable that names another driver library than `libcuda.so.1`.
pub const LIBRARY_VARIABLE: &str = "WARP_SOFTMAX_LIBCUDA";

#[cfg(all(
    test,
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod drift;
