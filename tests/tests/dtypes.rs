//! Every value that a 16-bit input can have.

use warp_softmax::{DType, NanPolicy};
use warp_softmax_tests::case::Case;
use warp_softmax_tests::format::{Format, pairs};
use warp_softmax_tests::oracle::Op;
use warp_softmax_tests::runner::Runner;

/// Bit patterns of a 16-bit type.
const PATTERNS: usize = 1 << 16;

fn pairs_from_16_bits() -> impl Iterator<Item = (DType, DType)> {
    pairs()
        .into_iter()
        .filter(|(input, _)| *input != DType::F32)
}

fn policies() -> [Op; 2] {
    let ignore = Op {
        nan_policy: NanPolicy::Ignore,
        ..Op::default()
    };
    [Op::default(), ignore]
}

/// Each pattern in a row of its own, beside a 0 and beside a -3: signalling NaNs, both infinities,
/// both zeros and all subnormals among them.
#[test]
fn every_pattern_beside_two_ordinary_values() {
    let runner = Runner::new("patterns in rows of 3");
    for types in pairs_from_16_bits() {
        for op in policies() {
            let others = [types.0.bits(0.0), types.0.bits(-3.0)];
            let case = Case::new(types, &[PATTERNS], 3).op(op);
            runner.check(&case.fill_bits(|pattern| vec![others[0], pattern as u32, others[1]]));
        }
    }
    runner.finish();
}

/// Patterns that follow one another in a row of 256, and patterns 256 apart.
#[test]
fn every_pattern_among_others() {
    let runner = Runner::new("patterns in rows of 256");
    for types in pairs_from_16_bits() {
        for op in policies() {
            let case = || Case::new(types, &[256], 256).op(op);
            runner.check(&case().fill_bits(|r| (0..256).map(|i| (r * 256 + i) as u32).collect()));
            runner.check(&case().fill_bits(|r| (0..256).map(|i| (i * 256 + r) as u32).collect()));
        }
    }
    runner.finish();
}

/// All patterns in one row: a NaN row, or under the other policy one of real values.
#[test]
fn every_pattern_in_one_row() {
    let runner = Runner::new("patterns in one row");
    for types in pairs_from_16_bits() {
        for op in policies() {
            runner.check(
                &Case::new(types, &[], PATTERNS)
                    .op(op)
                    .fill_bits(|_| (0..PATTERNS as u32).collect()),
            );
            // Without +inf the maximum is finite.
            let infinity = types.0.bits(f32::INFINITY);
            let finite = (0..PATTERNS as u32).filter(|&bits| bits != infinity);
            let finite: Vec<u32> = finite.collect();
            runner.check(
                &Case::new(types, &[], PATTERNS - 1)
                    .op(op)
                    .fill_bits(|_| finite.clone()),
            );
        }
    }
    runner.finish();
}
