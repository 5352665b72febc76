//! Finds accesses of shared and global memory that nothing orders.
//!
//! Every access is kept in the history of its bytes, with the time of its thread; one that comes later, and
//! conflicts, must know of it. Blocks of different clusters know nothing of one another, and what a block has
//! stored to global memory is there for its cluster after a cluster barrier with releases only.

use super::clocks::{Clocks, Place, Signal};
use super::fault::Access;
use super::history::{Completion, Entry, GRANULE_BYTES, History, Unordered, bytes_in_granule};
use std::collections::HashMap;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// The accesses of a cluster's shared memory, and the clocks of its threads.
pub(super) struct Races {
    first_block: u32,
    clocks: Clocks,
    /// For each rank the granules of its dynamic shared memory.
    shared: Vec<Vec<History>>,
}

/// What is done, and where in the source.
#[derive(Clone, Copy)]
pub(super) struct Action {
    pub(super) access: Access,
    pub(super) completion: Completion,
    pub(super) location: &'static Location<'static>,
}

impl Action {
    /// One that is over at once.
    pub(super) fn new(access: Access, location: &'static Location<'static>) -> Self {
        Self {
            access,
            completion: Completion::AtOnce,
            location,
        }
    }
}

impl Races {
    /// For `blocks` blocks from `first_block` on, of `threads` threads and `bytes` bytes, none of them touched.
    pub(super) fn new(first_block: u32, blocks: u32, threads: u32, bytes: u32) -> Self {
        let granules = u64::from(bytes).div_ceil(GRANULE_BYTES) as usize;
        Self {
            first_block,
            clocks: Clocks::new(blocks, threads),
            shared: vec![vec![History::default(); granules]; blocks as usize],
        }
    }

    /// All threads of a block have met at its barrier.
    pub(super) fn block_barrier(&mut self, rank: u32) {
        self.clocks.block_barrier(rank);
    }

    /// The lanes of `mask`, of the warp that begins at `first`, have met at a warp barrier.
    pub(super) fn warp_barrier(&mut self, first: Place, mask: u32) {
        self.clocks.warp_barrier(first, mask);
    }

    /// The thread at `place` adds what it did and knows to `signal`.
    pub(super) fn release(&mut self, place: Place, signal: &mut Signal) {
        self.clocks.release(place, signal);
    }

    /// The thread at `place` learns what was released into `signal`.
    pub(super) fn acquire(&mut self, place: Place, signal: &Signal) {
        self.clocks.acquire(place, signal);
    }

    /// The thread at `place` touches `bytes` bytes at `offset` of the shared memory of `rank`.
    pub(super) fn touch_shared(
        &mut self,
        place: Place,
        action: Action,
        (rank, offset, bytes): (u32, u32, u32),
    ) -> Result<(), Unordered> {
        let new = self.entry(place, action, u64::from(offset), bytes);
        let Self { clocks, shared, .. } = self;
        let history = &mut shared[rank as usize][offset as usize / GRANULE_BYTES as usize];
        history.record(new, |entry| unordered(clocks, entry, place))
    }

    /// The copy `copy` of the thread at `place` to `offset` is over.
    pub(super) fn settle_shared(&mut self, place: Place, copy: u64, offset: u32) {
        let history =
            &mut self.shared[place.rank as usize][offset as usize / GRANULE_BYTES as usize];
        history.settle(self.first_block + place.rank, copy, self.clocks.now(place));
    }

    fn has_block(&self, block: u32) -> bool {
        block.wrapping_sub(self.first_block) < self.shared.len() as u32
    }

    fn entry(&self, place: Place, action: Action, address: u64, bytes: u32) -> Entry {
        Entry {
            bytes: bytes_in_granule(address, bytes),
            access: action.access,
            block: self.first_block + place.rank,
            time: self.clocks.now(place),
            completion: action.completion,
            location: action.location,
        }
    }
}

/// A thread of `entry`'s that the one at `observer`, of the same cluster, is not ordered after.
fn unordered(clocks: &Clocks, entry: &Entry, observer: Place) -> Option<u32> {
    let known = match entry.completion {
        Completion::AtOnce | Completion::Released(_) => false,
        Completion::Copy(_) => return Some(entry.time.thread()),
        Completion::Phases(barrier, phases) => {
            let known = clocks.knows_phases(barrier, phases, observer);
            return (!known).then(|| entry.time.thread());
        }
        Completion::Openings(openings) => clocks.knows_openings(openings, observer),
    };
    if known {
        None
    } else {
        clocks.unordered(&entry.time, observer)
    }
}

/// The accesses of the writable global memory of a launch. Workers share it.
pub(crate) struct GlobalRaces {
    /// By address of the granule, dealt out.
    shards: Vec<Mutex<HashMap<u64, History>>>,
}

/// Workers rarely meet at one of so many.
const SHARDS: u64 = 64;

impl GlobalRaces {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn with_history<R>(&self, address: u64, action: impl FnOnce(&mut History) -> R) -> R {
        let granule = address / GRANULE_BYTES;
        let shard = &self.shards[(granule % SHARDS) as usize];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        action(shard.entry(granule).or_default())
    }

    /// The thread at `place`, of `races`' cluster, touches `bytes` bytes at `address`.
    pub(super) fn touch(
        &self,
        races: &Races,
        place: Place,
        action: Action,
        (address, bytes): (u64, u32),
    ) -> Result<(), Unordered> {
        let new = races.entry(place, action, address, bytes);
        self.with_history(address, |history| {
            history.record(new, |entry| {
                let clocks = &races.clocks;
                let known = if entry.block == new.block {
                    return unordered(clocks, entry, place);
                } else if !races.has_block(entry.block) {
                    false
                } else if let Completion::Released(openings) = entry.completion {
                    clocks.knows_releasing_opening(openings, place)
                } else {
                    // A load is over when its value has been told.
                    return unordered(clocks, entry, place);
                };
                (!known).then(|| entry.time.thread())
            })
        })
    }

    /// The copy `copy` of the thread at `place`, of `races`' cluster, from `address` is over.
    pub(super) fn settle(&self, races: &Races, place: Place, copy: u64, address: u64) {
        let (block, time) = (races.first_block + place.rank, races.clocks.now(place));
        self.with_history(address, |history| history.settle(block, copy, time));
    }
}
