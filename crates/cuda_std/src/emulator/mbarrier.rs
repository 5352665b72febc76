//! Barriers in shared memory, kept beside it: their 8 bytes are opaque to the kernel, and never written.

use super::block::Block;
use super::context::{self, Wait};
use super::fault::FaultKind;
use crate::ext::U32x4;
use std::panic::Location;

/// The barriers of a block.
#[derive(Default)]
pub(crate) struct Mbarriers(Vec<Mbarrier>);

struct Mbarrier {
    offset: u32,
    arrivals: u32,
    phase: u32,
    missing_arrivals: u32,
    missing_bytes: i64,
    /// When the last phase was complete.
    completed_at: u64,
    /// Stores that count as done when the phase they came in is waited for.
    stores: Vec<(u32, U32x4)>,
}

/// What the phase of a barrier still waits for.
pub(crate) struct Missing {
    pub(crate) arrivals: u32,
    pub(crate) bytes: i64,
}

impl Mbarriers {
    fn at(&mut self, offset: u32) -> Option<&mut Mbarrier> {
        self.0.iter_mut().find(|barrier| barrier.offset == offset)
    }

    /// Whether the latest phase of this parity of the barrier at `offset` is complete.
    pub(crate) fn is_complete(&mut self, offset: u32, parity: u32) -> bool {
        self.at(offset)
            .is_some_and(|barrier| barrier.is_complete(parity))
    }

    /// What the barrier at `offset` waits for, if there is one.
    pub(crate) fn missing(&mut self, offset: u32) -> Option<Missing> {
        let barrier = self.at(offset)?;
        Some(Missing {
            arrivals: barrier.missing_arrivals,
            bytes: barrier.missing_bytes,
        })
    }
}

impl Mbarrier {
    fn is_complete(&self, parity: u32) -> bool {
        self.phase % 2 != parity
    }

    fn complete_phase_if_due(&mut self, now: u64) {
        if self.missing_arrivals == 0 && self.missing_bytes == 0 {
            self.phase += 1;
            self.missing_arrivals = self.arrivals;
            self.completed_at = now;
        }
    }
}

/// Calls `action` on the barrier at `offset` of `block`; raises a fault if there is none.
fn with_barrier<R>(
    block: &Block,
    offset: u32,
    location: &Location<'_>,
    action: impl FnOnce(&mut Mbarrier) -> R,
) -> R {
    let done = block.mbarriers.borrow_mut().at(offset).map(action);
    match done {
        Some(result) => result,
        None => context::raise(FaultKind::MbarrierMissing { offset }, location),
    }
}

/// Makes a barrier.
#[track_caller]
pub(crate) fn init(offset: u32, arrivals: u32) {
    let block = context::current().block();
    block.shared().begin_store::<u64>(offset);
    let most = (1 << 20) - 1;
    if arrivals == 0 || arrivals > most {
        let kind = FaultKind::MbarrierArrivals { offset, arrivals };
        context::raise(kind, Location::caller());
    }
    let mut barriers = block.mbarriers.borrow_mut();
    barriers.0.retain(|barrier| barrier.offset != offset);
    barriers.0.push(Mbarrier {
        offset,
        arrivals,
        phase: 0,
        missing_arrivals: arrivals,
        missing_bytes: 0,
        completed_at: 0,
        stores: Vec::new(),
    });
}

/// Arrives, and expects `bytes` more.
#[track_caller]
pub(crate) fn arrive_expect_tx(offset: u32, bytes: u32) {
    let location = Location::caller();
    let block = context::current().block();
    let now = block.shared().now();
    let counted = with_barrier(block, offset, location, |barrier| {
        barrier.missing_bytes += i64::from(bytes);
        let left = barrier.missing_arrivals.checked_sub(1);
        barrier.missing_arrivals = left.unwrap_or(0);
        barrier.complete_phase_if_due(now);
        left.is_some()
    });
    if !counted {
        context::raise(FaultKind::MbarrierOverrun { offset }, location);
    }
}

/// A store of 16 bytes to `destination` has come to the barrier at `offset` of `block`.
pub(crate) fn complete_store(
    block: &Block,
    offset: u32,
    (destination, value): (u32, U32x4),
    location: &Location<'_>,
) {
    let now = block.shared().now();
    with_barrier(block, offset, location, |barrier| {
        barrier.stores.push((destination, value));
        barrier.missing_bytes -= size_of::<U32x4>() as i64;
        barrier.complete_phase_if_due(now);
    });
}

/// Waits for the latest phase of this parity, and lets the block see what was stored.
#[track_caller]
pub(crate) fn wait_parity(offset: u32, parity: u32) {
    let location = Location::caller();
    let thread = context::current();
    let block = thread.block();
    while !with_barrier(block, offset, location, |barrier| {
        barrier.is_complete(parity)
    }) {
        thread.suspend(Wait::Mbarrier { offset, parity }, location);
    }
    let (stores, completed_at) = with_barrier(block, offset, location, |barrier| {
        (core::mem::take(&mut barrier.stores), barrier.completed_at)
    });
    for (destination, value) in stores {
        block.shared().finish_store_from_peer(destination, value);
    }
    block.shared().acquire(thread.index(), completed_at);
}
