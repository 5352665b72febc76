//! Launching kernels, and how many blocks fit.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use super::Driver;
use crate::error::{check, output};
use crate::{CUfunction, CUstream, CuError};

/// When a kernel may start, in relation to the kernel before it on the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamOrder {
    /// When that kernel has ended and its writes can be seen.
    #[default]
    AfterPrevious,
    /// As soon as all its blocks have ended or said `griddepcontrol.launch_dependents`. The kernel
    /// says `griddepcontrol.wait` before it touches what came before.
    Programmatic,
}

/// How to launch a kernel. Dimensions are x, y, z.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Blocks in the grid; with clusters a multiple of the cluster's.
    pub grid: [u32; 3],
    /// Threads in a block.
    pub block: [u32; 3],
    /// Blocks in a cluster; `None` launches without clusters.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory a block.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: CUstream,
    /// In what order with the kernel before.
    pub order: StreamOrder,
}

const CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: c_int = 4;
const CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: c_int = 6;

/// `CUlaunchAttribute`: its value is a union of 64 bytes with pointers among its members.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
struct RawLaunchAttribute {
    id: c_int,
    padding: c_int,
    value: [c_uint; 16],
}

impl RawLaunchAttribute {
    fn new(id: c_int, value: &[c_uint]) -> Self {
        let mut attribute = Self {
            id,
            ..Self::default()
        };
        attribute.value[..value.len()].copy_from_slice(value);
        attribute
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct RawLaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: CUstream,
    attributes: *mut RawLaunchAttribute,
    attribute_count: c_uint,
}

const _: () = {
    assert!(size_of::<RawLaunchAttribute>() == 72);
    assert!(size_of::<RawLaunchConfig>() == 56);
};

impl LaunchConfig {
    /// Calls `launch` with this configuration in the driver's form.
    fn with_raw<T>(&self, launch: impl FnOnce(&RawLaunchConfig) -> T) -> T {
        let mut attributes = [RawLaunchAttribute::default(); 2];
        let mut attribute_count = 0;
        let mut push = |attribute| {
            attributes[attribute_count] = attribute;
            attribute_count += 1;
        };
        if let Some(cluster) = self.cluster {
            push(RawLaunchAttribute::new(
                CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                &cluster,
            ));
        }
        if self.order == StreamOrder::Programmatic {
            push(RawLaunchAttribute::new(
                CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                &[1],
            ));
        }
        launch(&RawLaunchConfig {
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            stream: self.stream,
            attributes: attributes.as_mut_ptr(),
            attribute_count: attribute_count as c_uint,
        })
    }
}

impl Driver {
    /// Launches a kernel.
    ///
    /// # Safety
    ///
    /// * **live**.
    /// * **parameters**: `parameters` holds a pointer for each parameter of the kernel, in order,
    ///   to a value of the parameter's type. They are read before the call returns.
    /// * **kernel**: what the kernel itself asks of its parameters and its launch.
    pub unsafe fn launch_kernel(
        &self,
        function: CUfunction,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        stream: CUstream,
        parameters: &[*const c_void],
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promises. The driver only reads the array of pointers.
        check(unsafe {
            (self.functions.launch_kernel)(
                function,
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shared_bytes,
                stream,
                parameters.as_ptr().cast_mut().cast(),
                ptr::null_mut(),
            )
        })
    }

    /// Launches a kernel, with clusters or programmatic order where `config` says so.
    ///
    /// # Safety
    ///
    /// As for [`launch_kernel`](Self::launch_kernel).
    pub unsafe fn launch_kernel_ex(
        &self,
        config: &LaunchConfig,
        function: CUfunction,
        parameters: &[*const c_void],
    ) -> Result<(), CuError> {
        config.with_raw(|raw| {
            // SAFETY: the caller's promises. The driver only reads the array of pointers.
            check(unsafe {
                (self.functions.launch_kernel_ex)(
                    raw,
                    function,
                    parameters.as_ptr().cast_mut().cast(),
                    ptr::null_mut(),
                )
            })
        })
    }

    /// How many blocks of `block_threads` threads and `shared_bytes` of dynamic shared memory are
    /// resident on a multiprocessor at once.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn occupancy_max_active_blocks(
        &self,
        function: CUfunction,
        block_threads: i32,
        shared_bytes: usize,
    ) -> Result<i32, CuError> {
        // SAFETY: a place for the number, and the caller's promise.
        output(0, |blocks| unsafe {
            (self.functions.occupancy_max_active_blocks)(
                blocks,
                function,
                block_threads,
                shared_bytes,
            )
        })
    }

    /// How many clusters of a launch are resident on the device at once; 0 means that such a
    /// launch fails.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn occupancy_max_active_clusters(
        &self,
        function: CUfunction,
        config: &LaunchConfig,
    ) -> Result<i32, CuError> {
        config.with_raw(|raw| {
            // SAFETY: a place for the number, and the caller's promise.
            output(0, |clusters| unsafe {
                (self.functions.occupancy_max_active_clusters)(clusters, function, raw)
            })
        })
    }
}
