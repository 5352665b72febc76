//! The bound on kernel parameters, apart so that its error speaks of kernels.

/// A type that a launch may copy into a kernel, bit by bit.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a kernel parameter",
    label = "not `Copy`",
    note = "a launch copies each parameter bit by bit and drops none: pass a `Copy` type"
)]
pub trait KernelParameter {}

impl<T: Copy> KernelParameter for T {}

/// Compiles only if `T` may be a kernel parameter; `#[kernel]` calls it for each.
pub const fn assert_kernel_parameter<T: KernelParameter>() {}
