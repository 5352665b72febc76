//! `cust` on top of the `cu*` symbols.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;

use std::ffi::{CStr, c_void};
use std::mem;
use std::ptr;

use common::{Library, in_own_process};
use cuda_driver::{DeviceAttribute, Driver, FunctionAttribute, MemoryType};
use cust::CudaFlags;
use cust::error::CudaError;
use cust::sys;

fn init() -> Result<(), CudaError> {
    cust::init(CudaFlags::empty())
}

fn handle<T>(number: usize) -> *mut T {
    ptr::without_provenance_mut(number)
}

/// The functions that `cust_raw` declares, with the addresses that this program has for them.
mod symbols {
    macro_rules! forward {
        (in_registers { $($register:ident)* } typed { $($typed:ident)* }) => {
            pub const IN_REGISTERS: &[(&str, *const ())] =
                &[$((stringify!($register), cust::sys::$register as *const ())),*];
            pub const TYPED: &[(&str, *const ())] =
                &[$((stringify!($typed), cust::sys::$typed as *const ())),*];
        };
    }
    include!("../src/forward/symbols.rs");
}

#[test]
fn every_function_is_there_and_not_initialized() {
    let test = "every_function_is_there_and_not_initialized";
    in_own_process(test, Library::Fake, &[], || {
        assert_eq!(symbols::IN_REGISTERS.len() + symbols::TYPED.len(), 353);
        for &(name, address) in symbols::IN_REGISTERS {
            // SAFETY: before `cuInit` the symbol is assembly that looks at no argument and
            // returns a number in the register that every signature here returns in.
            let status =
                unsafe { mem::transmute::<*const (), unsafe extern "C" fn() -> i32>(address)() };
            assert_eq!(status, 3, "{name}");
        }
    });
}

#[test]
fn init_without_a_driver_says_no_device() {
    let test = "init_without_a_driver_says_no_device";
    in_own_process(test, Library::Missing, &[], || {
        let error = init().unwrap_err();
        assert_eq!(error, CudaError::NoDevice);
        assert!(error.to_string().contains("CUDA_ERROR_NO_DEVICE"));
        assert_eq!(
            cust::device::Device::num_devices(),
            Err(CudaError::NotInitialized)
        );
        assert_eq!(cust::CudaApiVersion::get(), Err(CudaError::NoDevice));
    });
}

/// `init()` where the fake driver's `cuInit` returns `status`.
fn assert_init(test: &str, status: &str, expected: Result<(), CudaError>) {
    in_own_process(test, Library::Fake, &[("FAKE_CUDA_INIT", status)], || {
        assert_eq!(init(), expected);
    });
}

#[test]
fn init_passes_success_on() {
    assert_init("init_passes_success_on", "0", Ok(()));
}

#[test]
fn init_passes_no_device_on() {
    assert_init("init_passes_no_device_on", "100", Err(CudaError::NoDevice));
}

#[test]
fn init_passes_on_a_status_that_cust_raw_knows_and_cust_does_not() {
    let test = "init_passes_on_a_status_that_cust_raw_knows_and_cust_does_not";
    assert_init(test, "803", Err(CudaError::UnknownError));
}

#[test]
fn init_clamps_a_newer_status() {
    let test = "init_clamps_a_newer_status";
    in_own_process(test, Library::Fake, &[("FAKE_CUDA_INIT", "36")], || {
        // SAFETY: the only flags there are: none.
        assert_eq!(number(unsafe { sys::cuInit(0) }), 999);
        assert_eq!(init(), Err(CudaError::UnknownError));
    });
}

#[test]
fn version_can_be_asked_before_init() {
    let test = "version_can_be_asked_before_init";
    let version = [("FAKE_CUDA_VERSION", "12040")];
    in_own_process(test, Library::Fake, &version, || {
        let version = cust::CudaApiVersion::get().unwrap();
        assert_eq!((version.major(), version.minor()), (12, 4));
    });
}

#[test]
fn slots_are_filled_by_whoever_opens_the_driver() {
    let test = "slots_are_filled_by_whoever_opens_the_driver";
    in_own_process(test, Library::Fake, &[], || {
        assert!(Driver::load().is_ok());
        // Not 3: the fake driver's status, clamped.
        assert_eq!(
            cust::device::Device::num_devices(),
            Err(CudaError::UnknownError)
        );
    });
}

/// The number of a status, which is in the enum whatever the driver returned.
fn number(status: sys::CUresult) -> i32 {
    status as i32
}

#[test]
fn newer_statuses_are_clamped_in_every_kind_of_symbol() {
    let test = "newer_statuses_are_clamped_in_every_kind_of_symbol";
    in_own_process(test, Library::Fake, &[], || {
        init().unwrap();
        // SAFETY: this driver follows no pointer here.
        unsafe {
            assert_eq!(number(sys::cuCtxSynchronize()), 999);
            assert_eq!(number(sys::cuMemsetD32_v2(0, 0, 0)), 999);
            let status = sys::cuLaunchCooperativeKernel(
                handle(0),
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                handle(0),
                handle(0),
            );
            assert_eq!(number(status), 999);
        }
    });
}

#[test]
fn function_that_the_driver_lacks_is_not_found() {
    let test = "function_that_the_driver_lacks_is_not_found";
    in_own_process(test, Library::Damaged, &[], || {
        init().unwrap();
        // SAFETY: any size may be asked for.
        let error = unsafe { cust::memory::cuda_malloc::<u8>(1) }.unwrap_err();
        assert_eq!(error, CudaError::NotFound);
    });
}

#[test]
fn arguments_come_through_registers_and_stack() {
    let test = "arguments_come_through_registers_and_stack";
    in_own_process(test, Library::Fake, &[], || {
        init().unwrap();
        let parameter = 19u64;
        let mut parameters = [ptr::from_ref(&parameter).cast_mut().cast::<c_void>()];
        let bytes = std::array::from_fn(|i| i as u8);
        // SAFETY: an IPC handle is 64 bytes of any value.
        let ipc_handle = unsafe { mem::transmute::<[u8; 64], sys::CUipcMemHandle>(bytes) };
        // SAFETY: this driver follows only the pointer to the parameter.
        unsafe {
            let status =
                sys::cuMemRangeGetAttributes(handle(11), handle(12), handle(13), 14, 15, 16);
            assert_eq!(number(status), 0, "six integers");
            let status = sys::cuTexRefSetMipmapLevelClamp(handle(11), 0.5, 2.5);
            assert_eq!(number(status), 0, "floats");
            let status = sys::cuIpcOpenMemHandle_v2(handle(11), ipc_handle, 12);
            assert_eq!(number(status), 0, "a struct by value");
            let status = sys::cuLaunchKernel(
                handle(11),
                12,
                13,
                14,
                15,
                16,
                17,
                170,
                handle(18),
                parameters.as_mut_ptr(),
                handle(0),
            );
            assert_eq!(number(status), 0, "eleven arguments");
            let status = sys::cuTexRefSetMipmapLevelClamp(handle(11), 0.5, 2.0);
            assert_eq!(number(status), 1, "the driver looks");
        }
    });
}

/// A text from `cuGetErrorString` or `cuGetErrorName`, with the status of asking.
fn error_text(
    get: unsafe extern "C" fn(sys::CUresult, *mut *const std::ffi::c_char) -> sys::CUresult,
    status: sys::CUresult,
) -> (i32, Option<&'static str>) {
    let mut text = ptr::null();
    // SAFETY: a place for the text.
    let answer = number(unsafe { get(status, &mut text) });
    // SAFETY: a text that is given is a C string that stays.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().unwrap());
    (answer, text)
}

#[test]
fn errors_have_texts_before_and_after_the_driver_is_opened() {
    let test = "errors_have_texts_before_and_after_the_driver_is_opened";
    in_own_process(test, Library::Fake, &[], || {
        let status = sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let name = (0, Some("CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(error_text(sys::cuGetErrorName, status), name);
        assert_eq!(error_text(sys::cuGetErrorString, status), name);
        init().unwrap();
        assert_eq!(error_text(sys::cuGetErrorName, status), name);
        assert_eq!(
            error_text(sys::cuGetErrorString, status),
            (0, Some("out of memory"))
        );
        // SAFETY: null is an invalid value, not a place.
        let answer = unsafe { sys::cuGetErrorName(status, ptr::null_mut()) };
        assert_eq!(number(answer), 1);
    });
}

#[test]
fn attributes_have_the_numbers_of_cuda_h() {
    use sys::CUdevice_attribute_enum::*;
    use sys::CUfunction_attribute_enum::*;
    use sys::CUmemorytype_enum::*;
    type Device = DeviceAttribute;
    type Function = FunctionAttribute;

    // Newer than cust_raw: clusters, in either list.
    let device = [
        (
            Device::MAX_THREADS_PER_BLOCK,
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        ),
        (Device::MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
        (
            Device::MAX_SHARED_MEMORY_PER_BLOCK,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
        ),
        (Device::CLOCK_RATE, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        (
            Device::MULTIPROCESSOR_COUNT,
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        ),
        (
            Device::MEMORY_CLOCK_RATE,
            CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
        ),
        (
            Device::GLOBAL_MEMORY_BUS_WIDTH,
            CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
        ),
        (Device::L2_CACHE_SIZE, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        (
            Device::MAX_THREADS_PER_MULTIPROCESSOR,
            CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
        ),
        (
            Device::COMPUTE_CAPABILITY_MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        ),
        (
            Device::COMPUTE_CAPABILITY_MINOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        ),
        (
            Device::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        ),
        (
            Device::MAX_REGISTERS_PER_MULTIPROCESSOR,
            CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        ),
        (
            Device::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        ),
        (
            Device::MAX_BLOCKS_PER_MULTIPROCESSOR,
            CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
        ),
        (
            Device::RESERVED_SHARED_MEMORY_PER_BLOCK,
            CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
        ),
        (
            Device::MEMORY_POOLS_SUPPORTED,
            CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
        ),
    ];
    for (ours, theirs) in device {
        assert_eq!(ours.0, theirs as i32, "{theirs:?}");
    }
    let function = [
        (
            Function::MAX_THREADS_PER_BLOCK,
            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        ),
        (
            Function::SHARED_SIZE_BYTES,
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
        ),
        (
            Function::LOCAL_SIZE_BYTES,
            CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        ),
        (Function::NUM_REGS, CU_FUNC_ATTRIBUTE_NUM_REGS),
        (Function::PTX_VERSION, CU_FUNC_ATTRIBUTE_PTX_VERSION),
        (Function::BINARY_VERSION, CU_FUNC_ATTRIBUTE_BINARY_VERSION),
        (
            Function::MAX_DYNAMIC_SHARED_SIZE_BYTES,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        ),
        (
            Function::PREFERRED_SHARED_MEMORY_CARVEOUT,
            CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
        ),
    ];
    for (ours, theirs) in function {
        assert_eq!(ours.0, theirs as i32, "{theirs:?}");
    }
    assert_eq!(MemoryType::HOST.0, CU_MEMORYTYPE_HOST as u32);
    assert_eq!(MemoryType::DEVICE.0, CU_MEMORYTYPE_DEVICE as u32);
}
