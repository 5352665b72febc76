//! The shared memory of a block.

use super::block::Block;
use super::context;
use super::fault::{Access, FaultKind, MemoryPlace};
use super::races::Action;
use crate::ext::Word;
use core::alloc::Layout;
use core::cell::RefCell;
use core::ptr;
use std::alloc;
use std::panic::Location;

/// Where the dynamic shared memory starts is a multiple of this.
const SHARED_ALIGN: usize = 128;

/// The shared memory of a block: the dynamic part, which bytes of it are written, and the static arrays.
pub(crate) struct SharedMemory {
    bytes: *mut u8,
    /// For each byte 1 if it has been written, else 0.
    written: *mut u8,
    len: u32,
    capacity: u32,
    arrays: RefCell<Vec<Array>>,
    /// Whether races are looked for.
    watched: bool,
}

/// The storage of one `shared_array!`.
struct Array {
    place: *const u8,
    storage: *mut u8,
    layout: Layout,
}

impl Default for SharedMemory {
    fn default() -> Self {
        Self {
            bytes: ptr::null_mut(),
            written: ptr::null_mut(),
            len: 0,
            capacity: 0,
            arrays: RefCell::default(),
            watched: false,
        }
    }
}

impl SharedMemory {
    /// Makes it `len` bytes, none of them written.
    pub(super) fn reset(&mut self, len: u32, watched: bool) {
        self.watched = watched;
        if len > self.capacity {
            self.free_dynamic();
            let layout = Self::layout(len);
            // SAFETY: the layout is not empty, as `len` is above the capacity.
            unsafe {
                self.bytes = alloc::alloc_zeroed(layout);
                self.written = alloc::alloc_zeroed(layout);
            }
            if self.bytes.is_null() || self.written.is_null() {
                alloc::handle_alloc_error(layout);
            }
            self.capacity = len;
        } else if self.len > 0 {
            // SAFETY: as many bytes belong to it.
            unsafe { self.written.write_bytes(0, self.len as usize) };
        }
        self.len = len;
        self.free_arrays();
    }

    fn layout(len: u32) -> Layout {
        Layout::from_size_align(len as usize, SHARED_ALIGN)
            .expect("shared memory is far below 2^63 bytes")
    }

    fn free_dynamic(&mut self) {
        if self.capacity > 0 {
            let layout = Self::layout(self.capacity);
            // SAFETY: `reset` allocated both with this layout.
            unsafe {
                alloc::dealloc(self.bytes, layout);
                alloc::dealloc(self.written, layout);
            }
            self.capacity = 0;
        }
    }

    fn free_arrays(&mut self) {
        for array in self.arrays.get_mut().drain(..) {
            if array.layout.size() > 0 {
                // SAFETY: `array` allocated it with this layout.
                unsafe { alloc::dealloc(array.storage, array.layout) };
            }
        }
    }

    /// The storage of the array declared at `place`.
    pub(crate) fn array(&self, place: *const u8, layout: Layout) -> *mut u8 {
        let mut arrays = self.arrays.borrow_mut();
        if let Some(array) = arrays.iter().find(|array| array.place == place) {
            return array.storage;
        }
        let storage = if layout.size() == 0 {
            ptr::without_provenance_mut(layout.align())
        } else {
            // SAFETY: the layout is not empty.
            unsafe { alloc::alloc_zeroed(layout) }
        };
        if storage.is_null() {
            alloc::handle_alloc_error(layout);
        }
        arrays.push(Array {
            place,
            storage,
            layout,
        });
        storage
    }

    /// The dynamic part, every byte of which counts as written from now on.
    pub(crate) fn raw_dynamic(&self) -> *mut u8 {
        if self.len == 0 {
            return ptr::without_provenance_mut(SHARED_ALIGN);
        }
        // SAFETY: as many bytes belong to it.
        unsafe { self.written.write_bytes(1, self.len as usize) };
        self.bytes
    }

    /// The value at `offset`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn load<T: Word>(&self, offset: u32) -> T {
        self.check::<T>(offset, Access::Load);
        if !self.is_written::<T>(offset) {
            unwritten(offset, size_of::<T>() as u32, Location::caller());
        }
        self.check_race::<T>(offset, Access::Load);
        // SAFETY: in bounds and aligned, by the check; every bit pattern is a value of a `Word`.
        unsafe { self.bytes.add(offset as usize).cast::<T>().read() }
    }

    /// Puts `value` at `offset`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store<T: Word>(&self, offset: u32, value: T) {
        self.check::<T>(offset, Access::Store);
        self.check_race::<T>(offset, Access::Store);
        // SAFETY: in bounds and aligned, by the check.
        unsafe {
            self.bytes.add(offset as usize).cast::<T>().write(value);
            self.written
                .add(offset as usize)
                .write_bytes(1, size_of::<T>());
        }
    }

    /// The current thread, of this block, begins a store of a `T` at `offset` that takes place later: until then
    /// the bytes are unwritten.
    pub(super) fn begin_store<T: Word>(&self, offset: u32, action: Action) {
        self.begin_store_in::<T>(context::current().block(), offset, action);
    }

    /// As [`Self::begin_store`], by a thread of any block of the cluster; this is the memory of `block`.
    pub(super) fn begin_store_in<T: Word>(&self, block: &Block, offset: u32, action: Action) {
        let bytes = size_of::<T>() as u32;
        if !self.holds(offset, bytes) {
            self.refuse(offset, bytes, Access::Store, action.location);
        }
        if self.watched {
            watch(block, action, (offset, bytes));
        }
        // SAFETY: in bounds, by the check.
        unsafe {
            let written = self.written.add(offset as usize);
            written.write_bytes(0, size_of::<T>());
        }
    }

    /// Performs what [`Self::begin_store`] announced.
    pub(super) fn finish_store<T: Word>(&self, offset: u32, value: T) {
        // SAFETY: in bounds and aligned, as checked at the beginning.
        unsafe {
            self.bytes.add(offset as usize).cast::<T>().write(value);
            self.written
                .add(offset as usize)
                .write_bytes(1, size_of::<T>());
        }
    }

    /// The current thread works on the mbarrier at `offset` of this memory, which is that of `block`. Does nothing
    /// where there can be none.
    pub(super) fn use_mbarrier(
        &self,
        block: &Block,
        offset: u32,
        location: &'static Location<'static>,
    ) {
        let bytes = size_of::<u64>() as u32;
        if self.watched && self.holds(offset, bytes) {
            watch(
                block,
                Action::new(Access::Mbarrier, location),
                (offset, bytes),
            );
        }
    }

    /// Raises a fault if the current thread's access of the `T` at `offset` races with another's.
    #[inline(always)]
    #[track_caller]
    fn check_race<T: Word>(&self, offset: u32, access: Access) {
        if self.watched {
            let action = Action::new(access, Location::caller());
            let bytes = size_of::<T>() as u32;
            watch(context::current().block(), action, (offset, bytes));
        }
    }

    #[inline(always)]
    #[track_caller]
    fn check<T: Word>(&self, offset: u32, access: Access) {
        let bytes = size_of::<T>() as u32;
        if !self.holds(offset, bytes) {
            self.refuse(offset, bytes, access, Location::caller());
        }
    }

    /// Whether `bytes` bytes at `offset` are in bounds, and aligned to their number.
    #[inline(always)]
    fn holds(&self, offset: u32, bytes: u32) -> bool {
        offset <= self.len && self.len - offset >= bytes && offset.is_multiple_of(bytes)
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, offset: u32, bytes: u32, access: Access, location: &Location<'_>) -> ! {
        let in_bounds = offset <= self.len && self.len - offset >= bytes;
        let kind = if in_bounds {
            FaultKind::SharedMisaligned {
                access,
                offset,
                bytes,
            }
        } else {
            FaultKind::SharedOutOfBounds {
                access,
                offset,
                bytes,
                shared_bytes: self.len,
            }
        };
        context::raise(kind, location)
    }

    /// Whether every byte of the `T` at `offset`, which is in bounds and aligned, has been written.
    #[inline(always)]
    fn is_written<T: Word>(&self, offset: u32) -> bool {
        let written = self.written.wrapping_add(offset as usize);
        // SAFETY: as many bytes belong to it, aligned as the `T` is.
        unsafe {
            match size_of::<T>() {
                1 => *written == 1,
                2 => *written.cast::<u16>() == 0x0101,
                4 => *written.cast::<u32>() == 0x0101_0101,
                8 => *written.cast::<u64>() == 0x0101_0101_0101_0101,
                _ => *written.cast::<u128>() == 0x0101_0101_0101_0101_0101_0101_0101_0101,
            }
        }
    }
}

/// Records what the current thread does to the shared memory of `block`, and raises a fault if it races with what
/// another did.
#[cold]
#[inline(never)]
fn watch(block: &Block, action: Action, (offset, bytes): (u32, u32)) {
    let thread = context::current();
    let races = thread.cluster().races_mut();
    let mut races = races.expect("memory is watched where races are looked for");
    let touched = races.touch_shared(thread.place(), action, (block.rank(), offset, bytes));
    drop(races);
    if let Err(other) = touched {
        let place = MemoryPlace::Shared {
            block: block.index(),
            offset,
        };
        context::raise(other.fault(action.access, place, bytes), action.location);
    }
}

/// Raises the fault of a load of bytes that are unwritten, maybe since what brings them has not been waited for.
#[cold]
#[inline(never)]
fn unwritten(offset: u32, bytes: u32, location: &Location<'_>) -> ! {
    let block = context::current().block();
    let copies = || {
        let mut threads = block.own_threads().iter();
        threads.find_map(|thread| thread.pending_copy(offset, bytes))
    };
    let pending = block.mbarriers.borrow().pending_store(offset, bytes);
    let kind = match pending.or_else(copies) {
        Some(copy) => FaultKind::MissingWait {
            access: Access::Load,
            place: MemoryPlace::Shared {
                block: block.index(),
                offset,
            },
            bytes,
            copy: Box::new(copy),
        },
        None => FaultKind::SharedUnwritten { offset, bytes },
    };
    context::raise(kind, location)
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.free_dynamic();
        self.free_arrays();
    }
}
