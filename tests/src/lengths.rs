//! Row lengths at which something changes.

use warp_softmax::{DType, Problem, Softmax};

use crate::backend::Backend;

/// One element; lanes, warps, vectors and chunks of 1,024, one more and one less; a vocabulary; the
/// edges that other kernels have had.
pub const EDGES: &[usize] = &[
    1, 2, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 1000, 1023, 1024, 1025, 4095, 4097, 50_257,
    65_537, 131_072,
];

/// A shorter list for suites that multiply it with much else: one length for each way, one chunk and
/// several, ragged and whole.
pub const FEW: &[usize] = &[1, 3, 33, 256, 1000, 1024, 1025, 2500, 9000, 33_000];

/// Lengths that may be told apart by whether rows are whole vectors, and the elements from row to row.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// Lengths are this modulo 8.
    remainder: usize,
    pitch: fn(usize) -> usize,
}

const CLASSES: [Class; 3] = [
    // Whole vectors of any type, each row at 128 bytes.
    Class {
        remainder: 0,
        pitch: |cols| cols.next_multiple_of(64),
    },
    // Rows without gaps, at any alignment.
    Class {
        remainder: 1,
        pitch: |cols| cols,
    },
    // Rows with gaps, at any alignment.
    Class {
        remainder: 1,
        pitch: |cols| cols + 2,
    },
];

/// Longest row that thresholds are looked for at: past what clusters of sixteen blocks hold.
const LONGEST: usize = 530_000;

/// Every length at which the plan of a device takes another kernel than for the length before of the
/// same alignment, and that length before: for one row and for many.
pub fn around_thresholds(backend: &Backend, types: (DType, DType)) -> Vec<usize> {
    let mut lengths = Vec::new();
    for rows in [1, 100_000] {
        for Class { remainder, pitch } in CLASSES {
            let chosen = |step: usize| {
                let cols = step * 8 + remainder;
                let strides = [pitch(cols), 1];
                let problem = Problem::new(&[rows, cols], (types.0, &strides), (types.1, &strides));
                let plan =
                    Softmax::new().plan_for(&backend.device, &problem.expect("a valid problem"));
                let plan = plan.expect("a plan for every length");
                // Not the number of warps, which follows the length.
                (plan.kernel_name(), plan.blocks_per_row())
            };
            // Every step where thresholds are near each other, then every 128th.
            let steps = (1..512)
                .chain((512..LONGEST / 8).step_by(128))
                .collect::<Vec<_>>();
            for pair in steps.windows(2) {
                let (mut before, mut after) = (pair[0], pair[1]);
                if chosen(before) == chosen(after) {
                    continue;
                }
                while after - before > 1 {
                    let middle = usize::midpoint(before, after);
                    *if chosen(middle) == chosen(before) {
                        &mut before
                    } else {
                        &mut after
                    } = middle;
                }
                lengths.extend([before * 8 + remainder, after * 8 + remainder]);
            }
        }
    }
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}
