//! The blocks of a cluster, which run at the same time, and what passes between them.

use super::block::Block;
use super::clocks::Signal;
use super::context::{self, Thread, Wait};
use super::fault::FaultKind;
use super::mbarrier;
use super::races::Races;
use crate::ext::U32x4;
use core::cell::{Cell, Ref, RefCell, RefMut};
use std::panic::Location;

/// A cluster while it runs; without clusters, one block.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(super) blocks: Vec<Block>,
    /// Threads that have not returned.
    live: Cell<u32>,
    /// Those of them that the barrier still waits for.
    missing: Cell<u32>,
    /// Times the barrier has opened.
    phase: Cell<u32>,
    /// Whether some arrival since then was relaxed.
    relaxed: Cell<bool>,
    /// What those who wait at the barrier learn when it opens next, and what when it last did.
    arriving: RefCell<Signal>,
    opened: RefCell<Signal>,
    /// If races are looked for.
    pub(super) races: Option<RefCell<Races>>,
}

/// Whether an arrival at the cluster barrier orders what its thread did before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Release,
    Relaxed,
}

impl Cluster {
    /// Makes the barrier one of `threads` threads, none of which has arrived.
    pub(super) fn reset(&mut self, threads: u32) {
        self.live.set(threads);
        self.missing.set(threads);
        self.phase.set(0);
        self.relaxed.set(false);
        self.arriving = RefCell::default();
        self.opened = RefCell::default();
    }

    pub(super) fn races(&self) -> Option<Ref<'_, Races>> {
        self.races.as_ref().map(RefCell::borrow)
    }

    pub(super) fn races_mut(&self) -> Option<RefMut<'_, Races>> {
        self.races.as_ref().map(RefCell::borrow_mut)
    }

    pub(super) fn phase(&self) -> u32 {
        self.phase.get()
    }

    /// Whether `thread` has arrived at the barrier that is closed now.
    pub(super) fn has_arrived(&self, thread: &Thread) -> bool {
        thread.arrival.get() == Some(self.phase())
    }

    /// `thread` has returned: the barrier does not wait for it.
    pub(super) fn leave(&self, thread: &Thread) {
        self.live.update(|threads| threads - 1);
        if !self.has_arrived(thread) {
            self.arrive();
        }
    }

    fn arrive(&self) {
        self.missing.update(|threads| threads - 1);
        if self.missing.get() == 0 {
            self.phase.update(|phase| phase + 1);
            self.missing.set(self.live.get());
            if self.races.is_some() {
                let mut arriving = self.arriving.borrow_mut();
                let relaxed = self.relaxed.take();
                arriving.update(|knowledge| {
                    knowledge.see_openings(self.phase());
                    if !relaxed {
                        knowledge.see_releasing_opening(self.phase());
                    }
                });
                self.opened.replace(arriving.clone());
            }
        }
    }
}

/// Index of the cluster in the grid.
pub(crate) fn id() -> u32 {
    let block = context::current().block();
    block.index() / block.grid().cluster_blocks
}

/// How often the cluster barrier has opened when it has after the next arrival of `thread`.
pub(super) fn next_opening(thread: &Thread) -> u32 {
    match thread.arrival.get() {
        None => thread.cluster().phase() + 1,
        Some(phase) => phase + 2,
    }
}

/// Index of the block in the cluster.
pub(crate) fn rank() -> u32 {
    let block = context::current().block();
    block.index() % block.grid().cluster_blocks
}

/// Blocks of the cluster.
pub(crate) fn size() -> u32 {
    context::current().block().grid().cluster_blocks
}

/// Arrives at the cluster barrier.
#[track_caller]
pub(crate) fn arrive(arrival: Arrival) {
    let thread = context::current();
    let cluster = thread.cluster();
    if thread.arrival.get().is_some() {
        context::raise(FaultKind::ClusterArrivedTwice, Location::caller());
    }
    match (arrival, cluster.races_mut()) {
        (Arrival::Relaxed, _) => cluster.relaxed.set(true),
        (Arrival::Release, Some(mut races)) => {
            races.release(thread.place(), &mut cluster.arriving.borrow_mut());
        }
        (Arrival::Release, None) => {}
    }
    thread.arrival.set(Some(cluster.phase()));
    cluster.arrive();
}

/// Waits for the barrier to open after the thread's arrival.
#[track_caller]
pub(crate) fn wait() {
    let location = Location::caller();
    let thread = context::current();
    let Some(phase) = thread.arrival.get() else {
        context::raise(FaultKind::ClusterNotArrived, location);
    };
    if thread.cluster().phase() == phase {
        thread.suspend(Wait::Cluster { phase }, location);
    }
    thread.arrival.set(None);
    if let Some(mut races) = thread.cluster().races_mut() {
        races.acquire(thread.place(), &thread.cluster().opened.borrow());
    }
}

/// Stores `value` in the shared memory of block `rank`, to be seen there after a wait at the barrier.
#[track_caller]
pub(crate) fn store_async(destination: u32, value: U32x4, barrier: u32, rank: u32) {
    let location = Location::caller();
    let cluster = context::current().cluster();
    let Some(peer) = cluster.blocks.get(rank as usize) else {
        let cluster_blocks = cluster.blocks.len() as u32;
        let kind = FaultKind::NoSuchRank {
            rank,
            cluster_blocks,
        };
        context::raise(kind, location);
    };
    if peer.exited.get() == peer.threads() {
        context::raise(FaultKind::PeerExited { rank }, location);
    }
    mbarrier::store(peer, barrier, (destination, value), location);
}
