//! Counts what a thread allocates, so that a bench can say that a call allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted.
pub struct Counting;

// SAFETY: every call is the system allocator's own, with the caller's own promises. Counting neither
// allocates nor unwinds: the counter is a plain thread-local that needs no set-up and no tear-down.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Allocations of this thread so far.
pub fn count() -> u64 {
    COUNT.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_counted_and_nothing_else() {
        let before = count();
        let boxed = std::hint::black_box(Box::new([1u8; 100]));
        assert_eq!(count(), before + 1);
        let grown = std::hint::black_box(Vec::<u8>::with_capacity(10));
        assert_eq!(count(), before + 2);
        drop((boxed, grown));
        assert_eq!(std::hint::black_box(1) + 1, 2);
        assert_eq!(count(), before + 2);
    }
}
