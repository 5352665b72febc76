//! Reductions over lanes and over a block.
//!
//! | level | who calls | valid in | scratch |
//! |---|---|---|---|
//! | [`shared_by_warp`] | all 32 lanes of the warp | every lane | none |
//! | [`lanes_max`], [`lanes_sum`] | all 32 lanes of the warp | every lane of the group | none |
//! | [`combine`] | all 32 lanes of the warp | every lane | none, or [`PartialSlots`] that warps filled |
//!
//! A group is 1, 2, 4, .., 32 adjacent lanes. Sums are fixed trees, and every lane gets the same bits.

use cuda_std::ext::cluster::store_async;
use cuda_std::ext::math::max_nan;
use cuda_std::ext::warp::{redux_max_i32, shuffle_xor_pair};
use cuda_std::ext::{Shared, U32x4};
use cuda_std::warp::{lane_id, warp_shuffle_xor};

use crate::exp::{Accuracy, Full};
use crate::online::{Pair, Partial};

/// Lanes of a warp.
pub const WARP: u32 = 32;
/// Most warps of a block.
pub const MAX_WARPS: u32 = 32;
const ALL_LANES: u32 = u32::MAX;

/// A bijection of f32 onto i32 that keeps order, the canonical NaN above +inf.
#[inline(always)]
fn ordered(bits: i32) -> i32 {
    bits ^ ((bits >> 31) & i32::MAX)
}

/// `value`, below 2^31, which all lanes of the warp share: from here on the compiler knows it, and branches on it are the
/// whole warp's.
#[inline(always)]
pub fn shared_by_warp(value: u32) -> u32 {
    // SAFETY: all lanes of the warp call, and the mask names them all.
    unsafe { redux_max_i32(ALL_LANES, value as i32) as u32 }
}

/// The largest `value` in each group of `LANES` lanes; NaN if one of them is NaN.
#[inline(always)]
pub fn lanes_max<const LANES: u32>(value: f32) -> f32 {
    // Makes any NaN the canonical one, which the integer order puts on top.
    let mut max = max_nan(value, f32::NEG_INFINITY);
    if LANES == WARP {
        // SAFETY: all lanes of the warp call, and the mask names them all.
        let key = unsafe { redux_max_i32(ALL_LANES, ordered(max.to_bits() as i32)) };
        return f32::from_bits(ordered(key) as u32);
    }
    let mut lane_mask = LANES / 2;
    while lane_mask > 0 {
        // SAFETY: all lanes of the warp call, and the mask names them all.
        let (other, _) = unsafe { warp_shuffle_xor(ALL_LANES, max, lane_mask, WARP) };
        max = max_nan(max, other);
        lane_mask /= 2;
    }
    max
}

/// The sum of `pair` over each group of `LANES` lanes: lanes 16 apart first, neighbours last.
#[inline(always)]
pub fn lanes_sum<A: Accuracy, const LANES: u32>(mut pair: Pair) -> Pair {
    let mut lane_mask = LANES / 2;
    while lane_mask > 0 {
        // SAFETY: all lanes of the warp call, and the masks name them all.
        unsafe {
            if A::PAIRS {
                let (hi, lo) = shuffle_xor_pair(ALL_LANES, (pair.hi, pair.lo), lane_mask);
                pair = pair.plus::<A>(Pair { hi, lo });
            } else {
                pair.hi += warp_shuffle_xor(ALL_LANES, pair.hi, lane_mask, WARP).0;
            }
        }
        lane_mask /= 2;
    }
    pair
}

/// Merges partials 0 to `count - 1` in a fixed order: those 32 apart one after the other, then
/// [`combine_lanes`]. `partial(i)` gives the i-th.
#[inline(always)]
pub fn combine(count: u32, partial: impl Fn(u32) -> Partial) -> Partial {
    combine_lanes(count.min(WARP), |index| {
        // The maximum first, so that each sum is brought to one scale, once: what merging one by one would do
        // in steps that are all exact.
        let mut max = partial(index).max;
        let mut next = index + WARP;
        while next < count {
            max = max_nan(max, partial(next).max);
            next += WARP;
        }
        let mut sum = partial(index).sum_relative_to(max);
        next = index + WARP;
        while next < count {
            sum = sum.plus::<Full>(partial(next).sum_relative_to(max));
            next += WARP;
        }
        Partial { max, sum }
    })
}

/// Merges partials 0 to `count - 1`, at most 32, in a fixed tree over their numbers.
///
/// `partial(i)` gives the i-th; a lane asks for one at most. With `count` up to 2^k, every group of
/// 2^k lanes does the same work, so the tree is no deeper than it must be and all lanes get its bits.
#[inline(always)]
pub fn combine_lanes(count: u32, partial: impl FnOnce(u32) -> Partial) -> Partial {
    let group = count.next_power_of_two();
    let index = lane_id() & (group - 1);
    let own = if index < count {
        partial(index)
    } else {
        Partial::EMPTY
    };
    let max = lanes_max::<WARP>(own.max);
    let mut sum = own.sum_relative_to(max);
    let mut lane_mask = group / 2;
    while lane_mask > 0 {
        // SAFETY: all lanes of the warp call with the same `count`, and the mask names them all.
        let (hi, lo) = unsafe { shuffle_xor_pair(ALL_LANES, (sum.hi, sum.lo), lane_mask) };
        sum = sum.plus::<Full>(Pair { hi, lo });
        lane_mask /= 2;
    }
    Partial { max, sum }
}

/// Where the warps of a block leave their partials for each other: a slot a partial, in shared memory.
#[derive(Clone, Copy)]
pub struct PartialSlots {
    slots: Shared<U32x4>,
}

impl PartialSlots {
    /// Shared memory for `count` partials.
    #[inline(always)]
    pub const fn bytes(count: u32) -> u32 {
        count * 16
    }

    /// Slots at `byte_offset` of the block's dynamic shared memory.
    #[inline(always)]
    pub fn at(byte_offset: u32) -> Self {
        Self {
            slots: Shared::dynamic(byte_offset),
        }
    }

    /// Leaves `partial` in a slot.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the block has shared memory for more than `slot` partials.
    /// * **unshared**: between two barriers, one thread writes the slot and none reads it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn put(self, slot: u32, partial: Partial) {
        // SAFETY: in-bounds, unshared: the caller's.
        unsafe { self.slots.at(slot).store(Self::words(partial)) }
    }

    /// Leaves `partial` in a slot of the block of rank `rank` in the cluster, some time before `arrived`
    /// there has counted its bytes.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: that block has shared memory for more than `slot` partials, and is in the cluster.
    /// * **there**: its barrier is made and expects the bytes, and it waits for them before it returns.
    /// * **unshared**: nobody else touches the slot until then.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn send(self, slot: u32, partial: Partial, arrived: Shared<u64>, rank: u32) {
        // SAFETY: in-bounds, there, unshared: the caller's; aligned: 16 bytes a slot.
        unsafe { store_async(self.slots.at(slot), Self::words(partial), arrived, rank) }
    }

    #[inline(always)]
    fn words(partial: Partial) -> U32x4 {
        U32x4([partial.max, partial.sum.hi, partial.sum.lo, 0.0].map(f32::to_bits))
    }

    /// The partial in a slot.
    ///
    /// # Safety
    ///
    /// * **written**: a barrier lies between the slot's `put` and this, and none is under way.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get(self, slot: u32) -> Partial {
        // SAFETY: written: the caller's; a slot that was written is in bounds.
        let U32x4([max, hi, lo, _]) = unsafe { self.slots.at(slot).load() };
        Partial {
            max: f32::from_bits(max),
            sum: Pair {
                hi: f32::from_bits(hi),
                lo: f32::from_bits(lo),
            },
        }
    }
}
