//! Parameters of kernels that a test launches itself.

use core::ffi::c_void;

/// Where a launch finds this parameter. A pointer parameter is an address, as a number.
pub fn pointer<T>(value: &T) -> *const c_void {
    core::ptr::from_ref(value).cast()
}
