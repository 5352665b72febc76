//! Copies from global to shared memory that run while the thread goes on.
//!
//! A thread issues copies, closes them into a group, and later waits until at most so many of its latest
//! groups are still under way. The wait concerns the thread's own copies alone: others see them after a
//! barrier that follows it.
//!
//! In the emulator a copy happens at the wait. Until then its destination counts as unwritten, so that a
//! missing wait is a fault.

use super::{Global, Shared, U32x4};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::async_copy;

/// Begins to copy 16 bytes from `source` to `destination`, past the L1 cache (`cp.async.cg`).
///
/// # Safety
///
/// * **in-bounds**: both lie in memory of their kind that the kernel may read, and write.
/// * **aligned**: both addresses are multiples of 16.
/// * **no race**: until the thread has waited for the copy nobody touches the destination or writes the
///   source.
#[inline(always)]
#[track_caller]
pub unsafe fn copy_16(destination: Shared<U32x4>, source: Global<U32x4>) {
    by_target! {
        // SAFETY: in-bounds, aligned: this function's own contract.
        device: unsafe {
            core::arch::asm!(
                "cp.async.cg.shared.global [{destination}], [{source}], 16;",
                destination = in(reg32) destination.address(),
                source = in(reg64) source.address(),
                options(nostack),
            );
        },
        host: async_copy::copy_16(destination.address(), Some(source.address())),
    }
}

/// The same where `is_there`; else 16 bytes of zeros come, at the same time, and the source is not touched.
///
/// # Safety
///
/// * As for [`copy_16`], of the source only where `is_there`, but for **aligned**: of both always.
#[inline(always)]
#[track_caller]
pub unsafe fn copy_16_or_zeros(destination: Shared<U32x4>, source: Global<U32x4>, is_there: bool) {
    by_target! {
        // SAFETY: in-bounds, aligned: this function's own contract; of 0 bytes none are read.
        device: unsafe {
            core::arch::asm!(
                "cp.async.cg.shared.global [{destination}], [{source}], 16, {bytes};",
                destination = in(reg32) destination.address(),
                source = in(reg64) source.address(),
                bytes = in(reg32) if is_there { 16u32 } else { 0 },
                options(nostack),
            );
        },
        host: async_copy::copy_16(destination.address(), is_there.then(|| source.address())),
    }
}

/// Closes the copies begun since the last group into a group, an empty one if there are none.
#[inline(always)]
pub fn commit_group() {
    by_target! {
        // SAFETY: touches no register; what it does to memory `copy_16` answers for.
        device: unsafe { core::arch::asm!("cp.async.commit_group;", options(nostack)) },
        host: async_copy::commit_group(),
    }
}

/// Waits until at most the latest `N` groups of the calling thread are under way.
#[inline(always)]
pub fn wait_group<const N: u32>() {
    by_target! {
        // SAFETY: touches no register; what it does to memory `copy_16` answers for.
        device: unsafe {
            core::arch::asm!("cp.async.wait_group {groups};", groups = const N, options(nostack));
        },
        host: async_copy::wait_group(N),
    }
}

/// Waits for every copy of the calling thread, in a group or not.
#[inline(always)]
pub fn wait_all() {
    by_target! {
        // SAFETY: touches no register; what it does to memory `copy_16` answers for.
        device: unsafe { core::arch::asm!("cp.async.wait_all;", options(nostack)) },
        host: async_copy::wait_all(),
    }
}
