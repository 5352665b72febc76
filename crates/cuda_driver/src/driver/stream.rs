//! Streams, and capturing them.

use std::ffi::c_int;
use std::ptr;

use super::Driver;
use crate::error::{check, output};
use crate::{CUcontext, CUevent, CUgraph, CUstream, CuError};

const CU_STREAM_NON_BLOCKING: u32 = 1;

/// Which threads may do what cannot be captured while a stream captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureMode {
    /// No thread.
    Global = 0,
    /// Every thread but the one that began the capture.
    ThreadLocal = 1,
    /// Every thread.
    Relaxed = 2,
}

/// Whether a stream is capturing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// It runs what it is given.
    None,
    /// It records what it is given.
    Active,
    /// A capture failed and has not ended.
    Invalidated,
}

impl Driver {
    /// A new stream that does not wait for the default stream.
    pub fn stream_create_non_blocking(&self) -> Result<CUstream, CuError> {
        // SAFETY: a place for the handle.
        output(ptr::null_mut(), |stream| unsafe {
            (self.functions.stream_create)(stream, CU_STREAM_NON_BLOCKING)
        })
    }

    /// Destroys a stream; the work on it still runs to its end.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn stream_destroy(&self, stream: CUstream) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.stream_destroy)(stream) })
    }

    /// Waits for all work on a stream.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn stream_synchronize(&self, stream: CUstream) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.stream_synchronize)(stream) })
    }

    /// Makes later work on `stream` wait for `event` as last recorded.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn stream_wait_event(
        &self,
        stream: CUstream,
        event: CUevent,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promise; no flags.
        check(unsafe { (self.functions.stream_wait_event)(stream, event, 0) })
    }

    /// The context that a stream belongs to.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn stream_get_ctx(&self, stream: CUstream) -> Result<CUcontext, CuError> {
        // SAFETY: a place for the handle, and the caller's promise.
        output(ptr::null_mut(), |context| unsafe {
            (self.functions.stream_get_ctx)(stream, context)
        })
    }

    /// Whether a stream is capturing.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn stream_is_capturing(&self, stream: CUstream) -> Result<CaptureStatus, CuError> {
        // SAFETY: a place for the number, and the caller's promise.
        let status: c_int = output(0, |status| unsafe {
            (self.functions.stream_is_capturing)(stream, status)
        })?;
        Ok(match status {
            0 => CaptureStatus::None,
            1 => CaptureStatus::Active,
            _ => CaptureStatus::Invalidated,
        })
    }

    /// Begins to record the stream's work into a graph instead of running it.
    ///
    /// # Safety
    ///
    /// **live**. What the recorded work asks of memory holds for each launch of the graph.
    pub unsafe fn stream_begin_capture(
        &self,
        stream: CUstream,
        mode: CaptureMode,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.stream_begin_capture)(stream, mode as c_int) })
    }

    /// Ends the recording and returns the graph.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn stream_end_capture(&self, stream: CUstream) -> Result<CUgraph, CuError> {
        // SAFETY: a place for the handle, and the caller's promise.
        output(ptr::null_mut(), |graph| unsafe {
            (self.functions.stream_end_capture)(stream, graph)
        })
    }
}
