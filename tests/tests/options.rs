//! The policies and the scale.

use warp_softmax::{FullyMasked, NanPolicy};
use warp_softmax_tests::case::Case;
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::{Format, pairs};
use warp_softmax_tests::oracle::Op;
use warp_softmax_tests::runner::Runner;

/// One length for each way, ragged.
const LENGTHS: [usize; 5] = [1, 33, 1000, 2500, 33_000];

const MASKED: [FullyMasked; 3] = [FullyMasked::Zero, FullyMasked::Uniform, FullyMasked::Nan];
const NANS: [NanPolicy; 2] = [NanPolicy::Propagate, NanPolicy::Ignore];

#[test]
fn every_policy_on_rows_with_nothing_left() {
    let runner = Runner::new("policies");
    for types in pairs() {
        for cols in LENGTHS {
            for fully_masked in MASKED {
                for nan_policy in NANS {
                    let op = Op {
                        fully_masked,
                        nan_policy,
                        ..Op::default()
                    };
                    // All -inf; all NaN, which one policy takes for masked; both mixed; an ordinary row.
                    let dead = [f32::NEG_INFINITY, f32::NAN];
                    let case = Case::new(types, &[4], cols).op(op).fill(|r| match r {
                        0 | 1 => vec![dead[r]; cols],
                        2 => (0..cols).map(|i| dead[i % 2]).collect(),
                        _ => vec![1.0; cols],
                    });
                    let results = runner.check(&case);
                    let expected = match fully_masked {
                        FullyMasked::Zero => 0,
                        FullyMasked::Uniform => types.1.bits((1.0 / cols as f64) as f32),
                        FullyMasked::Nan => types.1.canonical_nan(),
                    };
                    let dead_rows = if nan_policy == NanPolicy::Ignore {
                        0..3
                    } else {
                        0..1
                    };
                    for r in dead_rows {
                        assert!(
                            results.row(r).iter().all(|&bits| bits == expected),
                            "row {r} of {case:?}"
                        );
                    }
                }
            }
        }
    }
    runner.finish();
}

/// A NaN that is ignored is as good as a -inf in its place, to the bit.
#[test]
fn an_ignored_nan_counts_as_masked() {
    let runner = Runner::new("ignored NaN");
    for types in pairs() {
        for cols in LENGTHS {
            let case = |special: f32, nan_policy| {
                let op = Op {
                    nan_policy,
                    ..Op::default()
                };
                Case::new(types, &[2], cols)
                    .op(op)
                    .fill_with(Content::Speckled(special), 5)
            };
            let ignored = runner.check(&case(f32::NAN, NanPolicy::Ignore));
            let masked = runner.check(&case(f32::NEG_INFINITY, NanPolicy::Propagate));
            assert_eq!(ignored, masked);
        }
    }
    runner.finish();
}

#[test]
fn policies_do_not_touch_ordinary_rows() {
    let runner = Runner::new("policies on ordinary rows");
    for types in pairs() {
        for cols in LENGTHS {
            let case = |op| {
                Case::new(types, &[2], cols)
                    .op(op)
                    .fill_with(Content::Normal { sigma: 3.0 }, 6)
            };
            let default = runner.check(&case(Op::default()));
            for fully_masked in MASKED {
                for nan_policy in NANS {
                    let op = Op {
                        fully_masked,
                        nan_policy,
                        ..Op::default()
                    };
                    assert_eq!(runner.check(&case(op)), default, "{op:?}");
                }
            }
        }
    }
    runner.finish();
}

#[test]
fn scales_of_every_size_and_sign() {
    let runner = Runner::new("scales");
    let scales = [
        0.0,
        -0.0,
        0.125,
        1.0,
        -1.0,
        0.1,
        -2.5,
        1e-6,
        1e-42,
        f32::MIN_POSITIVE,
        1e4,
        -1e6,
        1e30,
        f32::MAX,
        f32::MIN,
    ];
    let contents = [
        Content::Normal { sigma: 5.0 },
        Content::Speckled(f32::NEG_INFINITY),
        Content::Subnormal,
        Content::Even { limit: 1e30 },
        Content::Equal(-60_000.0),
    ];
    for types in pairs() {
        for cols in [33, 1000, 2500, 33_000] {
            for scale in scales {
                for content in contents {
                    let op = Op {
                        scale,
                        ..Op::default()
                    };
                    runner.check(&Case::new(types, &[1], cols).op(op).fill_with(content, 8));
                }
            }
        }
    }
    runner.finish();
}

/// -inf times a negative scale is +inf, and times 0 it is NaN: IEEE's rules, no exception.
#[test]
fn scaled_infinities_follow_ieee() {
    let runner = Runner::new("scaled infinities");
    for types in pairs() {
        for cols in LENGTHS {
            for scale in [0.0, -1.0, 2.0] {
                for special in [f32::INFINITY, f32::NEG_INFINITY] {
                    for nan_policy in NANS {
                        let op = Op {
                            scale,
                            nan_policy,
                            ..Op::default()
                        };
                        runner.check(
                            &Case::new(types, &[2], cols)
                                .op(op)
                                .fill_with(Content::Speckled(special), 4),
                        );
                    }
                }
            }
        }
    }
    runner.finish();
}
