//! A second or so each: every way once over what each of its parts is there for. For a look while a kernel is being changed, and
//! for `cargo xtask mutate`, which has no time for the long suites.

use warp_softmax::{DType, FullyMasked, NanPolicy};
use warp_softmax_tests::case::{Case, GUARD, Placement};
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::PAIRS;
use warp_softmax_tests::oracle::Op;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::runner::Runner;

const F32: (DType, DType) = (DType::F32, DType::F32);
const BF16: (DType, DType) = (DType::BF16, DType::BF16);
const F32_TO_BF16: (DType, DType) = (DType::F32, DType::BF16);
const NORMAL: Content = Content::Normal { sigma: 3.0 };

/// Every kind of content in a row of three chunks, whole vectors or not.
fn every_kind_of_content(types: (DType, DType), cols: usize) {
    let runner = Runner::new("quick contents");
    for &content in Content::ALL {
        let at = |skew: usize| Placement::packed(&[1], cols, GUARD + cols % 8 * skew);
        let case = Case::new(types, &[1], cols).x_at(at(1)).y_at(at(2));
        runner.check(&case.fill_with(content, 4));
    }
    runner.finish();
}

#[test]
fn every_kind_of_content_in_f32() {
    every_kind_of_content(F32, 2504);
}

#[test]
fn every_kind_of_content_in_f32_unaligned() {
    every_kind_of_content(F32, 2501);
}

#[test]
fn every_kind_of_content_in_bf16() {
    every_kind_of_content(BF16, 2504);
}

#[test]
fn every_kind_of_content_in_bf16_unaligned() {
    every_kind_of_content(BF16, 2501);
}

#[test]
fn every_kind_of_content_in_short_rows() {
    for types in PAIRS {
        every_kind_of_content(types, 37);
    }
}

/// Chunks so far apart that their results are subnormal, and past that.
#[test]
fn levels_far_apart() {
    let runner = Runner::new("quick levels");
    for types in [F32, BF16, F32_TO_BF16] {
        for gap in [20.0, 43.0, 50.0, 85.0] {
            for cols in [3072, 3071] {
                runner.check(&Case::new(types, &[1], cols).fill_with(Content::Levels { gap }, 3));
            }
        }
    }
    runner.finish();
}

/// More chunks than a warp has lanes.
#[test]
fn more_chunks_than_lanes() {
    let runner = Runner::new("quick chunks");
    for types in [F32, BF16] {
        for cols in [40_000, 40_001] {
            for content in [NORMAL, Content::Levels { gap: 4.0 }] {
                runner.check(&Case::new(types, &[1], cols).fill_with(content, 1));
            }
        }
    }
    runner.finish();
}

/// Rows apart from each other by different gaps on either side, at every alignment.
#[test]
fn rows_with_gaps() {
    let runner = Runner::new("quick gaps");
    for types in PAIRS {
        for cols in [3, 17, 40, 100, 260, 600, 1024, 1100] {
            let lead = [3];
            let case = Case::new(types, &lead, cols)
                .x_at(Placement::padded(&lead, cols + 3, GUARD + 1))
                .y_at(Placement::padded(&lead, cols + 5, GUARD + 2));
            runner.check(&case.fill_with(NORMAL, cols as u64));
        }
    }
    runner.finish();
}

/// Many adjacent rows, the last of which do not fill a warp or a block.
#[test]
fn rows_without_gaps() {
    let runner = Runner::new("quick rows");
    for types in PAIRS {
        for (rows, cols) in [
            (130, 1),
            (67, 5),
            (37, 20),
            (35, 33),
            (19, 63),
            (9, 127),
            (5, 333),
            (3, 1001),
        ] {
            let at = |skew| Placement::packed(&[rows], cols, GUARD + skew);
            for (x, y) in [(at(0), at(0)), (at(1), at(3))] {
                let case = Case::new(types, &[rows], cols).x_at(x).y_at(y);
                runner.check(&case.fill_with(NORMAL, 7));
            }
        }
    }
    runner.finish();
}

#[test]
fn in_place() {
    let runner = Runner::new("quick in place");
    for types in [F32, BF16] {
        for cols in [9, 100, 1001, 3001, 4096] {
            let at = Placement::packed(&[2], cols, GUARD + cols % 8);
            let case = Case::new(types, &[2], cols).x_at(at).in_place();
            runner.check(&case.fill_with(NORMAL, 2));
        }
    }
    runner.finish();
}

/// Every option, on rows that show it: with NaN among their elements, with nothing left, and plain.
#[test]
fn options() {
    let runner = Runner::new("quick options");
    for scale in [0.25, -2.0, 0.0] {
        for nan_policy in [NanPolicy::Propagate, NanPolicy::Ignore] {
            for fully_masked in [FullyMasked::Zero, FullyMasked::Uniform, FullyMasked::Nan] {
                let op = Op {
                    scale,
                    nan_policy,
                    fully_masked,
                };
                for (types, cols) in [(F32, 30), (BF16, 30), (F32, 2501), (BF16, 2504)] {
                    let contents = [
                        NORMAL,
                        Content::Speckled(f32::NAN),
                        Content::Equal(f32::NEG_INFINITY),
                    ];
                    let mut random = Random::new(5);
                    let case = Case::new(types, &[3], cols).op(op);
                    runner.check(&case.fill(|r| contents[r].row(cols, &mut random)));
                }
            }
        }
    }
    runner.finish();
}
