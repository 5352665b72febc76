//! Memory that is freed in stream order.

use std::panic::Location;

use cuda_std::emulator;

use super::{Backend, Device};
use crate::Error;

/// Memory of a device, freed when dropped, after the work that is on the stream by then.
pub(crate) struct Memory {
    device: Device,
    address: u64,
    bytes: usize,
}

impl Memory {
    /// Memory that holds anything; on the emulator, zeros. No bytes: no memory.
    #[track_caller]
    pub(crate) fn uninitialised(device: &Device, bytes: usize) -> Result<Self, Error> {
        let address = if bytes == 0 {
            0
        } else {
            match &device.inner.backend {
                Backend::Cuda(queue) => queue.allocate(bytes)?,
                Backend::Emulator(emulator) => emulator
                    .allocate(bytes, Location::caller())
                    .ok_or_else(|| Error::OutOfMemory {
                        bytes,
                        device: device.name().into(),
                    })?,
            }
        };
        Ok(Self {
            device: device.clone(),
            address,
            bytes,
        })
    }

    /// Memory that holds zeros.
    #[track_caller]
    pub(crate) fn zeroed(device: &Device, bytes: usize) -> Result<Self, Error> {
        let memory = Self::uninitialised(device, bytes)?;
        match &device.inner.backend {
            // SAFETY: the memory has as many bytes, and nothing else knows it.
            Backend::Cuda(queue) if bytes > 0 => unsafe { queue.zero(memory.address, bytes)? },
            Backend::Cuda(_) => {}
            Backend::Emulator(_) => emulator::set_written(memory.address, bytes),
        }
        Ok(memory)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Address of the first byte; 0 where there is none.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: allocated by this device with as many bytes, once, and borrowed by nothing any
        // more. Work that uses it is on the stream already.
        unsafe {
            match &self.device.inner.backend {
                Backend::Cuda(queue) => queue.free(self.address),
                Backend::Emulator(_) => emulator::free(self.address, self.bytes),
            }
        }
    }
}
