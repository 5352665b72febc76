//! What to say when no thread of a cluster can go on.

use super::block::Block;
use super::collective::{Collective, LANES, lanes};
use super::context::{Thread, Wait};
use super::fault::{Elsewhere, Fault, FaultKind, Missing};

/// The fault of the first thread that waits, and one that it waits for in vain. All of `threads`, which are
/// those of `blocks` one after another, wait or have returned.
pub(super) fn report(blocks: &[Block], threads: &[Thread]) -> Fault {
    let block_threads = threads.len() / blocks.len();
    threads
        .chunks(block_threads)
        .flat_map(|block| block.iter().map(move |thread| (block, thread)))
        .find_map(|(block, thread)| {
            let kind = why(thread, block, threads)?;
            Some(thread.fault(kind, thread.location.get()))
        })
        .expect("threads that all wait for one another have been let go")
}

/// What `thread`, one of `block` and of `cluster`, waits for; nothing if it has returned.
fn why(thread: &Thread, block: &[Thread], cluster: &[Thread]) -> Option<FaultKind> {
    match thread.wait.get() {
        Wait::Nothing | Wait::Exited => None,
        Wait::Warp => {
            let warp = thread.index() / LANES * LANES;
            let is_there =
                |other: &&Thread| matches!(other.wait.get(), Wait::Warp) && other.meets(thread);
            let missing_thread = lanes(thread.request.mask.get())
                .map(|lane| warp + lane)
                .find(|other| !block.get(*other as usize).as_ref().is_some_and(is_there))?;
            Some(FaultKind::Divergence {
                operation: thread.request.collective.get(),
                mask: Some(thread.request.mask.get()),
                missing_block: thread.block().index(),
                missing_thread,
                missing: block
                    .get(missing_thread as usize)
                    .map_or(Missing::Absent, whereabouts),
            })
        }
        Wait::Block => first_missing(Collective::BlockBarrier, block, |other| {
            matches!(other.wait.get(), Wait::Block)
        }),
        Wait::Cluster { .. } => first_missing(Collective::ClusterBarrier, cluster, |other| {
            matches!(other.wait.get(), Wait::Exited) || other.cluster().has_arrived(other)
        }),
        Wait::Mbarrier { offset, parity } => {
            let missing = thread.block().mbarriers.borrow_mut().missing(offset)?;
            let is_here = |other: &&Thread| {
                let same =
                    matches!(other.wait.get(), Wait::Mbarrier { offset: o, .. } if o == offset);
                same && other.block().index() == thread.block().index()
            };
            let others = cluster.iter().filter(|other| !is_here(other));
            Some(FaultKind::MbarrierIncomplete {
                offset,
                parity,
                missing_arrivals: missing.arrivals,
                missing_bytes: missing.bytes,
                made_at: missing.made_at.into(),
                elsewhere: others.filter_map(elsewhere).next().map(Box::new),
            })
        }
    }
}

/// That `operation` waits for the first of `threads` that `is_there` does not hold for.
fn first_missing(
    operation: Collective,
    threads: &[Thread],
    is_there: impl Fn(&Thread) -> bool,
) -> Option<FaultKind> {
    let other = threads.iter().find(|thread| !is_there(thread))?;
    Some(FaultKind::Divergence {
        operation,
        mask: None,
        missing_block: other.block().index(),
        missing_thread: other.index(),
        missing: whereabouts(other),
    })
}

/// Where a thread waits; nothing if it has returned.
fn elsewhere(thread: &Thread) -> Option<Elsewhere> {
    match whereabouts(thread) {
        Missing::Waits {
            operation,
            location,
            ..
        } => Some(Elsewhere {
            block: thread.block().index(),
            thread: thread.index(),
            operation,
            location,
        }),
        Missing::Absent | Missing::Exited => None,
    }
}

/// Where a thread is.
fn whereabouts(thread: &Thread) -> Missing {
    let (operation, mask) = match thread.wait.get() {
        Wait::Nothing | Wait::Exited => return Missing::Exited,
        Wait::Warp => {
            let request = &thread.request;
            (request.collective.get(), Some(request.mask.get()))
        }
        Wait::Block => (Collective::BlockBarrier, None),
        Wait::Cluster { .. } => (Collective::ClusterBarrier, None),
        Wait::Mbarrier { .. } => (Collective::Mbarrier, None),
    };
    Missing::Waits {
        operation,
        mask,
        location: thread.location.get().into(),
    }
}
