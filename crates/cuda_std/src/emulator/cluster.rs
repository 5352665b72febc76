//! The blocks of a cluster, which run at the same time, and what passes between them.

use super::block::Block;
use super::context::{self, Thread, Wait};
use super::fault::FaultKind;
use super::mbarrier;
use crate::ext::U32x4;
use core::cell::Cell;
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
}

impl Cluster {
    /// Makes the barrier one of `threads` threads, none of which has arrived.
    pub(super) fn reset(&mut self, threads: u32) {
        self.live.set(threads);
        self.missing.set(threads);
        self.phase.set(0);
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
        }
    }
}

/// Index of the cluster in the grid.
pub(crate) fn id() -> u32 {
    let block = context::current().block();
    block.index() / block.grid().cluster_blocks
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
pub(crate) fn arrive() {
    let thread = context::current();
    if thread.arrival.get().is_some() {
        context::raise(FaultKind::ClusterArrivedTwice, Location::caller());
    }
    thread.arrival.set(Some(thread.cluster().phase()));
    thread.cluster().arrive();
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
    peer.shared().begin_store_from_peer::<U32x4>(destination);
    mbarrier::complete_store(peer, barrier, (destination, value), location);
}
