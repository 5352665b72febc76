//! Contexts: the device's primary one, and which is current to the thread.

use std::ptr;

use super::Driver;
use crate::error::{check, output};
use crate::{CUcontext, CUdevice, CuError};

impl Driver {
    /// The device's primary context, made if there is none, and kept until as many releases.
    pub fn device_primary_ctx_retain(&self, device: CUdevice) -> Result<CUcontext, CuError> {
        // SAFETY: a place for the handle; the driver checks the device.
        output(ptr::null_mut(), |context| unsafe {
            (self.functions.device_primary_ctx_retain)(context, device)
        })
    }

    /// Gives back one hold on the device's primary context.
    ///
    /// # Safety
    ///
    /// One retain is given back by one release. The last release ends the context: nothing in it
    /// is used afterwards.
    pub unsafe fn device_primary_ctx_release(&self, device: CUdevice) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.device_primary_ctx_release)(device) })
    }

    /// Makes `context` current to the thread, in place of the one that is; null leaves none.
    ///
    /// # Safety
    ///
    /// **live**, or null.
    pub unsafe fn ctx_set_current(&self, context: CUcontext) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.ctx_set_current)(context) })
    }

    /// The context current to the thread; null if there is none.
    pub fn ctx_get_current(&self) -> Result<CUcontext, CuError> {
        // SAFETY: a place for the handle.
        output(ptr::null_mut(), |context| unsafe {
            (self.functions.ctx_get_current)(context)
        })
    }

    /// Makes `context` current to the thread, on top of the one that is.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn ctx_push_current(&self, context: CUcontext) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.ctx_push_current)(context) })
    }

    /// Takes the current context off the thread and returns it; the one below is current again.
    pub fn ctx_pop_current(&self) -> Result<CUcontext, CuError> {
        // SAFETY: a place for the handle.
        output(ptr::null_mut(), |context| unsafe {
            (self.functions.ctx_pop_current)(context)
        })
    }

    /// Waits for all work in the current context.
    pub fn ctx_synchronize(&self) -> Result<(), CuError> {
        // SAFETY: no arguments.
        check(unsafe { (self.functions.ctx_synchronize)() })
    }
}
