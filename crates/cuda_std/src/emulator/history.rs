//! Who touched 16 bytes of memory, as far as later accesses may race with it.

use super::clocks::{BarrierId, Time};
use super::fault::{Access, FaultKind, MemoryPlace, OtherAccess};
use smallvec::SmallVec;
use std::panic::Location;

/// Bytes of memory that share a history; no access crosses their boundary.
pub(super) const GRANULE_BYTES: u64 = 16;

/// Which bytes of its granule an access touches: bit i is byte i.
pub(super) fn bytes_in_granule(address: u64, bytes: u32) -> u16 {
    (((1u32 << bytes) - 1) << (address % GRANULE_BYTES)) as u16
}

/// When an access is over for those who are ordered after it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    /// At once: to be known is enough.
    AtOnce,
    /// When its thread has waited for its copies up to this one, by their number.
    Copy(u64),
    /// When so many phases of an mbarrier are over.
    Phases(BarrierId, u32),
    /// At once in its own block; in others when they know that the cluster barrier has opened so often, with releases.
    Released(u32),
    /// At once, and also known to those who know that the cluster barrier has opened so often.
    Openings(u32),
}

/// One access, or the same by several lanes of a warp.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) bytes: u16,
    pub(super) access: Access,
    /// Index in the grid of the block of those who made it.
    pub(super) block: u32,
    pub(super) time: Time,
    pub(super) completion: Completion,
    pub(super) location: &'static Location<'static>,
}

impl Entry {
    /// Whether the two must be ordered.
    fn conflicts(&self, other: &Self) -> bool {
        let bytes = self.bytes & other.bytes != 0;
        let never = matches!(
            (self.access, other.access),
            (Access::Load, Access::Load) | (Access::Mbarrier, Access::Mbarrier)
        );
        bytes && !never
    }

    /// Whether `other` does the same at the same time in another lane.
    fn is_beside(&self, other: &Self) -> bool {
        self.access == other.access
            && self.bytes == other.bytes
            && self.completion == other.completion
            && self.block == other.block
            && self.time.is_beside(&other.time)
    }
}

/// An access that another races with, and the thread of its block that made it.
#[derive(Clone, Copy)]
pub(super) struct Unordered {
    pub(super) entry: Entry,
    pub(super) thread: u32,
}

impl Unordered {
    /// That an access of `bytes` bytes at `place` is not ordered after this one.
    pub(super) fn fault(&self, access: Access, place: MemoryPlace, bytes: u32) -> FaultKind {
        let Self { entry, thread } = self;
        let other = Box::new(OtherAccess {
            access: entry.access,
            block: entry.block,
            thread: *thread,
            location: entry.location.into(),
        });
        match entry.completion {
            Completion::Copy(_) | Completion::Phases(..) => FaultKind::MissingWait {
                access,
                place,
                bytes,
                copy: other,
            },
            Completion::AtOnce | Completion::Released(_) | Completion::Openings(_) => {
                FaultKind::Race {
                    access,
                    place,
                    bytes,
                    other,
                }
            }
        }
    }
}

/// The latest accesses of a granule's bytes: most granules of global memory are stored to once.
#[derive(Clone, Default)]
pub(super) struct History(SmallVec<[Entry; 1]>);

impl History {
    /// Adds an access, unless it races with earlier ones, the latest of which is returned.
    ///
    /// `unordered` tells a thread of an entry's that the new access is not ordered after.
    pub(super) fn record(
        &mut self,
        new: Entry,
        unordered: impl Fn(&Entry) -> Option<u32>,
    ) -> Result<(), Unordered> {
        for entry in self.0.iter().rev().filter(|entry| entry.conflicts(&new)) {
            if let Some(thread) = unordered(entry) {
                return Err(Unordered {
                    entry: *entry,
                    thread,
                });
            }
        }
        // Whoever is ordered after the new access is ordered after all that it is ordered after.
        if new.access == Access::Store {
            for entry in &mut self.0 {
                entry.bytes &= !new.bytes;
            }
            self.0.retain(|entry| entry.bytes != 0);
        } else if new.completion == Completion::AtOnce {
            if let Some(entry) = self.0.iter_mut().find(|entry| entry.is_beside(&new)) {
                entry.time.lanes |= new.time.lanes;
                return Ok(());
            }
            self.0.retain(|entry| {
                entry.access != new.access
                    || entry.bytes & !new.bytes != 0
                    || unordered(entry).is_some()
            });
        }
        self.0.push(new);
        Ok(())
    }

    /// The copy `copy` of a thread of block `block` is over for that thread, at `time`.
    pub(super) fn settle(&mut self, block: u32, copy: u64, time: Time) {
        for entry in &mut self.0 {
            let is_copy = entry.completion == Completion::Copy(copy) && entry.block == block;
            if is_copy && entry.time.is_thread_of(&time) {
                entry.completion = Completion::AtOnce;
                entry.time = time;
            }
        }
    }
}
