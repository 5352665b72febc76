//! A grid, a block of it, and the block's shared memory.

use super::fault::{Access, FaultKind};
use super::mbarrier::Mbarriers;
use super::{Buffer, Kernel, Launch, context};
use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::alloc;
use std::panic::Location;

use super::collective::LANES;
use crate::ext::Word;

/// A launch, as every block of it sees it.
pub(crate) struct Grid<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) params: *const *const c_void,
    pub(crate) blocks: u32,
    pub(crate) block_threads: u32,
    pub(crate) cluster_blocks: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) buffers: &'a [Buffer],
}

// SAFETY: the parameters are read only, and live for the whole launch by `launch`'s contract.
unsafe impl Sync for Grid<'_> {}

impl<'a> Grid<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &Launch<'a>,
        params: &'a [*const c_void],
    ) -> Self {
        Self {
            kernel,
            params: params.as_ptr(),
            blocks: launch.grid,
            block_threads: launch.block,
            cluster_blocks: launch.cluster,
            shared_bytes: launch.shared_bytes,
            buffers: launch.buffers,
        }
    }
}

/// 32 threads, or the last fewer, of a block. Bit i of each set is lane i.
#[derive(Default)]
pub(crate) struct Warp {
    /// Lanes that exist.
    pub(super) existing: u32,
    pub(super) runnable: Cell<u32>,
    /// Lanes that wait for lanes of the warp.
    pub(super) waiting: Cell<u32>,
    pub(super) exited: Cell<u32>,
}

impl Warp {
    /// Lanes that have not returned.
    pub(crate) fn live(&self) -> u32 {
        self.existing & !self.exited.get()
    }
}

/// A block while it runs.
pub(crate) struct Block {
    grid: NonNull<Grid<'static>>,
    index: u32,
    pub(super) warps: Vec<Warp>,
    /// Threads that wait at the block barrier.
    pub(super) at_barrier: Cell<u32>,
    /// The first of them, and where its barrier is.
    pub(super) first_at_barrier: Cell<Option<(u32, &'static Location<'static>)>>,
    /// Threads that wait for the cluster or for an mbarrier.
    pub(super) polling: Cell<u32>,
    pub(super) exited: Cell<u32>,
    pub(super) mbarriers: RefCell<Mbarriers>,
    shared: SharedMemory,
}

impl Block {
    /// Block `index` of `grid`, before its first step.
    ///
    /// # Safety
    ///
    /// `grid` outlives the block.
    pub(super) unsafe fn new(grid: &Grid, index: u32, shared: SharedMemory) -> Self {
        let warps = (0..grid.block_threads.div_ceil(LANES)).map(|warp| {
            let lanes = (grid.block_threads - warp * LANES).min(LANES);
            let existing = u32::MAX >> (LANES - lanes);
            Warp {
                existing,
                runnable: Cell::new(existing),
                ..Warp::default()
            }
        });
        Self {
            grid: NonNull::from(grid).cast(),
            index,
            warps: warps.collect(),
            at_barrier: Cell::new(0),
            first_at_barrier: Cell::new(None),
            polling: Cell::new(0),
            exited: Cell::new(0),
            mbarriers: RefCell::default(),
            shared,
        }
    }

    /// Its storage, for the next block.
    pub(super) fn into_shared(self) -> SharedMemory {
        self.shared
    }

    #[inline(always)]
    pub(crate) fn grid(&self) -> &Grid<'_> {
        // SAFETY: `new`'s contract.
        unsafe { self.grid.as_ref() }
    }

    /// Index in the grid.
    #[inline(always)]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    #[inline(always)]
    pub(crate) fn threads(&self) -> u32 {
        self.grid().block_threads
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &SharedMemory {
        &self.shared
    }

    pub(crate) fn warp_of(&self, thread: u32) -> &Warp {
        &self.warps[(thread / LANES) as usize]
    }
}

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
        }
    }
}

impl SharedMemory {
    /// Makes it `len` bytes, none of them written.
    pub(super) fn reset(&mut self, len: u32) {
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
            let bytes = size_of::<T>() as u32;
            context::raise(
                FaultKind::SharedUnwritten { offset, bytes },
                Location::caller(),
            );
        }
        // SAFETY: in bounds and aligned, by the check; every bit pattern is a value of a `Word`.
        unsafe { self.bytes.add(offset as usize).cast::<T>().read() }
    }

    /// Puts `value` at `offset`.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn store<T: Word>(&self, offset: u32, value: T) {
        self.check::<T>(offset, Access::Store);
        // SAFETY: in bounds and aligned, by the check.
        unsafe {
            self.bytes.add(offset as usize).cast::<T>().write(value);
            self.written
                .add(offset as usize)
                .write_bytes(1, size_of::<T>());
        }
    }

    /// Makes the bytes of the `T` at `offset` unwritten: something else than a store will bring them.
    #[track_caller]
    pub(crate) fn invalidate<T: Word>(&self, offset: u32) {
        self.check::<T>(offset, Access::Store);
        // SAFETY: in bounds, by the check.
        unsafe {
            self.written
                .add(offset as usize)
                .write_bytes(0, size_of::<T>());
        }
    }

    #[inline(always)]
    #[track_caller]
    fn check<T: Word>(&self, offset: u32, access: Access) {
        let bytes = size_of::<T>() as u32;
        if offset > self.len || self.len - offset < bytes || !offset.is_multiple_of(bytes) {
            self.refuse(offset, bytes, access, Location::caller());
        }
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

impl Drop for SharedMemory {
    fn drop(&mut self) {
        self.free_dynamic();
        self.free_arrays();
    }
}
