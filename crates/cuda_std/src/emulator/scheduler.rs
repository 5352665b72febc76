//! Runs the threads of a cluster's blocks, each until it waits, and lets go those whose partners have come.

use super::block::{Block, Warp};
use super::collective::{self, Collective, LANES, Request, SourceOutsideMask, lanes, same_place};
use super::context::{self, Thread, Wait};
use super::fault::{Fault, FaultKind, Missing};
use super::panics;
use super::stack::SlabStack;
use core::any::Any;
use corosensei::Coroutine;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

type Coroutines<'a> = &'a mut [Coroutine<(), (), (), SlabStack>];

/// Runs `threads`, which are those of `blocks` in order, to the end.
pub(super) fn run(
    blocks: &[Block],
    threads: &[Thread],
    coroutines: Coroutines,
) -> Result<(), Fault> {
    // A panic of a kernel thread comes out of the call that resumed it.
    let outcome = catch_unwind(AssertUnwindSafe(|| turns(blocks, threads, coroutines)));
    let result = outcome.unwrap_or_else(|payload| Err(unwound(payload)));
    context::set_current(core::ptr::null());
    result
}

/// The fault behind a panic that came out of the current thread.
fn unwound(payload: Box<dyn Any + Send>) -> Fault {
    match payload.downcast::<Fault>() {
        Ok(fault) => *fault,
        Err(payload) => {
            let kind = FaultKind::Panic(panics::message(&*payload));
            let mut fault = context::current().fault(kind, Location::caller());
            fault.location = panics::take_location();
            fault
        }
    }
}

fn turns(blocks: &[Block], threads: &[Thread], coroutines: Coroutines) -> Result<(), Fault> {
    loop {
        let mut progress = false;
        let mut first = 0;
        for block in blocks {
            for warp in &block.warps {
                progress |= warp.runnable.get() != 0;
                let lanes = first..(first + LANES as usize).min(threads.len());
                run_warp(block, warp, &threads[lanes.clone()], &mut coroutines[lanes])?;
                first += warp.existing.count_ones() as usize;
            }
        }
        if blocks
            .iter()
            .all(|block| block.exited.get() == block.threads())
        {
            return Ok(());
        }
        if !progress {
            return Err(stuck(blocks, threads));
        }
    }
}

/// Runs the lanes of `warp` until all wait or have returned.
fn run_warp(
    block: &Block,
    warp: &Warp,
    threads: &[Thread],
    coroutines: Coroutines,
) -> Result<(), Fault> {
    while warp.runnable.get() != 0 {
        let lane = warp.runnable.get().trailing_zeros();
        warp.runnable.update(|lanes| lanes & !(1 << lane));
        let thread = &threads[lane as usize];
        context::set_current(thread);
        coroutines[lane as usize].resume(());
        context::set_current(core::ptr::null());
        match thread.wait.get() {
            Wait::Nothing => unreachable!("a thread that yields says what it waits for"),
            Wait::Warp(request) => {
                warp.waiting.update(|lanes| lanes | 1 << lane);
                if warp.waiting.get() & request.mask == request.mask {
                    meet(warp, threads, request)?;
                }
            }
            Wait::Block(location) => arrive(block, thread, location)?,
            Wait::Exited => {
                warp.exited.update(|lanes| lanes | 1 << lane);
                block.exited.update(|exited| exited + 1);
            }
        }
    }
    Ok(())
}

/// Lets the lanes of `request.mask`, which all wait, go on if they wait for one another.
fn meet(warp: &Warp, threads: &[Thread], request: Request) -> Result<(), Fault> {
    let of_lane = |lane: u32| match threads[lane as usize].wait.get() {
        Wait::Warp(request) => request,
        _ => unreachable!("a waiting lane has a request"),
    };
    if !lanes(request.mask).all(|lane| of_lane(lane).meets(&request)) {
        // Some wait for others first; if those never come, the block gets stuck and is reported then.
        return Ok(());
    }
    collective::resolve(request.collective, request.mask, of_lane, |lane, answer| {
        threads[lane as usize].answer.set(answer);
    })
    .map_err(|SourceOutsideMask { lane, source }| {
        let kind = FaultKind::ShuffleSource {
            operation: request.collective,
            mask: request.mask,
            lane: source,
        };
        threads[lane as usize].fault(kind, request.location)
    })?;
    warp.waiting.update(|lanes| lanes & !request.mask);
    warp.runnable.update(|lanes| lanes | request.mask);
    Ok(())
}

/// Counts `thread` at the block barrier, and opens it for the last.
fn arrive(
    block: &Block,
    thread: &Thread,
    location: &'static Location<'static>,
) -> Result<(), Fault> {
    match block.first_at_barrier.get() {
        None => block.first_at_barrier.set(Some((thread.index(), location))),
        Some((first, place)) if !same_place(place, location) => {
            let missing = Missing::Waits {
                operation: Collective::BlockBarrier,
                mask: None,
                location: place.into(),
            };
            let kind = FaultKind::Divergence {
                operation: Collective::BlockBarrier,
                mask: None,
                missing_thread: first,
                missing,
            };
            return Err(thread.fault(kind, location));
        }
        Some(_) => {}
    }
    block.at_barrier.update(|threads| threads + 1);
    if block.at_barrier.get() == block.threads() {
        block.at_barrier.set(0);
        block.first_at_barrier.set(None);
        for warp in &block.warps {
            warp.runnable.set(warp.existing);
        }
    }
    Ok(())
}

/// Why no thread can go on: the first that waits, and one that it waits for in vain.
fn stuck(blocks: &[Block], threads: &[Thread]) -> Fault {
    let block_threads = threads.len() / blocks.len();
    for threads in threads.chunks(block_threads) {
        for thread in threads {
            match thread.wait.get() {
                Wait::Warp(request) => {
                    let warp_start = thread.index() / LANES * LANES;
                    let others = lanes(request.mask).map(|lane| warp_start + lane);
                    if let Some((other, missing)) = others
                        .filter_map(|other| Some((other, missing(threads, other, &request)?)))
                        .next()
                    {
                        let kind = FaultKind::Divergence {
                            operation: request.collective,
                            mask: Some(request.mask),
                            missing_thread: other,
                            missing,
                        };
                        return thread.fault(kind, request.location);
                    }
                }
                Wait::Block(location) => {
                    let exited = threads
                        .iter()
                        .find(|other| matches!(other.wait.get(), Wait::Exited));
                    if let Some(other) = exited {
                        let kind = FaultKind::Divergence {
                            operation: Collective::BlockBarrier,
                            mask: None,
                            missing_thread: other.index(),
                            missing: Missing::Exited,
                        };
                        return thread.fault(kind, location);
                    }
                }
                Wait::Nothing | Wait::Exited => {}
            }
        }
    }
    unreachable!("threads that all wait for one another have been let go")
}

/// Where thread `other` is, if it does not meet `request`.
fn missing(threads: &[Thread], other: u32, request: &Request) -> Option<Missing> {
    let Some(other) = threads.get(other as usize) else {
        return Some(Missing::Absent);
    };
    let (collective, mask, location) = match other.wait.get() {
        Wait::Nothing => return None,
        Wait::Exited => return Some(Missing::Exited),
        Wait::Warp(other) if other.meets(request) => return None,
        Wait::Warp(other) => (other.collective, Some(other.mask), other.location),
        Wait::Block(location) => (Collective::BlockBarrier, None, location),
    };
    Some(Missing::Waits {
        operation: collective,
        mask,
        location: location.into(),
    })
}
