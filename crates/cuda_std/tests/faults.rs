//! Every rule that the emulator watches, broken once.

mod support;

use cuda_std::emulator::{Access, BufferPlace, Collective, Fault, FaultKind, Missing};
use cuda_std::ext::{Global, Shared, U32x4};
use cuda_std::warp::{
    lane_id, sync_warp, warp_shuffle_down, warp_shuffle_idx, warp_shuffle_xor, warp_vote_any,
};
use cuda_std::{kernel, thread};
use std::sync::atomic::{AtomicU32, Ordering};
use support::{assert_marked, param, readable, run, writable};

const SOURCE: &str = include_str!("faults.rs");

/// Checks who broke the rule: the kernel's name, the block, the thread, and the marked line.
#[track_caller]
fn assert_at(fault: &Fault, kernel: &str, block: u32, thread: u32, mark: &str) {
    assert_eq!(
        (fault.kernel, fault.block, fault.thread),
        (kernel, block, thread),
        "{fault}"
    );
    let location = fault.location.as_ref().expect("the fault has a place");
    assert_marked(SOURCE, location, mark);
    let text = fault.to_string();
    assert!(
        text.contains(kernel) && text.contains(&location.to_string()),
        "{text}"
    );
}

/// Checks what a collective waits for: the lanes it names, the thread that does not come.
#[track_caller]
fn assert_diverged(
    fault: &Fault,
    operation: Collective,
    mask: Option<u32>,
    missing_thread: u32,
) -> &Missing {
    match &fault.kind {
        FaultKind::Divergence {
            operation: o,
            mask: m,
            missing_thread: t,
            missing,
            ..
        } => {
            assert_eq!((*o, *m, *t), (operation, mask, missing_thread), "{fault}");
            missing
        }
        _ => panic!("{fault}"),
    }
}

#[track_caller]
fn assert_waits(missing: &Missing, operation: Collective, mask: Option<u32>, mark: &str) {
    match missing {
        Missing::Waits {
            operation: o,
            mask: m,
            location,
        } => {
            assert_eq!((*o, *m), (operation, mask));
            assert_marked(SOURCE, location, mark);
        }
        _ => panic!("{missing:?}"),
    }
}

#[kernel]
unsafe fn exited_lane() {
    if thread::block_idx_x() == 2 && lane_id() == 5 {
        return;
    }
    // SAFETY: broken on purpose.
    unsafe { warp_shuffle_xor(u32::MAX, 0u32, 1, 32) }; // exited lane
}

#[test]
fn shuffle_with_a_lane_that_has_returned() {
    let fault = run(&exited_lane::KERNEL, (4, 64, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "exited_lane", 2, 0, "exited lane");
    let missing = assert_diverged(&fault, Collective::ShuffleXor, Some(u32::MAX), 5);
    assert_eq!(*missing, Missing::Exited);
}

#[kernel]
unsafe fn absent_lane() {
    // SAFETY: broken on purpose.
    unsafe { sync_warp(u32::MAX) }; // absent lane
}

#[test]
fn warp_barrier_with_a_lane_that_does_not_exist() {
    let fault = run(&absent_lane::KERNEL, (1, 40, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "absent_lane", 0, 32, "absent lane");
    let missing = assert_diverged(&fault, Collective::SyncWarp, Some(u32::MAX), 40);
    assert_eq!(*missing, Missing::Absent);
}

#[kernel]
unsafe fn other_line() {
    // SAFETY: broken on purpose.
    unsafe {
        if lane_id() < 20 {
            warp_shuffle_xor(u32::MAX, 0u32, 1, 32); // one line
        } else {
            warp_shuffle_xor(u32::MAX, 0u32, 1, 32); // other line
        }
    }
}

#[test]
fn shuffle_with_a_lane_at_another_line() {
    let fault = run(&other_line::KERNEL, (1, 32, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "other_line", 0, 0, "one line");
    let missing = assert_diverged(&fault, Collective::ShuffleXor, Some(u32::MAX), 20);
    assert_waits(
        missing,
        Collective::ShuffleXor,
        Some(u32::MAX),
        "other line",
    );
}

#[kernel]
unsafe fn other_kind() {
    // SAFETY: broken on purpose.
    unsafe {
        match thread::thread_idx_x() {
            32 => _ = warp_vote_any(u32::MAX, true),           // vote
            _ => _ = warp_shuffle_down(u32::MAX, 0u32, 1, 32), // shuffle
        }
    }
}

#[test]
fn shuffle_with_a_lane_at_another_operation() {
    let fault = run(&other_kind::KERNEL, (1, 64, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "other_kind", 0, 32, "vote");
    let missing = assert_diverged(&fault, Collective::VoteAny, Some(u32::MAX), 33);
    assert_waits(missing, Collective::ShuffleDown, Some(u32::MAX), "shuffle");
}

#[kernel]
unsafe fn other_mask() {
    let mask = if lane_id() == 3 { 0x0f } else { 0xff };
    // SAFETY: broken on purpose.
    unsafe { sync_warp(mask) }; // other mask
}

#[test]
fn warp_barrier_with_a_lane_that_names_another_mask() {
    let fault = run(&other_mask::KERNEL, (1, 8, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "other_mask", 0, 0, "other mask");
    let missing = assert_diverged(&fault, Collective::SyncWarp, Some(0xff), 3);
    assert_waits(missing, Collective::SyncWarp, Some(0x0f), "other mask");
}

#[kernel]
unsafe fn lane_at_block_barrier() {
    if lane_id() == 9 {
        thread::sync_threads(); // block barrier
    }
    // SAFETY: broken on purpose.
    unsafe { sync_warp(u32::MAX) }; // warp barrier
}

#[test]
fn warp_barrier_with_a_lane_at_the_block_barrier() {
    let fault = run(&lane_at_block_barrier::KERNEL, (1, 32, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "lane_at_block_barrier", 0, 0, "warp barrier");
    let missing = assert_diverged(&fault, Collective::SyncWarp, Some(u32::MAX), 9);
    assert_waits(missing, Collective::BlockBarrier, None, "block barrier");
}

#[kernel]
unsafe fn missed_barrier() {
    if thread::thread_idx_x() != 700 {
        thread::sync_threads(); // missed barrier
    }
}

#[test]
fn block_barrier_missed_by_one_thread() {
    let fault = run(&missed_barrier::KERNEL, (3, 1024, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "missed_barrier", 0, 0, "missed barrier");
    let missing = assert_diverged(&fault, Collective::BlockBarrier, None, 700);
    assert_eq!(*missing, Missing::Exited);
    let text = fault.to_string();
    assert!(
        text.ends_with("block barrier waits for thread 700, which has returned"),
        "{text}"
    );
}

#[kernel]
unsafe fn two_barriers() {
    if thread::thread_idx_x() < 40 {
        thread::sync_threads(); // low barrier
    } else {
        thread::sync_threads(); // high barrier
    }
}

#[test]
fn block_barriers_on_two_lines() {
    let fault = run(&two_barriers::KERNEL, (1, 64, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "two_barriers", 0, 40, "high barrier");
    let missing = assert_diverged(&fault, Collective::BlockBarrier, None, 0);
    assert_waits(missing, Collective::BlockBarrier, None, "low barrier");
}

#[kernel]
unsafe fn outside_own_mask() {
    // SAFETY: broken on purpose.
    unsafe { sync_warp(0x7) }; // own mask
}

#[test]
fn collective_whose_caller_is_not_in_its_mask() {
    let fault = run(&outside_own_mask::KERNEL, (1, 4, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "outside_own_mask", 0, 3, "own mask");
    let (operation, mask) = (Collective::SyncWarp, 0x7);
    assert_eq!(fault.kind, FaultKind::NotInMask { operation, mask });
}

#[kernel]
unsafe fn source_outside_mask() {
    // SAFETY: broken on purpose.
    unsafe { warp_shuffle_idx(0xf, 0u32, lane_id() + 2, 32) }; // source
}

#[test]
fn shuffle_from_a_lane_outside_the_mask() {
    let fault = run(&source_outside_mask::KERNEL, (1, 4, 0), &[], &[]).unwrap_err();
    assert_at(&fault, "source_outside_mask", 0, 2, "source");
    let kind = FaultKind::ShuffleSource {
        operation: Collective::ShuffleIdx,
        mask: 0xf,
        lane: 4,
    };
    assert_eq!(fault.kind, kind);
}

#[kernel]
unsafe fn odd_width(width: u32) {
    // SAFETY: broken on purpose.
    unsafe { warp_shuffle_xor(u32::MAX, 0u32, 1, width) }; // width
}

#[test]
fn shuffle_of_a_width_that_is_no_power_of_two() {
    for width in [0u32, 3, 31, 33, 64] {
        let fault = run(&odd_width::KERNEL, (1, 32, 0), &[], &[param(&width)]).unwrap_err();
        assert_at(&fault, "odd_width", 0, 0, "width");
        let operation = Collective::ShuffleXor;
        assert_eq!(fault.kind, FaultKind::ShuffleWidth { operation, width });
    }
}

/// The word `byte_offset` bytes after `x`.
///
/// # Safety
///
/// As for [`Global::new_mut`].
unsafe fn offset_bytes(x: *mut u32, byte_offset: u64) -> Global<u8> {
    // SAFETY: this function's own contract.
    unsafe { Global::new_mut(x.cast::<u8>()) }.at(byte_offset)
}

#[kernel]
unsafe fn load_word(x: *mut u32, byte_offset: u64) {
    // SAFETY: broken on purpose.
    unsafe {
        let word = offset_bytes(x, byte_offset).cast::<u32>();
        word.load(); // load
    }
}

#[kernel]
unsafe fn load_vector(x: *mut u32, byte_offset: u64) {
    // SAFETY: broken on purpose.
    unsafe {
        let vector = offset_bytes(x, byte_offset).cast::<U32x4>();
        vector.load_streaming(); // load vector
    }
}

#[kernel]
unsafe fn store_word(x: *mut u32, byte_offset: u64) {
    // SAFETY: broken on purpose.
    unsafe {
        let word = offset_bytes(x, byte_offset).cast::<u32>();
        word.store(1); // store
    }
}

/// Eight words, aligned to 16 bytes.
#[repr(align(16))]
struct Words([u32; 8]);

#[test]
fn global_loads_just_outside_a_buffer() {
    let words = Words([0; 8]);
    let x = words.0[2..6].as_ptr();
    let buffers = [readable(&words.0[2..6])];
    for (offset, allowed) in [
        (-4i64, false),
        (0, true),
        (12, true),
        (16, false),
        (1 << 40, false),
    ] {
        let result = run(
            &load_word::KERNEL,
            (1, 1, 0),
            &buffers,
            &[param(&x), param(&offset)],
        );
        if allowed {
            result.unwrap();
            continue;
        }
        let fault = result.unwrap_err();
        assert_at(&fault, "load_word", 0, 0, "load");
        let nearest = BufferPlace {
            index: 0,
            bytes: 16,
            offset,
        };
        let kind = FaultKind::OutOfBounds {
            access: Access::Load,
            address: (x as u64).wrapping_add(offset as u64),
            bytes: 4,
            nearest: Some(nearest),
        };
        assert_eq!(fault.kind, kind);
    }
}

#[test]
fn global_load_that_runs_over_the_end() {
    let words = Words([0; 8]);
    let x = words.0.as_ptr();
    let buffers = [readable(&words.0[..6])];
    let load = |offset: u64| {
        run(
            &load_vector::KERNEL,
            (1, 1, 0),
            &buffers,
            &[param(&x), param(&offset)],
        )
    };
    load(0).unwrap();
    let fault = load(16).unwrap_err();
    assert_at(&fault, "load_vector", 0, 0, "load vector");
    assert!(
        matches!(fault.kind, FaultKind::OutOfBounds { bytes: 16, .. }),
        "{fault}"
    );
}

#[test]
fn access_without_any_buffer() {
    let (x, offset) = (std::ptr::null::<u32>(), 0u64);
    let fault = run(
        &load_word::KERNEL,
        (1, 1, 0),
        &[],
        &[param(&x), param(&offset)],
    )
    .unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::OutOfBounds { nearest: None, .. }),
        "{fault}"
    );
}

#[test]
fn the_nearest_buffer_is_named() {
    let words = Words([0; 8]);
    let x = words.0.as_ptr();
    let buffers = [readable(&words.0[..1]), readable(&words.0[4..5])];
    for (offset, index) in [(4u64, 0), (8, 0), (12, 1), (20, 1)] {
        let fault = run(
            &load_word::KERNEL,
            (1, 1, 0),
            &buffers,
            &[param(&x), param(&offset)],
        )
        .unwrap_err();
        match fault.kind {
            FaultKind::OutOfBounds {
                nearest: Some(nearest),
                ..
            } => assert_eq!(nearest.index, index, "{nearest:?}"),
            _ => panic!("{fault}"),
        }
    }
}

#[test]
fn misaligned_global_accesses() {
    let mut words = Words([0; 8]);
    let x = words.0.as_mut_ptr();
    let buffers = [writable(&mut words.0)];
    for (kernel, mark, access, bytes) in [
        (&load_word::KERNEL, "load", Access::Load, 4),
        (&store_word::KERNEL, "store", Access::Store, 4),
        (&load_vector::KERNEL, "load vector", Access::Load, 16),
    ] {
        for offset in 0..16u64 {
            let result = run(kernel, (1, 1, 0), &buffers, &[param(&x), param(&offset)]);
            if offset % u64::from(bytes) == 0 {
                result.unwrap();
                continue;
            }
            let fault = result.unwrap_err();
            assert_at(&fault, kernel.name, 0, 0, mark);
            let address = x as u64 + offset;
            let kind = FaultKind::Misaligned {
                access,
                address,
                bytes,
                buffer: BufferPlace {
                    index: 0,
                    bytes: 32,
                    offset: offset as i64,
                },
            };
            assert_eq!(fault.kind, kind);
        }
    }
}

#[test]
fn store_to_a_read_only_buffer() {
    let words = Words([0; 8]);
    let (x, offset) = (words.0.as_ptr(), 8u64);
    let buffers = [readable(&words.0)];
    let fault = run(
        &store_word::KERNEL,
        (1, 1, 0),
        &buffers,
        &[param(&x), param(&offset)],
    )
    .unwrap_err();
    assert_at(&fault, "store_word", 0, 0, "store");
    let address = x as u64 + 8;
    let kind = FaultKind::ReadOnly {
        address,
        bytes: 4,
        buffer: BufferPlace {
            index: 0,
            bytes: 32,
            offset: 8,
        },
    };
    assert_eq!(fault.kind, kind);
}

#[test]
fn a_writable_buffer_inside_a_read_only_one_takes_stores() {
    let mut words = Words([0; 8]);
    let (x, offset) = (words.0.as_mut_ptr(), 8u64);
    let buffers = [readable(&words.0), writable(&mut words.0[2..3])];
    run(
        &store_word::KERNEL,
        (1, 1, 0),
        &buffers,
        &[param(&x), param(&offset)],
    )
    .unwrap();
    assert_eq!(words.0, [0, 0, 1, 0, 0, 0, 0, 0]);
}

#[kernel]
unsafe fn shared_word(stores: u32, offset: u32) {
    let word = Shared::<u32>::dynamic(offset);
    // SAFETY: broken on purpose.
    unsafe {
        if stores != 0 {
            word.store(1); // shared store
        }
        word.load(); // shared load
    }
}

#[test]
fn shared_accesses_out_of_bounds_misaligned_or_unwritten() {
    let access = |stores: u32, offset: u32| {
        run(
            &shared_word::KERNEL,
            (1, 1, 10),
            &[],
            &[param(&stores), param(&offset)],
        )
    };
    let fault = access(0, 4).unwrap_err();
    assert_at(&fault, "shared_word", 0, 0, "shared load");
    assert_eq!(
        fault.kind,
        FaultKind::SharedUnwritten {
            offset: 4,
            bytes: 4
        }
    );
    access(1, 4).unwrap();
    for offset in [8, 12, 1 << 20, u32::MAX - 3] {
        let fault = access(1, offset).unwrap_err();
        assert_at(&fault, "shared_word", 0, 0, "shared store");
        let kind = FaultKind::SharedOutOfBounds {
            access: Access::Store,
            offset,
            bytes: 4,
            shared_bytes: 10,
        };
        assert_eq!(fault.kind, kind);
    }
    let fault = access(1, 6).unwrap_err();
    let kind = FaultKind::SharedMisaligned {
        access: Access::Store,
        offset: 6,
        bytes: 4,
    };
    assert_eq!(fault.kind, kind);
}

#[kernel]
unsafe fn partly_written() {
    let vector = Shared::<U32x4>::dynamic(0);
    // SAFETY: broken on purpose.
    unsafe {
        for index in [0, 1, 3] {
            vector.cast::<u32>().at(index).store(index);
        }
        vector.load(); // partly written
    }
}

#[test]
fn load_of_shared_bytes_of_which_some_are_unwritten() {
    let fault = run(&partly_written::KERNEL, (1, 1, 64), &[], &[]).unwrap_err();
    assert_at(&fault, "partly_written", 0, 0, "partly written");
    assert_eq!(
        fault.kind,
        FaultKind::SharedUnwritten {
            offset: 0,
            bytes: 16
        }
    );
}

#[kernel]
unsafe fn last_block_skips_its_store() {
    let word = Shared::<u32>::dynamic(0);
    // SAFETY: broken on purpose.
    unsafe {
        if thread::block_idx_x() < 7 {
            word.store(1);
        }
        word.load(); // next block
    }
}

#[test]
fn shared_memory_is_unwritten_again_in_the_next_block() {
    let fault = run(&last_block_skips_its_store::KERNEL, (8, 1, 4), &[], &[]).unwrap_err();
    assert_at(&fault, "last_block_skips_its_store", 7, 0, "next block");
}

#[kernel]
unsafe fn panics(index: u64) {
    let table = [1, 2, 3];
    if thread::thread_idx_x() == 33 {
        assert_eq!(table[index as usize], 2); // panics
    }
    thread::sync_threads();
}

#[test]
fn panics_become_faults() {
    let run = |index: u64| run(&panics::KERNEL, (2, 64, 0), &[], &[param(&index)]);
    run(1).unwrap();
    for (index, message) in [
        (5, "index out of bounds: the len is 3 but the index is 5"),
        (0, "assertion"),
    ] {
        let fault = run(index).unwrap_err();
        assert_at(&fault, "panics", 0, 33, "panics");
        match &fault.kind {
            FaultKind::Panic(text) => assert!(text.starts_with(message), "{text}"),
            _ => panic!("{fault}"),
        }
    }
}

#[kernel]
unsafe fn launches_a_kernel() {
    run(&missed_barrier::KERNEL, (1, 1, 0), &[], &[]).unwrap();
}

#[test]
fn launch_inside_a_kernel() {
    let fault = run(&launches_a_kernel::KERNEL, (1, 1, 0), &[], &[]).unwrap_err();
    match &fault.kind {
        FaultKind::Panic(text) => assert!(text.contains("inside a kernel"), "{text}"),
        _ => panic!("{fault}"),
    }
}

static DROPS: AtomicU32 = AtomicU32::new(0);

struct CountsDrops;

impl Drop for CountsDrops {
    fn drop(&mut self) {
        DROPS.fetch_add(1, Ordering::Relaxed);
    }
}

#[kernel]
unsafe fn holds_a_value() {
    let _value = CountsDrops;
    if thread::thread_idx_x() == 20 {
        // SAFETY: broken on purpose.
        unsafe { Shared::<u32>::dynamic(0).load() };
    }
    thread::sync_threads();
}

#[test]
fn a_fault_drops_what_the_waiting_threads_hold() {
    run(&holds_a_value::KERNEL, (1, 32, 0), &[], &[]).unwrap_err();
    // Threads 0 to 19 wait, 20 faults, the others have not begun.
    assert_eq!(DROPS.load(Ordering::Relaxed), 21);
}

#[test]
#[should_panic(expected = "outside a kernel launch")]
fn device_code_outside_a_launch() {
    thread::sync_threads();
}
