//! Clusters: blocks that run at the same time and reach one another's shared memory. Devices from sm_90 on.
//!
//! A block may store to a peer's shared memory only while the peer is there: after a cluster barrier that
//! every thread of the cluster arrives at first, and before the peer returns.

use super::{Shared, U32x4};
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::cluster::{self, Arrival};

#[cfg(target_arch = "nvptx64")]
mod intrinsics {
    unsafe extern "unadjusted" {
        #[link_name = "llvm.nvvm.read.ptx.sreg.clusterid.x"]
        pub fn cluster_id_x() -> u32;
        #[link_name = "llvm.nvvm.read.ptx.sreg.cluster.ctarank"]
        pub fn cluster_rank() -> u32;
        #[link_name = "llvm.nvvm.read.ptx.sreg.cluster.nctarank"]
        pub fn cluster_size() -> u32;
        #[link_name = "llvm.nvvm.barrier.cluster.arrive"]
        pub fn arrive();
        #[link_name = "llvm.nvvm.barrier.cluster.arrive.relaxed"]
        pub fn arrive_relaxed();
        #[link_name = "llvm.nvvm.barrier.cluster.wait"]
        pub fn wait();
    }
}

/// Index of the cluster in the grid; the block's own in a launch without clusters.
///
/// # Panics
///
/// On the host, outside a launch.
#[inline(always)]
pub fn cluster_id_x() -> u32 {
    by_target! {
        // SAFETY: reads a special register.
        device: unsafe { intrinsics::cluster_id_x() },
        host: cluster::id(),
    }
}

/// Index of the block in its cluster; 0 in a launch without clusters.
///
/// # Panics
///
/// On the host, outside a launch.
#[inline(always)]
pub fn cluster_rank() -> u32 {
    by_target! {
        // SAFETY: reads a special register.
        device: unsafe { intrinsics::cluster_rank() },
        host: cluster::rank(),
    }
}

/// Blocks of the cluster; 1 in a launch without clusters.
///
/// # Panics
///
/// On the host, outside a launch.
#[inline(always)]
pub fn cluster_size() -> u32 {
    by_target! {
        // SAFETY: reads a special register.
        device: unsafe { intrinsics::cluster_size() },
        host: cluster::size(),
    }
}

/// Tells the cluster barrier that the thread is here, without waiting: what it did before comes before what any
/// thread does after [`wait`].
///
/// | who calls | valid in | scratch | afterwards |
/// |---|---|---|---|
/// | all threads of the cluster that have not returned | all of them | none | [`wait`], once, before the next arrival |
#[inline(always)]
#[track_caller]
pub fn arrive() {
    by_target! {
        // SAFETY: a barrier reads and writes nothing itself.
        device: unsafe { intrinsics::arrive() },
        host: cluster::arrive(Arrival::Release),
    }
}

/// Tells the cluster barrier that the thread is here, without waiting and without ordering memory: only
/// [`mbarrier::init`](super::mbarrier::init) before it is visible to the cluster after [`wait`].
///
/// | who calls | valid in | scratch | afterwards |
/// |---|---|---|---|
/// | all threads of the cluster that have not returned | all of them | none | [`wait`], once, before the next arrival |
#[inline(always)]
#[track_caller]
pub fn arrive_relaxed() {
    by_target! {
        // SAFETY: a barrier reads and writes nothing itself.
        device: unsafe { intrinsics::arrive_relaxed() },
        host: cluster::arrive(Arrival::Relaxed),
    }
}

/// Waits until every thread of the cluster has arrived, or has returned.
///
/// | who calls | valid in | scratch | afterwards |
/// |---|---|---|---|
/// | threads that have arrived, each once an arrival | all of them | none | all blocks of the cluster have begun |
#[inline(always)]
#[track_caller]
pub fn wait() {
    by_target! {
        // SAFETY: a barrier reads and writes nothing itself.
        device: unsafe { intrinsics::wait() },
        host: cluster::wait(),
    }
}

/// Begins to store `value` in the shared memory of the block of rank `rank`, where `destination` is in the
/// caller's, and tells the mbarrier at `barrier` there of 16 bytes when it is done (`st.async`).
///
/// The rank may be the caller's own. The value is there for a thread of that block that has waited at the
/// barrier for the phase these bytes were expected in.
///
/// # Safety
///
/// * **in-bounds**: `rank` is below [`cluster_size`]; both addresses lie in the dynamic shared memory.
/// * **aligned**: `destination` is a multiple of 16 and `barrier` of 8.
/// * **there**: that block has initialised the barrier, a cluster barrier lies in between, and it returns only
///   after it has waited for these bytes.
/// * **no race**: until then nobody else touches the destination.
#[inline(always)]
#[track_caller]
pub unsafe fn store_async(
    destination: Shared<U32x4>,
    value: U32x4,
    barrier: Shared<u64>,
    rank: u32,
) {
    by_target! {
        device: {
            let U32x4([a, b, c, d]) = value;
            // SAFETY: in-bounds, aligned, there: this function's own contract.
            unsafe {
                core::arch::asm!(
                    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32",
                    "[{destination}], {{{a}, {b}, {c}, {d}}}, [{barrier}];",
                    destination = in(reg32) map_to_rank(destination.address(), rank),
                    a = in(reg32) a,
                    b = in(reg32) b,
                    c = in(reg32) c,
                    d = in(reg32) d,
                    barrier = in(reg32) map_to_rank(barrier.address(), rank),
                    options(nostack),
                );
            }
        },
        host: cluster::store_async(destination.address(), value, barrier.address(), rank),
    }
}

/// The address in the cluster's window of what `address` is in the shared memory of the block of rank `rank`.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
fn map_to_rank(address: u32, rank: u32) -> u32 {
    let mapped: u32;
    // SAFETY: computes an address.
    unsafe {
        core::arch::asm!(
            "mapa.shared::cluster.u32 {mapped}, {address}, {rank};",
            mapped = out(reg32) mapped,
            address = in(reg32) address,
            rank = in(reg32) rank,
            options(pure, nomem, nostack),
        );
    }
    mapped
}
