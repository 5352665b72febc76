//! Collectives of the 32 lanes of a warp.
//!
//! Every collective takes `mask`, the lanes that take part: bit i is lane i. Each of those lanes must make
//! the same call with the same mask, and the caller must be one of them. On the device anything else is
//! undefined; the emulator reports it as a fault with both source lines.

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::{collective::Collective, context};
use word::Sealed;

#[cfg(target_arch = "nvptx64")]
mod intrinsics {
    //! LLVM knows these as convergent: its passes neither duplicate nor move them across branches.

    // The tuple stands for LLVM's `{ i32, i1 }`, which is what this ABI makes of it.
    #[allow(improper_ctypes)]
    unsafe extern "unadjusted" {
        #[link_name = "llvm.nvvm.shfl.sync.down.i32p"]
        pub fn shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> (u32, bool);
        #[link_name = "llvm.nvvm.shfl.sync.up.i32p"]
        pub fn shuffle_up(mask: u32, value: u32, delta: u32, clamp: u32) -> (u32, bool);
        #[link_name = "llvm.nvvm.shfl.sync.idx.i32p"]
        pub fn shuffle_idx(mask: u32, value: u32, idx: u32, clamp: u32) -> (u32, bool);
        #[link_name = "llvm.nvvm.shfl.sync.bfly.i32p"]
        pub fn shuffle_xor(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> (u32, bool);
        #[link_name = "llvm.nvvm.vote.all.sync"]
        pub fn vote_all(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.any.sync"]
        pub fn vote_any(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.ballot.sync"]
        pub fn vote_ballot(mask: u32, predicate: bool) -> u32;
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        pub fn sync_warp(mask: u32);
        #[link_name = "llvm.nvvm.activemask"]
        pub fn activemask() -> u32;
        #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
        pub fn lane_id() -> u32;
    }
}

/// A value that lanes can exchange: `u32`, `i32`, `f32`, and `u64`, `i64`, `f64`, `u128`, which travel as
/// two or four 32-bit words on the device.
pub trait WarpShuffleValue: Sealed {}

mod word {
    pub trait Sealed: Copy {
        /// 32-bit words of the value.
        const WORDS: u32;
        fn to_bits(self) -> u128;
        /// The value whose bits are the low `32 * WORDS` bits.
        fn from_bits(bits: u128) -> Self;
    }
}

macro_rules! shuffle_value {
    ($($type:ty: $words:literal, $value:ident => $to:expr, $bits:ident => $from:expr;)*) => {$(
        impl Sealed for $type {
            const WORDS: u32 = $words;
            #[inline(always)]
            fn to_bits(self) -> u128 {
                let $value = self;
                $to
            }
            #[inline(always)]
            fn from_bits($bits: u128) -> Self {
                $from
            }
        }
        impl WarpShuffleValue for $type {}
    )*};
}

shuffle_value! {
    u32: 1, v => v as u128, bits => bits as u32;
    i32: 1, v => v as u32 as u128, bits => bits as i32;
    f32: 1, v => v.to_bits() as u128, bits => f32::from_bits(bits as u32);
    u64: 2, v => v as u128, bits => bits as u64;
    i64: 2, v => v as u64 as u128, bits => bits as i64;
    f64: 2, v => v.to_bits() as u128, bits => f64::from_bits(bits as u64);
    u128: 4, v => v, bits => bits;
}

macro_rules! shuffle {
    ($($(#[$doc:meta])* $name:ident($operand:ident) = $intrinsic:ident, $clamp:literal, $collective:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// The warp is cut into segments of `width` lanes: 1, 2, 4, 8, 16 or 32. The flag says whether the
        /// source lane lies in the caller's segment; if not, the caller gets its own value back.
        ///
        /// | who calls | valid in | scratch | afterwards |
        /// |---|---|---|---|
        /// | every lane of `mask`, the same call | every lane of `mask` | none | nothing to wait for |
        ///
        /// # Safety
        ///
        /// * **converged**: every lane in `mask` makes this call with this mask; the caller is among them.
        /// * **source**: each lane's source is in `mask` too.
        /// * **width**: a power of two, 1 to 32.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: WarpShuffleValue>(
            mask: u32,
            value: T,
            $operand: u32,
            width: u32,
        ) -> (T, bool) {
            by_target! {
                device: {
                    let clamp = ((32 - width) << 8) | $clamp;
                    let bits = value.to_bits();
                    // SAFETY: converged: every lane in the mask makes the same calls, as all have the same `T`.
                    unsafe {
                        let (word, in_segment) =
                            intrinsics::$intrinsic(mask, bits as u32, $operand, clamp);
                        let mut shuffled = word as u128;
                        if T::WORDS >= 2 {
                            let word = intrinsics::$intrinsic(mask, (bits >> 32) as u32, $operand, clamp).0;
                            shuffled |= (word as u128) << 32;
                        }
                        if T::WORDS == 4 {
                            let word = intrinsics::$intrinsic(mask, (bits >> 64) as u32, $operand, clamp).0;
                            shuffled |= (word as u128) << 64;
                            let word = intrinsics::$intrinsic(mask, (bits >> 96) as u32, $operand, clamp).0;
                            shuffled |= (word as u128) << 96;
                        }
                        (T::from_bits(shuffled), in_segment)
                    }
                },
                host: {
                    let (bits, in_segment) = context::warp_collective(
                        Collective::$collective,
                        mask,
                        value.to_bits(),
                        $operand,
                        width,
                    );
                    (T::from_bits(bits), in_segment)
                },
            }
        }
    )*};
}

shuffle! {
    /// The value of the lane `delta` above the caller's.
    warp_shuffle_down(delta) = shuffle_down, 0x1f, ShuffleDown;
    /// The value of the lane `delta` below the caller's.
    warp_shuffle_up(delta) = shuffle_up, 0, ShuffleUp;
    /// The value of lane `idx` of the caller's segment, `idx` taken modulo `width`.
    warp_shuffle_idx(idx) = shuffle_idx, 0x1f, ShuffleIdx;
    /// The value of lane `lane_id ^ lane_mask`.
    warp_shuffle_xor(lane_mask) = shuffle_xor, 0x1f, ShuffleXor;
}

macro_rules! vote {
    ($($(#[$doc:meta])* $name:ident -> $output:ty = $intrinsic:ident, $collective:ident, $bits:ident => $from:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// | who calls | valid in | scratch | afterwards |
        /// |---|---|---|---|
        /// | every lane of `mask`, the same call | every lane of `mask` | none | nothing to wait for |
        ///
        /// # Safety
        ///
        /// **converged**: every lane in `mask` makes this call with this mask; the caller is among them.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(mask: u32, predicate: bool) -> $output {
            by_target! {
                // SAFETY: converged: this function's own contract.
                device: unsafe { intrinsics::$intrinsic(mask, predicate) },
                host: {
                    let ($bits, _) =
                        context::warp_collective(Collective::$collective, mask, predicate as u128, 0, 32);
                    $from
                },
            }
        }
    )*};
}

vote! {
    /// Whether `predicate` holds in every lane of `mask`.
    warp_vote_all -> bool = vote_all, VoteAll, bits => bits != 0;
    /// Whether `predicate` holds in some lane of `mask`.
    warp_vote_any -> bool = vote_any, VoteAny, bits => bits != 0;
    /// The lanes of `mask` in which `predicate` holds, bit i for lane i.
    warp_vote_ballot -> u32 = vote_ballot, VoteBallot, bits => bits as u32;
}

/// Waits for the lanes of `mask`; what each wrote before, all of them see after.
///
/// | who calls | valid in | scratch | afterwards |
/// |---|---|---|---|
/// | every lane of `mask`, the same call | every lane of `mask` | none | their writes are visible to one another |
///
/// # Safety
///
/// **converged**: every lane in `mask` makes this call with this mask; the caller is among them.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_warp(mask: u32) {
    by_target! {
        // SAFETY: converged: this function's own contract.
        device: unsafe { intrinsics::sync_warp(mask) },
        host: {
            context::warp_collective(Collective::SyncWarp, mask, 0, 0, 32);
        },
    }
}

/// The lanes that execute this together, bit i for lane i; always includes the caller's.
///
/// Which others depends on how the hardware happens to schedule: no mask for a collective may rest on it.
/// The emulator gives every lane of the warp that has not returned.
///
/// # Panics
///
/// On the host, outside a launch.
#[inline(always)]
pub fn activemask() -> u32 {
    by_target! {
        // SAFETY: reads a special register.
        device: unsafe { intrinsics::activemask() },
        host: context::live_lanes(),
    }
}

/// Index of the thread in its warp, 0 to 31.
///
/// # Panics
///
/// On the host, outside a launch.
#[inline(always)]
pub fn lane_id() -> u32 {
    by_target! {
        // SAFETY: reads a special register.
        device: unsafe { intrinsics::lane_id() },
        host: context::current().index() % 32,
    }
}
