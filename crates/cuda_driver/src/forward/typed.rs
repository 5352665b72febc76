//! The symbols that need more than their slot.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering;

use super::clamp;
use super::symbols::slot;
use crate::library::Library;
use crate::{CUresult, CuError};

/// Functions with arguments on the stack, and functions that may be called before `cuInit`. Each
/// opens the driver if nobody has yet, calls through its slot, and clamps the status.
macro_rules! typed {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        pub(super) unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            if Library::get().is_err() {
                return CuError::NO_DEVICE.0;
            }
            let function = slot::$name.load(Ordering::Acquire);
            // SAFETY: the driver's function of this name has this signature. If the driver lacks
            // it, the slot holds an assembly function that looks at no argument.
            let function = unsafe {
                mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> CUresult>(function)
            };
            // SAFETY: the arguments are the caller's.
            clamp(unsafe { function($($argument),*) })
        }
    )* };
}

/// `CUipcEventHandle` and `CUipcMemHandle`, which are passed by value.
#[repr(C)]
pub(super) struct IpcHandle {
    reserved: [u8; 64],
}

typed! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuGetProcAddress(name: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64);

    cuIpcOpenEventHandle(event: *mut *mut c_void, handle: IpcHandle);
    cuIpcOpenMemHandle_v2(address: *mut u64, handle: IpcHandle, flags: c_uint);
    cuLaunchKernel(
        function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: *mut c_void,
        parameters: *mut *mut c_void, extra: *mut *mut c_void
    );
    cuLaunchCooperativeKernel(
        function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: *mut c_void,
        parameters: *mut *mut c_void
    );
    cuLinkAddData_v2(
        state: *mut c_void, kind: c_int, data: *mut c_void, bytes: usize, name: *const c_char,
        option_count: c_uint, options: *mut c_int, values: *mut *mut c_void
    );
    cuOccupancyMaxPotentialBlockSizeWithFlags(
        min_grid: *mut c_int, block: *mut c_int, function: *mut c_void,
        shared_bytes_of_block: Option<unsafe extern "C" fn(c_int) -> usize>, shared_bytes: usize,
        block_limit: c_int, flags: c_uint
    );
}

/// The name of a status: without a driver too, because `cust` unwraps the answer when it prints an
/// error.
pub(super) unsafe extern "C" fn cuGetErrorName(
    status: CUresult,
    text: *mut *const c_char,
) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { put(CuError(status).c_name(), text) }
}

/// The description of a status, or its name without a driver.
pub(super) unsafe extern "C" fn cuGetErrorString(
    status: CUresult,
    text: *mut *const c_char,
) -> CUresult {
    let error = CuError(status);
    // SAFETY: the caller's promise.
    unsafe { put(error.c_description().or_else(|| error.c_name()), text) }
}

/// Answers as the driver does: an unknown status is an invalid value and a null text.
///
/// # Safety
///
/// `place` is null or can be written.
unsafe fn put(text: Option<&'static CStr>, place: *mut *const c_char) -> CUresult {
    if place.is_null() {
        return CuError::INVALID_VALUE.0;
    }
    // SAFETY: not null, so the caller's promise.
    unsafe { *place = text.map_or(ptr::null(), CStr::as_ptr) };
    match text {
        Some(_) => 0,
        None => CuError::INVALID_VALUE.0,
    }
}
