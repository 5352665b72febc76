//! Where tensors live and kernels run: a GPU, or the emulator.
//!
//! | file | what |
//! |---|---|
//! | `cuda` | a GPU and a stream on it |
//! | `module` | kernels, loaded into a GPU when first needed |
//! | `emulated` | the emulator |
//! | `memory` | memory that is freed in stream order |
//! | `bench_support` | events, graphs and copies, for benches and tests |

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod bench_support;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "no_cuda.rs"
)]
mod cuda;
mod emulated;
mod memory;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod module;

use std::env;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use cuda_std::emulator;
use kernels_gpu::options::StreamOrder;

use crate::Error;
use crate::plan::KernelId;
pub(crate) use memory::Memory;

/// Names the device that [`Device::auto`] takes.
const DEVICE_VARIABLE: &str = "WARP_SOFTMAX_DEVICE";

/// A GPU and a stream on it, or the emulator.
///
/// Cheap to clone; a clone is the same stream. Work is ordered on the stream: what was called first
/// is done first, and only reading results waits for it. The emulator does everything at once.
///
/// Threads may share a device. A GPU's primary context, once used, is kept until the process ends.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Backend,
    name: String,
    reason: String,
}

enum Backend {
    Cuda(cuda::Queue),
    Emulator(emulated::Emulator),
}

/// What a plan may ask of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceProperties {
    /// Compute capability, major and minor; the emulator has none.
    pub compute_capability: Option<(u32, u32)>,
    /// Streaming multiprocessors; for the emulator, worker threads.
    pub multiprocessors: u32,
    /// Most shared memory of a block, in bytes.
    pub max_shared_bytes_per_block: u32,
    /// Most blocks of a cluster; 1 where there are none.
    pub max_cluster_blocks: u32,
    /// Level 2 cache, in bytes; 0 for the emulator.
    pub l2_bytes: u64,
}

/// One launch of a kernel.
pub(crate) struct Launch<'a> {
    pub(crate) kernel: KernelId,
    pub(crate) grid: u32,
    pub(crate) block: u32,
    /// Blocks of a cluster; 1: none.
    pub(crate) cluster: u32,
    pub(crate) shared_bytes: u32,
    /// The emulator keeps all work in order anyway.
    #[cfg_attr(
        not(all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64")
        )),
        expect(dead_code)
    )]
    pub(crate) order: StreamOrder,
    /// A pointer for each parameter.
    pub(crate) parameters: &'a [*const c_void],
    /// All memory that the kernel may touch.
    pub(crate) buffers: &'a [emulator::Buffer],
}

impl Device {
    /// The first GPU, on a new stream; the emulator where there is no driver or no GPU that can run
    /// the kernels. [`reason`](Self::reason) says why.
    ///
    /// The environment variable `WARP_SOFTMAX_DEVICE` decides otherwise: `cuda` or `cuda:N` is that
    /// GPU or an error, `emulator` the emulator, `auto` the same as without it.
    ///
    /// # Errors
    ///
    /// Where the variable holds anything else, or the GPU that it names cannot be used.
    pub fn auto() -> Result<Self, Error> {
        let Some(value) = env::var_os(DEVICE_VARIABLE) else {
            return Ok(Self::detect());
        };
        let value = value.to_string_lossy().into_owned();
        match Choice::parse(&value) {
            Some(Choice::Auto) => Ok(Self::detect()),
            Some(Choice::Cuda(ordinal)) => Self::of_queue(
                cuda::Queue::open(ordinal)?,
                format!("{DEVICE_VARIABLE}={value}"),
            ),
            Some(Choice::Emulator) => Ok(Self::of_emulator(
                format!("{DEVICE_VARIABLE}={value}"),
                false,
            )),
            None => Err(Error::Environment {
                variable: DEVICE_VARIABLE,
                value,
                allowed: "it may be auto, cuda, cuda:N with a GPU's number N, or emulator",
            }),
        }
    }

    fn detect() -> Self {
        let queue = cuda::Queue::open(0);
        match queue.and_then(|queue| Self::of_queue(queue, "a driver and a GPU were found".into()))
        {
            Ok(device) => device,
            Err(error) => Self::of_emulator(error.chain(), false),
        }
    }

    /// GPU number `ordinal`, counted from 0, on a new stream that does not wait for the default
    /// stream.
    ///
    /// # Errors
    ///
    /// Where there is no driver, no such GPU, or the GPU cannot run the kernels.
    pub fn cuda(ordinal: usize) -> Result<Self, Error> {
        Self::of_queue(cuda::Queue::open(ordinal)?, "it was asked for".into())
    }

    /// The emulator: the same kernels, on the CPU.
    pub fn emulator() -> Self {
        Self::of_emulator("it was asked for".into(), false)
    }

    /// The emulator with every check that it has, as slow as that makes it; a GPU as it is.
    ///
    /// Without this an emulator finds accesses outside a call's tensors, misaligned ones, loads of shared memory
    /// that nobody has written, threads that wait for one another in vain, and missing waits. With it also races
    /// in shared and global memory, and kernels that load what nobody has written to a tensor, or touch a tensor
    /// that has been dropped (which only views of raw memory can). It sees what this device allocates; memory
    /// that somebody else did counts as written.
    ///
    /// | softmax of f32 | times the unchecked emulator's time |
    /// |---|---|
    /// | 256 rows of 128 elements, by `warp` | 2 |
    /// | 64 rows of 1,000, by `warp` | 4 to 6 |
    /// | 4 rows of 16,384, by `parked` | 7 to 12 |
    /// | 2 rows of 50,257, by `split_staged` | 7 to 8 |
    /// | 1 row of 300,000, by `stream` | 4 to 5 |
    ///
    /// (`cargo bench -p warp-softmax-tests --bench checks` on two busy cores; an order drawn from a seed, without
    /// checks, is 1 to 2 times the time.)
    ///
    /// ```
    /// use warp_softmax::{Device, Softmax};
    ///
    /// let device = Device::emulator().checked();
    /// let x = device.tensor_from(&[1.0f32, 2.0, 3.0], [1, 3])?;
    /// let y = Softmax::new().forward(&x)?; // an error if the kernel had done anything wrong
    /// # Ok::<(), warp_softmax::Error>(())
    /// ```
    #[must_use]
    pub fn checked(&self) -> Self {
        match &self.inner.backend {
            Backend::Cuda(_) => self.clone(),
            Backend::Emulator(_) => Self::of_emulator(self.inner.reason.clone(), true),
        }
    }

    /// The same GPU with a stream of its own; another emulator for the emulator.
    ///
    /// Tensors belong to one stream: work on two is not ordered between them.
    ///
    /// # Errors
    ///
    /// Where the driver cannot make one.
    pub fn new_stream(&self) -> Result<Self, Error> {
        match &self.inner.backend {
            Backend::Cuda(queue) => Self::of_queue(queue.new_stream()?, self.inner.reason.clone()),
            Backend::Emulator(emulator) => {
                let reason = self.inner.reason.clone();
                Ok(Self::of_emulator(reason, emulator.is_checked()))
            }
        }
    }

    /// GPU number `ordinal` with a stream that something else owns; null is the legacy default
    /// stream.
    ///
    /// # Errors
    ///
    /// As for [`Device::cuda`], where the stream is not of the GPU's primary context, and for
    /// `CU_STREAM_PER_THREAD`.
    ///
    /// # Safety
    ///
    /// * **live**: `stream` is null, `CU_STREAM_LEGACY`, or a `CUstream` or `cudaStream_t` that is not destroyed before
    ///   the device, its clones and its tensors are dropped.
    /// * **captured**: a graph that the stream's work is captured into is launched only while the tensors that the
    ///   work used are there and nothing else uses them; a capture begins and ends while no other
    ///   thread calls anything on the device or its tensors.
    pub unsafe fn from_raw_stream(ordinal: usize, stream: *mut c_void) -> Result<Self, Error> {
        // SAFETY: live: the caller's.
        let queue = unsafe { cuda::Queue::borrow(ordinal, stream)? };
        Self::of_queue(queue, "the stream was given".into())
    }

    fn of_queue(queue: cuda::Queue, reason: String) -> Result<Self, Error> {
        let name = queue.name();
        let backend = Backend::Cuda(queue);
        Ok(Self {
            inner: Arc::new(Inner {
                backend,
                name,
                reason,
            }),
        })
    }

    fn of_emulator(reason: String, checked: bool) -> Self {
        let emulator = emulated::Emulator::new(checked);
        let name = emulator.name();
        let backend = Backend::Emulator(emulator);
        Self {
            inner: Arc::new(Inner {
                backend,
                name,
                reason,
            }),
        }
    }

    /// Whether this is a GPU.
    pub fn is_cuda(&self) -> bool {
        matches!(self.inner.backend, Backend::Cuda(_))
    }

    /// What this is, such as `NVIDIA H200 (cuda:0, sm_90, driver 13.0)` or `emulator, 2 worker
    /// threads`.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Why it is this device and not another.
    pub fn reason(&self) -> &str {
        &self.inner.reason
    }

    /// What plans are made from.
    pub fn properties(&self) -> &DeviceProperties {
        match &self.inner.backend {
            Backend::Cuda(queue) => queue.properties(),
            Backend::Emulator(emulator) => emulator.properties(),
        }
    }

    /// Waits until all work on the stream is done.
    ///
    /// # Errors
    ///
    /// Where some of it failed, or the stream is being captured.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.inner.backend {
            Backend::Cuda(queue) => queue.synchronize(),
            Backend::Emulator(_) => Ok(()),
        }
    }

    /// Whether work on both is ordered: one stream, or the emulator, which does everything at once.
    fn shares_stream_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || match (&self.inner.backend, &other.inner.backend) {
                (Backend::Cuda(a), Backend::Cuda(b)) => a.is_same_stream(b),
                (Backend::Emulator(_), Backend::Emulator(_)) => true,
                _ => false,
            }
    }

    /// That work on both is ordered.
    pub(crate) fn check_shares_stream_with(&self, other: &Self) -> Result<(), Error> {
        if self.shares_stream_with(other) {
            return Ok(());
        }
        Err(Error::DeviceMismatch {
            first: self.name_with_stream(),
            second: other.name_with_stream(),
        })
    }

    fn name_with_stream(&self) -> String {
        match &self.inner.backend {
            Backend::Cuda(queue) => {
                format!("{}, stream {:#x}", self.inner.name, queue.stream_number())
            }
            Backend::Emulator(_) => self.inner.name.clone(),
        }
    }

    /// Loads a kernel, so that launching it need not.
    pub(crate) fn prepare(&self, kernel: KernelId) -> Result<(), Error> {
        match &self.inner.backend {
            Backend::Cuda(queue) => queue.prepare(kernel),
            Backend::Emulator(_) => Ok(()),
        }
    }

    /// Launches a kernel on the stream.
    ///
    /// # Safety
    ///
    /// * **parameters**: each points at a value of the kernel's type for it.
    /// * **buffers**: each is memory of this device until the work is done, initialised unless the
    ///   kernel only stores to it; nothing that is not ordered with the work touches the writable
    ///   ones, or writes the others.
    /// * **kernel**: what the kernel asks of its parameters, grid, block and shared memory.
    pub(crate) unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        // SAFETY: parameters, buffers, kernel: the caller's.
        unsafe {
            match &self.inner.backend {
                Backend::Cuda(queue) => queue.launch(launch),
                Backend::Emulator(emulator) => emulator.launch(launch),
            }
        }
    }

    /// Copies `bytes` bytes to the device's memory, after the work on the stream.
    ///
    /// # Safety
    ///
    /// `to` and `from` have as many bytes, and nothing that is not ordered with the stream touches
    /// `to`.
    pub(crate) unsafe fn upload(
        &self,
        to: u64,
        from: *const c_void,
        bytes: usize,
    ) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's.
        unsafe {
            match &self.inner.backend {
                Backend::Cuda(queue) => queue.upload(to, from, bytes),
                Backend::Emulator(_) => {
                    emulated::upload(to, from, bytes);
                    Ok(())
                }
            }
        }
    }

    /// Copies `bytes` bytes from the device's memory, after the work on the stream.
    ///
    /// # Safety
    ///
    /// `to` and `from` have as many bytes, and nothing that is not ordered with the stream writes
    /// `from`.
    pub(crate) unsafe fn download(
        &self,
        to: *mut c_void,
        from: u64,
        bytes: usize,
    ) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's.
        unsafe {
            match &self.inner.backend {
                Backend::Cuda(queue) => queue.download(to, from, bytes),
                Backend::Emulator(_) => {
                    emulated::download(to, from, bytes);
                    Ok(())
                }
            }
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.name())
            .field("reason", &self.reason())
            .finish()
    }
}

/// What `WARP_SOFTMAX_DEVICE` may say.
#[derive(Debug, PartialEq)]
enum Choice {
    Auto,
    Cuda(usize),
    Emulator,
}

impl Choice {
    fn parse(value: &str) -> Option<Self> {
        match value {
            "auto" => Some(Self::Auto),
            "cuda" => Some(Self::Cuda(0)),
            "emulator" => Some(Self::Emulator),
            // `parse` would take a sign.
            _ => match value.strip_prefix("cuda:") {
                Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    digits.parse().ok().map(Self::Cuda)
                }
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_a_device_or_is_an_error() {
        assert_eq!(Choice::parse("auto"), Some(Choice::Auto));
        assert_eq!(Choice::parse("cuda"), Some(Choice::Cuda(0)));
        assert_eq!(Choice::parse("cuda:12"), Some(Choice::Cuda(12)));
        assert_eq!(Choice::parse("emulator"), Some(Choice::Emulator));
        for value in [
            "",
            "gpu",
            "CUDA",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:1x",
            "cuda:99999999999999999999",
        ] {
            assert_eq!(Choice::parse(value), None, "{value}");
        }
    }
}
