//! Finds accesses of shared memory that nothing orders.
//!
//! Within a block barrier's epoch each lane has a clock, which its warp barriers advance, and knows up to
//! which time it has seen each other lane of its warp. An access is stamped with the epoch and its lane's
//! clock; it comes before a thread's next access if it is of an earlier epoch, or if the thread has since seen
//! a later time of that lane.

use super::collective::{LANES, lanes};
use super::fault::Access;
use std::panic::Location;

/// The accesses of a block's shared memory so far, as far as later ones may race with them.
pub(crate) struct Races {
    bytes: Vec<History>,
    threads: Vec<Knowledge>,
    /// Block barriers that have opened.
    epoch: u32,
    /// Accesses so far.
    now: u64,
}

/// The latest store to a byte, and the loads since.
#[derive(Clone, Default)]
struct History {
    store: Option<Stamp>,
    loads: Vec<Stamp>,
}

/// When lanes of one warp made an access.
#[derive(Clone, Copy)]
struct Stamp {
    epoch: u32,
    warp: u32,
    lanes: u32,
    /// The clock of each of the lanes.
    clock: u32,
    /// In the order in which the emulator ran them.
    time: u64,
    location: &'static Location<'static>,
}

/// An access that another races with.
pub(super) struct Other {
    pub(super) access: Access,
    pub(super) thread: u32,
    pub(super) location: &'static Location<'static>,
}

/// What a thread knows of others.
#[derive(Clone, Default)]
struct Knowledge {
    /// For each lane of its warp the clock up to which it has seen it; for its own, its clock.
    seen: [u32; LANES as usize],
    /// It has waited for all that was done up to this time.
    acquired: u64,
}

impl Races {
    /// For `threads` threads and `bytes` bytes, of which none has been touched.
    pub(super) fn new(threads: u32, bytes: u32) -> Self {
        Self {
            bytes: vec![History::default(); bytes as usize],
            threads: vec![Knowledge::default(); threads as usize],
            epoch: 0,
            now: 0,
        }
    }

    /// All threads have met at the block barrier.
    pub(super) fn block_barrier(&mut self) {
        self.epoch += 1;
    }

    /// The lanes of `mask`, of the warp that begins at thread `first`, have met at a warp barrier.
    pub(super) fn warp_barrier(&mut self, first: u32, mask: u32) {
        let mut joint = [0; LANES as usize];
        for lane in lanes(mask) {
            let seen = &mut self.threads[(first + lane) as usize].seen;
            seen[lane as usize] += 1;
            for (joint, seen) in joint.iter_mut().zip(seen) {
                *joint = (*joint).max(*seen);
            }
        }
        for lane in lanes(mask) {
            self.threads[(first + lane) as usize].seen = joint;
        }
    }

    /// The time now, to be handed to [`Self::acquire`].
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// `thread` has waited for all that was done up to `time`.
    pub(super) fn acquire(&mut self, thread: u32, time: u64) {
        let acquired = &mut self.threads[thread as usize].acquired;
        *acquired = time.max(*acquired);
    }

    /// Forgets who touched these bytes: what touches them next is ordered in a way that is not followed here.
    pub(super) fn forget(&mut self, offset: u32, bytes: u32) {
        self.bytes[offset as usize..(offset + bytes) as usize].fill(History::default());
    }

    /// Records that `thread` accesses these bytes, and gives an access that this one races with.
    pub(super) fn access(
        &mut self,
        thread: u32,
        access: Access,
        (offset, bytes): (u32, u32),
        location: &'static Location<'static>,
    ) -> Option<Other> {
        self.now += 1;
        let lane = thread % LANES;
        let stamp = Stamp {
            epoch: self.epoch,
            warp: thread / LANES,
            lanes: 1 << lane,
            clock: self.threads[thread as usize].seen[lane as usize],
            time: self.now,
            location,
        };
        for byte in offset..offset + bytes {
            let History { store, loads } = &self.bytes[byte as usize];
            let stores = store.iter().map(|store| (Access::Store, store));
            let loads = loads.iter().map(|load| (Access::Load, load));
            // Two loads do not race.
            let loads = loads.filter(|_| access == Access::Store);
            let race = stores.chain(loads).find_map(|(access, stamp)| {
                Some(Other {
                    access,
                    thread: self.unordered(stamp, thread)?,
                    location: stamp.location,
                })
            });
            if race.is_some() {
                return race;
            }
            let History { store, loads } = &mut self.bytes[byte as usize];
            if access == Access::Store {
                *store = Some(stamp);
                loads.clear();
            } else {
                add_load(loads, stamp);
            }
        }
        None
    }

    /// A thread among those of `stamp` whose access is not ordered before what `thread` does now.
    fn unordered(&self, stamp: &Stamp, thread: u32) -> Option<u32> {
        let knowledge = &self.threads[thread as usize];
        if stamp.epoch < self.epoch || stamp.time <= knowledge.acquired {
            return None;
        }
        let is_ordered = |lane: u32| {
            let other = stamp.warp * LANES + lane;
            let same_warp = thread / LANES == stamp.warp;
            other == thread || (same_warp && knowledge.seen[lane as usize] > stamp.clock)
        };
        let lane = lanes(stamp.lanes).find(|lane| !is_ordered(*lane))?;
        Some(stamp.warp * LANES + lane)
    }
}

/// Adds a load to those of the same epoch. Lanes of a warp that load at the same clock share a stamp.
fn add_load(loads: &mut Vec<Stamp>, stamp: Stamp) {
    loads.retain(|load| load.epoch == stamp.epoch);
    let same = |load: &&mut Stamp| load.warp == stamp.warp && load.clock == stamp.clock;
    match loads.iter_mut().find(same) {
        Some(load) => {
            *load = Stamp {
                lanes: load.lanes | stamp.lanes,
                ..stamp
            };
        }
        None => loads.push(stamp),
    }
}
