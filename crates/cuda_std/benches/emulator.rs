//! What the emulator costs, without checks and with all: a switch, a memory access, a small launch, a large one.
//!
//! `cargo bench -p warp-softmax-cuda-std`; as a test each runs once, tiny.

use cuda_std::emulator::{Buffer, Checks, Kernel, Launch, checked, launch};
use cuda_std::ext::{Global, Shared};
use cuda_std::{kernel, thread, warp};
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// Shuffles `steps` times and stores the sum.
///
/// # Safety
///
/// `out` has an element for each thread.
#[kernel]
pub unsafe fn shuffle(out: *mut u32, steps: u32) {
    let mut value = thread::thread_idx_x();
    for _ in 0..steps {
        // SAFETY: every lane makes the same calls.
        let (other, _) = unsafe { warp::warp_shuffle_xor(u32::MAX, value, 1, 32) };
        value = value.wrapping_add(other);
    }
    // SAFETY: an element for each thread.
    unsafe {
        Global::new_mut(out)
            .at(thread::index_1d().into())
            .store(value)
    };
}

/// Passes `steps` block barriers.
///
/// # Safety
///
/// None is needed.
#[kernel]
pub unsafe fn barrier(steps: u32) {
    for _ in 0..steps {
        thread::sync_threads();
    }
}

/// Copies `steps` elements a thread from global to shared memory and back.
///
/// # Safety
///
/// `data` has `steps` elements for each thread, the launch has as many in shared memory.
#[kernel]
pub unsafe fn copy(data: *mut u32, steps: u32) {
    for step in 0..steps {
        let index = step * thread::block_dim_x() + thread::thread_idx_x();
        // SAFETY: in bounds as promised; no thread touches another's elements.
        unsafe {
            let element = Global::new_mut(data).at(index.into());
            let shared = Shared::dynamic(0).at(index);
            shared.store(element.load());
            element.store(shared.load());
        }
    }
}

fn main() {
    let tiny = !std::env::args().any(|argument| argument == "--bench");
    measure(tiny);
    println!("with every check:");
    checked(Checks::ALL, || measure(tiny));
}

fn measure(tiny: bool) {
    let steps: u32 = if tiny { 2 } else { 1_000 };
    for threads in [32, 256, 1024] {
        let steps = steps * 32 / threads + 1;
        let mut out = vec![0u32; threads as usize];
        let buffers = [buffer(&mut out)];
        let out = out.as_mut_ptr();
        let time = run(
            &shuffle::KERNEL,
            1,
            threads,
            0,
            &buffers,
            &[as_param(&out), as_param(&steps)],
        );
        report(
            &format!("shuffle, {threads} threads"),
            time,
            steps * threads,
        );
        let time = run(&barrier::KERNEL, 1, threads, 0, &[], &[as_param(&steps)]);
        report(
            &format!("block barrier, {threads} threads"),
            time,
            steps * threads,
        );
    }
    let steps = if tiny { 2 } else { 64 };
    let mut data = vec![0u32; 64 * 256];
    let buffers = [buffer(&mut data)];
    let data = data.as_mut_ptr();
    let time = run(
        &copy::KERNEL,
        1,
        256,
        65_536,
        &buffers,
        &[as_param(&data), as_param(&steps)],
    );
    report("load, store, shared load and store", time, steps * 256);
    for (grid, threads) in [(1, 1), (1, 32), (4, 128), (1, 1024), (1000, 128)] {
        let steps = 0u32;
        let time = run(&barrier::KERNEL, grid, threads, 0, &[], &[as_param(&steps)]);
        println!(
            "launch of {grid} x {threads} threads: {:.1} us",
            time.as_secs_f64() * 1e6
        );
    }
}

fn report(what: &str, time: Duration, operations: u32) {
    println!(
        "{what}: {:.1} ns each",
        time.as_secs_f64() * 1e9 / f64::from(operations)
    );
}

/// The shortest of a few launches.
fn run(
    kernel: &Kernel,
    grid: u32,
    block: u32,
    shared_bytes: u32,
    buffers: &[Buffer],
    params: &[*const c_void],
) -> Duration {
    let shape = Launch {
        grid,
        block,
        cluster: 1,
        shared_bytes,
        buffers,
    };
    let times = (0..50).map(|_| {
        let start = Instant::now();
        // SAFETY: the parameters and buffers are those of the kernel, and live.
        unsafe { launch(kernel, &shape, params) }.expect("the kernel is correct");
        start.elapsed()
    });
    times.min().expect("there are launches")
}

fn buffer<T>(data: &mut [T]) -> Buffer {
    Buffer {
        address: data.as_mut_ptr() as u64,
        bytes: size_of_val(data) as u64,
        writable: true,
    }
}

fn as_param<T>(value: &T) -> *const c_void {
    (value as *const T).cast()
}
