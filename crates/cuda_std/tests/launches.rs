//! Launches of many shapes, on several workers, one after another and at the same time.

mod support;

use cuda_std::emulator::{FaultKind, Kernel, Launch, MAX_SHARED_BYTES, launch};
use cuda_std::ext::Global;
use cuda_std::warp::warp_shuffle_xor;
use cuda_std::{kernel, thread};
use support::{param, run, writable};

#[kernel(max_threads = 256, min_blocks = 2)]
unsafe fn count(out: *mut u32, bias: u32) {
    // SAFETY: all lanes make the same calls.
    let partner = unsafe { warp_shuffle_xor(u32::MAX, thread::index_1d(), 1, 32) }.0;
    thread::sync_threads();
    // SAFETY: an element for each thread of the grid.
    unsafe {
        Global::new_mut(out)
            .at(thread::index_1d().into())
            .store(partner + bias)
    };
}

fn check_count(grid: u32, block: u32, bias: u32) {
    let mut out = vec![0u32; (grid * block) as usize];
    let buffers = [writable(&mut out)];
    let o = out.as_mut_ptr();
    run(
        &count::KERNEL,
        (grid, block, 0),
        &buffers,
        &[param(&o), param(&bias)],
    )
    .unwrap();
    for (index, value) in out.iter().enumerate() {
        assert_eq!(*value, (index as u32 ^ 1) + bias);
    }
}

#[kernel]
unsafe fn blocks_from_100_fail() {
    assert!(
        thread::block_idx_x() < 100,
        "block {}",
        thread::block_idx_x()
    );
}

// One test, as it sets the environment of the whole process.
#[test]
fn many_blocks_on_every_number_of_workers() {
    for workers in ["1", "2", "3", "8"] {
        // SAFETY: no other test of this file reads or writes the environment while it changes: all of them
        // that launch run inside this one.
        unsafe { std::env::set_var("WARP_SOFTMAX_EMULATOR_THREADS", workers) };
        check_count(3000, 64, 5);
        check_count(1, 32, 0);
        check_count(2, 256, 1);
        for _ in 0..10 {
            let fault = run(&blocks_from_100_fail::KERNEL, (5000, 32, 0), &[], &[]).unwrap_err();
            assert_eq!((fault.block, fault.thread), (100, 0));
            assert_eq!(fault.kind, FaultKind::Panic("block 100".into()));
        }
        launches_at_the_same_time();
        shapes_that_are_refused();
    }
    for bad in ["0", "-1", "many", ""] {
        // SAFETY: as above.
        unsafe { std::env::set_var("WARP_SOFTMAX_EMULATOR_THREADS", bad) };
        let fault = run(&blocks_from_100_fail::KERNEL, (1, 1, 0), &[], &[]).unwrap_err();
        let text = fault.to_string();
        assert!(
            text.contains("WARP_SOFTMAX_EMULATOR_THREADS") && text.contains(bad),
            "{text}"
        );
    }
}

fn launches_at_the_same_time() {
    std::thread::scope(|scope| {
        for bias in 0..4 {
            scope.spawn(move || {
                for size in 1..20 {
                    check_count(size * 3, 32 * (size % 8 + 1), bias);
                }
            });
        }
    });
}

fn shapes_that_are_refused() {
    let mut out = vec![0u32; 1024];
    let buffers = [writable(&mut out)];
    let (o, bias) = (out.as_mut_ptr(), 0u32);
    let params = [param(&o), param(&bias)];
    let right = Launch {
        grid: 2,
        block: 256,
        cluster: 1,
        shared_bytes: MAX_SHARED_BYTES,
        buffers: &buffers,
    };
    let attempt = |shape: Launch, params: &[_]| {
        // SAFETY: the parameters are the kernel's, and the buffer holds the largest grid that runs.
        unsafe { launch(&count::KERNEL, &shape, params) }
    };
    attempt(right, &params).unwrap();
    let wrong = [
        (Launch { grid: 0, ..right }, "grid of 0"),
        (
            Launch {
                grid: 1 << 31,
                ..right
            },
            "grid of 2147483648",
        ),
        (
            Launch { block: 0, ..right },
            "0 threads a block; it takes 1 to 256",
        ),
        (
            Launch {
                block: 257,
                ..right
            },
            "257 threads a block; it takes 1 to 256",
        ),
        (
            Launch {
                cluster: 0,
                ..right
            },
            "0 blocks a cluster",
        ),
        (
            Launch {
                cluster: 17,
                grid: 17,
                ..right
            },
            "17 blocks a cluster",
        ),
        (
            Launch {
                cluster: 2,
                grid: 3,
                ..right
            },
            "grid of 3 blocks; it must be a multiple of the cluster's 2",
        ),
        (
            Launch {
                shared_bytes: MAX_SHARED_BYTES + 1,
                ..right
            },
            "232449 bytes of shared memory; there are at most 232448",
        ),
    ];
    for (shape, problem) in wrong {
        assert_refused(attempt(shape, &params), problem);
    }
    assert_refused(
        attempt(right, &params[..1]),
        "1 parameters given; it takes 2",
    );
    let unbounded = Kernel {
        max_threads: 0,
        ..count::KERNEL
    };
    let shape = Launch {
        block: 1025,
        ..right
    };
    // SAFETY: refused.
    assert_refused(
        unsafe { launch(&unbounded, &shape, &params) },
        "1025 threads a block; it takes 1 to 1024",
    );
}

#[track_caller]
fn assert_refused(result: Result<(), cuda_std::emulator::Fault>, problem: &str) {
    let fault = result.unwrap_err();
    assert!(matches!(fault.kind, FaultKind::InvalidLaunch(_)), "{fault}");
    let text = fault.to_string();
    assert!(
        text.starts_with("kernel `count`: ") && text.contains(problem),
        "{text}"
    );
}

#[test]
fn the_attribute_describes_the_kernel() {
    let Kernel {
        name,
        max_threads,
        min_blocks,
        param_bytes,
        ..
    } = count::KERNEL;
    assert_eq!((name, max_threads, min_blocks), ("count", 256, 2));
    assert_eq!(param_bytes, [8, 4]);
    let bare = blocks_from_100_fail::KERNEL;
    assert_eq!(
        (bare.max_threads, bare.min_blocks, bare.param_bytes.len()),
        (0, 0, 0)
    );
}

/// A pair that a launch passes by value.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair {
    low: u8,
    high: u64,
}

/// A table of entries, as crates of kernels make it.
macro_rules! entries {
    ($($name:ident: $type:ty, $count:literal;)*) => {$(
        #[kernel(max_threads = 32)]
        unsafe fn $name(out: *mut $type, pair: Pair) {
            // SAFETY: the buffer holds the elements.
            unsafe { fill::<$type, $count>(Global::new_mut(out), pair) };
        }
    )*

        const ENTRIES: &[Kernel] = &[$($name::KERNEL),*];
    };
}

entries! {
    fill_u32_2: u32, 2;
    fill_u64_3: u64, 3;
}

/// # Safety
///
/// `out` has `N` elements.
unsafe fn fill<T: cuda_std::ext::Word + From<u8>, const N: usize>(out: Global<T>, pair: Pair) {
    for index in 0..N {
        // SAFETY: in bounds.
        unsafe { out.at(index as u64 + pair.high).store(pair.low.into()) };
    }
}

#[test]
fn kernels_made_by_a_table() {
    let names: Vec<_> = ENTRIES.iter().map(|kernel| kernel.name).collect();
    assert_eq!(names, ["fill_u32_2", "fill_u64_3"]);
    let mut out = [0u64; 4];
    let buffers = [writable(&mut out)];
    let o = out.as_mut_ptr();
    let pair = Pair { low: 9, high: 1 };
    run(&ENTRIES[1], (1, 1, 0), &buffers, &[param(&o), param(&pair)]).unwrap();
    assert_eq!(out, [0, 9, 9, 9]);
}
