//! A grid, and a block of it.

use super::collective::LANES;
use super::context::Thread;
use super::heap::{self, Watched};
use super::mbarrier::Mbarriers;
use super::races::GlobalRaces;
use super::shared_memory::SharedMemory;
use super::{Buffer, Checks, Kernel, Launch};
use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::panic::Location;
use std::sync::Arc;

/// A launch, as every block of it sees it.
pub(crate) struct Grid<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) params: *const *const c_void,
    pub(crate) blocks: u32,
    pub(crate) block_threads: u32,
    pub(crate) cluster_blocks: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) buffers: &'a [Buffer],
    pub(crate) checks: Checks,
    /// The memory among the buffers that is watched.
    pub(super) watched: Vec<Arc<Watched>>,
    /// If races are looked for.
    pub(super) global_races: Option<GlobalRaces>,
}

// SAFETY: the parameters are read only, and live for the whole launch by `launch`'s contract.
unsafe impl Sync for Grid<'_> {}

impl<'a> Grid<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &Launch<'a>,
        params: &'a [*const c_void],
    ) -> Self {
        let checks = Checks::current();
        Self {
            kernel,
            params: params.as_ptr(),
            blocks: launch.grid,
            block_threads: launch.block,
            cluster_blocks: launch.cluster,
            shared_bytes: launch.shared_bytes,
            buffers: launch.buffers,
            checks,
            watched: heap::watched(launch.buffers),
            global_races: checks.races.then(GlobalRaces::new),
        }
    }
}

/// 32 threads, or the last fewer, of a block. Bit i of each set is lane i.
#[derive(Default)]
pub(crate) struct Warp {
    /// Lanes that exist.
    pub(super) existing: u32,
    pub(super) runnable: Cell<u32>,
    /// Lanes that wait for lanes of the warp.
    pub(super) waiting: Cell<u32>,
    pub(super) exited: Cell<u32>,
}

impl Warp {
    /// Lanes that have not returned.
    pub(crate) fn live(&self) -> u32 {
        self.existing & !self.exited.get()
    }
}

/// A block while it runs.
pub(crate) struct Block {
    grid: NonNull<Grid<'static>>,
    index: u32,
    pub(super) warps: Vec<Warp>,
    /// Threads that wait at the block barrier.
    pub(super) at_barrier: Cell<u32>,
    /// The first of them, and where its barrier is.
    pub(super) first_at_barrier: Cell<Option<(u32, &'static Location<'static>)>>,
    /// Threads that wait for the cluster or for an mbarrier.
    pub(super) polling: Cell<u32>,
    pub(super) exited: Cell<u32>,
    pub(super) mbarriers: RefCell<Mbarriers>,
    /// Null before there are any.
    own_threads: Cell<*const [Thread]>,
    shared: SharedMemory,
}

impl Block {
    /// Block `index` of `grid`, before its first step.
    ///
    /// # Safety
    ///
    /// `grid` outlives the block.
    pub(super) unsafe fn new(grid: &Grid, index: u32, shared: SharedMemory) -> Self {
        let warps = (0..grid.block_threads.div_ceil(LANES)).map(|warp| {
            let lanes = (grid.block_threads - warp * LANES).min(LANES);
            let existing = u32::MAX >> (LANES - lanes);
            Warp {
                existing,
                runnable: Cell::new(existing),
                ..Warp::default()
            }
        });
        Self {
            grid: NonNull::from(grid).cast(),
            index,
            warps: warps.collect(),
            at_barrier: Cell::new(0),
            first_at_barrier: Cell::new(None),
            polling: Cell::new(0),
            exited: Cell::new(0),
            mbarriers: RefCell::default(),
            own_threads: Cell::new(ptr::slice_from_raw_parts(ptr::null(), 0)),
            shared,
        }
    }

    /// Its storage, for the next block.
    pub(super) fn into_shared(self) -> SharedMemory {
        self.shared
    }

    #[inline(always)]
    pub(crate) fn grid(&self) -> &Grid<'_> {
        // SAFETY: `new`'s contract.
        unsafe { self.grid.as_ref() }
    }

    /// Index in the grid.
    #[inline(always)]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Index in its cluster.
    #[inline(always)]
    pub(crate) fn rank(&self) -> u32 {
        self.index % self.grid().cluster_blocks
    }

    #[inline(always)]
    pub(crate) fn threads(&self) -> u32 {
        self.grid().block_threads
    }

    /// Says which threads are its.
    ///
    /// # Safety
    ///
    /// They stay where they are while the block's kernel runs.
    pub(super) unsafe fn set_own_threads(&self, threads: &[Thread]) {
        self.own_threads.set(threads);
    }

    pub(super) fn own_threads(&self) -> &[Thread] {
        // SAFETY: `set_own_threads`' contract; kernel code, for which this is, runs after it.
        unsafe { &*self.own_threads.get() }
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &SharedMemory {
        &self.shared
    }

    pub(crate) fn warp_of(&self, thread: u32) -> &Warp {
        &self.warps[(thread / LANES) as usize]
    }
}
