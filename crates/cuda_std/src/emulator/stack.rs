//! Stacks for the kernel threads of one worker: one allocation, cut into pieces.
//!
//! A mapping a stack would run into the system's limit on mappings at some 32,000 stacks, and guard pages
//! into the same. Instead each stack ends in a canary, and below it lies a stack's room that nobody uses: an
//! overflow of up to that much destroys nothing, and the canary tells of it.

use core::alloc::Layout;
use core::ptr::NonNull;
#[cfg(windows)]
use corosensei::stack::StackTebFields;
use corosensei::stack::{STACK_ALIGNMENT, Stack, StackPointer};
use std::alloc;

/// Room for the kernel and, should it panic, for a backtrace, which does not fit into 16 KiB.
const STACK_BYTES: usize = 64 * 1024;
/// What an overflow runs into. It is never touched, and so takes address space alone, but on Windows.
const SPARE_BYTES: usize = STACK_BYTES;
/// Stacks are not a multiple of the cache's period apart, or the hot ends of all would share a few sets.
const STRIDE_BYTES: usize = SPARE_BYTES + STACK_BYTES + 576;
const SLAB_ALIGN: usize = 4096;
const CANARY: u64 = 0x0ddb_a115_7ac6_ca9a;

const _: () = assert!(STRIDE_BYTES.is_multiple_of(STACK_ALIGNMENT));
const _: () = assert!(SPARE_BYTES.is_multiple_of(STACK_ALIGNMENT));

/// `stacks` stacks. The system commits the pages of a stack when they are first touched; Windows does so at once.
#[derive(Default)]
pub(super) struct Slab {
    start: Option<NonNull<u8>>,
    stacks: usize,
}

impl Slab {
    /// Has at least `stacks` stacks from now on. None may be in use.
    pub(super) fn reserve(&mut self, stacks: usize) {
        if stacks <= self.stacks {
            return;
        }
        self.free();
        let layout = Self::layout(stacks);
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc::alloc(layout) };
        let Some(start) = NonNull::new(start) else {
            alloc::handle_alloc_error(layout);
        };
        self.start = Some(start);
        self.stacks = stacks;
        for index in 0..stacks {
            // SAFETY: the canary's place lies in the slab.
            unsafe { self.canary(index).write(CANARY) };
        }
    }

    /// Stack `index`, to be used by one coroutine at a time.
    pub(super) fn stack(&self, index: usize) -> SlabStack {
        assert!(index < self.stacks, "stack {index} of {}", self.stacks);
        let limit = self.canary(index) as usize;
        let pointer = |address| StackPointer::new(address).expect("the slab is not at address 0");
        SlabStack {
            base: pointer(limit + STACK_BYTES),
            limit: pointer(limit),
        }
    }

    /// Ends the process if one of the first `stacks` stacks has run over its end: how far, and what it hit, is
    /// not known.
    pub(super) fn check(&self, stacks: usize, kernel: &str) {
        for index in 0..stacks {
            // SAFETY: the canary's place lies in the slab, and `reserve` initialised it.
            if unsafe { self.canary(index).read_volatile() } != CANARY {
                eprintln!("kernel `{kernel}` overflowed a thread's stack of {STACK_BYTES} bytes");
                std::process::abort();
            }
        }
    }

    fn canary(&self, index: usize) -> *mut u64 {
        let start = self.start.expect("a slab without stacks has no canaries");
        start
            .as_ptr()
            .wrapping_add(index * STRIDE_BYTES + SPARE_BYTES)
            .cast()
    }

    fn layout(stacks: usize) -> Layout {
        Layout::from_size_align(stacks * STRIDE_BYTES, SLAB_ALIGN)
            .expect("slabs are far below 2^63 bytes")
    }

    fn free(&mut self) {
        if let Some(start) = self.start.take() {
            // SAFETY: `reserve` allocated it with this layout.
            unsafe { alloc::dealloc(start.as_ptr(), Self::layout(self.stacks)) };
            self.stacks = 0;
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.free();
    }
}

/// One stack of a slab.
pub(super) struct SlabStack {
    base: StackPointer,
    limit: StackPointer,
}

// SAFETY: the extent is the coroutine's alone and far above the minimum. There is no guard page: an overflow
// by less than the spare room is without effect until the canary ends the process.
unsafe impl Stack for SlabStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }

    /// All of the stack is committed, so it has nowhere to grow to.
    #[cfg(windows)]
    fn teb_fields(&self) -> StackTebFields {
        StackTebFields {
            StackBase: self.base.get(),
            StackLimit: self.limit.get(),
            DeallocationStack: self.limit.get(),
            GuaranteedStackBytes: 0,
        }
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, _: usize, _: usize) {}
}
