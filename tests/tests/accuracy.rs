//! The largest error, by types and way, over many elements: prints a table and holds it to the contract.

use std::thread;

use warp_softmax::{DType, Problem, Softmax, Way};
use warp_softmax_tests::backend::{self, Backend, Choice};
use warp_softmax_tests::case::Case;
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::{Format, PAIRS};
use warp_softmax_tests::oracle::{self, Op};
use warp_softmax_tests::random::Random;
use warp_softmax_tests::settings;

/// Row lengths, ragged and whole, few and many elements a sum; each way measures those that it can hold.
const LENGTHS: &[usize] = &[37, 480, 1000, 1024, 2048, 12_345, 32_768, 50_257, 131_072];

const SIGMAS: [f64; 2] = [1.0, 20.0];

/// Elements of one call.
const CALL_ELEMENTS: usize = 1 << 22;

/// Work for each core: `count` items, as ranges.
fn shares(count: usize) -> impl Iterator<Item = core::ops::Range<usize>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = count.div_ceil(cores).max(1);
    (0..count)
        .step_by(share)
        .map(move |first| first..count.min(first + share))
}

/// `rows` rows of normal numbers, as bits, made by all cores.
fn normal_rows(dtype: DType, rows: usize, cols: usize, sigma: f64, seed: u64) -> Vec<u32> {
    let row = |r: usize| {
        Content::Normal { sigma }.row(
            cols,
            &mut Random::new(seed.wrapping_add(r as u64 * 0x1234_5678_9abd)),
        )
    };
    thread::scope(|scope| {
        let makers: Vec<_> = shares(rows)
            .map(|share| {
                scope.spawn(move || {
                    share
                        .flat_map(row)
                        .map(|x| dtype.finite_bits(x))
                        .collect::<Vec<u32>>()
                })
            })
            .collect();
        makers
            .into_iter()
            .flat_map(|maker| maker.join().expect("a maker"))
            .collect()
    })
}

/// The largest error of the results, in ulp, found by all cores.
fn largest_error(case: &Case, results: &[u32]) -> f64 {
    let inputs: Vec<&[u32]> = case.input_rows().collect();
    let error_of = |r: usize| {
        let x: Vec<f32> = inputs[r]
            .iter()
            .map(|&bits| case.input.value(bits))
            .collect();
        let got = &results[r * case.cols..][..case.cols];
        oracle::compare(case.output, got, &oracle::softmax(&x, &Op::default()))
            .unwrap_or_else(|what| panic!("row {r} of {case:?}: {what}"))
    };
    let error_of = &error_of;
    thread::scope(|scope| {
        let checkers: Vec<_> = shares(inputs.len())
            .map(|share| scope.spawn(move || share.map(error_of).fold(0.0, f64::max)))
            .collect();
        checkers
            .into_iter()
            .map(|checker| checker.join().expect("a checker"))
            .fold(0.0, f64::max)
    })
}

/// Elements measured and the largest error.
fn measure(
    backend: &Backend,
    types: (DType, DType),
    choice: Choice,
    cols: usize,
    sigma: f64,
    elements: usize,
) -> (usize, f64) {
    let mut rows_left = elements.div_ceil(cols);
    let (mut measured, mut worst) = (0, 0.0f64);
    while rows_left > 0 {
        let rows = rows_left.min(CALL_ELEMENTS.div_ceil(cols));
        let seed = settings::seed() ^ (measured as u64) << 20 ^ cols as u64;
        let inputs = normal_rows(types.0, rows, cols, sigma, seed);
        let case =
            Case::new(types, &[rows], cols).fill_bits(|r| inputs[r * cols..][..cols].to_vec());
        let ran = backend::run(&backend.device, &case, choice);
        let ran = ran.unwrap_or_else(|why| panic!("{choice:?} on {cols} columns: {why:?}"));
        worst = worst.max(largest_error(&case, &ran.bits));
        measured += rows * cols;
        rows_left -= rows;
    }
    (measured, worst)
}

/// What is measured: every way with the lengths that it can hold, and what the plan takes by default.
fn lines(backend: &Backend, types: (DType, DType)) -> Vec<(String, Choice, Vec<usize>)> {
    let holds = |way: Way, cols: usize| {
        let problem = Problem::packed(&[1, cols], types.0, types.1).expect("a valid problem");
        Softmax::new()
            .force_way(way)
            .plan_for(&backend.device, &problem)
            .is_ok()
    };
    let forced = Way::ALL.map(|way| {
        let lengths = LENGTHS
            .iter()
            .copied()
            .filter(|&cols| holds(way, cols))
            .collect();
        (way.to_string(), Choice::Forced(way), lengths)
    });
    let default = ("default".into(), Choice::Default, LENGTHS.to_vec());
    // Parked rows keep their type.
    let measured = |line: &(String, Choice, Vec<usize>)| !line.2.is_empty();
    forced
        .into_iter()
        .chain([default])
        .filter(measured)
        .collect()
}

#[test]
fn largest_error_by_types_and_way() {
    // Backends give the same bits, which other suites check: the fastest one measures.
    let backend = backend::all().pop().expect("the emulator");
    let tables = PAIRS.map(|types| (types, lines(&backend, types)));
    let lengths = tables
        .iter()
        .flat_map(|(_, lines)| lines)
        .map(|(_, _, lengths)| lengths.len());
    let share = settings::accuracy_elements() / (lengths.sum::<usize>() * SIGMAS.len());
    println!("largest error in ulp on {}", backend.device.name());
    println!(
        "{:>5} {:>5} {:>12} {:>11} {:>8} {:>8}",
        "in", "out", "way", "elements", "N(0, 1)", "N(0, 20)"
    );
    for ((input, output), lines) in tables {
        for (name, choice, lengths) in lines {
            let mut measured = 0;
            let [one, twenty] = SIGMAS.map(|sigma| {
                lengths.iter().fold(0.0f64, |worst, &cols| {
                    let (elements, error) =
                        measure(&backend, (input, output), choice, cols, sigma, share);
                    measured += elements;
                    worst.max(error)
                })
            });
            println!(
                "{:>5} {:>5} {name:>12} {measured:>11} {one:>8.4} {twenty:>8.4}",
                input.name(),
                output.name()
            );
            assert!(one.max(twenty) <= output.tolerance_ulp());
        }
    }
}
