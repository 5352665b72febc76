//! Runs the threads of a cluster's blocks, each until it waits, and lets go those whose partners have come.

use super::block::{Block, Warp};
use super::cluster::Cluster;
use super::collective::{self, Collective, LANES, SourceOutsideMask, lanes, same_place};
use super::context::{self, Thread, Wait};
use super::fault::{Fault, FaultKind, Missing};
use super::order::Order;
use super::stack::SlabStack;
use super::{panics, stuck};
use core::any::Any;
use corosensei::Coroutine;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};

type Coroutines<'a> = &'a mut [Coroutine<(), (), (), SlabStack>];

/// Runs `threads`, which are those of the blocks of `cluster` one after another, to the end.
pub(super) fn run(
    cluster: &Cluster,
    threads: &[Thread],
    coroutines: Coroutines,
    order: &Order,
) -> Result<(), Fault> {
    // A panic of a kernel thread comes out of the call that resumed it.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        turns(cluster, threads, coroutines, order)
    }));
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

fn turns(
    cluster: &Cluster,
    threads: &[Thread],
    coroutines: Coroutines,
    order: &Order,
) -> Result<(), Fault> {
    let blocks = &cluster.blocks;
    let block_threads = threads.len() / blocks.len();
    loop {
        let mut progress = false;
        for index in order.shuffled(blocks.len()) {
            let block = &blocks[index];
            for warp_index in order.shuffled(block.warps.len()) {
                let warp = &block.warps[warp_index];
                if warp.runnable.get() != 0 {
                    progress = true;
                    let start = index * block_threads + warp_index * LANES as usize;
                    let lanes = start..start + warp.existing.count_ones() as usize;
                    let (threads, coroutines) = (&threads[lanes.clone()], &mut coroutines[lanes]);
                    run_warp(block, warp, threads, coroutines, order)?;
                }
            }
        }
        if blocks
            .iter()
            .all(|block| block.exited.get() == block.threads())
        {
            return Ok(());
        }
        for (block, threads) in blocks.iter().zip(threads.chunks(block_threads)) {
            if block.polling.get() > 0 {
                progress |= poll(block, threads);
            }
        }
        if !progress {
            return Err(stuck::report(blocks, threads));
        }
    }
}

/// Runs the lanes of `warp` until all wait or have returned, or the order has others go first.
fn run_warp(
    block: &Block,
    warp: &Warp,
    threads: &[Thread],
    coroutines: Coroutines,
    order: &Order,
) -> Result<(), Fault> {
    while warp.runnable.get() != 0 {
        let lane = order.pick_bit(warp.runnable.get());
        warp.runnable.update(|lanes| lanes & !(1 << lane));
        let thread = &threads[lane as usize];
        context::set_current(thread);
        coroutines[lane as usize].resume(());
        context::set_current(core::ptr::null());
        match thread.wait.get() {
            Wait::Nothing => unreachable!("a thread that yields says what it waits for"),
            Wait::Warp => {
                warp.waiting.update(|lanes| lanes | 1 << lane);
                let mask = thread.request.mask.get();
                if warp.waiting.get() & mask == mask {
                    meet(warp, threads, thread)?;
                }
            }
            Wait::Block => arrive(block, thread)?,
            Wait::Cluster { .. } | Wait::Mbarrier { .. } => {
                block.polling.update(|threads| threads + 1);
            }
            Wait::Exited => {
                warp.exited.update(|lanes| lanes | 1 << lane);
                block.exited.update(|threads| threads + 1);
                thread.cluster().leave(thread);
                if block.exited.get() == block.threads() {
                    let barriers = block.mbarriers.borrow();
                    if let Some(fault) =
                        barriers.never_awaited(block.grid().kernel.name, block.index())
                    {
                        return Err(fault);
                    }
                }
            }
        }
        if order.interrupts() {
            break;
        }
    }
    Ok(())
}

/// Lets the lanes that `last` names, which all wait, go on if they wait for one another.
fn meet(warp: &Warp, threads: &[Thread], last: &Thread) -> Result<(), Fault> {
    let (collective, mask) = (last.request.collective.get(), last.request.mask.get());
    if !lanes(mask).all(|lane| threads[lane as usize].meets(last)) {
        // Some wait for others first; if those never come, the block gets stuck and is reported then.
        return Ok(());
    }
    collective::resolve(collective, mask, threads).map_err(
        |SourceOutsideMask { lane, source }| {
            let kind = FaultKind::ShuffleSource {
                operation: collective,
                mask,
                lane: source,
            };
            threads[lane as usize].fault(kind, last.location.get())
        },
    )?;
    if collective == Collective::SyncWarp
        && let Some(mut races) = last.cluster().races_mut()
    {
        races.warp_barrier(threads[0].place(), mask);
    }
    warp.waiting.update(|lanes| lanes & !mask);
    warp.runnable.update(|lanes| lanes | mask);
    Ok(())
}

/// Counts `thread` at the block barrier, and opens it for the last.
fn arrive(block: &Block, thread: &Thread) -> Result<(), Fault> {
    let location = thread.location.get();
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
                missing_block: block.index(),
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
        if let Some(mut races) = thread.cluster().races_mut() {
            races.block_barrier(block.rank());
        }
        for warp in &block.warps {
            warp.runnable.set(warp.existing);
        }
    }
    Ok(())
}

/// Lets those threads of `block` go on whose cluster barrier or mbarrier is open; whether there are any.
fn poll(block: &Block, threads: &[Thread]) -> bool {
    let mut progress = false;
    for thread in threads {
        let open = match thread.wait.get() {
            Wait::Cluster { phase } => thread.cluster().phase() != phase,
            Wait::Mbarrier { offset, parity } => {
                block.mbarriers.borrow_mut().is_complete(offset, parity)
            }
            _ => false,
        };
        if open {
            progress = true;
            thread.wait.set(Wait::Nothing);
            block.polling.update(|threads| threads - 1);
            let lane = thread.index() % LANES;
            let warp = block.warp_of(thread.index());
            warp.runnable.update(|lanes| lanes | 1 << lane);
        }
    }
    progress
}
