//! The bits of a row depend on the row alone: not on the batch, the position in it, the other rows,
//! or where the row lies.

use warp_softmax::DType;
use warp_softmax_tests::case::{Case, GUARD, Placement};
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::{pairs, same_types};
use warp_softmax_tests::property::property;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::runner::{Results, Runner};
use warp_softmax_tests::strategy;

/// The row that is to come out the same everywhere: dense, so that the order of its sum shows.
fn subject(cols: usize) -> Vec<f32> {
    Content::Normal { sigma: 2.0 }.row(cols, &mut Random::new(77))
}

/// A row that would disturb the subject's result if it could.
fn neighbour(cols: usize, r: usize) -> Vec<f32> {
    let content = [
        Content::Equal(f32::NAN),
        Content::Equal(f32::INFINITY),
        Content::Normal { sigma: 60.0 },
    ];
    content[r % content.len()].row(cols, &mut Random::new(r as u64))
}

fn alone(runner: &Runner, types: (DType, DType), cols: usize) -> Results {
    runner.check(&Case::new(types, &[1], cols).fill(|_| subject(cols)))
}

fn expect_row(results: &Results, r: usize, alone: &Results) {
    assert_eq!(results.every(r), alone.every(0), "row {r}");
}

#[test]
fn at_every_position_of_a_batch_of_eight() {
    let runner = Runner::new("batch of 8");
    for types in pairs() {
        for cols in [1, 3, 33, 300, 1025, 5000] {
            let alone = alone(&runner, types, cols);
            for position in 0..8 {
                let case = Case::new(types, &[8], cols).fill(|r| {
                    if r == position {
                        subject(cols)
                    } else {
                        neighbour(cols, r)
                    }
                });
                expect_row(&runner.check(&case), position, &alone);
            }
        }
    }
    runner.finish();
}

#[test]
fn at_every_position_of_a_batch_of_a_thousand() {
    let runner = Runner::new("batch of 1000");
    for types in pairs() {
        for cols in [1, 3, 33, 127, 300, 1025] {
            let alone = alone(&runner, types, cols);
            for parity in [0, 1] {
                let case = Case::new(types, &[1000], cols).fill(|r| {
                    if r % 2 == parity {
                        subject(cols)
                    } else {
                        neighbour(cols, r)
                    }
                });
                let results = runner.check(&case);
                (parity..1000)
                    .step_by(2)
                    .for_each(|r| expect_row(&results, r, &alone));
            }
        }
    }
    runner.finish();
}

/// Input and output start at every element of 16 bytes, and next to a 64-byte half and the end of a
/// line, one at a time; rows follow each other at a distance that is no multiple of anything.
#[test]
fn at_every_alignment_of_either_side() {
    let runner = Runner::new("alignments");
    for types in pairs() {
        for cols in [7, 33, 130, 1025, 3000] {
            let alone = alone(&runner, types, cols);
            let lead = [3];
            for skew in (0..16).chain([31, 32, 33, 63]) {
                let aligned = Placement::padded(&lead, cols.next_multiple_of(64), GUARD);
                let skewed = Placement::padded(&lead, cols + 13, GUARD + skew);
                let case = Case::new(types, &lead, cols);
                for case in [
                    case.clone().x_at(skewed.clone()).y_at(aligned.clone()),
                    case.x_at(aligned).y_at(skewed),
                ] {
                    let results = runner.check(&case.fill(|_| subject(cols)));
                    (0..3).for_each(|r| expect_row(&results, r, &alone));
                }
            }
        }
    }
    runner.finish();
}

/// Columns `first..first + cols` of wider rows.
#[test]
fn in_column_slices() {
    let runner = Runner::new("column slices");
    for types in pairs() {
        for cols in [5, 64, 333, 1024, 2000] {
            let alone = alone(&runner, types, cols);
            for (first, pitch) in [(0, cols + 1), (1, cols + 1), (3, cols + 8), (8, cols + 64)] {
                let lead = [4];
                let slice = Placement::padded(&lead, pitch, GUARD + first);
                let case = Case::new(types, &lead, cols)
                    .x_at(slice.clone())
                    .y_at(slice);
                let results = runner.check(&case.fill(|_| subject(cols)));
                (0..4).for_each(|r| expect_row(&results, r, &alone));
            }
        }
    }
    runner.finish();
}

#[test]
fn in_place_or_not() {
    let runner = Runner::new("in place");
    for types in same_types() {
        for cols in [1, 5, 33, 1000, 1025, 5000, 40_000] {
            let alone = alone(&runner, types, cols);
            let lead = [2];
            for (skew, pad) in [(0, 0), (1, 0), (0, 3), (5, 64)] {
                let placement = Placement::padded(&lead, cols + pad, GUARD + skew);
                let case = Case::new(types, &lead, cols).x_at(placement).in_place();
                let results = runner.check(&case.fill(|_| subject(cols)));
                (0..2).for_each(|r| expect_row(&results, r, &alone));
            }
        }
    }
    runner.finish();
}

/// Each row of a drawn call, taken out and run by itself.
#[test]
fn drawn_rows_alone() {
    let runner = Runner::new("drawn rows alone");
    property("batch", strategy::case(), |case| {
        let together = runner.try_check(&case)?;
        let rows = case.input_rows().count();
        for r in [0, rows / 2, rows - 1] {
            let types = (case.input, case.output);
            let row = case.input_rows().nth(r).expect("a row").to_vec();
            let alone = Case::new(types, &[], case.cols)
                .op(case.op)
                .fill_bits(|_| row.clone());
            let alone = runner.try_check(&alone)?;
            if alone.every(0) != together.every(r) {
                return Err(format!("row {r} of {case:?} differs from itself alone"));
            }
        }
        Ok(())
    });
    runner.finish();
}

/// The same call again and again: nothing is left over from one to the next, and no thread's work
/// depends on when it is done.
#[test]
fn repeated_calls_give_the_same_bits() {
    let runner = Runner::new("repeated");
    for types in pairs() {
        for cols in [15, 16, 1000, 1024, 8192, 33_000] {
            let case = Case::new(types, &[3], cols).fill_with(Content::Normal { sigma: 4.0 }, 1);
            let first = runner.check(&case);
            for _ in 0..5 {
                assert_eq!(runner.check(&case), first);
            }
        }
    }
    runner.finish();
}
