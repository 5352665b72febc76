//! What a sanitizer finds, one small kernel each. Every kernel takes `broken`: with it the kernel breaks one rule,
//! which must be found in every order of its threads, with the source lines of both sides; without it, it keeps the
//! rule, and nothing may be found.

mod support;

use cuda_std::emulator::{
    Access, Buffer, Checks, Collective, Fault, FaultKind, Kernel, Launch, MemoryPlace, Missing,
    SourceLocation, allocate, checked, free, launch, set_written,
};
use cuda_std::ext::async_copy::{commit_group, copy_16, wait_all, wait_group};
use cuda_std::ext::cluster::{
    arrive, arrive_relaxed, cluster_rank, cluster_size, store_async, wait,
};
use cuda_std::ext::mbarrier::{arrive_expect_tx, init, wait_parity};
use cuda_std::ext::warp::{redux_add_i32, shuffle_xor_pair};
use cuda_std::ext::{Global, Shared, U32x4};
use cuda_std::warp::{lane_id, sync_warp, warp_shuffle_xor, warp_vote_any, warp_vote_ballot};
use cuda_std::{kernel, thread};
use std::ffi::c_void;
use std::panic::Location;
use support::{param, readable, writable};

const SOURCE: &str = include_str!("sanitizer.rs");

/// Orders that each kernel is run in, beside the ascending one.
const SEEDS: u64 = 24;

const FULL: u32 = u32::MAX;

/// One detector's kernel and launch: (blocks, threads, blocks a cluster).
struct Subject<'a> {
    kernel: &'a Kernel,
    shape: (u32, u32, u32),
    buffers: &'a [Buffer],
    /// The parameters after `broken`.
    params: &'a [*const c_void],
}

impl Subject<'_> {
    fn run(&self, broken: bool, seed: Option<u64>) -> Result<(), Fault> {
        let (grid, block, cluster) = self.shape;
        let shape = Launch {
            grid,
            block,
            cluster,
            shared_bytes: 4096,
            buffers: self.buffers,
        };
        let params = [&[param(&broken)], self.params].concat();
        let checks = Checks {
            seed,
            ..Checks::ALL
        };
        // SAFETY: every test passes values of its kernel's types, and buffers that live in the test.
        checked(checks, || unsafe { launch(self.kernel, &shape, &params) })
    }

    /// Checks that the whole kernel passes, and that the broken one has a fault of this kind between these two
    /// marked lines, whichever of them comes first.
    #[track_caller]
    fn finds(&self, lines: [&str; 2], is_expected: impl Fn(&FaultKind) -> bool) {
        for seed in [None].into_iter().chain((0..SEEDS).map(Some)) {
            self.run(false, seed)
                .unwrap_or_else(|fault| panic!("the whole kernel, seed {seed:?}: {fault}"));
            let Err(fault) = self.run(true, seed) else {
                panic!("nothing found with seed {seed:?}");
            };
            assert!(is_expected(&fault.kind), "seed {seed:?}: {fault}");
            let here = fault.location.as_ref().expect("the fault has a place");
            let other = other_side(&fault.kind).unwrap_or(here);
            let text = fault.to_string();
            for location in [here, other] {
                assert!(text.contains(&location.to_string()), "{text}");
            }
            let found = [mark(here), mark(other)];
            assert!(
                found == lines || found == [lines[1], lines[0]],
                "seed {seed:?}: found {found:?}, expected {lines:?}: {text}"
            );
        }
    }
}

/// The other source line that a fault names.
fn other_side(kind: &FaultKind) -> Option<&SourceLocation> {
    match kind {
        FaultKind::Race { other, .. } => Some(&other.location),
        FaultKind::MissingWait { copy, .. } => Some(&copy.location),
        FaultKind::Divergence {
            missing: Missing::Waits { location, .. },
            ..
        } => Some(location),
        FaultKind::MbarrierIncomplete {
            elsewhere: Some(elsewhere),
            ..
        } => Some(&elsewhere.location),
        FaultKind::Unwritten { made_at, .. } | FaultKind::Freed { made_at, .. } => Some(made_at),
        _ => None,
    }
}

/// The comment at the end of a line of this file.
#[track_caller]
fn mark(location: &SourceLocation) -> &'static str {
    assert!(location.file.ends_with("sanitizer.rs"), "{location}");
    let line = SOURCE.lines().nth(location.line as usize - 1).unwrap_or("");
    match line.split_once("// ") {
        Some((_, mark)) => mark,
        None => panic!("{location} is `{line}`, which has no mark"),
    }
}

fn is_shared_race(kind: &FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Race {
            place: MemoryPlace::Shared { .. },
            ..
        }
    )
}

fn is_global_race(kind: &FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::Race {
            place: MemoryPlace::Global { .. },
            ..
        }
    )
}

fn is_missing_wait(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::MissingWait { .. })
}

fn diverges(operation: Collective) -> impl Fn(&FaultKind) -> bool {
    move |kind| matches!(kind, FaultKind::Divergence { operation: o, .. } if *o == operation)
}

/// A subject without global memory.
fn alone(kernel: &Kernel, shape: (u32, u32, u32)) -> Subject<'_> {
    Subject {
        kernel,
        shape,
        buffers: &[],
        params: &[],
    }
}

fn index() -> u32 {
    thread::thread_idx_x()
}

fn slot(index: u32) -> Shared<u32> {
    Shared::dynamic(0).at(index)
}

fn vector(index: u32) -> Shared<U32x4> {
    Shared::dynamic(0).at(index)
}

/// An mbarrier, beyond what the kernels use of the slots.
fn barrier(index: u32) -> Shared<u64> {
    Shared::dynamic(4032).at(index)
}

// Memory.

#[kernel]
unsafe fn steps_outside(broken: bool, x: *mut u32, n: u32) {
    // SAFETY: broken on purpose.
    unsafe {
        let x = Global::new_mut(x);
        if index() < n || broken {
            x.at(index().into()).store(1); // outside
        }
    }
}

#[test]
fn global_access_outside_every_buffer() {
    let mut x = [0u32; 40];
    let (xp, n) = (x.as_mut_ptr(), 33u32);
    let subject = Subject {
        kernel: &steps_outside::KERNEL,
        shape: (1, 40, 1),
        buffers: &[writable(&mut x[..33])],
        params: &[param(&xp), param(&n)],
    };
    subject.finds(["outside"; 2], |kind| match kind {
        FaultKind::OutOfBounds {
            access: Access::Store,
            bytes: 4,
            nearest: Some(nearest),
            ..
        } => (nearest.index, nearest.bytes) == (0, 132) && nearest.offset >= 132,
        _ => false,
    });
    assert_eq!(x[33..], [0; 7]);
}

#[kernel]
unsafe fn loads_a_vector(broken: bool, x: *const u32) {
    // SAFETY: broken on purpose.
    unsafe {
        let x = Global::new(x).at(broken.into());
        x.cast::<U32x4>().load(); // misaligned
    }
}

#[test]
fn misaligned_global_access() {
    let x = [U32x4::default(); 2];
    let xp = x.as_ptr().cast::<u32>();
    let subject = Subject {
        kernel: &loads_a_vector::KERNEL,
        shape: (1, 1, 1),
        buffers: &[readable(&x)],
        params: &[param(&xp)],
    };
    subject.finds(
        ["misaligned"; 2],
        |kind| matches!(kind, FaultKind::Misaligned { buffer, .. } if buffer.offset == 4),
    );
}

#[kernel]
unsafe fn writes_its_input(broken: bool, x: *mut u32, y: *mut u32) {
    // SAFETY: broken on purpose.
    unsafe {
        let to = Global::new_mut(if broken { x } else { y });
        to.store(Global::new_mut(x).load() + 1); // read only
    }
}

#[test]
fn store_to_a_read_only_buffer() {
    let (x, mut y) = ([1u32], [0u32]);
    let (xp, yp) = (x.as_ptr(), y.as_mut_ptr());
    let subject = Subject {
        kernel: &writes_its_input::KERNEL,
        shape: (1, 1, 1),
        buffers: &[readable(&x), writable(&mut y)],
        params: &[param(&xp), param(&yp)],
    };
    subject.finds(
        ["read only"; 2],
        |kind| matches!(kind, FaultKind::ReadOnly { buffer, .. } if buffer.index == 0),
    );
}

/// Memory of the emulator's own, watched.
struct Memory {
    address: u64,
    bytes: usize,
}

impl Memory {
    #[track_caller]
    fn new(bytes: usize) -> Self {
        let made_at = Location::caller();
        let address = checked(Checks::ALL, || allocate(bytes, made_at));
        let address = address.expect("there is memory");
        Self { address, bytes }
    }

    fn buffer(&self) -> Buffer {
        Buffer {
            address: self.address,
            bytes: self.bytes as u64,
            writable: true,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with as many bytes, and freed once.
        unsafe { free(self.address, self.bytes) }
    }
}

#[kernel]
unsafe fn adds_to_what_may_be_nothing(broken: bool, x: *mut u32) {
    // SAFETY: broken on purpose.
    unsafe {
        let x = Global::new_mut(x).at(index().into());
        if !broken || index() != 5 {
            x.store(1);
        }
        x.load(); // unwritten
    }
}

#[test]
fn load_of_global_memory_that_nobody_has_written() {
    for seed in [None, Some(1), Some(2)] {
        for broken in [false, true] {
            // New each time: what a launch has written stays written.
            let memory = Memory::new(256); // made
            let subject = Subject {
                kernel: &adds_to_what_may_be_nothing::KERNEL,
                shape: (1, 64, 1),
                buffers: &[memory.buffer()],
                params: &[param(&memory.address)],
            };
            let result = subject.run(broken, seed);
            let Err(fault) = result else {
                assert!(!broken);
                continue;
            };
            assert!(broken, "{fault}");
            assert_eq!((fault.block, fault.thread), (0, 5), "{fault}");
            assert_eq!(mark(fault.location.as_ref().unwrap()), "unwritten");
            match &fault.kind {
                FaultKind::Unwritten {
                    bytes: 4,
                    buffer,
                    made_at,
                    ..
                } => {
                    assert_eq!(buffer.offset, 20);
                    assert_eq!(mark(made_at), "made");
                }
                _ => panic!("{fault}"),
            }
            // The host's writing counts too.
            set_written(memory.address + 20, 4);
            subject.run(broken, seed).unwrap();
        }
    }
}

#[kernel]
unsafe fn loads_the_first(_broken: bool, x: *mut u32) {
    // SAFETY: broken on purpose.
    unsafe { Global::new_mut(x).load() }; // dangles
}

#[test]
fn access_to_freed_memory() {
    let memory = Memory::new(300); // made, to be freed
    let (buffer, address) = (memory.buffer(), memory.address);
    set_written(address, 300);
    let subject = Subject {
        kernel: &loads_the_first::KERNEL,
        shape: (1, 1, 1),
        buffers: &[buffer],
        params: &[param(&address)],
    };
    subject.run(false, None).unwrap();
    drop(memory);
    let fault = subject.run(false, None).unwrap_err();
    assert_eq!(mark(fault.location.as_ref().unwrap()), "dangles");
    match &fault.kind {
        FaultKind::Freed {
            access: Access::Load,
            buffer,
            made_at,
            ..
        } => {
            assert_eq!(buffer.offset, 0);
            assert_eq!(mark(made_at), "made, to be freed");
        }
        _ => panic!("{fault}"),
    }
}

#[kernel]
unsafe fn fills_and_reads_shared(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        if !broken || index() != 40 {
            slot(index()).store(1);
        }
        thread::sync_threads();
        slot(40).load(); // never stored
    }
}

#[test]
fn load_of_shared_memory_that_nobody_has_written() {
    alone(&fills_and_reads_shared::KERNEL, (2, 64, 1)).finds(["never stored"; 2], |kind| {
        let (offset, bytes) = (160, 4);
        *kind == FaultKind::SharedUnwritten { offset, bytes }
    });
}

#[kernel]
unsafe fn stores_far_out(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        slot(if broken { 1024 } else { 1023 }).store(1); // far out
    }
}

#[kernel]
unsafe fn stores_between(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        let half = Shared::<u16>::dynamic(0).at(broken.into());
        half.cast::<u32>().store(1); // between
    }
}

#[test]
fn shared_access_out_of_bounds_or_misaligned() {
    alone(&stores_far_out::KERNEL, (1, 1, 1)).finds(["far out"; 2], |kind| {
        matches!(kind, FaultKind::SharedOutOfBounds { offset: 4096, .. })
    });
    alone(&stores_between::KERNEL, (1, 1, 1)).finds(["between"; 2], |kind| {
        matches!(kind, FaultKind::SharedMisaligned { offset: 2, .. })
    });
}

// Races within a block.

#[kernel]
unsafe fn reverses_a_block(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(0);
        thread::sync_threads();
        slot(index()).store(1); // own
        if !broken {
            thread::sync_threads();
        }
        slot(63 - index()).load(); // mirrored
    }
}

#[test]
fn shared_race_without_a_block_barrier() {
    alone(&reverses_a_block::KERNEL, (1, 64, 1)).finds(["own", "mirrored"], is_shared_race);
}

#[kernel]
unsafe fn reuses_slots(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        for _ in 0..2 {
            slot(index()).store(1); // filled again
            thread::sync_threads();
            slot(index() ^ 32).load(); // still read
            if !broken {
                thread::sync_threads();
            }
        }
    }
}

#[test]
fn shared_race_of_a_store_after_loads() {
    alone(&reuses_slots::KERNEL, (1, 64, 1)).finds(["filled again", "still read"], is_shared_race);
}

#[kernel]
unsafe fn shares_within_warps(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(0);
        thread::sync_threads();
        slot(index()).store(1); // lane's
        if broken {
            // Lanes are together, but their memory is not ordered.
            warp_shuffle_xor(FULL, 0u32, 1, 32);
            warp_vote_ballot(FULL, true);
            redux_add_i32(FULL, 1);
        } else {
            sync_warp(FULL);
        }
        slot(index() ^ 1).load(); // neighbour's
    }
}

#[test]
fn shared_race_of_lanes_without_a_warp_barrier() {
    alone(&shares_within_warps::KERNEL, (1, 64, 1))
        .finds(["lane's", "neighbour's"], is_shared_race);
}

#[kernel]
unsafe fn shares_between_warps(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(0);
        thread::sync_threads();
        slot(index()).store(1); // warp's
        sync_warp(FULL);
        let other = if broken { 32 } else { 1 };
        slot(index() ^ other).load(); // another warp's
    }
}

#[test]
fn shared_race_of_warps_with_a_warp_barrier_only() {
    let subject = alone(&shares_between_warps::KERNEL, (1, 64, 1));
    subject.finds(["warp's", "another warp's"], is_shared_race);
}

#[kernel]
unsafe fn shares_within_halves(broken: bool) {
    let half = 0xffff << (lane_id() & 16);
    // SAFETY: broken on purpose.
    unsafe {
        slot(index()).store(0);
        thread::sync_threads();
        slot(index()).store(1); // half's
        sync_warp(if broken { half } else { FULL });
        slot(index() ^ 16).load(); // other half's
    }
}

#[test]
fn shared_race_of_lanes_outside_the_mask_of_a_warp_barrier() {
    let subject = alone(&shares_within_halves::KERNEL, (1, 32, 1));
    subject.finds(["half's", "other half's"], is_shared_race);
}

#[kernel]
unsafe fn tells_by_an_mbarrier(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            init(barrier(0), 1);
            slot(0).store(0);
        }
        thread::sync_threads();
        if index() == 3 && !broken {
            slot(0).store(1); // told
        }
        sync_warp(FULL);
        if index() == 0 {
            arrive_expect_tx(barrier(0), 0);
        }
        if index() == 3 && broken {
            slot(0).store(1); // told late
        }
        wait_parity(barrier(0), 0);
        slot(0).load(); // heard
    }
}

#[test]
fn shared_race_with_what_follows_an_arrival() {
    // What lane 3 did before its warp's barrier lane 0 releases; not what it does later.
    let subject = alone(&tells_by_an_mbarrier::KERNEL, (1, 64, 1));
    subject.finds(["told late", "heard"], is_shared_race);
}

#[kernel]
unsafe fn uses_an_mbarrier_early(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            init(barrier(0), 1); // made here
        }
        // Whoever comes first on the emulator, nothing orders the two.
        warp_shuffle_xor(FULL, 0u32, 1, 32);
        if !broken {
            sync_warp(FULL);
        }
        if index() == 1 {
            arrive_expect_tx(barrier(0), 0); // used here
        }
    }
}

#[test]
fn race_of_an_mbarriers_making_and_its_use() {
    let subject = alone(&uses_an_mbarrier_early::KERNEL, (1, 32, 1));
    subject.finds(["made here", "used here"], is_shared_race);
}

// Races of global memory.

#[kernel]
unsafe fn blocks_write_one_place(broken: bool, y: *mut u16) {
    let place = if broken { 0 } else { thread::block_idx_x() };
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            Global::new_mut(y).at(place.into()).store(1); // every block
        }
    }
}

#[test]
fn global_race_of_two_blocks() {
    let mut y = [0u16; 8];
    let yp = y.as_mut_ptr();
    let subject = Subject {
        kernel: &blocks_write_one_place::KERNEL,
        shape: (8, 32, 1),
        buffers: &[writable(&mut y)],
        params: &[param(&yp)],
    };
    subject.finds(["every block"; 2], |kind| match kind {
        FaultKind::Race {
            place: MemoryPlace::Global { buffer, .. },
            bytes: 2,
            ..
        } => (buffer.index, buffer.offset) == (0, 0),
        _ => false,
    });
}

#[kernel]
unsafe fn reads_what_another_block_writes(broken: bool, x: *mut u32) {
    let block = thread::block_idx_x();
    // SAFETY: broken on purpose.
    unsafe {
        let x = Global::new_mut(x);
        x.at(block.into()).load(); // read
        x.at((if broken { block ^ 1 } else { block }).into())
            .store(1); // written
    }
}

#[test]
fn global_race_of_a_load_and_another_blocks_store() {
    let mut x = [0u32; 8];
    let xp = x.as_mut_ptr();
    // In place: one buffer to read, the same to write.
    let buffers = [readable(&x), writable(&mut x)];
    let subject = Subject {
        kernel: &reads_what_another_block_writes::KERNEL,
        shape: (8, 1, 1),
        buffers: &buffers,
        params: &[param(&xp)],
    };
    subject.finds(["read", "written"], is_global_race);
}

#[kernel]
unsafe fn reverses_global_memory(broken: bool, x: *mut u32) {
    // SAFETY: broken on purpose.
    unsafe {
        let x = Global::new_mut(x);
        x.at(index().into()).store(index()); // in order
        if !broken {
            thread::sync_threads();
        }
        x.at((63 - index()).into()).load(); // in reverse
    }
}

#[test]
fn global_race_of_two_threads_of_a_block() {
    let mut x = [0u32; 64];
    let xp = x.as_mut_ptr();
    let subject = Subject {
        kernel: &reverses_global_memory::KERNEL,
        shape: (1, 64, 1),
        buffers: &[writable(&mut x)],
        params: &[param(&xp)],
    };
    subject.finds(["in order", "in reverse"], is_global_race);
}

#[kernel]
unsafe fn tells_its_cluster(broken: bool, x: *mut u32) {
    let block = thread::block_idx_x();
    // SAFETY: broken on purpose.
    unsafe {
        let x = Global::new_mut(x);
        if index() == 0 {
            x.at(block.into()).store(1); // block's
        }
        thread::sync_threads();
        if broken {
            arrive_relaxed();
        } else {
            arrive();
        }
        wait();
        x.at((block ^ 1).into()).load(); // of a peer
    }
}

#[test]
fn global_race_of_peers_that_a_relaxed_barrier_does_not_order() {
    let mut x = [0u32; 4];
    let xp = x.as_mut_ptr();
    let subject = Subject {
        kernel: &tells_its_cluster::KERNEL,
        shape: (4, 32, 2),
        buffers: &[writable(&mut x)],
        params: &[param(&xp)],
    };
    subject.finds(["block's", "of a peer"], is_global_race);
}

// Divergence.

#[kernel]
unsafe fn lanes_diverge(broken: bool, operation: u32) {
    // SAFETY: broken on purpose.
    unsafe {
        if broken && lane_id() == 7 {
            sync_warp(FULL); // elsewhere
        }
        match operation {
            0 => _ = warp_shuffle_xor(FULL, 0u32, 1, 32), // shuffle
            1 => _ = shuffle_xor_pair(FULL, (0.0, 0.0), 1), // pair
            2 => _ = warp_vote_any(FULL, true),           // vote
            3 => _ = redux_add_i32(FULL, 1),              // redux
            _ => thread::sync_threads(),                  // block barrier
        }
        if !broken || lane_id() != 7 {
            sync_warp(FULL);
        }
    }
}

#[test]
fn collective_that_one_lane_does_not_reach() {
    for (operation, collective, line) in [
        (0u32, Collective::ShuffleXor, "shuffle"),
        (1, Collective::ShuffleXor, "pair"),
        (2, Collective::VoteAny, "vote"),
        (3, Collective::ReduxAdd, "redux"),
        (4, Collective::BlockBarrier, "block barrier"),
    ] {
        let subject = Subject {
            params: &[param(&operation)],
            ..alone(&lanes_diverge::KERNEL, (1, 64, 1))
        };
        subject.finds([line, "elsewhere"], |kind| {
            diverges(collective)(kind) || diverges(Collective::SyncWarp)(kind)
        });
    }
}

#[kernel]
unsafe fn blocks_diverge(broken: bool) {
    if broken && cluster_rank() == 1 && index() == 3 {
        thread::sync_threads(); // not with the cluster
    }
    arrive_relaxed();
    wait(); // with the cluster
    if !broken {
        thread::sync_threads();
    }
}

#[test]
fn cluster_barrier_that_one_thread_does_not_reach() {
    let subject = alone(&blocks_diverge::KERNEL, (4, 8, 2));
    subject.finds(
        ["with the cluster", "not with the cluster"],
        diverges(Collective::ClusterBarrier),
    );
}

#[kernel]
unsafe fn returns_early(broken: bool) {
    if broken && index() == 9 {
        return;
    }
    thread::sync_threads(); // one too few
}

#[test]
fn block_barrier_after_a_thread_has_returned() {
    alone(&returns_early::KERNEL, (2, 32, 1)).finds(["one too few"; 2], |kind| {
        matches!(
            kind,
            FaultKind::Divergence {
                missing_thread: 9,
                missing: Missing::Exited,
                ..
            }
        )
    });
}

// Deadlocks.

#[kernel]
unsafe fn waits_in_a_circle(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            init(barrier(0), 1);
        }
        thread::sync_threads();
        if index() < 32 {
            if index() == 0 && !broken {
                arrive_expect_tx(barrier(0), 0);
            }
            wait_parity(barrier(0), 0); // for an arrival
        }
        thread::sync_threads(); // for the first warp
        if index() == 0 && broken {
            arrive_expect_tx(barrier(0), 0);
        }
    }
}

#[test]
fn threads_that_wait_for_one_another() {
    let subject = alone(&waits_in_a_circle::KERNEL, (1, 64, 1));
    subject.finds(["for an arrival", "for the first warp"], |kind| {
        matches!(
            kind,
            FaultKind::MbarrierIncomplete {
                missing_arrivals: 1,
                missing_bytes: 0,
                ..
            }
        )
    });
}

#[kernel]
unsafe fn expects_too_much(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            init(barrier(0), 1);
            arrive_expect_tx(barrier(0), if broken { 32 } else { 16 });
            store_async(vector(0), U32x4([1; 4]), barrier(0), cluster_rank());
        }
        thread::sync_threads();
        wait_parity(barrier(0), 0); // for bytes
    }
}

#[test]
fn wait_for_bytes_that_nobody_sends() {
    let subject = alone(&expects_too_much::KERNEL, (1, 32, 1));
    subject.finds(["for bytes"; 2], |kind| {
        matches!(
            kind,
            FaultKind::MbarrierIncomplete {
                missing_arrivals: 0,
                missing_bytes: 16,
                ..
            }
        )
    });
}

// Asynchronous copies.

#[kernel]
unsafe fn copies_without_a_wait(broken: bool, x: *const U32x4) {
    // SAFETY: broken on purpose.
    unsafe {
        copy_16(vector(index()), Global::new(x).at(index().into())); // copy
        if !broken {
            wait_all();
        }
        vector(index()).load(); // reader
    }
}

#[test]
fn load_of_what_a_copy_brings_without_a_wait() {
    let x = [U32x4::default(); 32];
    let xp = x.as_ptr();
    let subject = Subject {
        kernel: &copies_without_a_wait::KERNEL,
        shape: (1, 32, 1),
        buffers: &[readable(&x)],
        params: &[param(&xp)],
    };
    subject.finds(["copy", "reader"], is_missing_wait);
}

#[kernel]
unsafe fn waits_for_too_few_groups(broken: bool, x: *const U32x4) {
    // SAFETY: broken on purpose.
    unsafe {
        for step in 0..2 {
            copy_16(vector(step), Global::new(x).at(step.into())); // copy of a group
            commit_group();
        }
        if broken {
            wait_group::<1>();
        } else {
            wait_group::<0>();
        }
        vector(0).load();
        vector(1).load(); // reader of the second
    }
}

#[test]
fn load_of_a_group_that_is_not_waited_for() {
    let x = [U32x4::default(); 2];
    let xp = x.as_ptr();
    let subject = Subject {
        kernel: &waits_for_too_few_groups::KERNEL,
        shape: (1, 1, 1),
        buffers: &[readable(&x)],
        params: &[param(&xp)],
    };
    subject.finds(["copy of a group", "reader of the second"], is_missing_wait);
}

#[kernel]
unsafe fn waits_after_the_barrier(broken: bool, x: *const U32x4) {
    // SAFETY: broken on purpose.
    unsafe {
        copy_16(vector(index()), Global::new(x).at(index().into())); // neighbour's copy
        if !broken {
            wait_all();
        }
        thread::sync_threads();
        if index() == 0 {
            wait_all();
        }
        vector(index() ^ 1).load(); // neighbour's reader
    }
}

#[test]
fn a_barrier_is_no_wait_for_the_copies_of_others() {
    let x = [U32x4::default(); 64];
    let xp = x.as_ptr();
    let subject = Subject {
        kernel: &waits_after_the_barrier::KERNEL,
        shape: (1, 64, 1),
        buffers: &[readable(&x)],
        params: &[param(&xp)],
    };
    subject.finds(["neighbour's copy", "neighbour's reader"], is_missing_wait);
}

#[kernel]
unsafe fn waits_without_a_barrier(broken: bool, x: *const U32x4) {
    // SAFETY: broken on purpose.
    unsafe {
        vector(index()).store(U32x4([0; 4]));
        thread::sync_threads();
        copy_16(vector(index()), Global::new(x).at(index().into())); // waited for
        wait_all();
        if !broken {
            thread::sync_threads();
        } else {
            // All have waited, but nothing orders that.
            warp_shuffle_xor(FULL, 0u32, 1, 32);
        }
        vector(index() ^ 1).load(); // by its own thread only
    }
}

#[test]
fn a_wait_concerns_the_thread_alone() {
    let x = [U32x4::default(); 64];
    let xp = x.as_ptr();
    let subject = Subject {
        kernel: &waits_without_a_barrier::KERNEL,
        shape: (1, 64, 1),
        buffers: &[readable(&x)],
        params: &[param(&xp)],
    };
    subject.finds(["waited for", "by its own thread only"], is_shared_race);
}

#[kernel]
unsafe fn stores_over_a_copy(broken: bool, x: *const U32x4) {
    // SAFETY: broken on purpose.
    unsafe {
        copy_16(vector(0), Global::new(x)); // under way
        if !broken {
            wait_all();
        }
        vector(0).store(U32x4([1; 4])); // over it
        wait_all();
    }
}

#[test]
fn store_to_where_a_copy_is_under_way() {
    let x = [U32x4::default()];
    let xp = x.as_ptr();
    let subject = Subject {
        kernel: &stores_over_a_copy::KERNEL,
        shape: (1, 1, 1),
        buffers: &[readable(&x)],
        params: &[param(&xp)],
    };
    subject.finds(["under way", "over it"], is_missing_wait);
}

#[kernel]
unsafe fn overwrites_the_source(broken: bool, x: *mut U32x4) {
    // SAFETY: broken on purpose.
    unsafe {
        let x = Global::new_mut(x);
        copy_16(vector(0), x); // source
        if !broken {
            wait_all();
        }
        x.store(U32x4([1; 4])); // over the source
        wait_all();
    }
}

#[test]
fn store_over_the_source_of_a_copy_under_way() {
    let mut x = [U32x4::default()];
    let xp = x.as_mut_ptr();
    let subject = Subject {
        kernel: &overwrites_the_source::KERNEL,
        shape: (1, 1, 1),
        buffers: &[writable(&mut x)],
        params: &[param(&xp)],
    };
    subject.finds(["source", "over the source"], is_missing_wait);
}

#[kernel]
unsafe fn copies_under_readers(broken: bool, x: *const U32x4) {
    // SAFETY: broken on purpose.
    unsafe {
        vector(index()).store(U32x4([0; 4]));
        thread::sync_threads();
        vector(index() ^ 32).load(); // read before
        if !broken {
            thread::sync_threads();
        }
        copy_16(vector(index()), Global::new(x).at(index().into())); // brought too early
        wait_all();
    }
}

#[test]
fn race_of_a_copy_and_loads_before_it() {
    let x = [U32x4::default(); 64];
    let xp = x.as_ptr();
    let subject = Subject {
        kernel: &copies_under_readers::KERNEL,
        shape: (1, 64, 1),
        buffers: &[readable(&x)],
        params: &[param(&xp)],
    };
    subject.finds(["read before", "brought too early"], |kind| {
        // Whether the copy is over when the other loads is a matter of the order.
        is_shared_race(kind) || is_missing_wait(kind)
    });
}

// Stores to peers.

/// One thread makes an mbarrier for one arrival a phase; then the cluster has begun.
fn begin() {
    if index() == 0 {
        // SAFETY: in bounds, aligned; a cluster barrier follows.
        unsafe { init(barrier(0), 1) }; // begin
    }
    arrive_relaxed();
    wait();
}

#[kernel]
unsafe fn reads_without_waiting(broken: bool) {
    begin();
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            arrive_expect_tx(barrier(0), 16);
            store_async(vector(0), U32x4([1; 4]), barrier(0), cluster_rank() ^ 1); // sent
        }
        arrive();
        wait();
        if !broken {
            wait_parity(barrier(0), 0);
        }
        vector(0).load(); // received
        wait_parity(barrier(0), 0);
    }
}

#[test]
fn load_of_what_a_peer_stores_without_a_wait() {
    let subject = alone(&reads_without_waiting::KERNEL, (2, 32, 2));
    subject.finds(["sent", "received"], is_missing_wait);
}

#[kernel]
unsafe fn one_thread_waits(broken: bool) {
    begin();
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            arrive_expect_tx(barrier(0), 16);
            store_async(vector(0), U32x4([1; 4]), barrier(0), cluster_rank() ^ 1); // sent to all
            wait_parity(barrier(0), 0);
        }
        if broken {
            // It has come, but the other lanes do not know.
            warp_shuffle_xor(FULL, 0u32, 1, 32);
        } else {
            thread::sync_threads();
        }
        vector(0).load(); // received by all
    }
}

#[test]
fn a_wait_for_a_peers_store_concerns_those_ordered_after_it() {
    let subject = alone(&one_thread_waits::KERNEL, (2, 32, 2));
    subject.finds(["sent to all", "received by all"], is_missing_wait);
}

#[kernel]
unsafe fn sends_to_one_slot(broken: bool) {
    begin();
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            if cluster_rank() == 0 {
                arrive_expect_tx(barrier(0), 16 * cluster_size());
            }
            let to = if broken { 0 } else { cluster_rank() };
            store_async(vector(to), U32x4([1; 4]), barrier(0), 0); // all to one
        }
        if cluster_rank() == 0 {
            wait_parity(barrier(0), 0);
        }
    }
}

#[test]
fn race_of_two_peers_stores() {
    let subject = alone(&sends_to_one_slot::KERNEL, (3, 32, 3));
    subject.finds(["all to one"; 2], |kind| {
        is_missing_wait(kind) || is_shared_race(kind)
    });
}

#[kernel]
unsafe fn sends_again(broken: bool) {
    begin();
    for round in 0..2 {
        // SAFETY: broken on purpose.
        unsafe {
            if index() == 0 {
                arrive_expect_tx(barrier(0), 16);
                store_async(vector(0), U32x4([1; 4]), barrier(0), cluster_rank() ^ 1); // sent again
            }
            wait_parity(barrier(0), round);
            vector(0).load(); // still needed
        }
        if broken {
            arrive_relaxed();
        } else {
            arrive();
        }
        wait();
    }
}

#[test]
fn race_of_a_peers_store_after_loads_that_a_relaxed_barrier_does_not_order() {
    let subject = alone(&sends_again::KERNEL, (2, 32, 2));
    subject.finds(["sent again", "still needed"], is_shared_race);
}

#[kernel]
unsafe fn answers(broken: bool) {
    begin();
    let peer = cluster_rank() ^ 1;
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            arrive_expect_tx(barrier(0), 16);
            if cluster_rank() == 0 {
                store_async(vector(0), U32x4([1; 4]), barrier(0), peer);
            }
        }
        if cluster_rank() == 1 {
            wait_parity(barrier(0), 0);
            vector(0).load(); // before the answer
            if !broken {
                thread::sync_threads();
            } else {
                warp_shuffle_xor(FULL, 0u32, 1, 32);
            }
            if index() == 0 {
                store_async(vector(0), U32x4([2; 4]), barrier(0), peer);
                arrive_expect_tx(barrier(0), 16);
            }
            wait_parity(barrier(0), 1);
        } else {
            wait_parity(barrier(0), 0);
            if index() == 0 {
                store_async(vector(0), U32x4([3; 4]), barrier(0), peer); // after the answer
            }
        }
    }
}

#[test]
fn an_answer_orders_what_its_sender_knew() {
    let subject = alone(&answers::KERNEL, (2, 32, 2));
    subject.finds(["before the answer", "after the answer"], is_shared_race);
}

#[kernel]
unsafe fn stores_before_the_barrier_is_made(broken: bool) {
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            init(barrier(0), 1); // made for peers
        }
        // Ordered in time on the emulator, not for memory.
        thread::sync_threads();
        if !broken {
            arrive_relaxed();
            wait();
        }
        if index() == 0 {
            arrive_expect_tx(barrier(0), 16);
            store_async(vector(0), U32x4([1; 4]), barrier(0), cluster_rank() ^ 1); // to a peer's
        }
        wait_parity(barrier(0), 0);
    }
}

#[test]
fn race_of_an_mbarriers_making_and_a_peers_store() {
    for seed in [None].into_iter().chain((0..SEEDS).map(Some)) {
        let subject = alone(&stores_before_the_barrier_is_made::KERNEL, (2, 32, 2));
        subject.run(false, seed).unwrap();
        let fault = subject.run(true, seed).unwrap_err();
        match &fault.kind {
            // Made before in this order.
            FaultKind::Race { other, .. } => assert_eq!(mark(&other.location), "made for peers"),
            FaultKind::MbarrierMissing { .. } => {}
            _ => panic!("{fault}"),
        }
        assert_eq!(mark(fault.location.as_ref().unwrap()), "to a peer's");
    }
}

#[kernel]
unsafe fn returns_without_waiting(broken: bool) {
    begin();
    // SAFETY: broken on purpose.
    unsafe {
        if index() == 0 {
            arrive_expect_tx(barrier(0), 16);
            store_async(vector(0), U32x4([1; 4]), barrier(0), cluster_rank() ^ 1); // never awaited
            if !broken {
                wait_parity(barrier(0), 0);
            }
        }
    }
}

#[test]
fn store_to_a_peer_that_returns_without_waiting() {
    let subject = alone(&returns_without_waiting::KERNEL, (2, 32, 2));
    subject.finds(["never awaited"; 2], |kind| {
        matches!(
            kind,
            FaultKind::NeverAwaited { offset: 0, .. } | FaultKind::PeerExited { .. }
        )
    });
}
