//! The checks that are off by default: races in shared memory, and random schedules.

mod support;

use cuda_std::emulator::{Access, Checks, Fault, FaultKind, Kernel, Launch, checked, launch};
use cuda_std::ext::async_copy::{copy_16, wait_all};
use cuda_std::ext::mbarrier::{arrive_expect_tx, init, wait_parity};
use cuda_std::ext::{Global, Shared, U32x4};
use cuda_std::warp::{lane_id, sync_warp, warp_shuffle_xor};
use cuda_std::{kernel, thread};
use std::sync::Mutex;
use support::{assert_marked, param, readable, run, writable};

const SOURCE: &str = include_str!("checks.rs");

const RACES: Checks = Checks {
    races: true,
    memory: false,
    seed: None,
};

/// Runs a block of 64 threads with a word of shared memory for each, first unchecked: it must pass there.
fn search_races(kernel: &Kernel) -> Result<(), Fault> {
    run(kernel, (1, 64, 256), &[], &[]).unwrap();
    checked(RACES, || run(kernel, (1, 64, 256), &[], &[]))
}

#[track_caller]
fn assert_race(kernel: &Kernel, (thread, mark): (u32, &str), other: (Access, u32, &str)) {
    let fault = search_races(kernel).unwrap_err();
    assert_eq!(fault.thread, thread, "{fault}");
    assert_marked(SOURCE, fault.location.as_ref().unwrap(), mark);
    match &fault.kind {
        FaultKind::Race { other: seen, .. } => {
            assert_eq!((seen.access, seen.thread), (other.0, other.1), "{fault}");
            assert_marked(SOURCE, &seen.location, other.2);
        }
        _ => panic!("{fault}"),
    }
}

fn slot(index: u32) -> Shared<u32> {
    Shared::dynamic(0).at(index)
}

fn index() -> u32 {
    thread::thread_idx_x()
}

#[kernel]
unsafe fn store_then_load_of_neighbour() {
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(1); // store
        slot(index().saturating_sub(1)).load(); // load
    }
}

#[test]
fn load_after_another_threads_store() {
    let kernel = &store_then_load_of_neighbour::KERNEL;
    assert_race(kernel, (1, "load"), (Access::Store, 0, "store"));
}

#[kernel]
unsafe fn store_after_loads() {
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(1);
        thread::sync_threads();
        slot(index() / 2).load(); // early load
        if index() == 40 {
            slot(19).store(2); // late store
        }
    }
}

#[test]
fn store_after_another_threads_load() {
    let kernel = &store_after_loads::KERNEL;
    assert_race(kernel, (40, "late store"), (Access::Load, 38, "early load"));
}

#[kernel]
unsafe fn two_stores() {
    // SAFETY: broken on purpose.
    unsafe { slot(index() / 33).store(1) }; // both
}

#[test]
fn two_stores_to_one_place() {
    assert_race(&two_stores::KERNEL, (1, "both"), (Access::Store, 0, "both"));
}

#[kernel]
unsafe fn shuffle_between() {
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(1); // before
        warp_shuffle_xor(u32::MAX, 0u32, 1, 32);
        slot(index() ^ 1).load(); // after
    }
}

#[test]
fn a_shuffle_orders_nothing() {
    assert_race(
        &shuffle_between::KERNEL,
        (0, "after"),
        (Access::Store, 1, "before"),
    );
}

#[kernel]
unsafe fn warp_barrier_between_warps() {
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(1); // low warp
        sync_warp(u32::MAX);
        slot(index() % 32).load(); // high warp
    }
}

#[test]
fn a_warp_barrier_does_not_order_warps() {
    let kernel = &warp_barrier_between_warps::KERNEL;
    assert_race(kernel, (32, "high warp"), (Access::Store, 0, "low warp"));
}

#[kernel]
unsafe fn barrier_of_halves() {
    let half = 0xffff << (lane_id() & 16);
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(1); // half
        sync_warp(half);
        slot(index() ^ 1).load();
        slot(index() & !16).load(); // other half
    }
}

#[test]
fn a_warp_barrier_orders_the_lanes_of_its_mask_only() {
    let kernel = &barrier_of_halves::KERNEL;
    assert_race(kernel, (16, "other half"), (Access::Store, 0, "half"));
}

#[kernel]
unsafe fn copy_under_a_load(x: *const U32x4) {
    // SAFETY: broken on purpose.
    unsafe {
        let vector = Shared::<U32x4>::dynamic(0);
        if index() == 0 {
            vector.store(U32x4([1; 4]));
            vector.load(); // loads first
        } else {
            copy_16(vector, Global::new(x)); // copies over it
            wait_all();
        }
    }
}

#[test]
fn an_asynchronous_copy_is_a_store_from_its_issue_on() {
    let x = [U32x4::default()];
    let xp = x.as_ptr();
    let launch = || {
        run(
            &copy_under_a_load::KERNEL,
            (1, 2, 16),
            &[readable(&x)],
            &[param(&xp)],
        )
    };
    launch().unwrap();
    let fault = checked(RACES, launch).unwrap_err();
    assert_eq!(fault.thread, 1);
    assert_marked(SOURCE, fault.location.as_ref().unwrap(), "copies over it");
}

#[kernel]
unsafe fn ordered_in_every_way() {
    let first = index() & !31;
    let neighbours = 0b11 << (lane_id() & !1);
    let barrier = Shared::<u64>::dynamic(248);
    // SAFETY: barriers of the right kind order each pair of accesses.
    unsafe {
        // Own bytes, again and again.
        slot(index() % 60).cast::<u8>().at(index() / 60).store(1);
        slot(index() % 60).cast::<u8>().at(index() / 60).load();
        thread::sync_threads();
        // The whole block.
        slot(index() % 60).cast::<u8>().at(index() / 60).store(1);
        thread::sync_threads();
        slot(59 - index() % 60).cast::<u8>().load();
        thread::sync_threads();
        // One warp, then pairs, which pass on what their lanes know.
        if index() < 60 {
            slot(index()).store(2);
        }
        sync_warp(u32::MAX);
        slot(first + 1).load();
        sync_warp(neighbours);
        if lane_id() == 0 {
            slot(first).store(3);
        }
        sync_warp(neighbours);
        if lane_id() == 1 {
            slot(first).load();
        }
        sync_warp(u32::MAX);
        slot(first).load();
        thread::sync_threads();
        // An mbarrier.
        if index() == 0 {
            init(barrier, 1);
        }
        thread::sync_threads();
        if index() == 0 {
            slot(9).store(4);
            arrive_expect_tx(barrier, 0);
        }
        wait_parity(barrier, 0);
        slot(9).load();
    }
}

#[test]
fn what_barriers_order_does_not_race() {
    search_races(&ordered_in_every_way::KERNEL).unwrap();
    for seed in 0..50 {
        let checks = Checks {
            seed: Some(seed),
            ..RACES
        };
        checked(checks, || {
            run(&ordered_in_every_way::KERNEL, (2, 64, 256), &[], &[])
        })
        .unwrap();
    }
}

#[test]
fn checks_end_with_their_closure() {
    checked(RACES, || {
        checked(Checks::default(), || {
            run(&two_stores::KERNEL, (1, 64, 256), &[], &[])
        })
        .unwrap();
        run(&two_stores::KERNEL, (1, 64, 256), &[], &[]).unwrap_err();
    });
    run(&two_stores::KERNEL, (1, 64, 256), &[], &[]).unwrap();
}

static ARRIVALS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

#[kernel]
unsafe fn record_arrival() {
    for _ in 0..2 {
        ARRIVALS.lock().unwrap().push(thread::index_1d());
        thread::sync_threads();
    }
}

#[test]
fn a_seed_fixes_the_order_of_blocks_and_threads() {
    // One cluster, so that one worker runs all.
    let shape = Launch {
        grid: 3,
        block: 32,
        cluster: 3,
        shared_bytes: 0,
        buffers: &[],
    };
    let order = |seed: Option<u64>| {
        let checks = Checks {
            seed,
            ..Checks::default()
        };
        // SAFETY: the kernel has no parameters and touches no memory of the launch.
        checked(checks, || unsafe {
            launch(&record_arrival::KERNEL, &shape, &[])
        })
        .unwrap();
        std::mem::take(&mut *ARRIVALS.lock().unwrap())
    };
    let rounds = |block: u32| (0..2).flat_map(move |_| block * 32..(block + 1) * 32);
    assert_eq!(order(None), (0..3).flat_map(rounds).collect::<Vec<_>>());
    let orders: Vec<_> = (0..20).map(|seed| order(Some(seed))).collect();
    for (seed, first) in orders.iter().enumerate() {
        assert_eq!(*first, order(Some(seed as u64)));
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            (0..96)
                .flat_map(|thread| [thread, thread])
                .collect::<Vec<_>>()
        );
    }
    let first_blocks: Vec<_> = orders.iter().map(|order| order[0] / 32).collect();
    assert!(
        (0..3).all(|block| first_blocks.contains(&block)),
        "{first_blocks:?}"
    );
    assert!((1..20).all(|seed| orders[seed] != orders[0]));
}

#[test]
fn some_seed_finds_a_load_that_comes_too_early() {
    let found = (0..20).any(|seed| {
        let checks = Checks {
            seed: Some(seed),
            ..Checks::default()
        };
        let result = checked(checks, || {
            run(
                &store_then_load_of_neighbour::KERNEL,
                (1, 64, 256),
                &[],
                &[],
            )
        });
        matches!(
            result,
            Err(Fault {
                kind: FaultKind::SharedUnwritten { .. },
                ..
            })
        )
    });
    assert!(found);
}

/// Sums the block's indices through shared memory, in a tree.
#[kernel]
unsafe fn tree_sum(out: *mut u32) {
    let mut active = thread::block_dim_x() / 2;
    // SAFETY: a slot and an element for each thread; barriers separate the levels.
    unsafe {
        slot(index()).store(thread::index_1d());
        while active > 0 {
            thread::sync_threads();
            if index() < active {
                let sum = slot(index()).load() + slot(index() + active).load();
                slot(index()).store(sum);
            }
            active /= 2;
        }
        thread::sync_threads();
        Global::new_mut(out)
            .at(thread::index_1d().into())
            .store(slot(0).load());
    }
}

#[test]
fn a_correct_kernel_gives_the_same_in_every_order() {
    for seed in 0..30 {
        let checks = Checks {
            seed: Some(seed),
            ..RACES
        };
        let mut out = vec![0u32; 5 * 128];
        let buffers = [writable(&mut out)];
        let o = out.as_mut_ptr();
        checked(checks, || {
            run(&tree_sum::KERNEL, (5, 128, 512), &buffers, &[param(&o)])
        })
        .unwrap();
        for (index, value) in out.iter().enumerate() {
            let block = index as u32 / 128;
            assert_eq!(*value, 128 * 128 * block + 127 * 64);
        }
    }
}
