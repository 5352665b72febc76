//! Laws that hold between results, whatever the oracle says.

use kernels_gpu::tile::CHUNK;
use warp_softmax::DType;
use warp_softmax_tests::case::Case;
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::{Format, pairs};
use warp_softmax_tests::property::property;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::runner::Runner;
use warp_softmax_tests::strategy;

const LENGTHS: [usize; 7] = [2, 33, 257, 1000, 4097, 20_000, 50_257];

fn value(dtype: DType, bits: u32) -> f64 {
    f64::from(dtype.value(bits))
}

#[test]
fn rows_sum_to_one() {
    let runner = Runner::new("sums");
    let contents = [
        Content::Normal { sigma: 1.0 },
        Content::Normal { sigma: 20.0 },
        Content::Equal(3.0),
        Content::RawLogits,
        Content::Peak { rest: -9.0 },
        Content::Levels { gap: 5.0 },
        Content::Speckled(f32::NEG_INFINITY),
    ];
    for types in pairs() {
        for cols in LENGTHS {
            for content in contents {
                let results = runner.check(&Case::new(types, &[1], cols).fill_with(content, 21));
                let output = types.1;
                let (mut sum, mut allowed) = (0.0, 0.0);
                for &bits in results.row(0) {
                    sum += value(output, bits);
                    // Twice the ulp: the exact value may be in the binade above.
                    allowed += output.tolerance_ulp() * 2.0 * output.ulp(value(output, bits));
                }
                assert!(
                    (sum - 1.0).abs() <= allowed,
                    "{types:?}, {cols} of {content:?}: {sum} for 1 ± {allowed:e}"
                );
            }
        }
    }
    runner.finish();
}

/// Whether two results are as near as two roundings of one value are.
fn near(dtype: DType, a: u32, b: u32) -> bool {
    let (a, b) = (value(dtype, a), value(dtype, b));
    (a - b).abs() <= 2.0 * dtype.tolerance_ulp() * dtype.ulp(a.max(b))
}

/// Inputs are multiples of 2^-8 below 64 in magnitude, so that adding an integer is exact in f32.
#[test]
fn adding_an_integer_to_a_row_changes_nothing() {
    let runner = Runner::new("shifts");
    for types in pairs()
        .into_iter()
        .filter(|(input, _)| *input == DType::F32)
    {
        for cols in LENGTHS {
            let mut random = Random::new(cols as u64);
            let row: Vec<f32> = (0..cols)
                .map(|_| (random.normal() * 2000.0).round() as f32 / 256.0)
                .collect();
            let shifts = [0.0, 1.0, -1.0, 64.0, -1000.0, 4096.0, -30_000.0];
            let case = Case::new(types, &[shifts.len()], cols);
            let results = runner.check(&case.fill(|r| row.iter().map(|x| x + shifts[r]).collect()));
            for (r, shift) in shifts.into_iter().enumerate() {
                for (i, (&a, &b)) in results.row(0).iter().zip(results.row(r)).enumerate() {
                    assert!(
                        near(types.1, a, b),
                        "{types:?}, {cols}, shifted by {shift}: element {i}"
                    );
                }
            }
        }
    }
    runner.finish();
}

#[test]
fn the_order_of_chunks_does_not_matter() {
    let runner = Runner::new("chunk orders");
    let chunk = CHUNK as usize;
    for types in pairs() {
        for chunks in [2, 3, 8, 31, 40] {
            for content in [
                Content::Normal { sigma: 2.0 },
                Content::Levels { gap: 12.0 },
            ] {
                let row = content.row(chunks * chunk, &mut Random::new(2));
                let moved = |i: usize, by: usize| (i / chunk + by) % chunks * chunk + i % chunk;
                let orders = [0, 1, chunks / 2];
                let case = Case::new(types, &[orders.len()], row.len());
                let results = runner.check(
                    &case.fill(|r| (0..row.len()).map(|i| row[moved(i, orders[r])]).collect()),
                );
                for (r, by) in orders.into_iter().enumerate() {
                    for i in 0..row.len() {
                        let (a, b) = (results.row(r)[i], results.row(0)[moved(i, by)]);
                        assert!(
                            near(types.1, a, b),
                            "{types:?}, {chunks} chunks moved by {by}: element {i}"
                        );
                    }
                }
            }
        }
    }
    runner.finish();
}

#[test]
fn equal_inputs_of_a_row_give_equal_bits() {
    let runner = Runner::new("equal inputs");
    for types in pairs() {
        for cols in LENGTHS {
            for step in [0.3, 7.0, 30.0] {
                // Ten values, each in many chunks, lanes and places of a vector.
                let mut random = Random::new(cols as u64);
                let kinds: Vec<usize> = (0..cols).map(|_| random.below(10)).collect();
                let case = Case::new(types, &[1], cols);
                let results = runner
                    .check(&case.fill(|_| kinds.iter().map(|&kind| kind as f32 * step).collect()));
                let mut of_kind = [None; 10];
                for (&kind, &bits) in kinds.iter().zip(results.row(0)) {
                    assert_eq!(
                        *of_kind[kind].get_or_insert(bits),
                        bits,
                        "{types:?}, {cols}, kind {kind} of {step}"
                    );
                }
            }
        }
    }
    runner.finish();
}

/// Real rows keep their bits when the rows beside them are NaN or +inf.
#[test]
fn drawn_nan_rows_leave_real_rows_alone() {
    let runner = Runner::new("NaN beside real rows");
    property(
        "laws",
        (strategy::types(), 1..2000usize, 2..20usize, 0..u64::MAX),
        |(types, cols, rows, seed)| {
            let mut random = Random::new(seed);
            let spoilt: Vec<bool> = (0..rows).map(|_| random.below(2) == 0).collect();
            let real = |r: usize| {
                Content::Normal { sigma: 4.0 }.row(cols, &mut Random::new(seed ^ r as u64))
            };
            let clean = runner.try_check(&Case::new(types, &[rows], cols).fill(real))?;
            let case = Case::new(types, &[rows], cols).fill(|r| match spoilt[r] {
                true => Content::Speckled([f32::NAN, f32::INFINITY][r % 2])
                    .row(cols, &mut Random::new(seed)),
                false => real(r),
            });
            let mixed = runner.try_check(&case)?;
            for r in (0..rows).filter(|&r| !spoilt[r]) {
                if clean.every(r) != mixed.every(r) {
                    return Err(format!(
                        "row {r} of {rows} differs beside spoilt rows {spoilt:?}"
                    ));
                }
            }
            Ok(())
        },
    );
    runner.finish();
}

/// No result is negative, -0 or above 1 by more than its rounding; a larger input has no smaller
/// result, but for rounding.
#[test]
fn drawn_results_lie_between_0_and_1_and_keep_the_order_of_inputs() {
    let runner = Runner::new("order");
    property(
        "laws",
        (strategy::types(), strategy::cols(), 0..u64::MAX),
        |(types, cols, seed)| {
            let sigma = [0.1, 1.0, 10.0, 50.0][(seed % 4) as usize];
            let case = Case::new(types, &[1], cols).fill_with(Content::Normal { sigma }, seed);
            let results = runner.try_check(&case)?;
            let output = types.1;
            let inputs = case.input_rows().next().expect("one row").iter();
            let mut pairs: Vec<(f64, u32)> = inputs
                .zip(results.row(0))
                .map(|(&x, &y)| (value(types.0, x), y))
                .collect();
            pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
            for pair in pairs.windows(2) {
                let (lower, upper) = (pair[0].1, pair[1].1);
                if value(output, lower) > value(output, upper) && !near(output, lower, upper) {
                    return Err(format!("{:e} gives more than {:e}", pair[0].0, pair[1].0));
                }
            }
            match pairs.iter().find(|(_, y)| {
                (*y as i32) < 0 || value(output, *y) > 1.0 && !near(output, *y, output.bits(1.0))
            }) {
                Some((x, y)) => Err(format!("{x:e} gives {:e}", value(output, *y))),
                None => Ok(()),
            }
        },
    );
    runner.finish();
}
