//! What the emulator's checks cost: softmax on the emulator, in ascending and in a drawn order, and on the checked one.
//!
//! `cargo bench -p warp-softmax-tests --bench checks`; as a test each runs once, tiny.

use std::time::{Duration, Instant};

use cuda_std::emulator::{Checks, checked};
use warp_softmax::{Device, Softmax};

fn main() {
    let tiny = !std::env::args().any(|argument| argument == "--bench");
    let repeats = if tiny { 1 } else { 15 };
    let (plain, watched) = (Device::emulator(), Device::emulator().checked());
    println!("rows x columns, way: emulator; in a drawn order; checked; checked in a drawn order");
    for (rows, cols) in [
        (256, 128),
        (64, 1_000),
        (16, 4_096),
        (4, 16_384),
        (2, 50_257),
        (1, 300_000),
    ] {
        let rows = if tiny { 1 } else { rows };
        let data: Vec<f32> = (0..rows * cols).map(|i| (i % 97) as f32 / 7.0).collect();
        let time = |device: &Device, seed: Option<u64>| {
            let x = device.tensor_from(&data, [rows, cols]).expect("memory");
            let checks = Checks {
                seed,
                ..Checks::default()
            };
            let once = || {
                let start = Instant::now();
                checked(checks, || Softmax::new().forward(&x)).expect("a correct kernel");
                start.elapsed()
            };
            once();
            let mut times: Vec<Duration> = (0..repeats).map(|_| once()).collect();
            times.sort_unstable();
            times[repeats / 2].as_secs_f64()
        };
        let base = time(&plain, None);
        let factor = |seconds: f64| format!("x {:.1}", seconds / base);
        let x = plain.tensor_from(&data, [rows, cols]).expect("memory");
        let plan = Softmax::new().plan(&x).expect("a plan");
        println!(
            "{rows} x {cols}, {}: {:.2} ms; {}; {}; {}",
            plan.way(),
            base * 1e3,
            factor(time(&plain, Some(1))),
            factor(time(&watched, None)),
            factor(time(&watched, Some(1))),
        );
    }
}
