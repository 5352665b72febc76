//! How the warps that share a row tell each other what they know of it: two ways with one face.
//!
//! | exchange | who shares a row | through |
//! |---|---|---|
//! | [`Block`] | a block | shared memory, one block barrier |
//! | [`Cluster`] | the blocks of a cluster (sm_90 on) | asynchronous stores to every peer's shared memory |

use cuda_std::ext::{Shared, cluster, mbarrier};
use cuda_std::thread::{block_dim_x, block_idx_x, sync_threads, thread_idx_x};
use cuda_std::warp::lane_id;

use crate::online::Partial;
use crate::reduce::{PartialSlots, WARP, combine};

/// Warps that share a row, a chunk each.
pub trait Exchange {
    /// Shared memory that a block needs for `chunks` chunks in all.
    fn bytes(chunks: u32) -> u32;

    /// An exchange in the shared memory from `shared_offset` on, for a row of `chunks` chunks.
    fn new(shared_offset: u32, chunks: u32) -> Self;

    /// The row that the calling thread works on.
    fn row() -> u32;

    /// The chunk of it that the calling warp has, which may be past the last.
    fn chunk() -> u32;

    /// To be called once, by all threads, when the loads are under way: what takes time to begin begins.
    fn begin(&self);

    /// What all the warps together know, in every thread. All threads call.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the block has [`Exchange::bytes`] of shared memory from the offset on.
    /// * **begun**: [`Exchange::begin`] came before; before a second round, [`Exchange::again`].
    unsafe fn share(&mut self, part: Partial) -> Partial;

    /// Makes ready for a second round. All threads call.
    fn again(&mut self);
}

/// A block to a row.
pub struct Block {
    slots: PartialSlots,
}

impl Exchange for Block {
    #[inline(always)]
    fn bytes(chunks: u32) -> u32 {
        PartialSlots::bytes(chunks)
    }

    #[inline(always)]
    fn new(shared_offset: u32, _: u32) -> Self {
        Self {
            slots: PartialSlots::at(shared_offset),
        }
    }

    #[inline(always)]
    fn row() -> u32 {
        block_idx_x()
    }

    #[inline(always)]
    fn chunk() -> u32 {
        thread_idx_x() / WARP
    }

    #[inline(always)]
    fn begin(&self) {}

    #[inline(always)]
    unsafe fn share(&mut self, part: Partial) -> Partial {
        if lane_id() == 0 {
            // SAFETY: in-bounds: a slot a warp; unshared: this warp's own, read after the barrier only.
            unsafe { self.slots.put(Self::chunk(), part) };
        }
        sync_threads();
        let slots = self.slots;
        // SAFETY: written: by every warp before the barrier, and not again before `again`.
        combine(block_dim_x() / WARP, |slot| unsafe { slots.get(slot) })
    }

    #[inline(always)]
    fn again(&mut self) {
        // Every warp has read the slots before any fills them again.
        sync_threads();
    }
}

/// A cluster to a row. Every block has a slot for every chunk, and every warp sends its partial to all.
pub struct Cluster {
    arrived: Shared<u64>,
    slots: PartialSlots,
    chunks: u32,
    round: u32,
}

impl Cluster {
    /// Shared memory of the barrier, as aligned as the slots after it have to be.
    const BARRIER_BYTES: u32 = 16;

    /// All the partials are awaited.
    #[inline(always)]
    fn expect(&self) {
        // SAFETY: barrier: thread 0 made it; arrivals: this is the one of the round; bytes: 16 a chunk, of
        // which a cluster has at most 512.
        unsafe { mbarrier::arrive_expect_tx(self.arrived, PartialSlots::bytes(self.chunks)) };
    }
}

impl Exchange for Cluster {
    #[inline(always)]
    fn bytes(chunks: u32) -> u32 {
        Self::BARRIER_BYTES + PartialSlots::bytes(chunks)
    }

    #[inline(always)]
    fn new(shared_offset: u32, chunks: u32) -> Self {
        Self {
            arrived: Shared::dynamic(shared_offset),
            slots: PartialSlots::at(shared_offset + Self::BARRIER_BYTES),
            chunks,
            round: 0,
        }
    }

    #[inline(always)]
    fn row() -> u32 {
        // SAFETY: nonzero: a cluster has a block.
        unsafe { cuda_std::ext::math::unchecked_div_u32(block_idx_x(), cluster::cluster_size()) }
    }

    #[inline(always)]
    fn chunk() -> u32 {
        cluster::cluster_rank() * (block_dim_x() / WARP) + thread_idx_x() / WARP
    }

    #[inline(always)]
    fn begin(&self) {
        if thread_idx_x() == 0 {
            // SAFETY: in-bounds, alone: the barrier's place is the exchange's, and one thread makes it, before
            // anybody is told by the cluster barrier; arrivals: 1.
            unsafe { mbarrier::init(self.arrived, 1) };
            self.expect();
        }
        cluster::arrive_relaxed();
    }

    #[inline(always)]
    unsafe fn share(&mut self, part: Partial) -> Partial {
        // Peers are there, and their barriers made.
        cluster::wait();
        let chunk = Self::chunk();
        if chunk < self.chunks && lane_id() < cluster::cluster_size() {
            // SAFETY: in-bounds: a slot a chunk; there: peers return only when they have all partials; unshared:
            // this warp's slot, read after the barrier only.
            unsafe { self.slots.send(chunk, part, self.arrived, lane_id()) };
        }
        // SAFETY: barrier: made before the cluster barrier; phase: the round's.
        unsafe { mbarrier::wait_parity(self.arrived, self.round & 1) };
        let slots = self.slots;
        // SAFETY: written: the barrier has all partials, and nobody sends again before `again`.
        combine(self.chunks, |slot| unsafe { slots.get(slot) })
    }

    #[inline(always)]
    fn again(&mut self) {
        // In order: all threads have read the slots; barriers go on to the next round; partials are sent, which
        // `share` does when it has waited.
        cluster::arrive_relaxed();
        cluster::wait();
        self.round += 1;
        if thread_idx_x() == 0 {
            self.expect();
        }
        cluster::arrive_relaxed();
    }
}
