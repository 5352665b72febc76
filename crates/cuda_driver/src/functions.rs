//! The driver's functions that this crate calls itself, each found once.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem;

use crate::DriverError;
use crate::driver::RawLaunchConfig;
use crate::library::Library;
use crate::types::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmemoryPool,
    CUmodule, CUresult, CUstream,
};

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($symbol:ident $field:ident($($argument:ty),*);)* }) => {
        $(#[$doc])*
        pub(crate) struct $table {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> CUresult,)*
        }

        impl $table {
            /// Finds every function, or says which one is missing.
            pub(crate) fn find(library: &Library) -> Result<Self, DriverError> {
                Ok(Self {
                    $($field: {
                        const NAME: &CStr = c_name(concat!(stringify!($symbol), "\0"));
                        let address = library.symbol(NAME).ok_or(DriverError::MissingSymbol {
                            symbol: stringify!($symbol),
                        })?;
                        // SAFETY: in cuda.h the function of this name has this signature.
                        unsafe {
                            mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> CUresult,
                            >(address.as_ptr())
                        }
                    },)*
                })
            }
        }
    };
}

/// `text`, which ends in NUL, as a C string.
pub(crate) const fn c_name(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a symbol's name ends in its only NUL"),
    }
}

functions! {
/// What a driver of any age has.
Startup {
    cuDriverGetVersion driver_get_version(*mut c_int);
    cuInit init(c_uint);
}
}

functions! {
/// What is called once the driver is known to be new enough.
Functions {
    cuDeviceGetCount device_get_count(*mut c_int);
    cuDeviceGet device_get(*mut CUdevice, c_int);
    cuDeviceGetName device_get_name(*mut c_char, c_int, CUdevice);
    cuDeviceGetUuid_v2 device_get_uuid(*mut [u8; 16], CUdevice);
    cuDeviceTotalMem_v2 device_total_mem(*mut usize, CUdevice);
    cuDeviceGetAttribute device_get_attribute(*mut c_int, c_int, CUdevice);

    cuDevicePrimaryCtxRetain device_primary_ctx_retain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2 device_primary_ctx_release(CUdevice);
    cuCtxSetCurrent ctx_set_current(CUcontext);
    cuCtxGetCurrent ctx_get_current(*mut CUcontext);
    cuCtxPushCurrent_v2 ctx_push_current(CUcontext);
    cuCtxPopCurrent_v2 ctx_pop_current(*mut CUcontext);
    cuCtxSynchronize ctx_synchronize();

    cuModuleLoadDataEx module_load_data_ex(
        *mut CUmodule, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    cuModuleUnload module_unload(CUmodule);
    cuModuleGetFunction module_get_function(*mut CUfunction, CUmodule, *const c_char);
    cuFuncGetAttribute func_get_attribute(*mut c_int, c_int, CUfunction);
    cuFuncSetAttribute func_set_attribute(CUfunction, c_int, c_int);

    cuLaunchKernel launch_kernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
        *mut *mut c_void, *mut *mut c_void);
    cuLaunchKernelEx launch_kernel_ex(
        *const RawLaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
    cuOccupancyMaxActiveBlocksPerMultiprocessor occupancy_max_active_blocks(
        *mut c_int, CUfunction, c_int, usize);
    cuOccupancyMaxActiveClusters occupancy_max_active_clusters(
        *mut c_int, CUfunction, *const RawLaunchConfig);

    cuStreamCreate stream_create(*mut CUstream, c_uint);
    cuStreamDestroy_v2 stream_destroy(CUstream);
    cuStreamSynchronize stream_synchronize(CUstream);
    cuStreamWaitEvent stream_wait_event(CUstream, CUevent, c_uint);
    cuStreamGetCtx stream_get_ctx(CUstream, *mut CUcontext);
    cuStreamIsCapturing stream_is_capturing(CUstream, *mut c_int);
    cuStreamBeginCapture_v2 stream_begin_capture(CUstream, c_int);
    cuStreamEndCapture stream_end_capture(CUstream, *mut CUgraph);

    cuGraphInstantiateWithFlags graph_instantiate(*mut CUgraphExec, CUgraph, u64);
    cuGraphLaunch graph_launch(CUgraphExec, CUstream);
    cuGraphExecDestroy graph_exec_destroy(CUgraphExec);
    cuGraphDestroy graph_destroy(CUgraph);

    cuEventCreate event_create(*mut CUevent, c_uint);
    cuEventRecord event_record(CUevent, CUstream);
    cuEventSynchronize event_synchronize(CUevent);
    cuEventElapsedTime event_elapsed_time(*mut f32, CUevent, CUevent);
    cuEventDestroy_v2 event_destroy(CUevent);

    cuMemAlloc_v2 mem_alloc(*mut CUdeviceptr, usize);
    cuMemFree_v2 mem_free(CUdeviceptr);
    cuMemAllocAsync mem_alloc_async(*mut CUdeviceptr, usize, CUstream);
    cuMemFreeAsync mem_free_async(CUdeviceptr, CUstream);
    cuMemcpyHtoDAsync_v2 memcpy_htod_async(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2 memcpy_dtoh_async(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoDAsync_v2 memcpy_dtod_async(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemsetD8Async memset_d8_async(CUdeviceptr, u8, usize, CUstream);
    cuMemsetD32Async memset_d32_async(CUdeviceptr, c_uint, usize, CUstream);
    cuMemGetInfo_v2 mem_get_info(*mut usize, *mut usize);
    cuDeviceGetDefaultMemPool device_get_default_mem_pool(*mut CUmemoryPool, CUdevice);
    cuMemPoolGetAttribute mem_pool_get_attribute(CUmemoryPool, c_int, *mut c_void);
    cuMemGetAddressRange_v2 mem_get_address_range(*mut CUdeviceptr, *mut usize, CUdeviceptr);
    cuPointerGetAttribute pointer_get_attribute(*mut c_void, c_int, CUdeviceptr);
}
}
