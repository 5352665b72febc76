//! The emulator as a device: its memory is the process's, and a launch is over when it returns.

use std::ffi::c_void;
use std::panic::Location;
use std::ptr;

use cuda_std::emulator::{self, Checks};

use super::{DeviceProperties, Launch};
use crate::Error;

pub(super) struct Emulator {
    properties: DeviceProperties,
    /// Whether every check is on. Otherwise those are that the calling thread asks for.
    checked: bool,
}

impl Emulator {
    pub(super) fn new(checked: bool) -> Self {
        Self {
            properties: DeviceProperties {
                compute_capability: None,
                multiprocessors: emulator::workers().unwrap_or(1) as u32,
                max_shared_bytes_per_block: emulator::MAX_SHARED_BYTES,
                max_cluster_blocks: 16,
                l2_bytes: 0,
            },
            checked,
        }
    }

    pub(super) fn is_checked(&self) -> bool {
        self.checked
    }

    /// Calls `f` under the checks that are on.
    fn under_checks<R>(&self, f: impl FnOnce() -> R) -> R {
        let current = Checks::current();
        if self.checked {
            let seed = current.seed;
            emulator::checked(
                Checks {
                    seed,
                    ..Checks::ALL
                },
                f,
            )
        } else {
            f()
        }
    }

    pub(super) fn name(&self) -> String {
        let workers = match self.properties.multiprocessors {
            1 => "1 worker thread".into(),
            workers => format!("{workers} worker threads"),
        };
        if self.checked {
            format!("checked emulator, {workers}")
        } else {
            format!("emulator, {workers}")
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
        let run = self.under_checks(|| unsafe {
            emulator::launch(launch.kernel.describe(), &shape, launch.parameters)
        });
        run.map_err(|fault| Error::Fault(Box::new(fault)))
    }

    /// Zeroed memory of `bytes` bytes, at least one, that faults say was made at `made_at`; `None` where there is
    /// none.
    pub(super) fn allocate(
        &self,
        bytes: usize,
        made_at: &'static Location<'static>,
    ) -> Option<u64> {
        self.under_checks(|| emulator::allocate(bytes, made_at))
    }
}

/// # Safety
///
/// As [`super::Device::upload`].
pub(super) unsafe fn upload(to: u64, from: *const c_void, bytes: usize) {
    let to = ptr::with_exposed_provenance_mut::<u8>(to as usize);
    // SAFETY: both have as many bytes, and `from` is not the device's.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to, bytes) }
    emulator::set_written(to.expose_provenance() as u64, bytes);
}

/// # Safety
///
/// As [`super::Device::download`].
pub(super) unsafe fn download(to: *mut c_void, from: u64, bytes: usize) {
    let from = ptr::with_exposed_provenance::<u8>(from as usize);
    // SAFETY: both have as many bytes, and `to` is not the device's.
    unsafe { ptr::copy_nonoverlapping(from, to.cast::<u8>(), bytes) }
}
