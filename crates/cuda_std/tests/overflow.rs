//! A kernel that overflows its stack ends the process, and says so.

mod support;

use cuda_std::kernel;
use cuda_std::thread::{sync_threads, thread_idx_x};
use std::hint::black_box;
use std::process::Command;
use support::{param, run};

/// Uses a little more than the stack, and less than two.
fn fill_stack(depth: u32) -> u32 {
    let frame = black_box([depth; 256]);
    if depth == 0 {
        return frame[1];
    }
    fill_stack(depth - 1) + black_box(frame)[0]
}

#[kernel]
unsafe fn overflows(thread: u32) {
    if thread_idx_x() == thread {
        black_box(fill_stack(40));
    }
    sync_threads();
}

const CHILD: &str = "WARP_SOFTMAX_TEST_OVERFLOW";

#[test]
fn an_overflow_is_noticed_before_the_launch_returns() {
    if let Ok(thread) = std::env::var(CHILD) {
        let thread: u32 = thread.parse().unwrap();
        let _ = run(&overflows::KERNEL, (1, 32, 0), &[], &[param(&thread)]);
        return;
    }
    // The first has no neighbour below it; the last overflows while the others wait.
    for (thread, aborts) in [("0", true), ("31", true), ("1000", false)] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "an_overflow_is_noticed_before_the_launch_returns",
                "--nocapture",
            ])
            .env(CHILD, thread)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.success(), !aborts, "{text}");
        assert_eq!(
            text.contains("kernel `overflows` overflowed"),
            aborts,
            "{text}"
        );
    }
}
