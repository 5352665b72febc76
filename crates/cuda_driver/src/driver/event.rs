//! Events: points in a stream's work.

use std::ptr;

use super::Driver;
use crate::error::{check, output};
use crate::{CUevent, CUstream, CuError};

/// Whether an event records the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTiming {
    /// It does, for [`Driver::event_elapsed_time`].
    Enabled = 0,
    /// It does not, which makes it cheaper to wait for.
    Disabled = 2,
}

impl Driver {
    /// A new event.
    pub fn event_create(&self, timing: EventTiming) -> Result<CUevent, CuError> {
        // SAFETY: a place for the handle.
        output(ptr::null_mut(), |event| unsafe {
            (self.functions.event_create)(event, timing as u32)
        })
    }

    /// Records the point that the stream's work has reached.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn event_record(&self, event: CUevent, stream: CUstream) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.event_record)(event, stream) })
    }

    /// Waits until the recorded point is reached.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn event_synchronize(&self, event: CUevent) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.event_synchronize)(event) })
    }

    /// Milliseconds between two recorded points that are both reached.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn event_elapsed_time(&self, start: CUevent, end: CUevent) -> Result<f32, CuError> {
        // SAFETY: a place for the number, and the caller's promise.
        output(0.0, |milliseconds| unsafe {
            (self.functions.event_elapsed_time)(milliseconds, start, end)
        })
    }

    /// Destroys an event.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn event_destroy(&self, event: CUevent) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.event_destroy)(event) })
    }
}
