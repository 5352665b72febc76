//! Barriers in shared memory that count arrivals and the bytes of asynchronous stores. Devices from sm_90 on.
//!
//! A barrier goes through phases: 0, 1, 2 and so on. A phase is complete when as many arrivals have come as
//! [`init`] said and as many bytes as the arrivals expect; the next begins at once. What
//! [`cluster::store_async`](super::cluster::store_async) has brought in a phase is there for a thread that
//! has waited for it.
//!
//! A barrier is 8 bytes, which nothing else may touch.

use super::Shared;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::mbarrier;

/// Makes `barrier` one that takes `arrivals` arrivals a phase, in phase 0.
///
/// Threads of the block see it after a block barrier; peers of the cluster after a cluster barrier, for which
/// a relaxed arrival of the calling thread is enough.
///
/// # Safety
///
/// * **in-bounds**, **aligned**: 8 bytes of dynamic shared memory at a multiple of 8, of the caller's block.
/// * **alone**: nobody uses the barrier before it is visible to them; one thread makes it.
/// * **arrivals**: 1 to 2^20 - 1.
#[inline(always)]
#[track_caller]
pub unsafe fn init(barrier: Shared<u64>, arrivals: u32) {
    by_target! {
        // SAFETY: in-bounds, aligned, alone, arrivals: this function's own contract.
        device: unsafe {
            core::arch::asm!(
                "mbarrier.init.shared::cta.b64 [{barrier}], {arrivals};",
                "fence.mbarrier_init.release.cluster;",
                barrier = in(reg32) barrier.address(),
                arrivals = in(reg32) arrivals,
                options(nostack),
            );
        },
        host: mbarrier::init(barrier.address(), arrivals),
    }
}

/// Arrives at `barrier`, whose phase then also waits for `bytes` more bytes.
///
/// # Safety
///
/// * **barrier**: made by [`init`] in the caller's block, and visible to the caller.
/// * **arrivals**: no more in a phase than [`init`] said.
/// * **bytes**: no more under way in a phase than 2^20 - 1.
#[inline(always)]
#[track_caller]
pub unsafe fn arrive_expect_tx(barrier: Shared<u64>, bytes: u32) {
    by_target! {
        // SAFETY: barrier, arrivals, bytes: this function's own contract.
        device: unsafe {
            core::arch::asm!(
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{barrier}], {bytes};",
                barrier = in(reg32) barrier.address(),
                bytes = in(reg32) bytes,
                options(nostack),
            );
        },
        host: mbarrier::arrive_expect_tx(barrier.address(), bytes),
    }
}

/// Waits until the latest phase of the given parity, 0 or 1, is complete: phase 0 has parity 0.
///
/// Orders shared memory of the block and what asynchronous stores brought there, not global memory.
///
/// # Safety
///
/// * **barrier**: made by [`init`] in the caller's block, and visible to the caller.
/// * **phase**: the phase meant is the current or the one before.
#[inline(always)]
#[track_caller]
pub unsafe fn wait_parity(barrier: Shared<u64>, parity: u32) {
    by_target! {
        device: loop {
            let complete: u32;
            // SAFETY: barrier, phase: this function's own contract. The instruction itself waits for a while.
            unsafe {
                core::arch::asm!(
                    "{{ .reg .pred complete;",
                    "mbarrier.try_wait.parity.shared::cta.b64 complete, [{barrier}], {parity};",
                    "selp.b32 {flag}, 1, 0, complete; }}",
                    barrier = in(reg32) barrier.address(),
                    parity = in(reg32) parity,
                    flag = out(reg32) complete,
                    options(nostack),
                );
            }
            if complete != 0 {
                break;
            }
        },
        host: mbarrier::wait_parity(barrier.address(), parity),
    }
}
