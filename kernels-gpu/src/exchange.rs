//! How the warps that share a row tell each other what they know of it: ways with one face.
//!
//! | exchange | who shares a row | through |
//! |---|---|---|
//! | [`Alone`] | a warp | nothing |
//! | [`Block`] | a block | shared memory, one block barrier |
//! | [`BlockInTurns`] | a block, row after row | the same, with two sets of slots in turn |
//! | [`Cluster`] | the blocks of a cluster (sm_90 on) | asynchronous stores to every peer's shared memory; more than 64 partials are merged by one warp of each block |

use cuda_std::ext::math::opaque_u32;
use cuda_std::ext::{Shared, cluster, mbarrier};
use cuda_std::thread::{block_dim_x, block_idx_x, sync_threads, thread_idx_x};
use cuda_std::warp::{lane_id, sync_warp};

use crate::online::Partial;
use crate::reduce::{PartialSlots, WARP, combine, combine_lanes};

/// Warps that share a row: chunk number c is that of warp c modulo their number. Where warps hold a chunk together,
/// they count as one.
pub trait Exchange {
    /// Warps that hold a chunk together.
    const HOLDERS: u32;

    /// Whether those who share a row share one after the other, or one only.
    const WALKS: bool;

    /// Shared memory that a block needs for `chunks` chunks in all.
    fn bytes(chunks: u32) -> u32;

    /// An exchange in the shared memory from `shared_offset` on, for a row of `chunks` chunks.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the block has [`Exchange::bytes`] of shared memory from there on; where a block has a row, of as many
    ///   chunks as it can hold with a chunk a warp, if those are more.
    unsafe fn new(shared_offset: u32, chunks: u32) -> Self;

    /// The row that the calling thread works on, or the first of them where rows follow each other.
    fn row() -> u32;

    /// How many warps share the row, those that hold a chunk together as one.
    fn warps() -> u32;

    /// Which of them the caller is.
    fn warp() -> u32;

    /// To be called once a round, by all threads, when loads are under way: what takes time to begin begins.
    fn begin(&self);

    /// Makes ready for another round. All threads call.
    fn again(&mut self);

    /// A round in which every warp has at most one chunk: what all of them together know, in every thread. All threads call.
    ///
    /// # Safety
    ///
    /// * **own**: `chunk` is this warp's.
    unsafe fn share(&self, chunk: u32, part: Partial) -> Partial;
}

/// An exchange among warps that may have several chunks each.
pub trait ExchangeByChunks: Exchange {
    /// To be called once a round, by all threads, after [`Exchange::begin`] and before [`ExchangeByChunks::tell`].
    fn meet(&self);

    /// Tells the others of a chunk. All lanes call.
    ///
    /// # Safety
    ///
    /// * **own**: the chunk is one of the row's and this warp's, told once a round.
    unsafe fn tell(&self, chunk: u32, part: Partial);

    /// What all the warps together know, in every thread. All threads call, when they have told all.
    fn collect(&self) -> Partial;

    /// What one of this warp's chunks was told to have.
    ///
    /// # Safety
    ///
    /// * **told**: it was told this round, and [`ExchangeByChunks::collect`] came after.
    unsafe fn told(&self, chunk: u32) -> Partial;
}

/// Which of the lanes of `HOLDERS` warps the caller is.
#[inline(always)]
fn lane_of<const HOLDERS: u32>() -> u32 {
    if HOLDERS == 1 {
        lane_id()
    } else {
        thread_idx_x() % (HOLDERS * WARP)
    }
}

/// What the partials in the first `count` slots together know, in every thread of the block. Where a lane has more than
/// two to merge, one warp does it for all.
///
/// # Safety
///
/// * **written**: the slots, for all threads of the block, and no thread writes to them until all have returned;
///   there is a slot more.
#[inline(always)]
unsafe fn whole_of(slots: PartialSlots, count: u32) -> Partial {
    // SAFETY: written: the caller's.
    let partial = |slot| unsafe { slots.get(slot) };
    if count <= WARP {
        return combine_lanes(count, partial);
    }
    if count <= 2 * WARP {
        return combine(count, partial);
    }
    if thread_idx_x() < WARP {
        let whole = combine(count, partial);
        if lane_id() == 0 {
            // SAFETY: in-bounds: the slot more; unshared: one thread's, read after the barrier only.
            unsafe { slots.put(count, whole) };
        }
    }
    sync_threads();
    partial(count)
}

/// A block to a row.
pub struct Block<const HOLDERS: u32 = 1> {
    slots: PartialSlots,
    chunks: u32,
}

impl<const HOLDERS: u32> Exchange for Block<HOLDERS> {
    const HOLDERS: u32 = HOLDERS;
    const WALKS: bool = false;

    #[inline(always)]
    fn bytes(chunks: u32) -> u32 {
        PartialSlots::bytes(chunks)
    }

    #[inline(always)]
    unsafe fn new(shared_offset: u32, chunks: u32) -> Self {
        Self {
            slots: PartialSlots::at(shared_offset),
            chunks,
        }
    }

    #[inline(always)]
    fn row() -> u32 {
        block_idx_x()
    }

    #[inline(always)]
    fn warps() -> u32 {
        block_dim_x() / (HOLDERS * WARP)
    }

    #[inline(always)]
    fn warp() -> u32 {
        thread_idx_x() / (HOLDERS * WARP)
    }

    #[inline(always)]
    fn begin(&self) {}

    #[inline(always)]
    fn again(&mut self) {
        // Every warp has read the slots before any fills them again.
        sync_threads();
    }

    /// With a chunk a warp, no lane has more than one to merge.
    #[inline(always)]
    unsafe fn share(&self, _: u32, part: Partial) -> Partial {
        let warp = Self::warp();
        // All holders of a lone chunk know of it already.
        if HOLDERS > 1 && Self::warps() == 1 {
            return part;
        }
        if lane_of::<HOLDERS>() == 0 {
            // SAFETY: in-bounds: a slot a warp; unshared: own, and read after the barrier only.
            unsafe { self.slots.put(warp, part) };
        }
        sync_threads();
        // SAFETY: written: every warp's before the barrier, and none again before `again`.
        combine_lanes(Self::warps(), |warp| unsafe { self.slots.get(warp) })
    }
}

impl ExchangeByChunks for Block {
    #[inline(always)]
    fn meet(&self) {}

    #[inline(always)]
    unsafe fn tell(&self, chunk: u32, part: Partial) {
        if lane_id() == 0 {
            // SAFETY: in-bounds: a slot a chunk; unshared: own, and read after the barrier only.
            unsafe { self.slots.put(chunk, part) };
        }
    }

    #[inline(always)]
    fn collect(&self) -> Partial {
        sync_threads();
        // SAFETY: written: every chunk before the barrier, and none again before `again`.
        combine(self.chunks, |chunk| unsafe { self.slots.get(chunk) })
    }

    #[inline(always)]
    unsafe fn told(&self, chunk: u32) -> Partial {
        // SAFETY: written: told.
        unsafe { self.slots.get(chunk) }
    }
}

/// A block of one warp, which knows all of its rows by itself.
pub struct Alone;

impl Exchange for Alone {
    const HOLDERS: u32 = 1;
    const WALKS: bool = true;

    #[inline(always)]
    fn bytes(_: u32) -> u32 {
        0
    }

    #[inline(always)]
    unsafe fn new(_: u32, _: u32) -> Self {
        Self
    }

    #[inline(always)]
    fn row() -> u32 {
        block_idx_x()
    }

    #[inline(always)]
    fn warps() -> u32 {
        1
    }

    #[inline(always)]
    fn warp() -> u32 {
        0
    }

    #[inline(always)]
    fn begin(&self) {}

    #[inline(always)]
    fn again(&mut self) {}

    #[inline(always)]
    unsafe fn share(&self, _: u32, part: Partial) -> Partial {
        part
    }
}

/// A block to rows that follow each other, a chunk a warp. What is told in a round is read until the next one's barrier
/// and so overwritten only in the one after that: no barrier lies between rounds.
pub struct BlockInTurns {
    offset: u32,
    /// Which of the two sets is used: 0 or 1.
    turn: u32,
}

impl Exchange for BlockInTurns {
    const HOLDERS: u32 = 1;
    const WALKS: bool = true;

    #[inline(always)]
    fn bytes(chunks: u32) -> u32 {
        2 * PartialSlots::bytes(chunks)
    }

    #[inline(always)]
    unsafe fn new(shared_offset: u32, _: u32) -> Self {
        Self {
            offset: shared_offset,
            turn: 0,
        }
    }

    #[inline(always)]
    fn row() -> u32 {
        <Block>::row()
    }

    #[inline(always)]
    fn warps() -> u32 {
        <Block>::warps()
    }

    #[inline(always)]
    fn warp() -> u32 {
        <Block>::warp()
    }

    #[inline(always)]
    fn begin(&self) {}

    #[inline(always)]
    fn again(&mut self) {
        self.turn ^= 1;
    }

    #[inline(always)]
    unsafe fn share(&self, chunk: u32, part: Partial) -> Partial {
        let chunks = Self::warps();
        // All lanes of a lone warp know its part already.
        if chunks == 1 {
            return part;
        }
        // SAFETY: in-bounds: the caller's of `new`, for both sets; own: the caller's.
        unsafe {
            let set = self.offset + self.turn * PartialSlots::bytes(chunks);
            <Block>::new(set, chunks).share(chunk, part)
        }
    }
}

/// A cluster to a row. Every block has a slot for every chunk, and every warp tells all blocks.
pub struct Cluster<const HOLDERS: u32 = 1> {
    arrived: Shared<u64>,
    slots: PartialSlots,
    chunks: u32,
    round: u32,
}

impl<const HOLDERS: u32> Cluster<HOLDERS> {
    /// Shared memory of the barrier, as aligned as the slots after it have to be.
    const BARRIER_BYTES: u32 = 16;

    /// All the partials are awaited.
    #[inline(always)]
    fn expect(&self) {
        // SAFETY: barrier: thread 0 made it; arrivals: this is the one of the round; bytes: 16 a chunk, of
        // which a cluster has less than 2^15.
        unsafe { mbarrier::arrive_expect_tx(self.arrived, PartialSlots::bytes(self.chunks)) };
    }
}

impl<const HOLDERS: u32> Exchange for Cluster<HOLDERS> {
    const HOLDERS: u32 = HOLDERS;
    const WALKS: bool = false;

    #[inline(always)]
    fn bytes(chunks: u32) -> u32 {
        // A slot more, for the whole.
        Self::BARRIER_BYTES + PartialSlots::bytes(chunks + 1)
    }

    #[inline(always)]
    unsafe fn new(shared_offset: u32, chunks: u32) -> Self {
        Self {
            arrived: Shared::dynamic(shared_offset),
            slots: PartialSlots::at(shared_offset + Self::BARRIER_BYTES),
            chunks,
            round: 0,
        }
    }

    #[inline(always)]
    fn row() -> u32 {
        cluster::cluster_id_x()
    }

    #[inline(always)]
    fn warps() -> u32 {
        cluster::cluster_size() * (block_dim_x() / (HOLDERS * WARP))
    }

    #[inline(always)]
    fn warp() -> u32 {
        cluster::cluster_rank() * (block_dim_x() / (HOLDERS * WARP))
            + thread_idx_x() / (HOLDERS * WARP)
    }

    #[inline(always)]
    fn begin(&self) {
        let makes = thread_idx_x() == 0;
        if makes && self.round == 0 {
            // SAFETY: in-bounds, alone: the barrier's place is the exchange's, and one thread makes it, before
            // anybody is told by the cluster barrier; arrivals: 1.
            unsafe { mbarrier::init(self.arrived, 1) };
        }
        let arms = if HOLDERS == 1 {
            makes
        } else {
            // Where it is known that this is the first round, ptxas has the warp make the barrier as one, which to
            // `compute-sanitizer` is another lane than the one that arms it.
            // SAFETY: all lanes call.
            unsafe { sync_warp(u32::MAX) };
            // Opaque, or the compiler would put the warp's barrier into both branches.
            opaque_u32(thread_idx_x()) == 0
        };
        if arms {
            self.expect();
        }
        cluster::arrive_relaxed();
    }

    #[inline(always)]
    fn again(&mut self) {
        // All threads of the cluster have read the slots, before any is told of the next round.
        cluster::arrive();
        cluster::wait();
        self.round += 1;
    }

    #[inline(always)]
    unsafe fn share(&self, chunk: u32, part: Partial) -> Partial {
        self.meet();
        // The last warps may have no chunk.
        if chunk < self.chunks {
            // SAFETY: own: the caller's; once.
            unsafe { self.tell(chunk, part) };
        }
        self.collect()
    }
}

impl<const HOLDERS: u32> ExchangeByChunks for Cluster<HOLDERS> {
    #[inline(always)]
    fn meet(&self) {
        // Peers are there, and their barriers made.
        cluster::wait();
    }

    #[inline(always)]
    unsafe fn tell(&self, chunk: u32, part: Partial) {
        let lane = lane_of::<HOLDERS>();
        if lane < cluster::cluster_size() {
            // SAFETY: in-bounds: a slot a chunk; there: peers return only when they have all partials; unshared:
            // own, and read after the barrier only.
            unsafe { self.slots.send(chunk, part, self.arrived, lane) };
        }
    }

    #[inline(always)]
    fn collect(&self) -> Partial {
        // SAFETY: barrier: made before the cluster barrier; phase: the round's.
        unsafe { mbarrier::wait_parity(self.arrived, self.round & 1) };
        // SAFETY: written: the barrier has all partials, and nobody sends again before `again`.
        unsafe { whole_of(self.slots, self.chunks) }
    }

    #[inline(always)]
    unsafe fn told(&self, chunk: u32) -> Partial {
        // SAFETY: written: told, to this block too.
        unsafe { self.slots.get(chunk) }
    }
}
