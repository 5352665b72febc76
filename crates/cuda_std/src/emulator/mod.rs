//! Runs kernels on the CPU, with their real grid, and reports what a GPU would not.
//!
//! Each thread of a block is a coroutine with a stack of its own. It runs until its next collective, where it
//! waits for the threads it must meet; a worker resumes the threads of a block in turn, and workers on
//! several cores take blocks from one list. Results do not depend on the number of workers.
//!
//! The emulator ends a launch with a [`Fault`] at the first thing that breaks a rule. It names the kernel, the block,
//! the thread and the source line, where the access lies in its buffer, and the line of the other side.
//!
//! | what | other side | found |
//! |---|---|---|
//! | global access outside every buffer of the launch, misaligned, or a store to a read-only buffer | | always |
//! | shared access out of bounds or misaligned, a load of bytes never stored | | always |
//! | load of what an asynchronous copy or a peer's store brings, without a wait for it | the copy, the store | always |
//! | peer's store to a block that returns without a wait for it, or has returned | | always |
//! | shuffle, vote, reduction or barrier that some thread it waits for does not reach | where that thread waits | always |
//! | deadlock at an mbarrier | where the mbarrier was made, where another thread waits | always |
//! | cluster or mbarrier used against its rules, panic in the kernel | | always |
//! | race in shared memory, a peer's included, or in global memory, between any two threads of the launch | the other access | with [`Checks::races`] |
//! | store to where a copy is under way, or to its source | the copy | with [`Checks::races`] |
//! | load of global memory never stored to; access to freed memory | where the memory was made | in memory watched by [`Checks::memory`] |
//!
//! Races are found by who is ordered after whom, not by luck: in any order of threads, though which of two accesses
//! is said to be the other depends on it; for global memory also on the workers. A kernel that spins on a load until
//! another thread stores never ends. Accesses through raw pointers are not seen.
//!
//! What [`checked`] costs is measured by `cargo bench -p warp-softmax-cuda-std`, and for whole kernels of softmax by
//! `cargo bench -p warp-softmax-tests --bench checks`: a launch takes 2 to 12 times as long.
//!
//! It needs unwinding: in a program built with `panic = "abort"` a fault aborts.
//!
//! | environment variable | meaning |
//! |---|---|
//! | `WARP_SOFTMAX_EMULATOR_THREADS` | the most workers a launch uses; else one a core |

pub(crate) mod async_copy;
pub(crate) mod block;
mod checks;
mod clocks;
pub(crate) mod cluster;
pub(crate) mod collective;
pub(crate) mod context;
mod fault;
mod heap;
mod history;
pub(crate) mod mbarrier;
pub(crate) mod memory;
mod order;
mod panics;
mod races;
mod scheduler;
mod shared_memory;
mod stack;
mod stuck;
mod worker;

pub use checks::{Checks, checked};
pub use collective::Collective;
pub use fault::{
    Access, BufferPlace, Elsewhere, Fault, FaultKind, MemoryPlace, Missing, OtherAccess,
    SourceLocation,
};
pub use heap::{allocate, free, set_written};

use core::alloc::Layout;
use core::ffi::c_void;

/// The most threads a block may have.
pub const MAX_BLOCK_THREADS: u32 = 1024;
/// The most blocks a cluster may have.
pub const MAX_CLUSTER_BLOCKS: u32 = 16;
/// The most dynamic shared memory a block may have: what the largest device so far allows.
pub const MAX_SHARED_BYTES: u32 = 227 * 1024;

/// An entry point, as `#[kernel]` describes it.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// The entry's symbol.
    pub name: &'static str,
    /// The most threads a block of it may have; 0: no bound of its own.
    pub max_threads: u32,
    /// The blocks that should fit an SM at once; 0: not stated.
    pub min_blocks: u32,
    /// Size of each parameter, in order.
    pub param_bytes: &'static [usize],
    /// Calls the kernel for the current thread, with one pointer a parameter.
    pub call: unsafe fn(*const *const c_void),
}

/// Memory that a launch may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Address of the first byte.
    pub address: u64,
    /// Extent.
    pub bytes: u64,
    /// Whether the kernel may store there.
    pub writable: bool,
}

/// The shape of a launch, in one dimension, and the memory it may touch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks of the grid; at least 1, a multiple of `cluster`.
    pub grid: u32,
    /// Threads a block, 1 to 1,024 and no more than the kernel's `max_threads`.
    pub block: u32,
    /// Blocks a cluster, 1 to 16; 1: no clusters.
    pub cluster: u32,
    /// Dynamic shared memory a block, at most [`MAX_SHARED_BYTES`].
    pub shared_bytes: u32,
    /// Every extent that the kernel may touch in global memory. Where two overlap, either's rights hold.
    pub buffers: &'a [Buffer],
}

/// Runs `kernel` to the end.
///
/// `params` holds one pointer a parameter, like `cuLaunchKernel`'s `kernelParams`.
///
/// # Errors
///
/// The fault of the first cluster that has one, in ascending order or in that of a
/// [seed](Checks::seed); of a race of global memory, of a cluster that has it. Clusters after it may have run or not; what they and the faulting one stored stays
/// stored. A launch of a shape that is not allowed runs nothing.
///
/// # Panics
///
/// When called from inside a kernel.
///
/// # Safety
///
/// * **parameters**: each of `params` points at a live value of the kernel's type for it.
/// * **buffers**: each buffer is live memory of its extent, initialised unless the kernel only stores to it,
///   and no other thread touches the writable ones, or writes the others, during the launch.
/// * **contract**: what else the kernel's own `# Safety` asks.
pub unsafe fn launch(
    kernel: &Kernel,
    launch: &Launch,
    params: &[*const c_void],
) -> Result<(), Fault> {
    assert!(
        !context::in_kernel(),
        "kernel `{}` was launched from inside a kernel",
        kernel.name
    );
    validate(kernel, launch, params.len())?;
    let workers =
        worker::count_from_environment().map_err(|message| Fault::launch(kernel, message))?;
    panics::install_hook();
    worker::run(&block::Grid::new(kernel, launch, params), workers)
}

/// The most workers that a launch would use now.
///
/// # Errors
///
/// Where `WARP_SOFTMAX_EMULATOR_THREADS` holds anything but a whole number from 1.
pub fn workers() -> Result<usize, String> {
    worker::count_from_environment()
}

fn validate(kernel: &Kernel, launch: &Launch, params: usize) -> Result<(), Fault> {
    let most_threads = match kernel.max_threads {
        0 => MAX_BLOCK_THREADS,
        bound => bound.min(MAX_BLOCK_THREADS),
    };
    let Launch {
        grid,
        block,
        cluster,
        shared_bytes,
        ..
    } = *launch;
    let problem = if params != kernel.param_bytes.len() {
        format!(
            "{params} parameters given; it takes {}",
            kernel.param_bytes.len()
        )
    } else if block == 0 || block > most_threads {
        format!("{block} threads a block; it takes 1 to {most_threads}")
    } else if grid == 0 || grid > i32::MAX as u32 {
        format!("a grid of {grid} blocks; it must have 1 to {}", i32::MAX)
    } else if cluster == 0 || cluster > MAX_CLUSTER_BLOCKS {
        format!("{cluster} blocks a cluster; it must be 1 to {MAX_CLUSTER_BLOCKS}")
    } else if grid % cluster != 0 {
        format!("a grid of {grid} blocks; it must be a multiple of the cluster's {cluster}")
    } else if shared_bytes > MAX_SHARED_BYTES {
        format!("{shared_bytes} bytes of shared memory; there are at most {MAX_SHARED_BYTES}")
    } else {
        return Ok(());
    };
    Err(Fault::launch(kernel, problem))
}

/// The storage that belongs to `place` in the calling thread's block; `shared_array!` calls it.
#[doc(hidden)]
pub fn shared_array(place: &'static u8, layout: Layout) -> *mut u8 {
    context::current().block().shared().array(place, layout)
}
