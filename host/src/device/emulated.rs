//! The emulator as a device: its memory is the process's, and a launch is over when it returns.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::ptr;

use cuda_std::emulator;

use super::{DeviceProperties, Launch};
use crate::Error;

/// As the driver aligns its allocations.
const ALIGNMENT: usize = 256;

pub(super) struct Emulator {
    properties: DeviceProperties,
}

impl Emulator {
    pub(super) fn new() -> Self {
        Self {
            properties: DeviceProperties {
                compute_capability: None,
                multiprocessors: emulator::workers().unwrap_or(1) as u32,
                max_shared_bytes_per_block: emulator::MAX_SHARED_BYTES,
                max_cluster_blocks: 16,
                l2_bytes: 0,
            },
        }
    }

    pub(super) fn name(&self) -> String {
        match self.properties.multiprocessors {
            1 => "emulator, 1 worker thread".into(),
            workers => format!("emulator, {workers} worker threads"),
        }
    }

    pub(super) fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// # Safety
    ///
    /// As [`super::Device::launch`].
    pub(super) unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), Error> {
        let shape = emulator::Launch {
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            buffers: launch.buffers,
        };
        // SAFETY: parameters, buffers, contract: the caller's.
        let run = unsafe { emulator::launch(launch.kernel.describe(), &shape, launch.parameters) };
        run.map_err(|fault| Error::Fault(Box::new(fault)))
    }
}

/// Zeroed memory of `bytes` bytes, at least one; `None` where there is none.
pub(super) fn allocate(bytes: usize) -> Option<u64> {
    let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
    // SAFETY: at least one byte.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    (!memory.is_null()).then(|| memory.expose_provenance() as u64)
}

/// # Safety
///
/// `address` came from [`allocate`] with the same `bytes`, and nothing uses it afterwards.
pub(super) unsafe fn free(address: u64, bytes: usize) {
    let memory = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the caller's; the layout was accepted then.
    unsafe { alloc::dealloc(memory, Layout::from_size_align_unchecked(bytes, ALIGNMENT)) }
}

/// # Safety
///
/// As [`super::Device::upload`].
pub(super) unsafe fn upload(to: u64, from: *const c_void, bytes: usize) {
    let to = ptr::with_exposed_provenance_mut::<u8>(to as usize);
    // SAFETY: both have as many bytes, and `from` is not the device's.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to, bytes) }
}

/// # Safety
///
/// As [`super::Device::download`].
pub(super) unsafe fn download(to: *mut c_void, from: u64, bytes: usize) {
    let from = ptr::with_exposed_provenance::<u8>(from as usize);
    // SAFETY: both have as many bytes, and `to` is not the device's.
    unsafe { ptr::copy_nonoverlapping(from, to.cast::<u8>(), bytes) }
}
