//! Blocks of a cluster exchange values, and every rule of that exchange, broken once.

mod support;

use cuda_std::emulator::{
    Buffer, Checks, Collective, Fault, FaultKind, Kernel, Launch, MemoryPlace, Missing, checked,
    launch,
};
use cuda_std::ext::cluster::{arrive_relaxed, cluster_rank, cluster_size, store_async, wait};
use cuda_std::ext::mbarrier::{arrive_expect_tx, init, wait_parity};
use cuda_std::ext::{Global, Shared, U32x4};
use cuda_std::{kernel, thread};
use std::ffi::c_void;
use support::{assert_marked, param, run, writable};

const SOURCE: &str = include_str!("clusters.rs");

fn run_clusters(
    kernel: &Kernel,
    (grid, block, cluster): (u32, u32, u32),
    buffers: &[Buffer],
    params: &[*const c_void],
) -> Result<(), Fault> {
    let shape = Launch {
        grid,
        block,
        cluster,
        shared_bytes: 1024,
        buffers,
    };
    // SAFETY: every test passes values of its kernel's types, and buffers that live in the test.
    unsafe { launch(kernel, &shape, params) }
}

#[track_caller]
fn assert_at(fault: &Fault, block: u32, thread: u32, mark: &str) {
    assert_eq!((fault.block, fault.thread), (block, thread), "{fault}");
    assert_marked(SOURCE, fault.location.as_ref().unwrap(), mark);
}

/// The barrier at the start of shared memory.
fn barrier() -> Shared<u64> {
    Shared::dynamic(0)
}

/// The slot for what rank `rank` sends in round `round`; two rounds do not share slots.
fn slot(round: u32, rank: u32) -> Shared<U32x4> {
    Shared::dynamic(16).at(round % 2 * 16 + rank)
}

/// The first thread makes the barrier; then the whole cluster has begun.
fn begin(barriers: u32) {
    if thread::thread_idx_x() == 0 {
        for index in 0..barriers {
            // SAFETY: in bounds, aligned; a cluster barrier follows.
            unsafe { init(barrier().at(index), 1) };
        }
    }
    arrive_relaxed();
    wait();
}

/// In each round every block sends its value to all of its cluster, and goes on with the sum of all.
///
/// Rounds take turns at two barriers: a fast block may send for the next round while a slow one still waits
/// for this one's bytes, and at one barrier the former would count as the latter.
#[kernel]
unsafe fn sums(out: *mut u32, rounds: u32) {
    let (index, rank, size) = (thread::thread_idx_x(), cluster_rank(), cluster_size());
    begin(2);
    let mut value = thread::block_idx_x();
    for round in 0..rounds {
        let barrier = barrier().at(round % 2);
        // SAFETY: in bounds, aligned; every block waits for all the bytes sent to it. A round's slots are used
        // again two rounds later, which no block begins before all have sent for the round in between.
        unsafe {
            if index == 0 {
                arrive_expect_tx(barrier, 16 * size);
            }
            thread::sync_threads();
            if index < size {
                store_async(slot(round, rank), U32x4([value; 4]), barrier, index);
            }
            wait_parity(barrier, round / 2 % 2);
            value = (0..size).fold(0, |sum, rank| {
                let U32x4(words) = slot(round, rank).load();
                sum + words[(index % 4) as usize]
            });
        }
        thread::sync_threads();
    }
    // SAFETY: an element for each thread of the grid.
    unsafe {
        Global::new_mut(out)
            .at(thread::index_1d().into())
            .store(value)
    };
}

#[test]
fn clusters_of_every_size_exchange_values() {
    for cluster in [1u32, 2, 3, 8, 16] {
        for (clusters, threads, rounds) in [(1u32, 32u32, 1u32), (3, 64, 4), (5, 20, 3)] {
            let grid = clusters * cluster;
            let mut out = vec![0u32; (grid * threads) as usize];
            let buffers = [writable(&mut out)];
            let o = out.as_mut_ptr();
            let params = [param(&o), param(&rounds)];
            for seed in [None, Some(1), Some(2), Some(3)] {
                let checks = Checks {
                    seed,
                    ..Checks::ALL
                };
                checked(checks, || {
                    run_clusters(&sums::KERNEL, (grid, threads, cluster), &buffers, &params)
                })
                .unwrap();
                for (index, value) in out.iter().enumerate() {
                    let first = index as u32 / threads / cluster * cluster;
                    let sum = (first..first + cluster).sum::<u32>();
                    assert_eq!(
                        *value,
                        sum * cluster.pow(rounds - 1),
                        "{cluster} {threads} {rounds}"
                    );
                }
            }
        }
    }
}

#[kernel]
unsafe fn ranks(out: *mut u32) {
    let value = cluster_rank() * 100 + cluster_size();
    // SAFETY: an element for each thread of the grid.
    unsafe {
        Global::new_mut(out)
            .at(thread::index_1d().into())
            .store(value)
    };
}

#[test]
fn ranks_and_sizes() {
    let mut out = [0; 12];
    let buffers = [writable(&mut out)];
    let o = out.as_mut_ptr();
    run_clusters(&ranks::KERNEL, (12, 1, 4), &buffers, &[param(&o)]).unwrap();
    assert_eq!(out, [4, 104, 204, 304, 4, 104, 204, 304, 4, 104, 204, 304]);
    run(&ranks::KERNEL, (12, 1, 0), &buffers, &[param(&o)]).unwrap();
    assert_eq!(out, [1; 12]);
}

/// Threads that have returned count as arrived.
#[kernel]
unsafe fn barriers_of_fewer_and_fewer() {
    for _ in 0..thread::index_1d() {
        arrive_relaxed();
        wait();
    }
}

#[test]
fn the_cluster_barrier_does_not_wait_for_returned_threads() {
    run_clusters(&barriers_of_fewer_and_fewer::KERNEL, (4, 16, 4), &[], &[]).unwrap();
}

#[kernel]
unsafe fn missing_wait() {
    begin(1);
    // SAFETY: broken on purpose.
    unsafe {
        arrive_expect_tx(barrier(), 16);
        store_async(slot(0, 0), U32x4([1; 4]), barrier(), cluster_rank() ^ 1); // sent
        arrive_relaxed();
        wait();
        slot(0, 0).load(); // too early
    }
}

#[test]
fn load_before_the_wait() {
    let fault = run_clusters(&missing_wait::KERNEL, (2, 1, 2), &[], &[]).unwrap_err();
    assert_marked(SOURCE, fault.location.as_ref().unwrap(), "too early");
    match &fault.kind {
        FaultKind::MissingWait { place, copy, .. } => {
            let (block, offset) = (fault.block, 16);
            assert_eq!(*place, MemoryPlace::Shared { block, offset });
            assert_eq!((copy.block, copy.thread), (block ^ 1, 0));
            assert_marked(SOURCE, &copy.location, "sent");
        }
        _ => panic!("{fault}"),
    }
}

#[kernel]
unsafe fn missing_cluster_barrier() {
    // SAFETY: broken on purpose.
    unsafe {
        init(barrier(), 1);
        arrive_expect_tx(barrier(), 16);
        store_async(slot(0, 0), U32x4([1; 4]), barrier(), cluster_rank() ^ 1); // no barrier
        wait_parity(barrier(), 0);
    }
}

#[test]
fn store_to_a_peer_that_may_not_have_begun() {
    let fault = run_clusters(&missing_cluster_barrier::KERNEL, (2, 1, 2), &[], &[]).unwrap_err();
    assert_at(&fault, 0, 0, "no barrier");
    assert_eq!(fault.kind, FaultKind::MbarrierMissing { offset: 0 });
}

#[kernel]
unsafe fn peer_returns() {
    begin(1);
    if cluster_rank() == 0 {
        return;
    }
    arrive_relaxed();
    wait();
    // SAFETY: broken on purpose.
    unsafe { store_async(slot(0, 0), U32x4([1; 4]), barrier(), 0) }; // peer gone
}

#[test]
fn store_to_a_peer_that_has_returned() {
    let fault = run_clusters(&peer_returns::KERNEL, (2, 1, 2), &[], &[]).unwrap_err();
    assert_at(&fault, 1, 0, "peer gone");
    assert_eq!(fault.kind, FaultKind::PeerExited { rank: 0 });
}

#[kernel]
unsafe fn store_to_rank(rank: u32) {
    begin(1);
    // SAFETY: broken on purpose.
    unsafe { store_async(slot(0, 0), U32x4([1; 4]), barrier(), rank) }; // rank
}

#[test]
fn store_to_a_rank_that_does_not_exist() {
    for rank in [2u32, u32::MAX] {
        let fault =
            run_clusters(&store_to_rank::KERNEL, (2, 1, 2), &[], &[param(&rank)]).unwrap_err();
        assert_at(&fault, 1, 0, "rank");
        let cluster_blocks = 2;
        assert_eq!(
            fault.kind,
            FaultKind::NoSuchRank {
                rank,
                cluster_blocks
            }
        );
    }
}

#[kernel]
unsafe fn waits_for(arrivals: u32, bytes: u32) {
    // SAFETY: broken on purpose.
    unsafe {
        if thread::thread_idx_x() == 0 {
            init(barrier(), 2); // made for two
        }
        thread::sync_threads();
        if thread::thread_idx_x() < arrivals {
            arrive_expect_tx(barrier(), bytes); // arrival
        }
        wait_parity(barrier(), 0); // incomplete
    }
}

#[test]
fn an_mbarrier_whose_phase_does_not_complete() {
    let wait = |arrivals: u32, bytes: u32| {
        run_clusters(
            &waits_for::KERNEL,
            (1, 64, 1),
            &[],
            &[param(&arrivals), param(&bytes)],
        )
    };
    wait(2, 0).unwrap();
    for (arrivals, bytes) in [(0, 0), (1, 0), (1, 16), (2, 16)] {
        let fault = wait(arrivals, bytes).unwrap_err();
        assert_at(&fault, 0, 0, "incomplete");
        match &fault.kind {
            FaultKind::MbarrierIncomplete {
                offset: 0,
                parity: 0,
                missing_arrivals,
                missing_bytes,
                made_at,
                elsewhere: None,
            } => {
                assert_eq!(*missing_arrivals, 2 - arrivals);
                assert_eq!(*missing_bytes, i64::from(arrivals * bytes));
                assert_marked(SOURCE, made_at, "made for two");
            }
            _ => panic!("{fault}"),
        }
    }
    let fault = wait(3, 16).unwrap_err();
    assert_at(&fault, 0, 2, "arrival");
    assert_eq!(fault.kind, FaultKind::MbarrierOverrun { offset: 0 });
}

#[kernel]
unsafe fn init_for(arrivals: u32) {
    // SAFETY: broken on purpose.
    unsafe { init(barrier(), arrivals) }; // init
}

#[test]
fn an_mbarrier_for_a_number_of_arrivals_it_cannot_count() {
    let run = |arrivals: u32| run_clusters(&init_for::KERNEL, (1, 1, 1), &[], &[param(&arrivals)]);
    run(1).unwrap();
    run((1 << 20) - 1).unwrap();
    for arrivals in [0, 1 << 20] {
        let fault = run(arrivals).unwrap_err();
        assert_at(&fault, 0, 0, "init");
        let offset = 0;
        assert_eq!(fault.kind, FaultKind::MbarrierArrivals { offset, arrivals });
    }
}

#[kernel]
unsafe fn arrives_twice() {
    arrive_relaxed();
    arrive_relaxed(); // second arrival
}

#[kernel]
unsafe fn waits_without_arrival() {
    wait(); // no arrival
}

#[test]
fn cluster_arrivals_and_waits_alternate() {
    let fault = run_clusters(&arrives_twice::KERNEL, (2, 2, 2), &[], &[]).unwrap_err();
    assert_at(&fault, 0, 0, "second arrival");
    assert_eq!(fault.kind, FaultKind::ClusterArrivedTwice);
    let fault = run_clusters(&waits_without_arrival::KERNEL, (2, 2, 2), &[], &[]).unwrap_err();
    assert_at(&fault, 0, 0, "no arrival");
    assert_eq!(fault.kind, FaultKind::ClusterNotArrived);
}

#[kernel]
unsafe fn one_thread_elsewhere() {
    if thread::index_1d() == 5 {
        thread::sync_threads(); // elsewhere
    }
    arrive_relaxed();
    wait(); // cluster barrier
}

#[test]
fn cluster_barrier_that_a_thread_does_not_reach() {
    let fault = run_clusters(&one_thread_elsewhere::KERNEL, (2, 4, 2), &[], &[]).unwrap_err();
    assert_at(&fault, 0, 0, "cluster barrier");
    match &fault.kind {
        FaultKind::Divergence {
            operation: Collective::ClusterBarrier,
            mask: None,
            missing_block: 1,
            missing_thread: 1,
            missing:
                Missing::Waits {
                    operation: Collective::BlockBarrier,
                    mask: None,
                    location,
                },
        } => assert_marked(SOURCE, location, "elsewhere"),
        _ => panic!("{fault}"),
    }
}
