//! Row lengths at which something changes.

use warp_softmax::{DType, Problem, Softmax};

use crate::backend::Backend;

/// One element; lanes, warps, vectors and chunks of 1,024, one more and one less; a vocabulary; the
/// edges that other kernels have had.
pub const EDGES: &[usize] = &[
    1, 2, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 1000, 1023, 1024, 1025, 4095, 4097, 50_257, 65_537, 131_072,
];

/// A shorter list for suites that multiply it with much else: one length for each way, one chunk and
/// several, ragged and whole.
pub const FEW: &[usize] = &[1, 3, 33, 256, 1000, 1024, 1025, 2500, 9000, 33_000];

/// Longest row that thresholds are looked for at.
const LONGEST: usize = 140_000;

/// Every length at which the plan of a device is another than at the length before, and the length
/// before: for one row and for many, aligned and not.
pub fn around_thresholds(backend: &Backend, types: (DType, DType)) -> Vec<usize> {
    // Elements from row to row: whole 128-byte lines of any type, or an odd number.
    let aligned: fn(usize) -> usize = |cols| cols.next_multiple_of(64);
    let odd: fn(usize) -> usize = |cols| cols.next_multiple_of(2) + 1;
    let mut lengths = Vec::new();
    for rows in [1, 100_000] {
        for pitch in [aligned, odd] {
            let mut last = None;
            for cols in 1..=LONGEST {
                let strides = [pitch(cols), 1];
                let problem = Problem::new(&[rows, cols], (types.0, &strides), (types.1, &strides));
                let plan = Softmax::new().plan_for(&backend.device, &problem.expect("a valid problem"));
                let plan = plan.expect("a plan for every length");
                let chosen = (plan.kernel_name(), plan.threads_per_block(), plan.rows_per_block());
                if last.is_some_and(|last| last != chosen) {
                    lengths.extend([cols - 1, cols]);
                }
                last = Some(chosen);
            }
        }
    }
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}
