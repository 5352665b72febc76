//! Barriers in shared memory, kept beside it: their 8 bytes are opaque to the kernel, and never written.

use super::block::Block;
use super::clocks::Signal;
use super::cluster;
use super::context::{self, Thread, Wait};
use super::fault::{Access, Fault, FaultKind, OtherAccess};
use super::history::Completion;
use super::races::Action;
use crate::ext::U32x4;
use std::panic::Location;

/// The barriers of a block.
#[derive(Default)]
pub(crate) struct Mbarriers(Vec<Mbarrier>);

struct Mbarrier {
    offset: u32,
    arrivals: u32,
    phase: u32,
    /// Phases of barriers that were made here before.
    phases_before: u32,
    missing_arrivals: u32,
    missing_bytes: i64,
    made_at: &'static Location<'static>,
    /// What those who wait learn when the phase is complete, and what when the last one was.
    arriving: Signal,
    completed: Signal,
    /// Those whose phase nobody has waited for yet.
    stores: Vec<Store>,
}

/// A store that counts as done when the phase it came in is waited for.
struct Store {
    phase: u32,
    destination: u32,
    value: U32x4,
    /// Who stored.
    block: u32,
    thread: u32,
    location: &'static Location<'static>,
}

/// What the phase of a barrier still waits for.
pub(crate) struct Missing {
    pub(crate) arrivals: u32,
    pub(crate) bytes: i64,
    pub(crate) made_at: &'static Location<'static>,
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
            made_at: barrier.made_at,
        })
    }

    fn stores(&self) -> impl Iterator<Item = &Store> {
        self.0.iter().flat_map(|barrier| &barrier.stores)
    }

    /// A store that nobody has waited for yet and brings some of `bytes` bytes at `offset`.
    pub(super) fn pending_store(&self, offset: u32, bytes: u32) -> Option<OtherAccess> {
        let store = self.stores().find(|store| {
            store.destination < offset + bytes
                && offset < store.destination + size_of::<U32x4>() as u32
        })?;
        Some(OtherAccess {
            access: Access::Store,
            block: store.block,
            thread: store.thread,
            location: store.location.into(),
        })
    }

    /// The fault of the first store that nobody has waited for; all threads of block `block` have returned.
    pub(super) fn never_awaited(&self, kernel: &'static str, block: u32) -> Option<Fault> {
        let store = self.stores().next()?;
        Some(Fault {
            kernel,
            block: store.block,
            thread: store.thread,
            kind: FaultKind::NeverAwaited {
                destination: block,
                offset: store.destination,
            },
            location: Some(store.location.into()),
        })
    }
}

impl Mbarrier {
    fn is_complete(&self, parity: u32) -> bool {
        self.phase % 2 != parity
    }

    /// Phases of the barriers here when the current one is over.
    fn phases_with_this(&self) -> u32 {
        self.phases_before + self.phase + 1
    }

    fn complete_phase_if_due(&mut self, rank: u32) {
        if self.missing_arrivals == 0 && self.missing_bytes == 0 {
            let (barrier, phases) = ((rank, self.offset), self.phases_with_this());
            self.arriving
                .update(|knowledge| knowledge.see_phases(barrier, phases));
            self.completed = self.arriving.clone();
            self.phase += 1;
            self.missing_arrivals = self.arrivals;
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
    let made_at = Location::caller();
    let thread = context::current();
    let block = thread.block();
    let action = Action {
        completion: Completion::Openings(cluster::next_opening(thread)),
        ..Action::new(Access::Store, made_at)
    };
    block.shared().begin_store::<u64>(offset, action);
    let most = (1 << 20) - 1;
    if arrivals == 0 || arrivals > most {
        let kind = FaultKind::MbarrierArrivals { offset, arrivals };
        context::raise(kind, made_at);
    }
    let mut barriers = block.mbarriers.borrow_mut();
    let phases_before = barriers
        .at(offset)
        .map_or(0, |barrier| barrier.phases_with_this());
    barriers.0.retain(|barrier| barrier.offset != offset);
    barriers.0.push(Mbarrier {
        offset,
        arrivals,
        phase: 0,
        phases_before,
        missing_arrivals: arrivals,
        missing_bytes: 0,
        made_at,
        arriving: Signal::default(),
        completed: Signal::default(),
        stores: Vec::new(),
    });
}

/// Arrives, and expects `bytes` more.
#[track_caller]
pub(crate) fn arrive_expect_tx(offset: u32, bytes: u32) {
    let location = Location::caller();
    let thread = context::current();
    let block = thread.block();
    block.shared().use_mbarrier(block, offset, location);
    let counted = with_barrier(block, offset, location, |barrier| {
        release(thread, barrier);
        barrier.missing_bytes += i64::from(bytes);
        let left = barrier.missing_arrivals.checked_sub(1);
        barrier.missing_arrivals = left.unwrap_or(0);
        barrier.complete_phase_if_due(block.rank());
        left.is_some()
    });
    if !counted {
        context::raise(FaultKind::MbarrierOverrun { offset }, location);
    }
}

/// Lets those who wait for the current phase know what `thread` knows.
fn release(thread: &Thread, barrier: &mut Mbarrier) {
    if let Some(mut races) = thread.cluster().races_mut() {
        races.release(thread.place(), &mut barrier.arriving);
    }
}

/// Begins to store 16 bytes in the shared memory of `block`, and tells the barrier at `offset` there.
pub(crate) fn store(
    block: &Block,
    offset: u32,
    (destination, value): (u32, U32x4),
    location: &'static Location<'static>,
) {
    let thread = context::current();
    block.shared().use_mbarrier(block, offset, location);
    let phases = with_barrier(block, offset, location, |barrier| {
        barrier.phases_with_this()
    });
    let action = Action {
        completion: Completion::Phases((block.rank(), offset), phases),
        ..Action::new(Access::Store, location)
    };
    let shared = block.shared();
    shared.begin_store_in::<U32x4>(block, destination, action);
    with_barrier(block, offset, location, |barrier| {
        barrier.stores.push(Store {
            phase: barrier.phase,
            destination,
            value,
            block: thread.block().index(),
            thread: thread.index(),
            location,
        });
        release(thread, barrier);
        barrier.missing_bytes -= size_of::<U32x4>() as i64;
        barrier.complete_phase_if_due(block.rank());
    });
}

/// Waits for the latest phase of this parity, and lets the block see what was stored.
#[track_caller]
pub(crate) fn wait_parity(offset: u32, parity: u32) {
    let location = Location::caller();
    let thread = context::current();
    let block = thread.block();
    block.shared().use_mbarrier(block, offset, location);
    while !with_barrier(block, offset, location, |barrier| {
        barrier.is_complete(parity)
    }) {
        thread.suspend(Wait::Mbarrier { offset, parity }, location);
    }
    with_barrier(block, offset, location, |barrier| {
        let Mbarrier { stores, phase, .. } = barrier;
        for store in stores.extract_if(.., |store| store.phase < *phase) {
            block.shared().finish_store(store.destination, store.value);
        }
        if let Some(mut races) = thread.cluster().races_mut() {
            races.acquire(thread.place(), &barrier.completed);
        }
    });
}
