//! Every row length at which something changes, on every backend, by every way that can hold it.

use std::ops::RangeInclusive;

use warp_softmax::{DType, Problem, Softmax};
use warp_softmax_tests::backend;
use warp_softmax_tests::case::{Case, GUARD, Placement};
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::pairs;
use warp_softmax_tests::lengths::{self, EDGES};
use warp_softmax_tests::runner::Runner;
use warp_softmax_tests::settings;

/// A few rows, at offsets that differ from length to length and between input and output, so that
/// every alignment comes up.
fn case(types: (DType, DType), cols: usize, content: Content) -> Case {
    let rows = if cols <= 4097 { 3 } else { 1 };
    let lead = [rows];
    Case::new(types, &lead, cols)
        .x_at(Placement::packed(&lead, cols, GUARD + cols % 8))
        .y_at(Placement::packed(&lead, cols, GUARD + cols / 8 % 8))
        .fill_with(content, cols as u64)
}

#[test]
fn edges_of_lanes_warps_vectors_and_chunks() {
    let runner = Runner::new("edges");
    for types in pairs() {
        for &cols in EDGES {
            for content in [Content::Normal { sigma: 1.0 }, Content::Equal(-30.0)] {
                runner.check(&case(types, cols, content));
            }
        }
    }
    runner.finish();
}

/// Both sides of the plan's thresholds that lie within `cols`.
fn both_sides_of_thresholds(cols: RangeInclusive<usize>) {
    let runner = Runner::new("thresholds");
    for types in pairs() {
        let mut around: Vec<usize> = runner
            .backends()
            .iter()
            .flat_map(|backend| lengths::around_thresholds(backend, types))
            .collect();
        around.sort_unstable();
        around.dedup();
        assert!(
            around.len() > 10,
            "{types:?}: the plan changes at {around:?} only"
        );
        let only = settings::threshold_cols();
        around.retain(|length| cols.contains(length) && only.contains(length));
        for cols in around {
            let content = Content::Normal { sigma: 5.0 };
            runner.check(&case(types, cols, content));
            runner.check(&Case::new(types, &[1], cols).fill_with(content, 5));
        }
    }
    runner.finish();
}

#[test]
fn both_sides_of_thresholds_within_a_chunk() {
    both_sides_of_thresholds(0..=1024);
}

#[test]
fn both_sides_of_thresholds_of_a_few_chunks() {
    both_sides_of_thresholds(1025..=16_384);
}

#[test]
fn both_sides_of_thresholds_of_many_chunks() {
    both_sides_of_thresholds(16_385..=131_072);
}

#[test]
fn both_sides_of_thresholds_of_the_longest_rows() {
    both_sides_of_thresholds(131_073..=usize::MAX);
}

#[test]
fn every_length_up_to_a_few_vectors_a_lane() {
    let runner = Runner::new("short lengths");
    for types in pairs() {
        for cols in 1..=300 {
            runner.check(&case(types, cols, Content::Normal { sigma: 3.0 }));
        }
    }
    runner.finish();
}

#[test]
fn aligned_rows_of_every_length_in_vectors() {
    let runner = Runner::new("aligned lengths");
    for types in pairs() {
        for cols in (8..=1100).step_by(8) {
            runner.check(
                &Case::new(types, &[3], cols)
                    .fill_with(Content::Normal { sigma: 3.0 }, cols as u64),
            );
        }
    }
    runner.finish();
}

/// Where the plan takes kernels whose bits are the device's own, it does so for all rows of a length and
/// type, whatever their number and alignment: else a row alone would differ from itself in a batch.
#[test]
fn which_exponential_a_row_gets_depends_on_its_length_and_type_alone() {
    for backend in backend::all() {
        for types in pairs() {
            for cols in EDGES.iter().copied().chain((1024..300_000).step_by(1016)) {
                let is_fast = |rows: usize, pitch: usize| {
                    let strides = [pitch, 1];
                    let problem =
                        Problem::new(&[rows, cols], (types.0, &strides), (types.1, &strides))
                            .unwrap();
                    let plan = Softmax::new().plan_for(&backend.device, &problem).unwrap();
                    (plan.kernel_name().contains("_fast_"), plan)
                };
                let (fast, first) = is_fast(1, cols);
                for rows in [2, 7, 100, 100_000] {
                    for pitch in [
                        cols,
                        cols.next_multiple_of(64),
                        cols.next_multiple_of(2) + 1,
                    ] {
                        let (here, plan) = is_fast(rows, pitch);
                        assert_eq!(
                            here, fast,
                            "{types:?}, {cols} columns: {first}; {rows} rows {pitch} apart: {plan}"
                        );
                    }
                }
            }
        }
    }
}
