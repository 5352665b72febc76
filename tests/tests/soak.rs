//! Calls of every kind from many threads at once, for as long as `WARP_SOFTMAX_SOAK_SECONDS` says.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use warp_softmax::bench_support::{Graph, copy, free_bytes, used_bytes};
use warp_softmax::{Device, Problem, Softmax, Tensor};
use warp_softmax_tests::attention::check;
use warp_softmax_tests::content::Content;
use warp_softmax_tests::drawn_scores::any_scores;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::runner::Runner;
use warp_softmax_tests::{backend, settings, strategy};

/// Threads that call at once.
const THREADS: u64 = 6;

/// What was done, by all threads.
#[derive(Default)]
struct Done {
    plain: AtomicU64,
    masked: AtomicU64,
    replayed: AtomicU64,
}

/// A softmax of any layout and kind, by every way on every backend.
fn plain(runner: &Runner, seed: u64) -> Result<(), String> {
    let mut draw = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    });
    let case = strategy::case().new_tree(&mut draw);
    let case = case.map_err(|reason| reason.to_string())?.current();
    runner.try_check(&case).map(drop)
}

/// A graph of a copy in, a softmax and a copy out, replayed with other inputs.
fn replayed(gpu: &Device, seed: u64) -> Result<(), String> {
    let random = &mut Random::new(seed);
    let shape = [1 + random.below(40), 1 + random.below(9000)];
    let mut inputs = (0..3).map(|_| {
        Content::Normal { sigma: 3.0 }.row(shape[0] * shape[1], &mut Random::new(random.bits()))
    });
    let softmax = match seed % 2 {
        0 => Softmax::new(),
        _ => Softmax::new().programmatic(),
    };
    let mut replay = || -> Result<Vec<[Vec<f32>; 2]>, warp_softmax::Error> {
        let mut source = gpu.zeros::<f32>(shape)?;
        let mut x = gpu.zeros::<f32>(shape)?;
        let (mut y, mut out): (Tensor<f32>, Tensor<f32>) = (gpu.zeros(shape)?, gpu.zeros(shape)?);
        softmax.prepare(gpu, &Problem::between(x.view(), y.view_mut())?)?;
        // SAFETY: all tensors outlive the graph, and while it is launched nothing else uses them.
        let graph = unsafe {
            Graph::capture(gpu, || {
                copy(&source, &mut x)?;
                softmax.forward_into(&x, &mut y)?;
                copy(&y, &mut out)
            })?
        };
        let mut found = Vec::new();
        for input in &mut inputs {
            source.copy_from(&input)?;
            graph.launch()?;
            found.push([input, out.to_vec()?]);
        }
        Ok(found)
    };
    for [input, found] in replay().map_err(|error| error.chain())? {
        let on_emulator = || -> Result<Vec<f32>, warp_softmax::Error> {
            let x = Device::emulator().tensor_from(&input, shape)?;
            Softmax::new().forward(&x)?.to_vec()
        };
        if on_emulator().map_err(|error| error.chain())? != found {
            return Err(format!("a replay of {shape:?} gives other bits"));
        }
    }
    Ok(())
}

fn call_until(end: Instant, worker: u64, done: &Done) {
    let runner = Runner::new("soak");
    let gpu = backend::cuda().map(|backend| backend.device);
    let mut random = Random::new(settings::seed() ^ worker << 48);
    while Instant::now() < end {
        let seed = random.bits();
        let (outcome, what) = match (seed % 10, &gpu) {
            (0, Some(gpu)) => (replayed(gpu, seed), &done.replayed),
            (0..=3, _) => {
                let (scores, asked) = any_scores(seed);
                (check(&scores, asked).map(drop), &done.masked)
            }
            _ => (plain(&runner, seed), &done.plain),
        };
        if let Err(error) = outcome {
            panic!(
                "WARP_SOFTMAX_SEED={}, thread {worker}, seed {seed}: {error}",
                settings::seed()
            );
        }
        what.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn calls_of_every_kind_from_many_threads() {
    let half = Duration::from_secs(settings::soak_seconds()) / 2;
    let end = Instant::now() + 2 * half;
    let done = Done::default();
    let gpu = backend::cuda().map(|backend| backend.device);
    let free = || {
        gpu.as_ref()
            .map(|gpu| free_bytes(gpu).expect("how much memory is free"))
    };
    let at_half = thread::scope(|scope| {
        for worker in 0..THREADS {
            let done = &done;
            scope.spawn(move || call_until(end, worker, done));
        }
        thread::sleep(half);
        free()
    });
    let at_end = free();
    // Exact, and this process's own, whatever else runs on the GPU. The workers' streams are gone.
    let used = gpu.as_ref().and_then(|gpu| {
        gpu.synchronize().expect("all work has ended");
        used_bytes(gpu).expect("how much memory is in use")
    });
    let count = |what: &AtomicU64| what.load(Ordering::Relaxed);
    println!(
        "{} plain and {} masked calls by every way, {} graphs; bytes of the device free at half time {at_half:?}, at the end {at_end:?}; tensors have {used:?}",
        count(&done.plain),
        count(&done.masked),
        count(&done.replayed)
    );
    assert!(count(&done.plain) > 0);
    assert_eq!(used.unwrap_or(0), 0, "memory is kept");
}
