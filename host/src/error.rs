//! What can go wrong.

use std::fmt;
use std::ops::Range;

use crate::{DType, Way};

/// Why a call did nothing, or not what it should.
///
/// Three kinds, told apart by the methods [`is_invalid_request`](Self::is_invalid_request),
/// [`is_unavailable`](Self::is_unavailable) and [`is_launch_failure`](Self::is_launch_failure).
/// Every invalid request is found before anything is launched or written.
///
/// The text says what failed, and leaves the cause to [`source`](std::error::Error::source).
/// [`chain`](Self::chain) is both.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // Invalid request.
    /// The number of elements given is not that of the shape.
    #[error("{given} elements were given for shape {shape:?}, which has {expected}")]
    Length {
        /// Elements given.
        given: usize,
        /// The shape.
        shape: Vec<usize>,
        /// Elements of the shape.
        expected: usize,
    },
    /// The shape has no dimensions, so there is no last one to run along.
    #[error("softmax runs along the last dimension, and a shape of rank 0 has none")]
    RankZero,
    /// The number of strides is not that of the dimensions.
    #[error("{strides:?} are {} strides for the {} dimensions of shape {shape:?}", strides.len(), shape.len())]
    StrideCount {
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements.
        strides: Vec<usize>,
    },
    /// Shape and strides span more elements than memory can hold.
    #[error("shape {shape:?} with strides {strides:?} has or spans more than {limit} elements")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements; empty where the tensor would be packed.
        strides: Vec<usize>,
        /// Most elements.
        limit: usize,
    },
    /// Input and output have different shapes.
    #[error("input shape {input:?} and output shape {output:?} differ")]
    ShapeMismatch {
        /// The input's shape.
        input: Vec<usize>,
        /// The output's shape.
        output: Vec<usize>,
    },
    /// A row is longer than any kernel takes.
    #[error("a row of {cols} elements is longer than the {limit} that a kernel takes")]
    RowTooLong {
        /// Elements a row.
        cols: usize,
        /// Most elements a row.
        limit: usize,
    },
    /// There is no kernel for these types.
    #[error(
        "there is no kernel from {input} to {output}: input and output have the same type, or one of them is f32"
    )]
    DTypes {
        /// The input's type.
        input: DType,
        /// The output's type.
        output: DType,
    },
    /// The elements of a row are not adjacent.
    #[error(
        "the {operand}'s last dimension has stride {stride}; it must be 1 where there is more than one element ({cols} here)"
    )]
    LastStride {
        /// Which tensor.
        operand: Operand,
        /// The last stride, in elements.
        stride: usize,
        /// Elements a row.
        cols: usize,
    },
    /// Two elements of the output are one place in memory.
    #[error("elements of the output share memory: shape {shape:?}, strides {strides:?}")]
    OutputOverlaps {
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements.
        strides: Vec<usize>,
    },
    /// Input and output share memory, and are not the same tensor.
    #[error(
        "input and output share memory without being the same elements: \
         input at {input:#x} with strides {input_strides:?} ({input_dtype}), \
         output at {output:#x} with strides {output_strides:?} ({output_dtype}), shape {shape:?}; \
         in place, address, strides and element size must be equal"
    )]
    InputOutputOverlap {
        /// The shape of both.
        shape: Vec<usize>,
        /// Address of the input's first element.
        input: u64,
        /// The input's strides, in elements.
        input_strides: Vec<usize>,
        /// The input's type.
        input_dtype: DType,
        /// Address of the output's first element.
        output: u64,
        /// The output's strides, in elements.
        output_strides: Vec<usize>,
        /// The output's type.
        output_dtype: DType,
    },
    /// What is written shares memory with another operand of the call.
    #[error(
        "the {written} shares memory with the {other}: they lie at {:#x}..{:#x} and {:#x}..{:#x}; \
         only input and output may be the same elements",
        written_bytes.start, written_bytes.end, other_bytes.start, other_bytes.end
    )]
    OperandOverlap {
        /// What is written.
        written: Operand,
        /// The addresses from its first element to its last.
        written_bytes: Range<u64>,
        /// What it shares memory with.
        other: Operand,
        /// The addresses from its first element to its last.
        other_bytes: Range<u64>,
    },
    /// Raw memory is smaller than shape and strides need.
    #[error(
        "memory of {given} elements is too small: shape {shape:?} with strides {strides:?} spans {needed}"
    )]
    ExtentTooSmall {
        /// Elements given.
        given: usize,
        /// Elements from the first to the last, both counted.
        needed: usize,
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements.
        strides: Vec<usize>,
    },
    /// A raw address is null, or not a multiple of its element's size.
    #[error(
        "address {address:#x} is no place for {elem}: it must be a multiple of {elem_bytes} and not null"
    )]
    Address {
        /// The address.
        address: u64,
        /// The type of the elements.
        elem: &'static str,
        /// Bytes of an element.
        elem_bytes: usize,
    },
    /// The scale is infinite or NaN.
    #[error("a scale of {scale} is not finite")]
    ScaleNotFinite {
        /// The scale.
        scale: f32,
    },
    /// The soft cap is not positive, not finite, or so small that one over it is not.
    #[error("a soft cap of {cap:?} is no positive normal number")]
    SoftCap {
        /// The cap.
        cap: f32,
    },
    /// A mask, or another operand beside the scores, does not fit the scores.
    #[error("the {operand} of shape {shape:?} does not fit scores of shape {scores:?}: {rule}")]
    OperandShape {
        /// Which operand.
        operand: Operand,
        /// Its shape.
        shape: Vec<usize>,
        /// The scores' shape.
        scores: Vec<usize>,
        /// What its shape may be.
        rule: &'static str,
    },
    /// Input and output, or tensor and operation, are on different devices or streams.
    #[error("tensors must be on one device and stream: one is on {first}, another on {second}")]
    DeviceMismatch {
        /// One device, and its stream.
        first: String,
        /// The other.
        second: String,
    },
    /// There is no such dimension.
    #[error("there is no dimension {dim} in a shape of rank {rank}")]
    NoSuchDimension {
        /// The dimension asked for, counted from 0.
        dim: usize,
        /// How many there are.
        rank: usize,
    },
    /// A range of indices is not inside its dimension.
    #[error("indices {start}..{end} are not a range within dimension {dim} of {extent} elements")]
    Slice {
        /// The dimension.
        dim: usize,
        /// The first index.
        start: usize,
        /// One past the last index.
        end: usize,
        /// Elements of the dimension.
        extent: usize,
    },
    /// Not every dimension is named exactly once.
    #[error("{order:?} does not name each of {rank} dimensions once")]
    Permutation {
        /// The order given.
        order: Vec<usize>,
        /// How many dimensions there are.
        rank: usize,
    },
    /// A shape cannot be repeated into another.
    #[error(
        "shape {from:?} cannot be broadcast to {to:?}: counted from the last, each dimension must be equal, 1 or absent"
    )]
    Broadcast {
        /// The view's shape.
        from: Vec<usize>,
        /// The shape asked for.
        to: Vec<usize>,
    },
    /// The way that was forced cannot hold the row, or is not for such rows.
    #[error("{}", way_not_possible(*way, *cols, *limit))]
    WayNotPossible {
        /// The way.
        way: Way,
        /// Elements a row.
        cols: usize,
        /// Most elements a row, for these types on this device; 0 where the way takes no rows like
        /// these at all.
        limit: usize,
    },
    /// An environment variable holds something else than it may.
    #[error("{variable}={value} is not allowed: {allowed}")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        allowed: &'static str,
    },
    /// A stream belongs to another context than the GPU's primary one.
    #[error("the stream given does not belong to the primary context of cuda:{ordinal}")]
    ForeignStream {
        /// The GPU, counted from 0.
        ordinal: usize,
    },
    /// A stream that is another in each thread.
    #[error(
        "the stream given is CU_STREAM_PER_THREAD, another in each thread, and tensors go from thread to thread: \
         give a stream of its own, or null for the legacy default stream"
    )]
    PerThreadStream,
    /// A stream is being captured into a graph, and the call cannot be part of one.
    #[error("the stream is being captured into a graph, and {what}: {instead}")]
    Capture {
        /// What cannot be captured.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },

    // Unavailable here.
    /// There is no driver that could be used.
    #[error("no GPU can be used")]
    NoDriver {
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no such GPU.
    #[error(
        "there is no GPU cuda:{ordinal}: the driver shows {count}, counted from 0 \
         (CUDA_VISIBLE_DEVICES, where it is set, hides those that it does not name)"
    )]
    NoSuchGpu {
        /// The GPU asked for, counted from 0.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// The GPU cannot run the kernels.
    #[error("{name} is of compute capability {}.{}; the kernels need {}.{} or more", found.0, found.1, needed.0, needed.1)]
    GpuTooOld {
        /// The GPU's name.
        name: String,
        /// What it can do: major, minor.
        found: (u32, u32),
        /// What the kernels need: major, minor.
        needed: (u32, u32),
    },
    /// Memory is exhausted.
    #[error(
        "{bytes} bytes of memory are not to be had on {device}: drop tensors, or compute in parts"
    )]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// The device, or the host.
        device: String,
    },

    // Launch failed.
    /// A call of the CUDA driver failed.
    #[error("{call} failed")]
    Driver {
        /// The driver's function, or what it was to do.
        call: &'static str,
        /// What the driver said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The context in which all tensors of the GPU live is lost, and with it their elements.
    #[error(
        "{call} failed, and so will every call on this GPU until the process is started anew: {why}"
    )]
    ContextLost {
        /// The driver's function that told of it.
        call: &'static str,
        /// What may have happened, and how to find out.
        why: &'static str,
        /// What the driver said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The driver could not load a kernel, or not make machine code of it.
    #[error("the driver cannot load kernel {kernel}")]
    Load {
        /// The kernel.
        kernel: &'static str,
        /// What the driver said, with its compiler's log.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The emulator found a kernel at fault.
    #[error("the emulator stopped the kernel")]
    Fault(#[source] Box<cuda_std::emulator::Fault>),
}

impl Error {
    /// The text and those of its causes, a colon between each and the next: what to show a user, and what
    /// `anyhow` shows with `{error:#}`.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    }

    /// Whether the request was wrong: no device could have carried it out.
    pub fn is_invalid_request(&self) -> bool {
        !self.is_unavailable() && !self.is_launch_failure()
    }

    /// Whether what was asked for is not to be had on this machine, or not now.
    pub fn is_unavailable(&self) -> bool {
        matches!(
            self,
            Self::NoDriver { .. }
                | Self::NoSuchGpu { .. }
                | Self::GpuTooOld { .. }
                | Self::OutOfMemory { .. }
        )
    }

    /// Whether the driver or the emulator failed at what it was asked to do.
    pub fn is_launch_failure(&self) -> bool {
        matches!(
            self,
            Self::Driver { .. } | Self::ContextLost { .. } | Self::Load { .. } | Self::Fault(_)
        )
    }
}

fn way_not_possible(way: Way, cols: usize, limit: usize) -> String {
    match limit {
        0 => format!("way `{way}` is not for rows like these, or not for this device"),
        limit => format!("way `{way}` takes rows of up to {limit} elements here, not {cols}"),
    }
}

/// One of a call's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operand {
    /// What is read.
    Input,
    /// What is written.
    Output,
    /// What is added to the scores.
    AdditiveMask,
    /// Which keys take part.
    KeepMask,
    /// Which keys take no part.
    HideMask,
    /// How many keys there are.
    KeyLengths,
    /// Slopes of biases that grow with the distance.
    AlibiSlopes,
    /// Logits that only take part in the sum.
    Sinks,
    /// Logarithms of sums of exponentials.
    LogSumExp,
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::AdditiveMask => "additive mask",
            Self::KeepMask => "mask of keys to keep",
            Self::HideMask => "mask of keys to hide",
            Self::KeyLengths => "tensor of key lengths",
            Self::AlibiSlopes => "tensor of ALiBi slopes",
            Self::Sinks => "tensor of sink logits",
            Self::LogSumExp => "tensor of log-sum-exps",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use kernels_gpu::entries::REGISTRY;

    use super::*;

    /// Each cause is told once in the chain, and in no error's own text.
    #[test]
    fn no_text_repeats_its_cause() {
        let cause = || "the cause".into();
        let (call, why, kernel) = ("cuCall", "a reason", "softmax");
        let nothing = cuda_std::emulator::Launch {
            grid: 0,
            block: 0,
            cluster: 0,
            shared_bytes: 0,
            buffers: &[],
        };
        // SAFETY: a launch of no blocks is refused.
        let launched = unsafe { cuda_std::emulator::launch(&REGISTRY[0], &nothing, &[]) };
        let fault = launched.unwrap_err();
        assert!(
            Error::Fault(Box::new(fault.clone()))
                .chain()
                .ends_with(&fault.to_string())
        );
        for error in [
            Error::NoDriver { source: cause() },
            Error::Driver {
                call,
                source: cause(),
            },
            Error::ContextLost {
                call,
                why,
                source: cause(),
            },
            Error::Load {
                kernel,
                source: cause(),
            },
        ] {
            assert!(error.source().is_some(), "{error:?}");
            assert!(!error.to_string().contains("the cause"), "{error}");
            let text = error.chain();
            assert_eq!(text.matches("the cause").count(), 1, "{text}");
        }
    }
}
