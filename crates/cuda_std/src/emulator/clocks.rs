//! What each thread of a cluster knows to be over: happens-before, followed by clocks.
//!
//! A block counts the barriers that all its threads have met at: its epochs. Within an epoch each lane has a
//! clock, which its warp barriers and its releases advance, and knows up to which time it has seen each other
//! lane of its warp. A *signal* carries what those who released into it knew to those who acquire it: the
//! phase of an mbarrier is one, and so is the cluster barrier's. What a block learns from signals is common
//! to its threads after its next barrier.

use super::collective::{LANES, lanes};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A thread of a cluster: its block's rank, and its index in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) thread: u32,
}

/// When lanes of one warp did something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) rank: u32,
    pub(super) warp: u32,
    pub(super) lanes: u32,
    epoch: u32,
    /// The clock of each of the lanes.
    clock: u32,
}

impl Time {
    /// Whether both are the same time of lanes of one warp.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        (Self { lanes: 0, ..*self }) == (Self { lanes: 0, ..*other })
    }

    /// Whether both are times of the same lanes.
    pub(super) fn is_thread_of(&self, other: &Self) -> bool {
        (self.rank, self.warp, self.lanes) == (other.rank, other.warp, other.lanes)
    }

    /// The lowest of the lanes.
    pub(super) fn thread(&self) -> u32 {
        self.warp * LANES + self.lanes.trailing_zeros()
    }
}

/// An mbarrier of a cluster: its block's rank, and its offset.
pub(super) type BarrierId = (u32, u32);

type LaneClocks = [u32; LANES as usize];

/// What is known to be over. More is never less: merging takes the later of each time.
#[derive(Clone, Default)]
pub(super) struct Knowledge {
    /// For each rank, the epochs of the block that are over. Missing: none.
    epochs: Vec<u32>,
    /// For a warp of a rank, the epoch it is in, and up to which time each lane has been seen.
    warps: BTreeMap<(u32, u32), (u32, LaneClocks)>,
    /// For each mbarrier, the phases that are over.
    phases: BTreeMap<BarrierId, u32>,
    /// Openings of the cluster barrier.
    openings: u32,
    /// The latest of them that all threads had arrived at with what they had done.
    releasing_opening: u32,
}

impl Knowledge {
    fn epoch(&self, rank: u32) -> u32 {
        self.epochs.get(rank as usize).copied().unwrap_or(0)
    }

    fn see_epoch(&mut self, rank: u32, epoch: u32) {
        let rank = rank as usize;
        if self.epochs.len() <= rank {
            self.epochs.resize(rank + 1, 0);
        }
        self.epochs[rank] = self.epochs[rank].max(epoch);
    }

    fn see_warp(&mut self, warp: (u32, u32), epoch: u32, clocks: &LaneClocks) {
        if self.epoch(warp.0) > epoch {
            return;
        }
        let (seen_in, seen) = self.warps.entry(warp).or_insert((epoch, *clocks));
        *seen_in = epoch.max(*seen_in);
        take_later(seen, clocks);
    }

    /// That `phases` phases of `barrier` are over.
    pub(super) fn see_phases(&mut self, barrier: BarrierId, phases: u32) {
        let seen = self.phases.entry(barrier).or_default();
        *seen = phases.max(*seen);
    }

    /// That the cluster barrier has opened so often.
    pub(super) fn see_openings(&mut self, openings: u32) {
        self.openings = self.openings.max(openings);
    }

    /// That the cluster barrier has opened so often, and all arrivals since the time before were releases.
    pub(super) fn see_releasing_opening(&mut self, openings: u32) {
        self.releasing_opening = self.releasing_opening.max(openings);
    }

    fn merge(&mut self, other: &Self) {
        for (rank, epoch) in other.epochs.iter().enumerate() {
            self.see_epoch(rank as u32, *epoch);
        }
        for (&warp, (epoch, clocks)) in &other.warps {
            self.see_warp(warp, *epoch, clocks);
        }
        for (barrier, phases) in &other.phases {
            self.see_phases(*barrier, *phases);
        }
        self.see_openings(other.openings);
        self.see_releasing_opening(other.releasing_opening);
        let epochs = &self.epochs;
        self.warps.retain(|(rank, _), (epoch, _)| {
            epochs.get(*rank as usize).is_none_or(|over| over <= epoch)
        });
    }
}

fn take_later(clocks: &mut LaneClocks, others: &LaneClocks) {
    for (clock, other) in clocks.iter_mut().zip(others) {
        *clock = (*clock).max(*other);
    }
}

/// Merges into `knowledge`, which many may share, and of which many are the same.
fn merge_shared(knowledge: &mut Option<Rc<Knowledge>>, other: &Rc<Knowledge>) {
    match knowledge {
        None => *knowledge = Some(Rc::clone(other)),
        Some(knowledge) if Rc::ptr_eq(knowledge, other) => {}
        Some(knowledge) => Rc::make_mut(knowledge).merge(other),
    }
}

/// What is released piece by piece, to be acquired as a whole.
#[derive(Clone, Default)]
pub(super) struct Signal {
    knowledge: Rc<Knowledge>,
    /// What was merged last: what many threads of one block know, they share.
    last_merged: Option<Rc<Knowledge>>,
}

impl Signal {
    /// Adds to what those learn who acquire it from now on.
    pub(super) fn update(&mut self, update: impl FnOnce(&mut Knowledge)) {
        update(Rc::make_mut(&mut self.knowledge));
    }

    fn merge(&mut self, other: &Rc<Knowledge>) {
        if self
            .last_merged
            .as_ref()
            .is_some_and(|last| Rc::ptr_eq(last, other))
        {
            return;
        }
        Rc::make_mut(&mut self.knowledge).merge(other);
        self.last_merged = Some(Rc::clone(other));
    }
}

/// The clocks of the threads of a cluster.
pub(super) struct Clocks {
    block_threads: u32,
    blocks: Vec<BlockClock>,
    /// Those of the blocks, one after another.
    threads: Vec<ThreadClock>,
}

#[derive(Clone, Default)]
struct BlockClock {
    /// Block barriers that have opened.
    epoch: u32,
    /// What all threads of the block know of other blocks and of barriers.
    common: Rc<Knowledge>,
}

#[derive(Clone, Default)]
struct ThreadClock {
    /// For each lane of its warp the time up to which it has seen it; for its own, its clock.
    seen: LaneClocks,
    /// What it has acquired since the last block barrier.
    acquired: Option<Rc<Knowledge>>,
}

impl Clocks {
    pub(super) fn new(blocks: u32, block_threads: u32) -> Self {
        Self {
            block_threads,
            blocks: vec![BlockClock::default(); blocks as usize],
            threads: vec![ThreadClock::default(); (blocks * block_threads) as usize],
        }
    }

    fn thread(&self, place: Place) -> &ThreadClock {
        &self.threads[(place.rank * self.block_threads + place.thread) as usize]
    }

    fn thread_mut(&mut self, place: Place) -> &mut ThreadClock {
        &mut self.threads[(place.rank * self.block_threads + place.thread) as usize]
    }

    /// The time of the thread at `place`.
    pub(super) fn now(&self, place: Place) -> Time {
        let lane = place.thread % LANES;
        Time {
            rank: place.rank,
            warp: place.thread / LANES,
            lanes: 1 << lane,
            epoch: self.blocks[place.rank as usize].epoch,
            clock: self.thread(place).seen[lane as usize],
        }
    }

    /// A thread of `time` of which the one at `observer` does not know that it is past that time.
    pub(super) fn unordered(&self, time: &Time, observer: Place) -> Option<u32> {
        let own_block = observer.rank == time.rank;
        if own_block && time.epoch < self.blocks[time.rank as usize].epoch {
            return None;
        }
        let own_warp = own_block && observer.thread / LANES == time.warp;
        let thread = self.thread(observer);
        let is_seen = |lane: u32| {
            let other = time.warp * LANES + lane;
            own_warp && (other == observer.thread || thread.seen[lane as usize] > time.clock)
        };
        let unseen = lanes(time.lanes).filter(|lane| !is_seen(*lane));
        let unseen = unseen.fold(0, |unseen, lane| unseen | 1 << lane);
        if unseen == 0 {
            return None;
        }
        let mut unknown = unseen;
        for knowledge in self.learned(observer) {
            if knowledge.epoch(time.rank) > time.epoch {
                return None;
            }
            if let Some((_, clocks)) = knowledge.warps.get(&(time.rank, time.warp)) {
                let known = lanes(unknown).filter(|lane| clocks[*lane as usize] > time.clock);
                unknown = known.fold(unknown, |unknown, lane| unknown & !(1 << lane));
            }
        }
        let lane = lanes(unknown).next()?;
        Some(time.warp * LANES + lane)
    }

    /// What the thread at `observer` has acquired, or its block has.
    fn learned(&self, observer: Place) -> impl Iterator<Item = &Knowledge> {
        let common = &*self.blocks[observer.rank as usize].common;
        let acquired = self.thread(observer).acquired.as_deref();
        acquired.into_iter().chain([common])
    }

    /// Whether the thread at `observer` knows that so many phases of `barrier` are over.
    pub(super) fn knows_phases(&self, barrier: BarrierId, phases: u32, observer: Place) -> bool {
        self.learned(observer).any(|knowledge| {
            knowledge
                .phases
                .get(&barrier)
                .is_some_and(|over| *over >= phases)
        })
    }

    /// Whether the thread at `observer` knows that the cluster barrier has opened so often.
    pub(super) fn knows_openings(&self, openings: u32, observer: Place) -> bool {
        self.learned(observer)
            .any(|knowledge| knowledge.openings >= openings)
    }

    /// Whether the thread at `observer` knows that the cluster barrier has opened at least so often, the last time
    /// with releases alone.
    pub(super) fn knows_releasing_opening(&self, openings: u32, observer: Place) -> bool {
        self.learned(observer)
            .any(|knowledge| knowledge.releasing_opening >= openings)
    }

    /// All threads of a block have met at its barrier.
    pub(super) fn block_barrier(&mut self, rank: u32) {
        let first = (rank * self.block_threads) as usize;
        let threads = &mut self.threads[first..][..self.block_threads as usize];
        let block = &mut self.blocks[rank as usize];
        block.epoch += 1;
        let mut merged: Option<Rc<Knowledge>> = None;
        for acquired in threads
            .iter_mut()
            .filter_map(|thread| thread.acquired.take())
        {
            if merged
                .as_ref()
                .is_none_or(|last| !Rc::ptr_eq(last, &acquired))
            {
                Rc::make_mut(&mut block.common).merge(&acquired);
                merged = Some(acquired);
            }
        }
    }

    /// The lanes of `mask`, of the warp that begins at `first`, have met at a warp barrier.
    pub(super) fn warp_barrier(&mut self, first: Place, mask: u32) {
        let mut joint = [0; LANES as usize];
        let mut acquired = None;
        for lane in lanes(mask) {
            let thread = self.thread_mut(first.lane(lane));
            thread.seen[lane as usize] += 1;
            take_later(&mut joint, &thread.seen);
            if let Some(knowledge) = &thread.acquired {
                merge_shared(&mut acquired, knowledge);
            }
        }
        for lane in lanes(mask) {
            let thread = self.thread_mut(first.lane(lane));
            thread.seen = joint;
            thread.acquired.clone_from(&acquired);
        }
    }

    /// The thread at `place` adds what it did and knows to `signal`.
    pub(super) fn release(&mut self, place: Place, signal: &mut Signal) {
        let lane = (place.thread % LANES) as usize;
        let epoch = self.blocks[place.rank as usize].epoch;
        let thread = self.thread_mut(place);
        thread.seen[lane] += 1;
        let (seen, acquired) = (thread.seen, thread.acquired.clone());
        if let Some(acquired) = acquired {
            signal.merge(&acquired);
        }
        signal.merge(&self.blocks[place.rank as usize].common);
        signal.update(|knowledge| {
            knowledge.see_epoch(place.rank, epoch);
            knowledge.see_warp((place.rank, place.thread / LANES), epoch, &seen);
        });
    }

    /// The thread at `place` learns what was released into `signal`.
    pub(super) fn acquire(&mut self, place: Place, signal: &Signal) {
        merge_shared(&mut self.thread_mut(place).acquired, &signal.knowledge);
    }
}

impl Place {
    fn lane(self, lane: u32) -> Self {
        Self {
            thread: self.thread + lane,
            ..self
        }
    }
}
