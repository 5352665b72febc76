//! Asynchronous copies bring what they should, and not before they are waited for.

mod support;

use cuda_std::emulator::{Access, Fault, FaultKind, MemoryPlace};
use cuda_std::ext::async_copy::{commit_group, copy_16, copy_16_or_zeros, wait_all, wait_group};
use cuda_std::ext::{Global, Shared, U32x4};
use cuda_std::{kernel, thread};
use support::{assert_marked, param, readable, run, writable};

const SOURCE: &str = include_str!("async_copies.rs");

/// Copies `steps` vectors a thread through a ring of two slots, one group ahead.
#[kernel]
unsafe fn ring(x: *const U32x4, y: *mut U32x4, steps: u32) {
    let (index, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let element = |step: u32| u64::from((thread::block_idx_x() * steps + step) * threads + index);
    let slot = |step: u32| Shared::<U32x4>::dynamic(0).at(step % 2 * threads + index);
    // SAFETY: in bounds, aligned; a thread touches its own slots alone, and waits before it loads.
    unsafe {
        let (x, y) = (Global::new(x), Global::new_mut(y));
        copy_16(slot(0), x.at(element(0)));
        commit_group();
        for step in 0..steps {
            if step + 1 < steps {
                copy_16(slot(step + 1), x.at(element(step + 1)));
            }
            commit_group();
            wait_group::<1>();
            y.at(element(step)).store(slot(step).load());
        }
    }
}

#[test]
fn a_pipeline_of_groups() {
    for (grid, threads, steps) in [(1u32, 1u32, 1u32), (3, 64, 2), (2, 33, 9)] {
        let count = grid * threads * steps;
        let x: Vec<_> = (0..count).map(|i| U32x4([i, i + 1, !i, i * 7])).collect();
        let mut y = vec![U32x4::default(); count as usize];
        let buffers = [readable(&x), writable(&mut y)];
        let (xp, yp) = (x.as_ptr(), y.as_mut_ptr());
        let params = [param(&xp), param(&yp), param(&steps)];
        run(
            &ring::KERNEL,
            (grid, threads, 2 * threads * 16),
            &buffers,
            &params,
        )
        .unwrap();
        assert_eq!(x, y);
    }
}

/// What a kernel waits for before it loads.
#[derive(Clone, Copy)]
enum Way {
    Nothing,
    OneGroupLeft,
    NoGroupLeft,
    All,
}

/// Closes one copy to slot 0 into a group, and one to slot 1 if `close_second`; then loads slot `slot`.
#[kernel]
unsafe fn two_copies(x: *const U32x4, close_second: bool, way: Way, slot: u32) {
    let slots = Shared::<U32x4>::dynamic(0);
    // SAFETY: broken on purpose.
    unsafe {
        // The copies make these bytes unwritten again.
        slots.store(U32x4([9; 4]));
        slots.at(1).store(U32x4([9; 4]));
        copy_16(slots, Global::new(x)); // first copy
        commit_group();
        copy_16(slots.at(1), Global::new(x).at(1)); // second copy
        if close_second {
            commit_group();
        }
        match way {
            Way::Nothing => {}
            Way::OneGroupLeft => wait_group::<1>(),
            Way::NoGroupLeft => wait_group::<0>(),
            Way::All => wait_all(),
        }
        let loaded = slots.at(slot).load(); // load
        assert_eq!(loaded, U32x4([slot + 1; 4]));
    }
}

#[test]
fn each_wait_covers_its_groups_and_no_more() {
    let x = [U32x4([1; 4]), U32x4([2; 4])];
    let xp = x.as_ptr();
    let load = |close_second: bool, way: Way, slot: u32| {
        let params = [param(&xp), param(&close_second), param(&way), param(&slot)];
        run(&two_copies::KERNEL, (1, 1, 32), &[readable(&x)], &params)
    };
    for (close_second, way, there) in [
        (true, Way::Nothing, [false, false]),
        (true, Way::OneGroupLeft, [true, false]),
        (true, Way::NoGroupLeft, [true, true]),
        (true, Way::All, [true, true]),
        (false, Way::OneGroupLeft, [false, false]),
        (false, Way::NoGroupLeft, [true, false]),
        (false, Way::All, [true, true]),
    ] {
        for slot in [0, 1] {
            let result = load(close_second, way, slot);
            if there[slot as usize] {
                result.unwrap();
                continue;
            }
            let fault = result.unwrap_err();
            let FaultKind::MissingWait { place, copy, .. } = &fault.kind else {
                panic!("{fault}");
            };
            let (block, offset) = (0, 16 * slot);
            assert_eq!(*place, MemoryPlace::Shared { block, offset });
            let mark = ["first copy", "second copy"][slot as usize];
            assert_marked(SOURCE, &copy.location, mark);
            assert_marked(SOURCE, &fault.location.unwrap(), "load");
        }
    }
}

#[kernel]
unsafe fn one_copy(x: *const U32x4, source: u64, destination: u32) {
    // SAFETY: broken on purpose.
    unsafe {
        let source = Global::new(x.cast::<u8>()).at(source).cast();
        copy_16(Shared::dynamic(destination), source); // copy
    }
}

fn copy(source: u64, destination: u32) -> Result<(), Fault> {
    let x = [U32x4::default(); 2];
    let xp = x.as_ptr();
    let params = [param(&xp), param(&source), param(&destination)];
    run(&one_copy::KERNEL, (1, 1, 32), &[readable(&x)], &params)
}

#[test]
fn both_ends_are_checked_where_the_copy_is_issued() {
    copy(0, 0).unwrap();
    copy(16, 16).unwrap();
    for (source, destination) in [(32, 0), (8, 0), (0, 32), (0, 4)] {
        let fault = copy(source, destination).unwrap_err();
        assert_marked(SOURCE, fault.location.as_ref().unwrap(), "copy");
        let access = match fault.kind {
            FaultKind::OutOfBounds { access, .. } if source == 32 => access,
            FaultKind::Misaligned { access, .. } if source == 8 => access,
            FaultKind::SharedOutOfBounds { access, .. } if destination == 32 => access,
            FaultKind::SharedMisaligned { access, .. } if destination == 4 => access,
            _ => panic!("{fault}"),
        };
        let expected = if source > 0 {
            Access::Load
        } else {
            Access::Store
        };
        assert_eq!(access, expected);
    }
}

/// What even threads have of `x`, which ends before those of odd threads; loaded after the wait, or before it.
#[kernel]
unsafe fn every_other(x: *const U32x4, y: *mut U32x4, waits: bool) {
    let index = thread::thread_idx_x();
    let slot = Shared::<U32x4>::dynamic(0).at(index);
    // SAFETY: in bounds where there is a source; a thread touches its own slot alone. Without the wait: broken on purpose.
    unsafe {
        let (x, y) = (Global::new(x), Global::new_mut(y));
        let is_there = index.is_multiple_of(2);
        let source = if is_there { index / 2 } else { 1 << 20 };
        copy_16_or_zeros(slot, x.at(source.into()), is_there); // zeros
        if waits {
            wait_all();
        }
        y.at(index.into()).store(slot.load()); // early
    }
}

fn copy_every_other(waits: bool, shared_bytes: u32) -> Result<Vec<U32x4>, Fault> {
    let x: Vec<_> = (0..16).map(|i| U32x4([i + 1; 4])).collect();
    let mut y = vec![U32x4([7; 4]); 32];
    let buffers = [readable(&x), writable(&mut y)];
    let (xp, yp) = (x.as_ptr(), y.as_mut_ptr());
    let params = [param(&xp), param(&yp), param(&waits)];
    run(
        &every_other::KERNEL,
        (1, 32, shared_bytes),
        &buffers,
        &params,
    )?;
    Ok(y)
}

#[test]
fn zeros_come_where_there_is_no_source() {
    let y = copy_every_other(true, 32 * 16).unwrap();
    for (index, value) in (0..).zip(y) {
        let expected = if u32::is_multiple_of(index, 2) {
            index / 2 + 1
        } else {
            0
        };
        assert_eq!(value, U32x4([expected; 4]), "{index}");
    }
}

#[test]
fn zeros_come_no_sooner_than_a_copy_would() {
    let fault = copy_every_other(false, 32 * 16).unwrap_err();
    assert_marked(SOURCE, fault.location.as_ref().unwrap(), "early");
}

#[test]
fn where_zeros_go_is_checked() {
    let fault = copy_every_other(true, 31 * 16).unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::SharedOutOfBounds { .. }),
        "{fault}"
    );
    assert_marked(SOURCE, fault.location.as_ref().unwrap(), "zeros");
}
