//! Shuffles, votes, reductions and barriers give what PTX says.

mod support;

use cuda_std::emulator::{Buffer, Kernel};
use cuda_std::ext::warp::{redux_add_i32, redux_max_i32, shuffle_xor_pair};
use cuda_std::ext::{Global, Shared};
use cuda_std::warp::{
    WarpShuffleValue, lane_id, sync_warp, warp_shuffle_down, warp_shuffle_idx, warp_shuffle_up,
    warp_shuffle_xor, warp_vote_all, warp_vote_any, warp_vote_ballot,
};
use cuda_std::{kernel, shared, thread};
use support::{Random, param, readable, run, writable};

/// Ways a shuffle finds its source.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Down,
    Up,
    Idx,
    Xor,
}

const MODES: [Mode; 4] = [Mode::Down, Mode::Up, Mode::Idx, Mode::Xor];

fn shuffle<T: WarpShuffleValue>(
    mode: Mode,
    mask: u32,
    value: T,
    operand: u32,
    width: u32,
) -> (T, bool) {
    // SAFETY: the lanes of `mask` all call this with the same mode, mask and width.
    unsafe {
        match mode {
            Mode::Down => warp_shuffle_down(mask, value, operand, width),
            Mode::Up => warp_shuffle_up(mask, value, operand, width),
            Mode::Idx => warp_shuffle_idx(mask, value, operand, width),
            Mode::Xor => warp_shuffle_xor(mask, value, operand, width),
        }
    }
}

#[kernel]
unsafe fn shuffle_lanes(
    operands: *const u32,
    values: *mut u32,
    flags: *mut u32,
    mode: Mode,
    mask: u32,
    width: u32,
) {
    let lane = lane_id();
    if mask & (1 << lane) == 0 {
        return;
    }
    // SAFETY: an element a lane in each buffer.
    unsafe {
        let operand = Global::new(operands).at(lane.into()).load();
        let (value, in_segment) = shuffle(mode, mask, 100 + lane, operand, width);
        Global::new_mut(values).at(lane.into()).store(value);
        Global::new_mut(flags)
            .at(lane.into())
            .store(in_segment.into());
    }
}

/// Where lane `lane` reads and whether that is in reach, told by its place in its segment.
fn expected_source(mode: Mode, lane: u32, operand: u32, width: u32) -> (u32, bool) {
    let (segment, place) = (lane / width * width, lane % width);
    let operand = operand % 32;
    let source = match mode {
        Mode::Down => place.checked_add(operand).filter(|source| *source < width),
        Mode::Up => place.checked_sub(operand),
        Mode::Idx => Some(operand % width),
        Mode::Xor => {
            // A lane above the segment is out of reach, one below is not.
            let source = lane ^ operand;
            return if source < segment + width {
                (source, true)
            } else {
                (lane, false)
            };
        }
    };
    source.map_or((lane, false), |source| (segment + source, true))
}

fn check_shuffle(mode: Mode, mask: u32, width: u32, operands: [u32; 32]) {
    let (mut values, mut flags) = ([0u32; 32], [0u32; 32]);
    let buffers = [
        readable(&operands),
        writable(&mut values),
        writable(&mut flags),
    ];
    let (o, v, f) = (operands.as_ptr(), values.as_mut_ptr(), flags.as_mut_ptr());
    let params = [
        param(&o),
        param(&v),
        param(&f),
        param(&mode),
        param(&mask),
        param(&width),
    ];
    run(&shuffle_lanes::KERNEL, (1, 32, 0), &buffers, &params).unwrap();
    for lane in (0..32).filter(|lane| mask & (1 << lane) != 0) {
        let (source, in_segment) = expected_source(mode, lane, operands[lane as usize], width);
        let got = (values[lane as usize], flags[lane as usize]);
        let expected = (100 + source, u32::from(in_segment));
        assert_eq!(
            got, expected,
            "{mode:?} {mask:#x} {width}, lane {lane} of {operands:?}"
        );
    }
}

#[test]
fn shuffles_of_every_mode_width_and_operand() {
    for mode in MODES {
        for width in [1, 2, 4, 8, 16, 32] {
            for operand in 0..=40 {
                check_shuffle(mode, u32::MAX, width, [operand; 32]);
            }
        }
    }
}

#[test]
fn shuffles_whose_operand_differs_by_lane() {
    let mut random = Random::new(1);
    for mode in MODES {
        for width in [1, 2, 4, 8, 16, 32] {
            for _ in 0..20 {
                check_shuffle(
                    mode,
                    u32::MAX,
                    width,
                    std::array::from_fn(|_| random.next() as u32 % 64),
                );
            }
        }
    }
}

#[test]
fn shuffles_of_part_of_the_warp() {
    for mode in MODES {
        for width in [2, 4, 8, 16] {
            // Whole segments, so that every source is in the mask.
            let segment = (1u32 << width) - 1;
            for first in (0..32).step_by(width as usize) {
                for operand in 0..width {
                    check_shuffle(mode, segment << first, width, [operand; 32]);
                }
            }
        }
    }
}

#[kernel]
unsafe fn shuffle_types(out: *mut u32) {
    let lane = lane_id();
    let wide = u128::from(lane) * 0x0123_4567_89ab_cdef_0011_2233_4455;
    let other = lane ^ 5;
    let other_wide = u128::from(other) * 0x0123_4567_89ab_cdef_0011_2233_4455;
    let float = |lane: u32| -1.5 * lane as f32;
    // SAFETY: all lanes make the same calls.
    let same = unsafe {
        let mask = u32::MAX;
        warp_shuffle_xor(mask, lane, 5, 32).0 == other
            && warp_shuffle_xor(mask, -(lane as i32), 5, 32).0 == -(other as i32)
            && warp_shuffle_xor(mask, float(lane), 5, 32).0 == float(other)
            && warp_shuffle_xor(mask, wide as u64, 5, 32).0 == other_wide as u64
            && warp_shuffle_xor(mask, -(wide as i64), 5, 32).0 == -(other_wide as i64)
            && warp_shuffle_xor(mask, f64::from(lane) / 3.0, 5, 32).0 == f64::from(other) / 3.0
            && warp_shuffle_xor(mask, wide, 5, 32).0 == other_wide
            && shuffle_xor_pair(mask, (float(lane), lane as f32), 5) == (float(other), other as f32)
    };
    // SAFETY: an element a lane.
    unsafe { Global::new_mut(out).at(lane.into()).store(same.into()) };
}

#[test]
fn shuffles_carry_every_type() {
    assert_eq!(run_lanes(&shuffle_types::KERNEL, &[0; 32]), [1; 32]);
}

/// Runs a kernel of one warp whose parameters are `out`, or `input` and `out`: 32 elements each.
fn run_lanes(kernel: &Kernel, input: &[u32; 32]) -> [u32; 32] {
    let mut out = [0; 32];
    let buffers: [Buffer; 2] = [readable(input), writable(&mut out)];
    let (i, o) = (input.as_ptr(), out.as_mut_ptr());
    let params = [param(&i), param(&o)];
    let first = 2 - kernel.param_bytes.len();
    run(kernel, (1, 32, 0), &buffers, &params[first..]).unwrap();
    out
}

#[kernel]
unsafe fn votes(predicates: *const u32, out: *mut u32) {
    let lane = u64::from(lane_id());
    // SAFETY: an element a lane in each buffer; the lanes of each half make the same calls.
    unsafe {
        let predicate = Global::new(predicates).at(lane).load() != 0;
        let half = if lane < 16 { 0x0000_ffff } else { 0xffff_0000 };
        let all = warp_vote_all(u32::MAX, predicate);
        let any = warp_vote_any(u32::MAX, predicate);
        let ballot = warp_vote_ballot(u32::MAX, predicate);
        let half_ballot = warp_vote_ballot(half, predicate);
        sync_warp(half);
        let same = half_ballot == ballot & half;
        let answer = u32::from(all) | u32::from(any) << 1 | u32::from(same) << 2;
        Global::new_mut(out).at(lane).store(answer | ballot << 3);
    }
}

#[test]
fn votes_see_every_lane() {
    let mut random = Random::new(2);
    let mut cases = vec![[0; 32], [1; 32]];
    cases.extend((0..32).map(|lane| std::array::from_fn(|i| u32::from(i == lane))));
    cases.extend((0..32).map(|lane| std::array::from_fn(|i| u32::from(i != lane))));
    cases.extend((0..50).map(|_| std::array::from_fn(|_| random.next() as u32 & 1)));
    for predicates in cases {
        let ballot = (0..32).fold(0, |ballot, lane| ballot | predicates[lane] << lane);
        let answer = u32::from(ballot == u32::MAX) | u32::from(ballot != 0) << 1 | 4;
        assert_eq!(
            run_lanes(&votes::KERNEL, &predicates),
            [answer | ballot << 3; 32]
        );
    }
}

#[kernel]
unsafe fn redux(values: *const u32, out: *mut u32) {
    let lane = u64::from(lane_id());
    // SAFETY: an element a lane in each buffer; the lanes of each quarter make the same calls.
    unsafe {
        let value = Global::new(values).at(lane).load() as i32;
        let quarter = 0xff << (lane & !7);
        let max = redux_max_i32(quarter, value);
        let sum = redux_add_i32(u32::MAX, value);
        Global::new_mut(out)
            .at(lane)
            .store(max as u32 ^ (sum as u32).rotate_left(16));
    }
}

#[test]
fn integer_reductions() {
    let mut random = Random::new(3);
    let mut cases = vec![[0; 32], [i32::MIN; 32], [i32::MAX; 32], [-1; 32]];
    cases.extend((0..100).map(|_| std::array::from_fn(|_| random.next() as i32)));
    for values in cases {
        let sum = values.iter().fold(0i32, |sum, v| sum.wrapping_add(*v)) as u32;
        let expected: [u32; 32] = std::array::from_fn(|lane| {
            let first = lane / 8 * 8;
            *values[first..first + 8].iter().max().unwrap() as u32 ^ sum.rotate_left(16)
        });
        assert_eq!(
            run_lanes(&redux::KERNEL, &values.map(|v| v as u32)),
            expected
        );
    }
}

/// Each round every thread passes its number to the thread `step` further.
#[kernel]
unsafe fn rotate_through_shared(out: *mut u32, rounds: u32, step: u32) {
    let (index, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let slots = Shared::<u32>::dynamic(0);
    let mut value = index;
    for _ in 0..rounds {
        // SAFETY: a slot for each thread; barriers separate the stores from the loads of others.
        unsafe {
            slots.at((index + step) % threads).store(value);
            thread::sync_threads();
            value = slots.at(index).load();
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
fn barriers_separate_the_rounds_of_blocks_of_every_size() {
    for threads in [1u32, 2, 31, 32, 33, 63, 64, 65, 256, 1000, 1024] {
        let (grid, rounds, step) = (3, 5u32, 7u32);
        let mut out = vec![0u32; (grid * threads) as usize];
        let buffers = [writable(&mut out)];
        let o = out.as_mut_ptr();
        let params = [param(&o), param(&rounds), param(&step)];
        run(
            &rotate_through_shared::KERNEL,
            (grid, threads, 4 * threads),
            &buffers,
            &params,
        )
        .unwrap();
        for (index, value) in out.iter().enumerate() {
            let index = index as u32 % threads;
            assert_eq!(
                *value,
                (index + rounds * step * threads - rounds * step) % threads
            );
        }
    }
}

/// Warps that wait for their own lanes only go on however often others do.
#[kernel]
unsafe fn uneven_warps(out: *mut u32) {
    let warp = thread::thread_idx_x() / 32;
    let mut value = 1;
    for _ in 0..warp * 10 {
        // SAFETY: all lanes of the warp make the same calls.
        value = unsafe { warp_shuffle_xor(u32::MAX, value, 1, 32) }.0 + 1;
    }
    thread::sync_threads();
    // SAFETY: an element for each thread.
    unsafe {
        Global::new_mut(out)
            .at(thread::index_1d().into())
            .store(value)
    };
}

#[test]
fn warps_advance_on_their_own() {
    let mut out = [0u32; 256];
    let buffers = [writable(&mut out)];
    let o = out.as_mut_ptr();
    run(&uneven_warps::KERNEL, (1, 256, 0), &buffers, &[param(&o)]).unwrap();
    for (index, value) in out.iter().enumerate() {
        assert_eq!(*value, index as u32 / 32 * 10 + 1);
    }
}

/// The lanes of a mask may come from different branches to the collectives of that branch.
#[kernel]
unsafe fn diverged_halves(out: *mut u32) {
    let lane = lane_id();
    // SAFETY: the lanes of each mask make the same calls.
    let value = unsafe {
        if lane < 16 {
            warp_shuffle_xor(0x0000_ffff, lane, 1, 16).0
        } else {
            warp_shuffle_xor(0xffff_0000, lane + 100, 2, 16).0
        }
    };
    // SAFETY: an element a lane.
    unsafe { Global::new_mut(out).at(lane.into()).store(value) };
}

#[test]
fn branches_with_masks_of_their_own() {
    let expected = std::array::from_fn(|lane| {
        let lane = lane as u32;
        if lane < 16 {
            lane ^ 1
        } else {
            (lane ^ 2) + 100
        }
    });
    assert_eq!(run_lanes(&diverged_halves::KERNEL, &[0; 32]), expected);
}

/// The two arrays are apart, each the same for every thread of a block and fresh in every block.
#[kernel]
unsafe fn static_arrays(out: *mut u32) {
    let index = thread::thread_idx_x() as usize;
    let first = shared::shared_array![u32; 64];
    let second = shared::shared_array![u32; 64];
    let dynamic = shared::dynamic_shared_mem::<u32>();
    // SAFETY: an element for each thread; barriers separate stores from the loads of others.
    unsafe {
        first.add(index).write(index as u32);
        second.add(index).write(1000 * thread::block_idx_x());
        dynamic.add(index).write(7);
        thread::sync_threads();
        let sum = first.add(63 - index).read()
            + second.add(63 - index).read()
            + dynamic.add(63 - index).read();
        Global::new_mut(out)
            .at(thread::index_1d().into())
            .store(sum);
    }
}

#[test]
fn shared_memory_through_raw_pointers() {
    let mut out = [0u32; 64 * 5];
    let buffers = [writable(&mut out)];
    let o = out.as_mut_ptr();
    run(&static_arrays::KERNEL, (5, 64, 256), &buffers, &[param(&o)]).unwrap();
    for (index, value) in out.iter().enumerate() {
        assert_eq!(*value as usize, 63 - index % 64 + 1000 * (index / 64) + 7);
    }
}
