//! Global memory, checked against the buffers of the launch.

use super::block::Grid;
use super::context;
use super::fault::{Access, FaultKind, NearestBuffer};
use crate::ext::Word;
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
        LAST_LOADED.set(find(
            address,
            size_of::<T>() as u32,
            Access::Load,
            Location::caller(),
        ));
    }
    // SAFETY: in a live buffer and aligned, by the check; every bit pattern is a value of a `Word`.
    unsafe { (address as *const T).read() }
}

/// Raises a fault if the `T` at `address` may not be loaded.
#[track_caller]
pub(crate) fn check_load<T: Word>(address: u64) {
    find(
        address,
        size_of::<T>() as u32,
        Access::Load,
        Location::caller(),
    );
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
        LAST_STORED.set(find(
            address,
            size_of::<T>() as u32,
            Access::Store,
            Location::caller(),
        ));
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

/// The buffer of the launch that allows this access; raises a fault if none does.
#[cold]
#[inline(never)]
fn find(address: u64, bytes: u32, access: Access, location: &Location<'_>) -> Extent {
    let grid = context::current().block().grid();
    let mut read_only = false;
    for buffer in grid.buffers {
        let offset = address.wrapping_sub(buffer.address);
        if offset < buffer.bytes && buffer.bytes - offset >= bytes as u64 {
            if access == Access::Store && !buffer.writable {
                read_only = true;
            } else if !address.is_multiple_of(bytes as u64) {
                let kind = FaultKind::Misaligned {
                    access,
                    address,
                    bytes,
                };
                context::raise(kind, location);
            } else {
                return Extent {
                    start: buffer.address,
                    bytes: buffer.bytes,
                };
            }
        }
    }
    let kind = if read_only {
        FaultKind::ReadOnly { address, bytes }
    } else {
        FaultKind::OutOfBounds {
            access,
            address,
            bytes,
            nearest: nearest(grid, address),
        }
    };
    context::raise(kind, location)
}

/// The buffer whose extent is the fewest bytes away from `address`.
fn nearest(grid: &Grid, address: u64) -> Option<NearestBuffer> {
    let distance = |buffer: &NearestBuffer| match buffer.offset {
        before @ ..0 => before.unsigned_abs(),
        offset => offset.unsigned_abs().saturating_sub(buffer.bytes),
    };
    let buffers = grid.buffers.iter().enumerate();
    buffers
        .map(|(index, buffer)| NearestBuffer {
            index,
            bytes: buffer.bytes,
            offset: address.wrapping_sub(buffer.address) as i64,
        })
        .min_by_key(distance)
}
