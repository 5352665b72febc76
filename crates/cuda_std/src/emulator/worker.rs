//! Workers: each has stacks and blocks of its own, and takes the next cluster of the grid when it is done.

use super::block::{Block, Grid};
use super::cluster::Cluster;
use super::context::Thread;
use super::fault::Fault;
use super::order::{Order, Permutation};
use super::races::Races;
use super::scheduler;
use super::shared_memory::SharedMemory;
use super::stack::{Slab, SlabStack};
use super::{MAX_BLOCK_THREADS, memory};
use core::cell::RefCell;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use corosensei::Coroutine;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

/// Names the most workers of a launch.
const WORKERS_VARIABLE: &str = "WARP_SOFTMAX_EMULATOR_THREADS";
/// Kernel threads alive at once, over all workers: each commits a few pages of stack.
const MAX_LIVE_THREADS: usize = 32 * MAX_BLOCK_THREADS as usize;
/// A launch that is over sooner does not start more workers: starting one costs about as much.
const SPAWN_AFTER: Duration = Duration::from_micros(50);

/// The workers that the environment asks for, or else one a core.
pub(super) fn count_from_environment() -> Result<usize, String> {
    static CORES: OnceLock<usize> = OnceLock::new();
    let Some(given) = env::var_os(WORKERS_VARIABLE) else {
        return Ok(
            *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
        );
    };
    match given.to_str().and_then(|count| count.parse().ok()) {
        Some(count) if count > 0 => Ok(count),
        _ => Err(format!(
            "{WORKERS_VARIABLE} is {given:?}; it must be a whole number from 1"
        )),
    }
}

/// Runs every cluster of `grid` on at most `workers` workers, the calling thread among them.
pub(super) fn run(grid: &Grid, workers: usize) -> Result<(), Fault> {
    let clusters = grid.blocks / grid.cluster_blocks;
    let cluster_threads = (grid.cluster_blocks * grid.block_threads) as usize;
    let workers = workers
        .min(clusters as usize)
        .min((MAX_LIVE_THREADS / cluster_threads).max(1));
    let queue = Queue {
        order: Permutation::new(grid.checks.seed, clusters),
        next: AtomicU32::new(0),
        end: AtomicU32::new(clusters),
        fault: Mutex::new(None),
    };
    if workers == 1 {
        queue.work(grid, || {});
    } else {
        thread::scope(|scope| {
            let start = Instant::now();
            let mut alone = true;
            queue.work(grid, || {
                if alone && start.elapsed() > SPAWN_AFTER {
                    alone = false;
                    for _ in 1..workers {
                        let helper = || queue.work(grid, || {});
                        // Without it the others do its share.
                        let _ = thread::Builder::new().spawn_scoped(scope, helper);
                    }
                }
            });
        });
    }
    let fault = queue.fault.into_inner();
    match fault.unwrap_or_else(PoisonError::into_inner) {
        Some((_, fault)) => Err(fault),
        None => Ok(()),
    }
}

/// The clusters that are left, handed out by their place in the order.
struct Queue {
    order: Permutation,
    next: AtomicU32,
    /// No place from here on is begun: their number, or the first whose cluster has a fault.
    end: AtomicU32,
    /// The first place whose cluster has a fault. All before it have been handed out, so it is the first of
    /// all.
    fault: Mutex<Option<(u32, Fault)>>,
}

impl Queue {
    /// Takes clusters until none is left, and calls `after_each` after each.
    fn work(&self, grid: &Grid, mut after_each: impl FnMut()) {
        let mut worker = Worker::take();
        memory::reset();
        loop {
            // Each worker goes past the end once; the sum stays far below 2^32, as a grid has at most 2^31.
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            if place >= self.end.load(Ordering::Relaxed) {
                break;
            }
            if let Err(fault) = worker.run_cluster(grid, self.order.at(place)) {
                self.end.fetch_min(place, Ordering::Relaxed);
                let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(other, _)| place < *other) {
                    *first = Some((place, fault));
                }
            }
            after_each();
        }
        memory::reset();
        worker.give_back();
    }
}

/// What it takes to run the blocks of a cluster.
#[derive(Default)]
pub(super) struct Worker {
    slab: Slab,
    coroutines: Vec<Coroutine<(), (), (), SlabStack>>,
    threads: Vec<Thread>,
    cluster: Cluster,
    spare_shared: Vec<SharedMemory>,
}

// SAFETY: between launches a worker holds memory and nothing that belongs to an OS thread: its coroutines,
// threads and blocks are gone.
unsafe impl Send for Worker {}

/// Workers between launches, so that a launch finds its stacks committed.
static IDLE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

impl Worker {
    fn take() -> Self {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop().unwrap_or_default()
    }

    fn give_back(self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self);
    }

    /// Runs the blocks of cluster `cluster`.
    fn run_cluster(&mut self, grid: &Grid, cluster: u32) -> Result<(), Fault> {
        self.start(grid, cluster * grid.cluster_blocks);
        let order = Order::new(grid.checks.seed, cluster);
        let result = scheduler::run(&self.cluster, &self.threads, &mut self.coroutines, &order);
        // After a fault this unwinds the threads that still wait.
        self.coroutines.clear();
        self.slab.check(self.threads.len(), grid.kernel.name);
        self.threads.clear();
        let shared = self.cluster.blocks.drain(..).map(Block::into_shared);
        self.spare_shared.extend(shared);
        self.cluster.races = None;
        result
    }

    /// Makes the threads of the cluster that begins with block `first_block`, ready to run.
    fn start(&mut self, grid: &Grid, first_block: u32) {
        let cluster_threads = grid.cluster_blocks * grid.block_threads;
        self.slab.reserve(cluster_threads as usize);
        self.cluster.reset(cluster_threads);
        self.cluster.races = grid.checks.races.then(|| {
            let (blocks, threads) = (grid.cluster_blocks, grid.block_threads);
            RefCell::new(Races::new(first_block, blocks, threads, grid.shared_bytes))
        });
        for index in first_block..first_block + grid.cluster_blocks {
            let mut shared = self.spare_shared.pop().unwrap_or_default();
            shared.reset(grid.shared_bytes, grid.checks.races);
            // SAFETY: the blocks are gone before `run_cluster` returns.
            let block = unsafe { Block::new(grid, index, shared) };
            self.cluster.blocks.push(block);
        }
        for block in &self.cluster.blocks {
            self.threads.extend((0..grid.block_threads).map(|index| {
                // SAFETY: the blocks are complete, and stay there until the threads are gone.
                unsafe { Thread::new(index, block, &self.cluster) }
            }));
        }
        let threads = self.threads.chunks(grid.block_threads as usize);
        for (block, threads) in self.cluster.blocks.iter().zip(threads) {
            // SAFETY: the threads are complete, and stay there until the blocks are gone.
            unsafe { block.set_own_threads(threads) };
        }
        for (index, thread) in self.threads.iter().enumerate() {
            let thread = NonNull::from(thread);
            let body = move |yielder: &_, ()| {
                // SAFETY: the threads stay where they are until the coroutines are gone.
                unsafe { thread.as_ref() }.run(yielder);
            };
            self.coroutines
                .push(Coroutine::with_stack(self.slab.stack(index), body));
        }
    }
}
