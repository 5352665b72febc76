//! A GPU and a stream on it.
//!
//! `cust` finds the GPU. The rest goes through `cuda_driver`:
//! `cust` has no stream of somebody else's, no stream that does not wait for the default stream, no
//! capture, no way to load one entry and read the compiler's log, its memory is not freed in
//! stream order, and it knows no status newer than CUDA 11.4, such as that of a GPU which another process has to itself.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use cuda_driver::{
    CUcontext, CUfunction, CUstream, CaptureStatus, CuError, DeviceAttribute, Driver, LaunchConfig,
    StreamOrder,
};

use kernels_gpu::options;

use super::module::{Code, Kernels, Ptx};
use super::{DeviceProperties, Launch};
use crate::Error;
use crate::plan::KernelId;

/// A GPU's primary context and what was loaded into it. Made once and kept until the process ends.
pub(super) struct Gpu {
    pub(super) driver: &'static Driver,
    ordinal: usize,
    name: String,
    properties: DeviceProperties,
    /// Whether memory can be allocated and freed in stream order.
    has_pools: bool,
    context: CUcontext,
    pub(super) kernels: Kernels,
}

// SAFETY: the driver takes the context's handle on any thread.
unsafe impl Send for Gpu {}
// SAFETY: as for `Send`; the rest is `Sync` by itself.
unsafe impl Sync for Gpu {}

/// The legacy default stream by its number, `CU_STREAM_LEGACY`; null is the same.
const LEGACY_STREAM: usize = 1;
/// `CU_STREAM_PER_THREAD`.
const PER_THREAD_STREAM: usize = 2;

/// Those that were opened so far.
static GPUS: Mutex<Vec<&'static Gpu>> = Mutex::new(Vec::new());

/// Where a kernel or a copy has gone wrong: the driver tells it to whoever calls next.
const BROKEN: &str = "earlier work on it, of this program or of a library in it, has broken its context \
    (compute-sanitizer names the kernel)";
/// Where somebody has pulled down the context.
const DESTROYED: &str =
    "its context was destroyed, as cudaDeviceReset and cuDevicePrimaryCtxReset do";

/// The error of a driver's call.
pub(super) fn failed(call: &'static str) -> impl FnOnce(CuError) -> Error {
    move |error| {
        let why = if error.is_sticky() {
            BROKEN
        } else if error.is_context_destroyed() {
            DESTROYED
        } else {
            return Error::Driver {
                call,
                source: error.into(),
            };
        };
        Error::ContextLost {
            call,
            why,
            source: error.into(),
        }
    }
}

/// The same of a call through `cust`, whose error prints less.
fn cust_failed(call: &'static str) -> impl FnOnce(cust::error::CudaError) -> Error {
    move |error| failed(call)(CuError(error as i32))
}

impl Gpu {
    fn open(ordinal: usize) -> Result<&'static Self, Error> {
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&gpu) = gpus.iter().find(|gpu| gpu.ordinal == ordinal) {
            return Ok(gpu);
        }
        let gpu = Box::leak(Box::new(Self::new(ordinal)?));
        gpus.push(gpu);
        Ok(gpu)
    }

    fn new(ordinal: usize) -> Result<Self, Error> {
        let driver = Driver::load().map_err(|error| Error::NoDriver {
            source: error.into(),
        })?;
        cust::init(cust::CudaFlags::empty()).map_err(cust_failed("cuInit"))?;
        let count =
            cust::device::Device::num_devices().map_err(cust_failed("cuDeviceGetCount"))? as usize;
        if ordinal >= count {
            return Err(Error::NoSuchGpu { ordinal, count });
        }
        let device =
            cust::device::Device::get_device(ordinal as u32).map_err(cust_failed("cuDeviceGet"))?;
        let name = device.name().map_err(cust_failed("cuDeviceGetName"))?;
        let attribute = |attribute| {
            let value = driver.device_get_attribute(attribute, device.as_raw());
            value
                .map(|value| value as u32)
                .map_err(failed("cuDeviceGetAttribute"))
        };
        let capability = (
            attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?,
            attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?,
        );
        let ptx = Ptx::choose(&name, capability)?;
        let code = Code::choose(ptx, capability)?;
        let properties = DeviceProperties {
            compute_capability: Some(capability),
            multiprocessors: attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
            max_shared_bytes_per_block: attribute(
                DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            max_cluster_blocks: match (attribute(DeviceAttribute::CLUSTER_LAUNCH)?, capability) {
                (0, _) => 1,
                _ if !ptx.has_clusters() => 1,
                // Twice what every device with clusters takes.
                (_, (9 | 10, 0)) => 16,
                _ => 8,
            },
            l2_bytes: attribute(DeviceAttribute::L2_CACHE_SIZE)?.into(),
        };
        let has_pools = attribute(DeviceAttribute::MEMORY_POOLS_SUPPORTED)? != 0;

        // Never given back: other libraries keep the primary context as well, and the last to leave would pull down all
        // of them.
        let context = driver
            .device_primary_ctx_retain(device.as_raw())
            .map_err(failed("cuDevicePrimaryCtxRetain"))?;
        Ok(Self {
            driver,
            ordinal,
            name,
            properties,
            has_pools,
            context,
            kernels: Kernels::new(ptx, code),
        })
    }

    /// Bytes that this process has allocated in stream order and not freed; nothing where it cannot allocate so.
    pub(super) fn used_bytes(&self) -> Result<Option<u64>, Error> {
        if !self.has_pools {
            return Ok(None);
        }
        let device = self.driver.device_get(self.ordinal as i32);
        let device = device.map_err(failed("cuDeviceGet"))?;
        self.driver
            .mem_pool_used_bytes(device)
            .map(Some)
            .map_err(failed("cuMemPoolGetAttribute"))
    }

    /// Makes the context current to the thread until the guard is dropped, or longer where none
    /// was: then the next call finds it.
    pub(super) fn enter(&self) -> Result<Current, Error> {
        let mut current = Current::keep(self.driver)?;
        if current.before != self.context {
            // SAFETY: the primary context is never released.
            unsafe { self.driver.ctx_set_current(self.context) }
                .map_err(failed("cuCtxSetCurrent"))?;
        }
        current.restore = !current.before.is_null() && current.before != self.context;
        Ok(current)
    }
}

/// Gives the thread back the context that another library had made current.
pub(super) struct Current {
    driver: &'static Driver,
    before: CUcontext,
    restore: bool,
}

impl Current {
    fn keep(driver: &'static Driver) -> Result<Self, Error> {
        let before = driver
            .ctx_get_current()
            .map_err(failed("cuCtxGetCurrent"))?;
        Ok(Self {
            driver,
            before,
            restore: true,
        })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.restore {
            // SAFETY: it was current to this thread a moment ago, or there was none. Nobody can be
            // told of a failure here; the next call of its owner will fail as well.
            let _ = unsafe { self.driver.ctx_set_current(self.before) };
        }
    }
}

/// A stream on a GPU.
pub(super) struct Queue {
    pub(super) gpu: &'static Gpu,
    pub(super) stream: CUstream,
    is_ours: bool,
    /// Memory that was dropped while the stream was being captured, where freeing it would become
    /// part of the graph.
    unfreed: Mutex<Vec<u64>>,
}

// SAFETY: the driver takes the stream's handle on any thread.
unsafe impl Send for Queue {}
// SAFETY: as for `Send`; the driver orders calls that arrive together.
unsafe impl Sync for Queue {}

impl Queue {
    pub(super) fn open(ordinal: usize) -> Result<Self, Error> {
        Self::on(Gpu::open(ordinal)?)
    }

    /// # Safety
    ///
    /// `stream` is null, one of the driver's numbers, or a stream that outlives this.
    pub(super) unsafe fn borrow(ordinal: usize, stream: *mut c_void) -> Result<Self, Error> {
        let stream: CUstream = match stream.addr() {
            // Work on it in two threads is not ordered, though the handle is one.
            PER_THREAD_STREAM => return Err(Error::PerThreadStream),
            LEGACY_STREAM => ptr::null_mut(),
            _ => stream.cast(),
        };
        let gpu = Gpu::open(ordinal)?;
        let _current = gpu.enter()?;
        // SAFETY: the stream is live; null is the current context's.
        let context =
            unsafe { gpu.driver.stream_get_ctx(stream) }.map_err(failed("cuStreamGetCtx"))?;
        if context != gpu.context {
            return Err(Error::ForeignStream { ordinal });
        }
        Ok(Self {
            gpu,
            stream,
            is_ours: false,
            unfreed: Mutex::default(),
        })
    }

    pub(super) fn new_stream(&self) -> Result<Self, Error> {
        Self::on(self.gpu)
    }

    fn on(gpu: &'static Gpu) -> Result<Self, Error> {
        let _current = gpu.enter()?;
        let stream = gpu
            .driver
            .stream_create_non_blocking()
            .map_err(failed("cuStreamCreate"))?;
        Ok(Self {
            gpu,
            stream,
            is_ours: true,
            unfreed: Mutex::default(),
        })
    }

    pub(super) fn name(&self) -> String {
        let Gpu {
            name,
            ordinal,
            properties,
            driver,
            ..
        } = self.gpu;
        let (major, minor) = properties.compute_capability.unwrap_or_default();
        format!(
            "{name} (cuda:{ordinal}, sm_{major}{minor}, driver {})",
            driver.version()
        )
    }

    pub(super) fn properties(&self) -> &DeviceProperties {
        &self.gpu.properties
    }

    /// What tells the streams of a GPU apart.
    pub(super) fn stream_number(&self) -> usize {
        self.stream.addr()
    }

    pub(super) fn is_same_stream(&self, other: &Self) -> bool {
        self.gpu.ordinal == other.gpu.ordinal && self.stream == other.stream
    }

    pub(super) fn synchronize(&self) -> Result<(), Error> {
        let _current = self.gpu.enter()?;
        self.refuse_capture(
            "waiting for it cannot be part of one",
            "wait after the capture",
        )?;
        self.wait()
    }

    /// The context is current.
    fn wait(&self) -> Result<(), Error> {
        // SAFETY: the stream is live as long as this.
        unsafe { self.gpu.driver.stream_synchronize(self.stream) }
            .map_err(failed("cuStreamSynchronize"))
    }

    /// The context is current.
    fn refuse_capture(&self, what: &'static str, instead: &'static str) -> Result<(), Error> {
        // SAFETY: the stream is live as long as this.
        let status = unsafe { self.gpu.driver.stream_is_capturing(self.stream) };
        match status.map_err(failed("cuStreamIsCapturing"))? {
            CaptureStatus::None => Ok(()),
            CaptureStatus::Active | CaptureStatus::Invalidated => {
                Err(Error::Capture { what, instead })
            }
        }
    }

    pub(super) fn prepare(&self, kernel: KernelId) -> Result<(), Error> {
        let _current = self.gpu.enter()?;
        self.function(kernel).map(|_| ())
    }

    /// The context is current.
    pub(super) fn function(&self, kernel: KernelId) -> Result<CUfunction, Error> {
        let gpu = self.gpu;
        if let Some(function) = gpu.kernels.get(kernel) {
            return Ok(function);
        }
        self.refuse_capture(
            "its kernel is not loaded yet",
            "call Softmax::prepare before the capture begins",
        )?;
        gpu.kernels.load(
            gpu.driver,
            kernel,
            gpu.properties.max_shared_bytes_per_block,
        )
    }

    /// # Safety
    ///
    /// As [`super::Device::launch`].
    pub(super) unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let _current = self.gpu.enter()?;
        let function = self.function(launch.kernel)?;
        // SAFETY: the caller's; the function is the launch's.
        unsafe { self.launch_function(function, launch) }
    }

    /// The driver's part of a launch. The context is current.
    ///
    /// # Safety
    ///
    /// As [`super::Device::launch`]; `function` is [`Self::function`]'s for the launch's kernel.
    pub(super) unsafe fn launch_function(
        &self,
        function: CUfunction,
        launch: &Launch<'_>,
    ) -> Result<(), Error> {
        let driver = self.gpu.driver;
        let (grid, block) = ([launch.grid, 1, 1], [launch.block, 1, 1]);
        let order = match launch.order {
            options::StreamOrder::Programmatic if self.gpu.kernels.have_programmatic_launch() => {
                StreamOrder::Programmatic
            }
            _ => StreamOrder::AfterPrevious,
        };
        if launch.cluster == 1 && order == StreamOrder::AfterPrevious {
            // SAFETY: live: kernels stay loaded, and the stream lives as long as this; parameters,
            // kernel: the caller's.
            let launched = unsafe {
                driver.launch_kernel(
                    function,
                    grid,
                    block,
                    launch.shared_bytes,
                    self.stream,
                    launch.parameters,
                )
            };
            return launched.map_err(failed("cuLaunchKernel"));
        }
        let config = LaunchConfig {
            grid,
            block,
            cluster: (launch.cluster > 1).then_some([launch.cluster, 1, 1]),
            shared_bytes: launch.shared_bytes,
            stream: self.stream,
            order,
        };
        // SAFETY: as above.
        let launched = unsafe { driver.launch_kernel_ex(&config, function, launch.parameters) };
        launched.map_err(failed("cuLaunchKernelEx"))
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let _current = self.gpu.enter()?;
        let instead = "make all tensors before, and call forward_into";
        self.refuse_capture("memory cannot be allocated meanwhile", instead)?;
        self.free_the_unfreed();
        let driver = self.gpu.driver;
        let (allocated, call) = if self.gpu.has_pools {
            // SAFETY: the stream is live as long as this.
            (
                unsafe { driver.mem_alloc_async(bytes, self.stream) },
                "cuMemAllocAsync",
            )
        } else {
            (driver.mem_alloc(bytes), "cuMemAlloc")
        };
        allocated.map_err(|error| match error {
            CuError::OUT_OF_MEMORY => Error::OutOfMemory {
                bytes,
                device: self.name(),
            },
            error => failed(call)(error),
        })
    }

    /// Failures are for the next call to report: by then the context is lost or gone.
    ///
    /// # Safety
    ///
    /// `address` came from [`Self::allocate`], and only work that is on the stream already uses it.
    pub(super) unsafe fn free(&self, address: u64) {
        let Ok(_current) = self.gpu.enter() else {
            return;
        };
        // An error too: capture on another stream can forbid the question.
        if self.refuse_capture("", "").is_err() {
            self.unfreed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(address);
        } else {
            // SAFETY: the caller's.
            unsafe { self.free_now(address) }
        }
    }

    /// The context is current, and the stream is not being captured.
    ///
    /// # Safety
    ///
    /// As [`Self::free`].
    unsafe fn free_now(&self, address: u64) {
        let driver = self.gpu.driver;
        // SAFETY: the caller's; without pools, the work that uses the memory is done.
        let _ = unsafe {
            if self.gpu.has_pools {
                driver.mem_free_async(address, self.stream)
            } else {
                let _ = self.wait();
                driver.mem_free(address)
            }
        };
    }

    /// The context is current, and the stream is not being captured.
    fn free_the_unfreed(&self) {
        let unfreed =
            std::mem::take(&mut *self.unfreed.lock().unwrap_or_else(PoisonError::into_inner));
        for address in unfreed {
            // SAFETY: `free` left it here for later.
            unsafe { self.free_now(address) };
        }
    }

    /// # Safety
    ///
    /// `address` leads to `bytes` bytes that only work on the stream touches.
    pub(super) unsafe fn zero(&self, address: u64, bytes: usize) -> Result<(), Error> {
        let _current = self.gpu.enter()?;
        // SAFETY: device range: the caller's.
        unsafe {
            self.gpu
                .driver
                .memset_d8_async(address, 0, bytes, self.stream)
        }
        .map_err(failed("cuMemsetD8Async"))
    }

    /// # Safety
    ///
    /// As [`super::Device::upload`].
    pub(super) unsafe fn upload(
        &self,
        to: u64,
        from: *const c_void,
        bytes: usize,
    ) -> Result<(), Error> {
        let _current = self.gpu.enter()?;
        self.refuse_capture(
            "a copy from the host cannot be part of one",
            "copy before the capture",
        )?;
        // SAFETY: device range: the caller's; host range: the copy is waited for. Where the wait fails, the
        // context is lost and copies nothing any more.
        unsafe {
            self.gpu
                .driver
                .memcpy_htod_async(to, from, bytes, self.stream)
        }
        .map_err(failed("cuMemcpyHtoDAsync"))?;
        self.wait()
    }

    /// # Safety
    ///
    /// As [`super::Device::download`].
    pub(super) unsafe fn download(
        &self,
        to: *mut c_void,
        from: u64,
        bytes: usize,
    ) -> Result<(), Error> {
        let _current = self.gpu.enter()?;
        self.refuse_capture(
            "a copy to the host cannot be part of one",
            "copy after the capture",
        )?;
        // SAFETY: device range: the caller's; host range: the copy is waited for. Where the wait fails, the
        // context is lost and copies nothing any more.
        unsafe {
            self.gpu
                .driver
                .memcpy_dtoh_async(to, from, bytes, self.stream)
        }
        .map_err(failed("cuMemcpyDtoHAsync"))?;
        self.wait()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let Ok(_current) = self.gpu.enter() else {
            return;
        };
        if self.refuse_capture("", "").is_ok() {
            self.free_the_unfreed();
        }
        if self.is_ours {
            // SAFETY: made by `on`, and its tensors are gone, since each holds the device. What
            // runs on it still ends.
            let _ = unsafe { self.gpu.driver.stream_destroy(self.stream) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use super::*;

    struct Probe<T>(PhantomData<T>);

    impl<T: Send> Probe<T> {
        const IS_SEND: bool = true;
    }

    /// What the constant is where there is no other.
    trait Otherwise {
        const IS_SEND: bool = false;
    }

    impl<T> Otherwise for Probe<T> {}

    /// Dropped on another thread, it would change the current context there and leave this thread's as it is.
    const _: () = assert!(!Probe::<Current>::IS_SEND);
    const _: () = assert!(Probe::<Queue>::IS_SEND);
}
