//! What threads wait for, and what the lanes of a warp exchange when all are there.

use super::context::Thread;
use core::cell::Cell;
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

/// What a lane brings to a collective of its warp. Cells, as the lane fills in one of its own each time.
pub(crate) struct Request {
    pub(crate) collective: Cell<Collective>,
    pub(crate) mask: Cell<u32>,
    /// A shuffle's delta, index or lane mask.
    pub(crate) operand: Cell<u32>,
    /// A shuffle's width.
    pub(crate) width: Cell<u32>,
    /// The bits of the value, or of the predicate.
    pub(crate) value: Cell<u128>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            collective: Cell::new(Collective::SyncWarp),
            mask: Cell::new(0),
            operand: Cell::new(0),
            width: Cell::new(LANES),
            value: Cell::new(0),
        }
    }
}

/// What a lane takes from a collective.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) bits: Cell<u128>,
    /// A shuffle's flag.
    pub(crate) in_segment: Cell<bool>,
}

/// A shuffle from a lane that its mask does not name.
pub(super) struct SourceOutsideMask {
    pub(super) lane: u32,
    pub(super) source: u32,
}

/// Hands the lanes of `mask` their answers. All of them are there, with requests that meet.
pub(super) fn resolve(
    collective: Collective,
    mask: u32,
    warp: &[Thread],
) -> Result<(), SourceOutsideMask> {
    if collective.is_shuffle() {
        return shuffle(collective, mask, warp);
    }
    let values = lanes(mask).map(|lane| (lane, warp[lane as usize].request.value.get()));
    let bits = match collective {
        Collective::VoteAll => values.fold(1, |all, (_, value)| all & value),
        Collective::VoteAny => values.fold(0, |any, (_, value)| any | value),
        Collective::VoteBallot => values.fold(0, |ballot, (lane, value)| ballot | value << lane),
        Collective::ReduxMax => {
            let max = values.fold(i32::MIN, |max, (_, value)| max.max(value as i32));
            max as u32 as u128
        }
        Collective::ReduxAdd => {
            values.fold(0, |sum: u32, (_, value)| sum.wrapping_add(value as u32)) as u128
        }
        // A barrier has no answer.
        _ => 0,
    };
    for lane in lanes(mask) {
        warp[lane as usize].answer.bits.set(bits);
    }
    Ok(())
}

fn shuffle(collective: Collective, mask: u32, warp: &[Thread]) -> Result<(), SourceOutsideMask> {
    for lane in lanes(mask) {
        let Thread {
            request, answer, ..
        } = &warp[lane as usize];
        let (operand, width) = (request.operand.get(), request.width.get());
        let (source, in_segment) = shuffle_source(collective, lane, operand, width);
        if mask & (1 << source) == 0 {
            return Err(SourceOutsideMask { lane, source });
        }
        answer.bits.set(warp[source as usize].request.value.get());
        answer.in_segment.set(in_segment);
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
