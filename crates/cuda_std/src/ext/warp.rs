//! Warp collectives that rust-cuda lacks. The rules of [`crate::warp`] hold here too.

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::{collective::Collective, context};
#[cfg(target_arch = "nvptx64")]
use crate::warp::warp_shuffle_xor;

#[cfg(target_arch = "nvptx64")]
mod intrinsics {
    unsafe extern "unadjusted" {
        #[link_name = "llvm.nvvm.redux.sync.max"]
        pub fn redux_max(value: i32, mask: u32) -> i32;
        #[link_name = "llvm.nvvm.redux.sync.add"]
        pub fn redux_add(value: i32, mask: u32) -> i32;
    }
}

macro_rules! redux {
    ($($(#[$doc:meta])* $name:ident = $intrinsic:ident, $collective:ident;)*) => {$(
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
        pub unsafe fn $name(mask: u32, value: i32) -> i32 {
            by_target! {
                // SAFETY: converged: this function's own contract.
                device: unsafe { intrinsics::$intrinsic(value, mask) },
                host: {
                    let value = value as u32 as u128;
                    let (bits, _) = context::warp_collective(Collective::$collective, mask, value, 0, 32);
                    bits as i32
                },
            }
        }
    )*};
}

redux! {
    /// The largest `value` of the lanes of `mask`, in one instruction.
    redux_max_i32 = redux_max, ReduxMax;
    /// The sum of `value` over the lanes of `mask`, modulo 2^32, in one instruction.
    redux_add_i32 = redux_add, ReduxAdd;
}

/// Both floats of lane `lane_id ^ lane_mask`: two shuffles over the whole warp, one switch in the emulator.
///
/// | who calls | valid in | scratch | afterwards |
/// |---|---|---|---|
/// | every lane of `mask`, the same call | every lane of `mask` | none | nothing to wait for |
///
/// # Safety
///
/// * **converged**: every lane in `mask` makes this call with this mask; the caller is among them.
/// * **source**: each lane's source is in `mask` too.
#[inline(always)]
#[track_caller]
pub unsafe fn shuffle_xor_pair(mask: u32, (a, b): (f32, f32), lane_mask: u32) -> (f32, f32) {
    by_target! {
        // SAFETY: converged, source: this function's own contract; width: 32.
        device: unsafe {
            (
                warp_shuffle_xor(mask, a, lane_mask, 32).0,
                warp_shuffle_xor(mask, b, lane_mask, 32).0,
            )
        },
        host: {
            let pair = a.to_bits() as u128 | (b.to_bits() as u128) << 32;
            let (bits, _) = context::warp_collective(Collective::ShuffleXor, mask, pair, lane_mask, 32);
            (f32::from_bits(bits as u32), f32::from_bits((bits >> 32) as u32))
        },
    }
}
