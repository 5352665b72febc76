//! Global memory, checked against the buffers of the launch.

use super::block::Grid;
use super::cluster;
use super::context::{self, Thread};
use super::fault::{Access, BufferPlace, FaultKind, MemoryPlace};
use super::history::Completion;
use super::races::Action;
use crate::ext::{U32x4, Word};
use core::cell::Cell;
use std::panic::Location;

/// Part of the address space.
#[derive(Clone, Copy)]
struct Extent {
    start: u64,
    bytes: u64,
}

const NOWHERE: Extent = Extent { start: 0, bytes: 0 };

thread_local! {
    /// The buffers last loaded from and stored to: nearly every access is to the same one as the last.
    static LAST_LOADED: Cell<Extent> = const { Cell::new(NOWHERE) };
    static LAST_STORED: Cell<Extent> = const { Cell::new(NOWHERE) };
}

/// Forgets the buffers of the last launch.
pub(super) fn reset() {
    LAST_LOADED.set(NOWHERE);
    LAST_STORED.set(NOWHERE);
}

/// The value at `address`.
///
/// # Safety
///
/// The buffers of the launch are what its contract says, and no other OS thread writes the value.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn load<T: Word>(address: u64) -> T {
    if !LAST_LOADED.get().holds::<T>(address) {
        let action = Action::new(Access::Load, Location::caller());
        LAST_LOADED.set(check(address, size_of::<T>() as u32, action));
    }
    // SAFETY: in a live buffer and aligned, by the check; every bit pattern is a value of a `Word`.
    unsafe { (address as *const T).read() }
}

/// The current thread begins copy `copy` of the 16 bytes at `address`.
#[track_caller]
pub(crate) fn begin_copy(address: u64, copy: u64) {
    let action = Action {
        completion: Completion::Copy(copy),
        ..Action::new(Access::Load, Location::caller())
    };
    check(address, size_of::<U32x4>() as u32, action);
}

/// What copy `copy` of `thread` brings from `address`.
///
/// # Safety
///
/// As for [`load`]; [`begin_copy`] has checked the address.
pub(super) unsafe fn finish_copy(thread: &Thread, address: u64, copy: u64) -> U32x4 {
    if let Some(global) = &thread.block().grid().global_races {
        let races = thread.cluster().races();
        let races = races.expect("global races are looked for with those of clusters");
        global.settle(&races, thread.place(), copy, address);
    }
    // SAFETY: in a live buffer and aligned, as checked; every bit pattern is a value.
    unsafe { (address as *const U32x4).read() }
}

/// Puts `value` at `address`.
///
/// # Safety
///
/// The buffers of the launch are what its contract says, and no other OS thread accesses the value.
#[inline(always)]
#[track_caller]
pub(crate) unsafe fn store<T: Word>(address: u64, value: T) {
    if !LAST_STORED.get().holds::<T>(address) {
        let action = Action::new(Access::Store, Location::caller());
        LAST_STORED.set(check(address, size_of::<T>() as u32, action));
    }
    // SAFETY: in a live, writable buffer and aligned, by the check.
    unsafe { (address as *mut T).write(value) }
}

impl Extent {
    /// Whether a `T` at `address` lies within, and is aligned.
    #[inline(always)]
    fn holds<T>(self, address: u64) -> bool {
        let bytes = size_of::<T>() as u64;
        let offset = address.wrapping_sub(self.start);
        offset < self.bytes && self.bytes - offset >= bytes && address.is_multiple_of(bytes)
    }
}

/// Raises a fault if the access is at fault. Returns where others like it need no check.
#[cold]
#[inline(never)]
fn check(address: u64, bytes: u32, action: Action) -> Extent {
    let thread = context::current();
    let grid = thread.block().grid();
    let (index, extent) = find(grid, address, bytes, action);
    if grid.watched.is_empty() && grid.global_races.is_none() {
        return extent;
    }
    let buffer = BufferPlace {
        index,
        bytes: extent.bytes,
        offset: address.wrapping_sub(extent.start) as i64,
    };
    check_watched(grid, (address, bytes), action, buffer);
    check_race(thread, (address, bytes), action, buffer);
    NOWHERE
}

/// The buffer of the launch that allows this access, and its index; raises a fault if none does.
fn find(grid: &Grid, address: u64, bytes: u32, action: Action) -> (usize, Extent) {
    let Action {
        access, location, ..
    } = action;
    let mut read_only = None;
    for (index, buffer) in grid.buffers.iter().enumerate() {
        let offset = address.wrapping_sub(buffer.address);
        if offset < buffer.bytes && buffer.bytes - offset >= bytes as u64 {
            let place = BufferPlace {
                index,
                bytes: buffer.bytes,
                offset: offset as i64,
            };
            if access == Access::Store && !buffer.writable {
                read_only = Some(place);
            } else if !address.is_multiple_of(bytes as u64) {
                let kind = FaultKind::Misaligned {
                    access,
                    address,
                    bytes,
                    buffer: place,
                };
                context::raise(kind, location);
            } else {
                let extent = Extent {
                    start: buffer.address,
                    bytes: buffer.bytes,
                };
                return (index, extent);
            }
        }
    }
    let kind = match read_only {
        Some(buffer) => FaultKind::ReadOnly {
            address,
            bytes,
            buffer,
        },
        None => FaultKind::OutOfBounds {
            access,
            address,
            bytes,
            nearest: nearest(grid, address),
        },
    };
    context::raise(kind, location)
}

/// Raises a fault if the access is to freed memory, or loads what has not been written.
fn check_watched(grid: &Grid, (address, bytes): (u64, u32), action: Action, buffer: BufferPlace) {
    let Some(watched) = grid
        .watched
        .iter()
        .find(|watched| watched.contains(address))
    else {
        return;
    };
    let made_at = || watched.made_at.into();
    let kind = if watched.is_freed() {
        FaultKind::Freed {
            access: action.access,
            address,
            bytes,
            buffer,
            made_at: made_at(),
        }
    } else if action.access == Access::Store {
        return watched.set_written(address, bytes);
    } else if !watched.is_written(address, bytes) {
        FaultKind::Unwritten {
            address,
            bytes,
            buffer,
            made_at: made_at(),
        }
    } else {
        return;
    };
    context::raise(kind, action.location)
}

/// Raises a fault if the access races with an earlier one. What no buffer lets anybody write cannot race.
fn check_race(thread: &Thread, (address, bytes): (u64, u32), action: Action, buffer: BufferPlace) {
    let grid = thread.block().grid();
    let Some(global) = &grid.global_races else {
        return;
    };
    let writable = |buffer: &&super::Buffer| {
        buffer.writable && address.wrapping_sub(buffer.address) < buffer.bytes
    };
    if !grid.buffers.iter().any(|buffer| writable(&buffer)) {
        return;
    }
    let action = match action.access {
        Access::Store => Action {
            completion: Completion::Released(cluster::next_opening(thread)),
            ..action
        },
        _ => action,
    };
    let races = thread.cluster().races();
    let races = races.expect("global races are looked for with those of clusters");
    let touched = global.touch(&races, thread.place(), action, (address, bytes));
    drop(races);
    if let Err(other) = touched {
        let place = MemoryPlace::Global { address, buffer };
        context::raise(other.fault(action.access, place, bytes), action.location);
    }
}

/// The buffer whose extent is the fewest bytes away from `address`.
fn nearest(grid: &Grid, address: u64) -> Option<BufferPlace> {
    let distance = |buffer: &BufferPlace| match buffer.offset {
        before @ ..0 => before.unsigned_abs(),
        offset => offset.unsigned_abs().saturating_sub(buffer.bytes),
    };
    let buffers = grid.buffers.iter().enumerate();
    buffers
        .map(|(index, buffer)| BufferPlace {
            index,
            bytes: buffer.bytes,
            offset: address.wrapping_sub(buffer.address) as i64,
        })
        .min_by_key(distance)
}
