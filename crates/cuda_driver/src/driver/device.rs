//! Devices: how many, and what they can do.

use std::ffi::{CStr, c_char};

use super::Driver;
use crate::error::{check, output};
use crate::{CUdevice, CuError, DeviceAttribute};

impl Driver {
    /// How many devices there are.
    pub fn device_get_count(&self) -> Result<i32, CuError> {
        // SAFETY: a place for the number.
        output(0, |count| unsafe {
            (self.functions.device_get_count)(count)
        })
    }

    /// The device of an ordinal, 0 up to the count.
    pub fn device_get(&self, ordinal: i32) -> Result<CUdevice, CuError> {
        // SAFETY: a place for the device; the driver checks the ordinal.
        output(0, |device| unsafe {
            (self.functions.device_get)(device, ordinal)
        })
    }

    /// The device's name, such as `NVIDIA H200`.
    pub fn device_get_name(&self, device: CUdevice) -> Result<String, CuError> {
        let mut name: [c_char; 256] = [0; 256];
        // SAFETY: room for 256 bytes; the driver checks the device.
        check(unsafe { (self.functions.device_get_name)(name.as_mut_ptr(), 255, device) })?;
        // SAFETY: at most 255 bytes were written, so a NUL follows them.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        Ok(name.to_string_lossy().into_owned())
    }

    /// The device's UUID; that of the instance if it is part of a divided GPU (MIG).
    pub fn device_get_uuid(&self, device: CUdevice) -> Result<[u8; 16], CuError> {
        // SAFETY: a place for 16 bytes; the driver checks the device.
        output([0; 16], |uuid| unsafe {
            (self.functions.device_get_uuid)(uuid, device)
        })
    }

    /// Bytes of device memory.
    pub fn device_total_mem(&self, device: CUdevice) -> Result<usize, CuError> {
        // SAFETY: a place for the number; the driver checks the device.
        output(0, |bytes| unsafe {
            (self.functions.device_total_mem)(bytes, device)
        })
    }

    /// One of the numbers that describe the device.
    pub fn device_get_attribute(
        &self,
        attribute: DeviceAttribute,
        device: CUdevice,
    ) -> Result<i32, CuError> {
        // SAFETY: a place for the number; the driver checks attribute and device.
        output(0, |value| unsafe {
            (self.functions.device_get_attribute)(value, attribute.0, device)
        })
    }
}
