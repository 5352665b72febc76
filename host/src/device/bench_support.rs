//! Events, graphs and copies on a GPU, for this project's benches and tests. No part of the stable
//! interface.
//!
//! A device that is the emulator is an error, except where it says otherwise.

use std::mem::ManuallyDrop;
use std::ptr;
use std::time::{Duration, Instant};

use cuda_driver::{CUevent, CUgraph, CUgraphExec, CaptureMode, EventTiming};

use super::cuda::{Queue, failed};
use super::{Backend, Device, emulated};
use crate::{Element, Error, Input, Operand, Output, Softmax, launch};

fn queue(device: &Device) -> Result<&Queue, Error> {
    match &device.inner.backend {
        Backend::Cuda(queue) => Ok(queue),
        Backend::Emulator(_) => Err(Error::NoDriver {
            source: "this measures a GPU, and the device is the emulator".into(),
        }),
    }
}

/// Memory of the device that nobody has, in bytes.
///
/// # Errors
///
/// Where the driver cannot tell.
pub fn free_bytes(device: &Device) -> Result<usize, Error> {
    let gpu = queue(device)?.gpu;
    let _current = gpu.enter()?;
    let info = gpu.driver.mem_get_info().map_err(failed("cuMemGetInfo"))?;
    Ok(info.free_bytes)
}

/// Bytes of the device's default pool that this process has not given back; nothing where the device has no pool.
///
/// # Errors
///
/// Where the driver cannot tell.
pub fn used_bytes(device: &Device) -> Result<Option<u64>, Error> {
    let gpu = queue(device)?.gpu;
    let _current = gpu.enter()?;
    gpu.used_bytes()
}

/// How many kernels of those loaded so far the device's driver had to compile: the others came as cubins.
///
/// # Errors
///
/// As all of this on the emulator.
pub fn compiled_kernels(device: &Device) -> Result<usize, Error> {
    Ok(queue(device)?.gpu.kernels.compiled())
}

/// A point in a stream's work, with its time.
pub struct Event {
    device: Device,
    event: CUevent,
}

impl Event {
    /// The point that the device's stream has reached when it has done all that it was given so
    /// far.
    pub fn record(device: &Device) -> Result<Self, Error> {
        let queue = queue(device)?;
        let driver = queue.gpu.driver;
        let _current = queue.gpu.enter()?;
        let event = driver
            .event_create(EventTiming::Enabled)
            .map_err(failed("cuEventCreate"))?;
        let this = Self {
            device: device.clone(),
            event,
        };
        // SAFETY: live: both are.
        unsafe { driver.event_record(event, queue.stream) }.map_err(failed("cuEventRecord"))?;
        Ok(this)
    }

    /// Milliseconds from an earlier event to this one, once both are reached.
    pub fn milliseconds_since(&self, earlier: &Self) -> Result<f32, Error> {
        let queue = queue(&self.device)?;
        let driver = queue.gpu.driver;
        let _current = queue.gpu.enter()?;
        // SAFETY: live: all are.
        unsafe {
            driver
                .event_synchronize(earlier.event)
                .map_err(failed("cuEventSynchronize"))?;
            driver
                .event_synchronize(self.event)
                .map_err(failed("cuEventSynchronize"))?;
            driver
                .event_elapsed_time(earlier.event, self.event)
                .map_err(failed("cuEventElapsedTime"))
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(queue) = queue(&self.device)
            && let Ok(_current) = queue.gpu.enter()
        {
            // SAFETY: live: made by `record`, destroyed once.
            let _ = unsafe { queue.gpu.driver.event_destroy(self.event) };
        }
    }
}

/// A capture that has begun. It ends when this goes, or a panic would leave the stream capturing.
struct Capturing<'a> {
    queue: &'a Queue,
}

/// What was captured, to be made a [`Graph`].
struct Captured<'a> {
    queue: &'a Queue,
    graph: CUgraph,
}

impl<'a> Capturing<'a> {
    fn end(self) -> Result<Captured<'a>, Error> {
        let this = ManuallyDrop::new(self);
        this.take()
    }

    fn take(&self) -> Result<Captured<'a>, Error> {
        let queue = self.queue;
        // SAFETY: live: the stream is.
        let graph = unsafe { queue.gpu.driver.stream_end_capture(queue.stream) }
            .map_err(failed("cuStreamEndCapture"))?;
        Ok(Captured { queue, graph })
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        // The panic is what is to be told.
        let _ = self.take();
    }
}

impl Drop for Captured<'_> {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            // SAFETY: live: ended above, destroyed once.
            let _ = unsafe { self.queue.gpu.driver.graph_destroy(self.graph) };
        }
    }
}

/// Work that was captured, to be run again and again.
pub struct Graph {
    device: Device,
    exec: CUgraphExec,
}

impl Graph {
    /// Captures what `work` gives to the device's stream, without running it.
    ///
    /// # Safety
    ///
    /// The graph is not launched when a tensor that `work` used is gone, or borrowed by anything
    /// else; and until this returns, nothing but `work` uses the device's stream.
    pub unsafe fn capture(
        device: &Device,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let queue = queue(device)?;
        let driver = queue.gpu.driver;
        let _current = queue.gpu.enter()?;
        // SAFETY: live: the stream is. What the work asks of memory is the caller's.
        unsafe { driver.stream_begin_capture(queue.stream, CaptureMode::ThreadLocal) }
            .map_err(failed("cuStreamBeginCapture"))?;
        let capturing = Capturing { queue };
        let worked = work();
        let captured = capturing.end();
        // Work that failed is why the capture fails, too.
        worked?;
        let captured = captured?;
        // SAFETY: live: until it is dropped.
        let exec = unsafe { driver.graph_instantiate(captured.graph) }
            .map_err(failed("cuGraphInstantiate"))?;
        Ok(Self {
            device: device.clone(),
            exec,
        })
    }

    /// Runs the work once more, on the stream that it was captured from.
    pub fn launch(&self) -> Result<(), Error> {
        let queue = queue(&self.device)?;
        let _current = queue.gpu.enter()?;
        // SAFETY: live: both are; what the work asks of memory is the promise of `capture`.
        unsafe { queue.gpu.driver.graph_launch(self.exec, queue.stream) }
            .map_err(failed("cuGraphLaunch"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(queue) = queue(&self.device)
            && let Ok(_current) = queue.gpu.enter()
        {
            // SAFETY: live: made by `capture`, destroyed once.
            let _ = unsafe { queue.gpu.driver.graph_exec_destroy(self.exec) };
        }
    }
}

/// Copies a packed tensor into another of as many elements, as the driver does it. The emulator
/// copies, too.
pub fn copy<'a, 'b, T: Element>(
    from: impl Input<'a, Elem = T>,
    to: impl Output<'b, Elem = T>,
) -> Result<(), Error> {
    let (from, to) = (from.into_view(), to.into_view_mut());
    for (shape, strides) in [(from.shape(), from.strides()), (to.shape(), to.strides())] {
        let mut packed = 1;
        for (&extent, &stride) in shape.iter().zip(strides).rev() {
            if extent > 1 && stride != packed {
                return Err(Error::Driver {
                    call: "cuMemcpyDtoDAsync",
                    source: format!("strides {strides:?} of {shape:?} are not packed").into(),
                });
            }
            packed *= extent;
        }
    }
    if from.len() != to.len() {
        return Err(Error::Length {
            given: from.len(),
            shape: to.shape().into(),
            expected: to.len(),
        });
    }
    from.device().check_shares_stream_with(to.device())?;
    if from.is_empty() {
        return Ok(());
    }
    let (read, written) = (from.side().elements(), to.side().elements());
    if written.meet(&read) {
        return Err(Error::OperandOverlap {
            written: Operand::Output,
            written_bytes: written.bytes(),
            other: Operand::Input,
            other_bytes: read.bytes(),
        });
    }
    let bytes = from.len() * size_of::<T>();
    let queue = match &from.device().inner.backend {
        Backend::Cuda(queue) => queue,
        Backend::Emulator(_) => {
            let from = ptr::with_exposed_provenance(from.address() as usize);
            // SAFETY: both have as many bytes, and share none.
            unsafe { emulated::upload(to.address(), from, bytes) };
            return Ok(());
        }
    };
    let _current = queue.gpu.enter()?;
    let driver = queue.gpu.driver;
    // SAFETY: live: the stream is; device range: both have as many bytes, and share none.
    unsafe { driver.memcpy_dtod_async(to.address(), from.address(), bytes, queue.stream) }
        .map_err(failed("cuMemcpyDtoDAsync"))
}

/// What the driver alone takes: launches a softmax `times` times, with everything decided before,
/// and returns how long the calls took on this thread. Nothing is waited for.
pub fn time_raw_launches<'x, 'y>(
    softmax: &Softmax,
    x: impl Input<'x, Elem: Element>,
    y: impl Output<'y, Elem: Element>,
    times: usize,
) -> Result<Duration, Error> {
    let (x, y) = (x.into_view(), y.into_view_mut());
    let (device, input, output) = (x.device(), x.side(), y.side());
    let queue = queue(device)?;
    device.check_shares_stream_with(y.device())?;
    let (problem, plan) = softmax.plan_sides(device, input, output)?;
    let _current = queue.gpu.enter()?;
    let mut taken = Duration::ZERO;
    launch::each(&problem, &plan, softmax.options, input, output, |launch| {
        let function = queue.function(launch.kernel)?;
        let start = Instant::now();
        for _ in 0..times {
            // SAFETY: parameters, buffers, kernel: as planned for these views, which vouch for
            // their memory; the function is the launch's.
            unsafe { queue.launch_function(function, launch)? };
        }
        taken += start.elapsed();
        Ok(())
    })?;
    Ok(taken)
}

/// The device's stream, for libraries that take one; null for the emulator.
pub fn raw_stream(device: &Device) -> *mut std::ffi::c_void {
    queue(device).map_or(ptr::null_mut(), |queue| queue.stream.cast())
}
