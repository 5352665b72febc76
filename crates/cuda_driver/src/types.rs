//! The driver's types, named as in `cuda.h`.

/// A status: 0 is success, else see [`CuError`](crate::CuError).
pub type CUresult = i32;
/// A device, as `device_get` returns it for an ordinal.
pub type CUdevice = i32;
/// An address in device memory.
pub type CUdeviceptr = u64;

macro_rules! handles {
    ($($(#[$doc:meta])* $handle:ident, $object:ident;)*) => { $(
        #[doc = concat!("What a [`", stringify!($handle), "`] points to.")]
        #[repr(C)]
        pub struct $object {
            _opaque: [u8; 0],
        }

        $(#[$doc])*
        ///
        /// The driver accepts it on any thread. `cust_raw` has a type of its own for it: convert
        /// with `cast()`.
        pub type $handle = *mut $object;
    )* };
}

handles! {
    /// A context: one device's state in this process.
    CUcontext, CUctx_st;
    /// A loaded module.
    CUmodule, CUmod_st;
    /// A kernel in a module.
    CUfunction, CUfunc_st;
    /// A stream; null is the default stream.
    CUstream, CUstream_st;
    /// An event.
    CUevent, CUevent_st;
    /// A pool that stream-ordered memory comes from.
    CUmemoryPool, CUmemPoolHandle_st;
    /// A graph, as captured.
    CUgraph, CUgraph_st;
    /// A graph that can be launched.
    CUgraphExec, CUgraphExec_st;
}

/// A number that describes a device, `CU_DEVICE_ATTRIBUTE_*`. Any number of `cuda.h` may be asked
/// for; the named ones are what a plan needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct DeviceAttribute(pub i32);

impl DeviceAttribute {
    /// Threads a block, at most.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(1);
    /// Blocks in a grid's x dimension, at most.
    pub const MAX_GRID_DIM_X: Self = Self(5);
    /// Bytes of shared memory a block without opting in for more.
    pub const MAX_SHARED_MEMORY_PER_BLOCK: Self = Self(8);
    /// Clock in kHz.
    pub const CLOCK_RATE: Self = Self(13);
    /// Streaming multiprocessors.
    pub const MULTIPROCESSOR_COUNT: Self = Self(16);
    /// Memory clock in kHz.
    pub const MEMORY_CLOCK_RATE: Self = Self(36);
    /// Width of the memory bus in bits.
    pub const GLOBAL_MEMORY_BUS_WIDTH: Self = Self(37);
    /// Bytes of level 2 cache.
    pub const L2_CACHE_SIZE: Self = Self(38);
    /// Resident threads a multiprocessor, at most.
    pub const MAX_THREADS_PER_MULTIPROCESSOR: Self = Self(39);
    /// Major part of the compute capability.
    pub const COMPUTE_CAPABILITY_MAJOR: Self = Self(75);
    /// Minor part of the compute capability.
    pub const COMPUTE_CAPABILITY_MINOR: Self = Self(76);
    /// Bytes of shared memory a multiprocessor.
    pub const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: Self = Self(81);
    /// 32-bit registers a multiprocessor.
    pub const MAX_REGISTERS_PER_MULTIPROCESSOR: Self = Self(82);
    /// Bytes of shared memory a block that opts in, at most.
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: Self = Self(97);
    /// Resident blocks a multiprocessor, at most.
    pub const MAX_BLOCKS_PER_MULTIPROCESSOR: Self = Self(106);
    /// Bytes of shared memory a block that the driver keeps for itself.
    pub const RESERVED_SHARED_MEMORY_PER_BLOCK: Self = Self(111);
    /// Whether stream-ordered allocation works.
    pub const MEMORY_POOLS_SUPPORTED: Self = Self(115);
    /// Whether clusters of blocks work.
    pub const CLUSTER_LAUNCH: Self = Self(120);
}

/// A number that describes a kernel, `CU_FUNC_ATTRIBUTE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct FunctionAttribute(pub i32);

impl FunctionAttribute {
    /// Threads a block with which the kernel can launch, at most.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(0);
    /// Bytes of static shared memory.
    pub const SHARED_SIZE_BYTES: Self = Self(1);
    /// Bytes of local memory a thread: stack and spills.
    pub const LOCAL_SIZE_BYTES: Self = Self(3);
    /// Registers a thread.
    pub const NUM_REGS: Self = Self(4);
    /// The PTX version it was compiled for, times ten.
    pub const PTX_VERSION: Self = Self(5);
    /// The architecture of its machine code, times ten.
    pub const BINARY_VERSION: Self = Self(6);
    /// Bytes of dynamic shared memory a launch may ask for; set it to have more than 48 KiB.
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: Self = Self(8);
    /// Part of the on-chip memory that should be shared memory, in percent; can be set.
    pub const PREFERRED_SHARED_MEMORY_CARVEOUT: Self = Self(9);
    /// Whether a cluster may have more than 8 blocks; can be set.
    pub const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: Self = Self(14);
}

/// Where memory lives, `CU_MEMORYTYPE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct MemoryType(pub u32);

impl MemoryType {
    /// Pinned or registered host memory.
    pub const HOST: Self = Self(1);
    /// Device memory; managed memory too.
    pub const DEVICE: Self = Self(2);
}
