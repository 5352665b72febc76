//! What threads wait for, and what the lanes of a warp exchange when all are there.

use core::fmt;
use std::panic::Location;

/// The lanes of a warp.
pub(crate) const LANES: u32 = 32;

/// An operation that threads perform together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Collective {
    /// [`warp_shuffle_down`](crate::warp::warp_shuffle_down).
    ShuffleDown,
    /// [`warp_shuffle_up`](crate::warp::warp_shuffle_up).
    ShuffleUp,
    /// [`warp_shuffle_idx`](crate::warp::warp_shuffle_idx).
    ShuffleIdx,
    /// [`warp_shuffle_xor`](crate::warp::warp_shuffle_xor), or the one of a pair.
    ShuffleXor,
    /// [`warp_vote_all`](crate::warp::warp_vote_all).
    VoteAll,
    /// [`warp_vote_any`](crate::warp::warp_vote_any).
    VoteAny,
    /// [`warp_vote_ballot`](crate::warp::warp_vote_ballot).
    VoteBallot,
    /// [`sync_warp`](crate::warp::sync_warp).
    SyncWarp,
    /// [`redux_max_i32`](crate::ext::warp::redux_max_i32).
    ReduxMax,
    /// [`redux_add_i32`](crate::ext::warp::redux_add_i32).
    ReduxAdd,
    /// [`sync_threads`](crate::thread::sync_threads).
    BlockBarrier,
    /// [`cluster::wait`](crate::ext::cluster::wait).
    ClusterBarrier,
    /// [`mbarrier::wait_parity`](crate::ext::mbarrier::wait_parity).
    Mbarrier,
}

impl Collective {
    fn is_shuffle(self) -> bool {
        matches!(
            self,
            Self::ShuffleDown | Self::ShuffleUp | Self::ShuffleIdx | Self::ShuffleXor
        )
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::ShuffleDown => "shuffle down",
            Self::ShuffleUp => "shuffle up",
            Self::ShuffleIdx => "shuffle idx",
            Self::ShuffleXor => "shuffle xor",
            Self::VoteAll => "vote all",
            Self::VoteAny => "vote any",
            Self::VoteBallot => "vote ballot",
            Self::SyncWarp => "warp barrier",
            Self::ReduxMax => "redux max",
            Self::ReduxAdd => "redux add",
            Self::BlockBarrier => "block barrier",
            Self::ClusterBarrier => "cluster barrier",
            Self::Mbarrier => "mbarrier",
        })
    }
}

/// Two places are the same if they read the same: one place may have several addresses.
pub(crate) fn same_place(a: &'static Location<'static>, b: &'static Location<'static>) -> bool {
    core::ptr::eq(a, b) || a == b
}

/// What one lane brings to a collective of its warp.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) collective: Collective,
    pub(crate) mask: u32,
    /// A shuffle's delta, index or lane mask.
    pub(crate) operand: u32,
    /// A shuffle's width.
    pub(crate) width: u32,
    /// The bits of the value, or of the predicate.
    pub(crate) value: u128,
    pub(crate) location: &'static Location<'static>,
}

impl Request {
    /// Whether two lanes wait for one another.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.collective == other.collective
            && self.mask == other.mask
            && same_place(self.location, other.location)
    }
}

/// What a lane takes from a collective: bits, and a shuffle's flag.
pub(crate) type Answer = (u128, bool);

/// A shuffle from a lane that its mask does not name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourceOutsideMask {
    pub(crate) lane: u32,
    pub(crate) source: u32,
}

/// Hands each lane of `mask` its answer. All of them are there, with requests that meet.
pub(crate) fn resolve(
    collective: Collective,
    mask: u32,
    request: impl Fn(u32) -> Request,
    mut answer: impl FnMut(u32, Answer),
) -> Result<(), SourceOutsideMask> {
    if collective.is_shuffle() {
        for lane in lanes(mask) {
            let Request { operand, width, .. } = request(lane);
            let (source, in_segment) = shuffle_source(collective, lane, operand, width);
            if mask & (1 << source) == 0 {
                return Err(SourceOutsideMask { lane, source });
            }
            answer(lane, (request(source).value, in_segment));
        }
        return Ok(());
    }
    let values = lanes(mask).map(|lane| request(lane).value);
    let result = match collective {
        Collective::VoteAll => values.fold(1, |all, value| all & value),
        Collective::VoteAny => values.fold(0, |any, value| any | value),
        Collective::VoteBallot => {
            lanes(mask).fold(0, |ballot, lane| ballot | request(lane).value << lane)
        }
        Collective::ReduxMax => {
            values.fold(i32::MIN, |max, value| max.max(value as i32)) as u32 as u128
        }
        Collective::ReduxAdd => {
            values.fold(0, |sum: u32, value| sum.wrapping_add(value as u32)) as u128
        }
        _ => 0,
    };
    for lane in lanes(mask) {
        answer(lane, (result, true));
    }
    Ok(())
}

/// The lane whose value `lane` gets, and whether it was in reach: PTX's definition of `shfl.sync`.
fn shuffle_source(collective: Collective, lane: u32, operand: u32, width: u32) -> (u32, bool) {
    let operand = operand % LANES;
    let segment = LANES - width;
    let first = lane & segment;
    let last = first | ((LANES - 1) & !segment);
    let (source, in_segment) = match collective {
        Collective::ShuffleUp => {
            let source = lane.wrapping_sub(operand);
            (source, source as i32 >= first as i32)
        }
        Collective::ShuffleDown => (lane + operand, lane + operand <= last),
        Collective::ShuffleXor => (lane ^ operand, lane ^ operand <= last),
        _ => {
            let source = first | (operand & !segment);
            (source, source <= last)
        }
    };
    if in_segment {
        (source, true)
    } else {
        (lane, false)
    }
}

/// The lanes of `mask`, lowest first.
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}
