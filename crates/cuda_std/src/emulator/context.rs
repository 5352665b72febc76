//! The calling kernel thread, and how it waits.

use super::async_copy::Copies;
use super::block::Block;
use super::clocks::Place;
use super::cluster::Cluster;
use super::collective::{Answer, Collective, LANES, Request, same_place};
use super::fault::{Fault, FaultKind};
use core::cell::{Cell, RefCell};
use core::ptr::{self, NonNull};
use corosensei::Yielder;
use std::panic::{Location, resume_unwind};

thread_local! {
    static CURRENT: Cell<*const Thread> = const { Cell::new(ptr::null()) };
}

/// What a thread waits for.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// It runs, or may.
    Nothing,
    /// Lanes of its warp, as its request says.
    Warp,
    /// The threads of its block.
    Block,
    /// The threads of its cluster, to open the barrier this many times.
    Cluster { phase: u32 },
    /// A phase of a barrier in shared memory.
    Mbarrier { offset: u32, parity: u32 },
    /// Never again.
    Exited,
}

/// One thread of a block.
pub(crate) struct Thread {
    index: u32,
    block: NonNull<Block>,
    cluster: NonNull<Cluster>,
    yielder: Cell<*const Yielder<(), ()>>,
    pub(super) wait: Cell<Wait>,
    /// Where it waits, or last did.
    pub(super) location: Cell<&'static Location<'static>>,
    pub(super) request: Request,
    pub(super) answer: Answer,
    /// The phase of the cluster barrier that it has arrived at and not yet waited for.
    pub(super) arrival: Cell<Option<u32>>,
    pub(super) copies: RefCell<Copies>,
}

impl Thread {
    /// Thread `index` of `block`, which is one of `cluster`'s.
    ///
    /// # Safety
    ///
    /// Both stay where they are while the thread exists.
    pub(super) unsafe fn new(index: u32, block: &Block, cluster: &Cluster) -> Self {
        Self {
            index,
            block: NonNull::from(block),
            cluster: NonNull::from(cluster),
            yielder: Cell::new(ptr::null()),
            wait: Cell::new(Wait::Nothing),
            location: Cell::new(Location::caller()),
            request: Request::default(),
            answer: Answer::default(),
            arrival: Cell::new(None),
            copies: RefCell::default(),
        }
    }

    /// Index in the block.
    #[inline(always)]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    #[inline(always)]
    pub(crate) fn block(&self) -> &Block {
        // SAFETY: `new`'s contract.
        unsafe { self.block.as_ref() }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        // SAFETY: `new`'s contract.
        unsafe { self.cluster.as_ref() }
    }

    /// Where it is in the cluster.
    pub(super) fn place(&self) -> Place {
        Place {
            rank: self.block().rank(),
            thread: self.index,
        }
    }

    /// The body of the thread's coroutine.
    pub(super) fn run(&self, yielder: &Yielder<(), ()>) {
        self.yielder.set(yielder);
        let grid = self.block().grid();
        // SAFETY: `launch`'s contract: the parameters are of the kernel's types, and its own contract holds.
        unsafe { (grid.kernel.call)(grid.params) }
        self.wait.set(Wait::Exited);
    }

    /// Whether both wait for one another, if both wait for lanes of their warp.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (mine, others) = (&self.request, &other.request);
        mine.collective.get() == others.collective.get()
            && mine.mask.get() == others.mask.get()
            && same_place(self.location.get(), other.location.get())
    }

    /// Lets others run until what it waits for has come.
    #[inline(always)]
    pub(super) fn suspend(&self, wait: Wait, location: &'static Location<'static>) {
        self.wait.set(wait);
        self.location.set(location);
        // SAFETY: `run` set it, and is further down this very stack.
        let yielder = unsafe { &*self.yielder.get() };
        yielder.suspend(());
    }

    /// That this thread did `kind` at `location`.
    pub(super) fn fault(&self, kind: FaultKind, location: &Location<'_>) -> Fault {
        Fault {
            kernel: self.block().grid().kernel.name,
            block: self.block().index(),
            thread: self.index,
            kind,
            location: Some(location.into()),
        }
    }
}

/// Makes `thread` the one that kernel code finds, until the next call. Null: none.
#[inline(always)]
pub(super) fn set_current(thread: *const Thread) {
    CURRENT.set(thread);
}

/// Whether kernel code is running on this OS thread.
pub(crate) fn in_kernel() -> bool {
    !CURRENT.get().is_null()
}

/// The kernel thread that runs on this OS thread.
#[inline(always)]
pub(crate) fn current<'a>() -> &'a Thread {
    let thread = CURRENT.get();
    if thread.is_null() {
        outside_launch();
    }
    // SAFETY: the scheduler sets it to a thread that outlives its coroutine, and clears it after each turn.
    // The reference is used within that turn or after the next, on the same kernel thread.
    unsafe { &*thread }
}

#[cold]
#[inline(never)]
fn outside_launch() -> ! {
    panic!("a function of device code was called outside a kernel launch");
}

/// Ends the launch: unwinds the kernel thread, with the fault as payload, down to the scheduler.
#[cold]
#[inline(never)]
pub(crate) fn raise(kind: FaultKind, location: &Location<'_>) -> ! {
    let thread = current();
    resume_unwind(Box::new(thread.fault(kind, location)))
}

/// Meets the lanes of `mask`.
#[track_caller]
pub(crate) fn warp_collective(
    collective: Collective,
    mask: u32,
    value: u128,
    operand: u32,
    width: u32,
) -> (u128, bool) {
    let thread = current();
    let location = Location::caller();
    if mask & (1 << (thread.index % LANES)) == 0 {
        let operation = collective;
        raise(FaultKind::NotInMask { operation, mask }, location);
    }
    if !width.is_power_of_two() || width > LANES {
        let operation = collective;
        raise(FaultKind::ShuffleWidth { operation, width }, location);
    }
    let request = &thread.request;
    request.collective.set(collective);
    request.mask.set(mask);
    request.operand.set(operand);
    request.width.set(width);
    request.value.set(value);
    thread.suspend(Wait::Warp, location);
    (thread.answer.bits.get(), thread.answer.in_segment.get())
}

/// Meets all threads of the block.
#[track_caller]
pub(crate) fn block_barrier() {
    current().suspend(Wait::Block, Location::caller());
}

/// The lanes of the caller's warp that have not returned.
pub(crate) fn live_lanes() -> u32 {
    let thread = current();
    thread.block().warp_of(thread.index).live()
}
