//! Why a launch ended early.

use super::Kernel;
use super::collective::Collective;
use core::fmt;
use std::panic::Location;

/// A place in the kernel's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// Path as the compiler was given it.
    pub file: Box<str>,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

impl From<&Location<'_>> for SourceLocation {
    fn from(location: &Location<'_>) -> Self {
        Self {
            file: location.file().into(),
            line: location.line(),
            column: location.column(),
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A launch that was refused, or a kernel that broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Index of the block; 0 if the launch was refused.
    pub block: u32,
    /// Index of the thread in its block; 0 if the launch was refused.
    pub thread: u32,
    /// What it did.
    pub kind: FaultKind,
    /// Where; nothing if the launch was refused.
    pub location: Option<SourceLocation>,
}

/// Which way a memory access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// From memory.
    Load,
    /// To memory.
    Store,
    /// An operation on the mbarrier that lies there.
    Mbarrier,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Access::Load => "load",
            Access::Store => "store",
            Access::Mbarrier => "mbarrier operation",
        })
    }
}

/// Where an access lies, seen from a buffer of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPlace {
    /// Its index in [`Launch::buffers`](super::Launch::buffers).
    pub index: usize,
    /// Its extent.
    pub bytes: u64,
    /// The access's address less the buffer's, in bytes, modulo 2^64.
    pub offset: i64,
}

impl fmt::Display for BufferPlace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            index,
            bytes,
            offset,
        } = self;
        write!(f, "buffer {index} of {bytes} bytes, at offset {offset}")
    }
}

/// Where in memory an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPlace {
    /// To global memory.
    Global {
        /// Address of its first byte.
        address: u64,
        /// The same in the buffer it lies in.
        buffer: BufferPlace,
    },
    /// To the dynamic shared memory of a block.
    Shared {
        /// Index of the block in the grid.
        block: u32,
        /// Offset of its first byte.
        offset: u32,
    },
}

impl fmt::Display for MemoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Global { address, buffer } => write!(f, "at {address:#x} ({buffer})"),
            Self::Shared { block, offset } => {
                write!(
                    f,
                    "at offset {offset} of the shared memory of block {block}"
                )
            }
        }
    }
}

/// An access that has to do with the one at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherAccess {
    /// Which way it went.
    pub access: Access,
    /// Index of its block.
    pub block: u32,
    /// Index of its thread in its block.
    pub thread: u32,
    /// Where it is.
    pub location: SourceLocation,
}

impl fmt::Display for OtherAccess {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            access,
            block,
            thread,
            location,
        } = self;
        write!(f, "{access} by block {block}, thread {thread}, {location}")
    }
}

/// The thread that a collective waits for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such thread: the block is too small.
    Absent,
    /// It has returned.
    Exited,
    /// It waits somewhere else.
    Waits {
        /// For what.
        operation: Collective,
        /// The lanes that operation names, if it is a warp's.
        mask: Option<u32>,
        /// Where.
        location: SourceLocation,
    },
}

/// A thread that waits, but not where another does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Index in the grid of its block.
    pub block: u32,
    /// Its index in the block.
    pub thread: u32,
    /// For what.
    pub operation: Collective,
    /// Where.
    pub location: SourceLocation,
}

/// What a thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The launch was refused: what was given, and what is allowed.
    InvalidLaunch(String),
    /// A global access that lies in no buffer of the launch.
    OutOfBounds {
        /// Which way.
        access: Access,
        /// Address of its first byte.
        address: u64,
        /// Its size.
        bytes: u32,
        /// The nearest buffer; none if the launch has none.
        nearest: Option<BufferPlace>,
    },
    /// A store into a buffer that the kernel may only read.
    ReadOnly {
        /// Address of its first byte.
        address: u64,
        /// Its size.
        bytes: u32,
        /// The same in that buffer.
        buffer: BufferPlace,
    },
    /// A global access to memory that has been freed. Found only where memory is [watched](super::Checks::memory).
    Freed {
        /// Which way.
        access: Access,
        /// Address of its first byte.
        address: u64,
        /// Its size.
        bytes: u32,
        /// The same in the buffer that the launch names.
        buffer: BufferPlace,
        /// Where the memory was made.
        made_at: SourceLocation,
    },
    /// A load of global memory that nobody has stored to. Found only where memory is
    /// [watched](super::Checks::memory).
    Unwritten {
        /// Address of its first byte.
        address: u64,
        /// Its size.
        bytes: u32,
        /// The same in its buffer.
        buffer: BufferPlace,
        /// Where the memory was made.
        made_at: SourceLocation,
    },
    /// A global access whose address is not a multiple of its size.
    Misaligned {
        /// Which way.
        access: Access,
        /// Address of its first byte.
        address: u64,
        /// Its size.
        bytes: u32,
        /// The same in its buffer.
        buffer: BufferPlace,
    },
    /// An access outside the block's dynamic shared memory.
    SharedOutOfBounds {
        /// Which way.
        access: Access,
        /// Offset of its first byte in the dynamic shared memory.
        offset: u32,
        /// Its size.
        bytes: u32,
        /// The launch's dynamic shared memory.
        shared_bytes: u32,
    },
    /// A shared access whose address is not a multiple of its size.
    SharedMisaligned {
        /// Which way.
        access: Access,
        /// Offset of its first byte in the dynamic shared memory.
        offset: u32,
        /// Its size.
        bytes: u32,
    },
    /// A load of shared memory that nobody has stored to.
    SharedUnwritten {
        /// Offset of its first byte in the dynamic shared memory.
        offset: u32,
        /// Its size.
        bytes: u32,
    },
    /// An access of what an asynchronous copy or store brings, by a thread that is not ordered after a wait for it.
    MissingWait {
        /// Which way the access went.
        access: Access,
        /// Where.
        place: MemoryPlace,
        /// Its size.
        bytes: u32,
        /// The copy, or the store.
        copy: Box<OtherAccess>,
    },
    /// An asynchronous store that no thread of its destination had waited for when all of them had returned.
    NeverAwaited {
        /// Index in the grid of the block it went to.
        destination: u32,
        /// Offset of its first byte in the dynamic shared memory there.
        offset: u32,
    },
    /// Two accesses of the same bytes that nothing orders, and that must be: unless both load, or both work on
    /// one mbarrier. Found only where [races](super::Checks::races) are looked for.
    Race {
        /// Which way this one went.
        access: Access,
        /// Where.
        place: MemoryPlace,
        /// Its size.
        bytes: u32,
        /// The one before, in the order in which the emulator ran them.
        other: Box<OtherAccess>,
    },
    /// A collective that some thread it names does not reach.
    Divergence {
        /// The collective.
        operation: Collective,
        /// The lanes it names, if it is a warp's.
        mask: Option<u32>,
        /// Index in the grid of the block of a thread that does not come.
        missing_block: u32,
        /// Index in its block of that thread.
        missing_thread: u32,
        /// Where that thread is.
        missing: Missing,
    },
    /// A collective whose own lane is not in its mask.
    NotInMask {
        /// The collective.
        operation: Collective,
        /// The lanes it names.
        mask: u32,
    },
    /// A shuffle from a lane that is not in the mask.
    ShuffleSource {
        /// The shuffle.
        operation: Collective,
        /// The lanes it names.
        mask: u32,
        /// The lane it reads.
        lane: u32,
    },
    /// A shuffle whose width is not a power of two from 1 to 32.
    ShuffleWidth {
        /// The shuffle.
        operation: Collective,
        /// What was given.
        width: u32,
    },
    /// A second arrival at the cluster barrier without a wait after the first.
    ClusterArrivedTwice,
    /// A wait at the cluster barrier without an arrival before it.
    ClusterNotArrived,
    /// A store to a rank that the cluster does not have.
    NoSuchRank {
        /// What was given.
        rank: u32,
        /// The blocks of the cluster.
        cluster_blocks: u32,
    },
    /// A store to a block of the cluster all of whose threads have returned.
    PeerExited {
        /// Its rank.
        rank: u32,
    },
    /// A use of an mbarrier where none has been made.
    MbarrierMissing {
        /// Its offset in the dynamic shared memory.
        offset: u32,
    },
    /// An mbarrier made for a number of arrivals that is not 1 to 2^20 - 1.
    MbarrierArrivals {
        /// Its offset in the dynamic shared memory.
        offset: u32,
        /// What was given.
        arrivals: u32,
    },
    /// More arrivals at an mbarrier in one phase than it was made for.
    MbarrierOverrun {
        /// Its offset in the dynamic shared memory.
        offset: u32,
    },
    /// A wait at an mbarrier whose phase nothing completes any more.
    MbarrierIncomplete {
        /// Its offset in the dynamic shared memory.
        offset: u32,
        /// The parity that is waited for.
        parity: u32,
        /// Arrivals that have not come.
        missing_arrivals: u32,
        /// Bytes that have not come; below 0: that nobody expects.
        missing_bytes: i64,
        /// Where the mbarrier was made.
        made_at: SourceLocation,
        /// The first thread of the cluster that has not returned and is not at this wait, and where it is instead.
        elsewhere: Option<Box<Elsewhere>>,
    },
    /// The kernel panicked, with this message.
    Panic(String),
}

impl Fault {
    pub(super) fn launch(kernel: &Kernel, problem: String) -> Self {
        Self {
            kernel: kernel.name,
            block: 0,
            thread: 0,
            kind: FaultKind::InvalidLaunch(problem),
            location: None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let FaultKind::InvalidLaunch(problem) = &self.kind {
            return write!(f, "kernel `{}`: {problem}", self.kernel);
        }
        let Self {
            kernel,
            block,
            thread,
            kind,
            ..
        } = self;
        write!(f, "kernel `{kernel}`, block {block}, thread {thread}")?;
        if let Some(location) = &self.location {
            write!(f, ", {location}")?;
        }
        write!(f, ": {kind}")
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            FaultKind::InvalidLaunch(problem) => f.write_str(problem),
            FaultKind::OutOfBounds {
                access,
                address,
                bytes,
                nearest,
            } => {
                write!(
                    f,
                    "{access} of {bytes} bytes at {address:#x}, outside every buffer"
                )?;
                match nearest {
                    None => f.write_str("; the launch has none"),
                    Some(buffer) => write!(f, "; nearest is {buffer}"),
                }
            }
            FaultKind::ReadOnly {
                address,
                bytes,
                buffer,
            } => write!(
                f,
                "store of {bytes} bytes at {address:#x}, in read-only {buffer}"
            ),
            FaultKind::Freed {
                access,
                address,
                bytes,
                buffer,
                made_at,
            } => write!(
                f,
                "{access} of {bytes} bytes at {address:#x}, in {buffer}: memory made at {made_at}, and freed"
            ),
            FaultKind::Unwritten {
                address,
                bytes,
                buffer,
                made_at,
            } => write!(
                f,
                "load of {bytes} bytes at {address:#x}, in {buffer}: not all of them written since the memory \
                 was made at {made_at}"
            ),
            FaultKind::Misaligned {
                access,
                address,
                bytes,
                buffer,
            } => write!(
                f,
                "{access} of {bytes} bytes at {address:#x}, not a multiple of its size, in {buffer}"
            ),
            FaultKind::SharedOutOfBounds {
                access,
                offset,
                bytes,
                shared_bytes,
            } => write!(
                f,
                "{access} of {bytes} bytes at offset {offset} of {shared_bytes} bytes of shared memory"
            ),
            FaultKind::SharedMisaligned {
                access,
                offset,
                bytes,
            } => write!(
                f,
                "{access} of {bytes} bytes at offset {offset} of shared memory, not a multiple of its size"
            ),
            FaultKind::SharedUnwritten { offset, bytes } => write!(
                f,
                "load of {bytes} bytes at offset {offset} of shared memory, not all of them written"
            ),
            FaultKind::MissingWait {
                access,
                place,
                bytes,
                copy,
            } => write!(
                f,
                "{access} of {bytes} bytes {place} without a wait for the asynchronous {copy}"
            ),
            FaultKind::NeverAwaited {
                destination,
                offset,
            } => write!(
                f,
                "asynchronous store to offset {offset} of the shared memory of block {destination}, \
                 all of whose threads returned without a wait for it"
            ),
            FaultKind::Race {
                access,
                place,
                bytes,
                other,
            } => write!(
                f,
                "{access} of {bytes} bytes {place} races with the {other}"
            ),
            FaultKind::Divergence {
                operation,
                mask,
                missing_block,
                missing_thread,
                missing,
            } => {
                write!(f, "{} waits for ", Waiting(*operation, *mask))?;
                if *operation == Collective::ClusterBarrier {
                    write!(f, "block {missing_block}, ")?;
                }
                write!(f, "thread {missing_thread}, which ")?;
                match missing {
                    Missing::Absent => f.write_str("does not exist"),
                    Missing::Exited => f.write_str("has returned"),
                    Missing::Waits {
                        operation,
                        mask,
                        location,
                    } => write!(f, "waits at {}, {location}", Waiting(*operation, *mask)),
                }
            }
            FaultKind::NotInMask { operation, mask } => {
                write!(
                    f,
                    "{operation} with mask {mask:#010x}, in which its own lane is not"
                )
            }
            FaultKind::ShuffleSource {
                operation,
                mask,
                lane,
            } => write!(
                f,
                "{operation} from lane {lane}, which mask {mask:#010x} does not name"
            ),
            FaultKind::ShuffleWidth { operation, width } => {
                write!(
                    f,
                    "{operation} of width {width}; it must be 1, 2, 4, 8, 16 or 32"
                )
            }
            FaultKind::ClusterArrivedTwice => {
                f.write_str("second arrival at the cluster barrier without a wait in between")
            }
            FaultKind::ClusterNotArrived => {
                f.write_str("wait at the cluster barrier without an arrival before it")
            }
            FaultKind::NoSuchRank {
                rank,
                cluster_blocks,
            } => write!(
                f,
                "store to rank {rank} of a cluster of {cluster_blocks} blocks"
            ),
            FaultKind::PeerExited { rank } => {
                write!(
                    f,
                    "store to rank {rank}, all of whose threads have returned"
                )
            }
            FaultKind::MbarrierMissing { offset } => {
                write!(
                    f,
                    "no mbarrier has been made at offset {offset} of shared memory"
                )
            }
            FaultKind::MbarrierArrivals { offset, arrivals } => write!(
                f,
                "mbarrier at offset {offset} made for {arrivals} arrivals; it must be 1 to 2^20 - 1"
            ),
            FaultKind::MbarrierOverrun { offset } => write!(
                f,
                "more arrivals at the mbarrier at offset {offset} in one phase than it was made for"
            ),
            FaultKind::MbarrierIncomplete {
                offset,
                parity,
                missing_arrivals,
                missing_bytes,
                made_at,
                elsewhere,
            } => {
                write!(
                    f,
                    "mbarrier at offset {offset}, made at {made_at}, never completes the phase of parity {parity}: \
                     {missing_arrivals} arrivals and {missing_bytes} bytes are missing"
                )?;
                let Some(elsewhere) = elsewhere else {
                    return Ok(());
                };
                let Elsewhere {
                    block,
                    thread,
                    operation,
                    location,
                } = &**elsewhere;
                write!(
                    f,
                    "; block {block}, thread {thread} waits at {operation}, {location}"
                )
            }
            FaultKind::Panic(message) => write!(f, "panicked: {message}"),
        }
    }
}

/// An operation and the lanes it names.
struct Waiting(Collective, Option<u32>);

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)?;
        match self.1 {
            Some(mask) => write!(f, " with mask {mask:#010x}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Fault {}
