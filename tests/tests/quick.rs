//! A second or so each: every way once over what each of its parts is there for. For a look while a kernel is being changed, and
//! for `cargo xtask mutate`, which has no time for the long suites.

use cuda_std::emulator::{Checks, checked};
use kernels_gpu::options::Options;
use warp_softmax::{DType, Device, FullyMasked, NanPolicy};
use warp_softmax_tests::backend::{self, Choice};
use warp_softmax_tests::case::{Case, GUARD, Placement};
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::{Format, pairs};
use warp_softmax_tests::oracle::Op;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::reference;
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
    every_kind_of_content(F32, 37);
    every_kind_of_content(BF16, 37);
}

#[test]
fn every_pair_of_types() {
    let runner = Runner::new("quick types");
    for types in pairs() {
        for cols in [37, 1500] {
            runner.check(&Case::new(types, &[1], cols).fill_with(NORMAL, 2));
        }
    }
    runner.finish();
}

/// Not only do all ways give the same bits, they give those of the trees that the documentation promises.
fn bits_are_those_of_the_trees(types: (DType, DType), shapes: &[(usize, usize)], content: Content) {
    let device = Device::emulator();
    for &(rows, cols) in shapes {
        let case = Case::new(types, &[rows], cols).fill_with(content, 9);
        let ran = backend::run(&device, &case, Choice::Reproducible).unwrap();
        for (r, x) in case.input_rows().enumerate() {
            let x: Vec<f32> = x.iter().map(|&bits| types.0.value(bits)).collect();
            let expected = reference::softmax(&x, types, &Options::default());
            let got = &ran.bits[r * cols..][..cols];
            assert_eq!(got, expected, "{cols} columns, {types:?}, {}", ran.plan);
        }
    }
}

/// Sums of f32 show in 16-bit results, the longer the row the sooner; of the two, f16 has more bits to show them in.
#[test]
fn bits_are_those_of_the_trees_in_a_warp() {
    for input in [DType::F32, DType::F16] {
        let shapes = [(20, 500), (20, 1000), (20, 1024)];
        bits_are_those_of_the_trees((input, DType::F16), &shapes, NORMAL);
    }
}

#[test]
fn bits_are_those_of_the_trees_in_short_rows() {
    for types in pairs() {
        // Two warps of lanes with a row each, which have one, three or all elements of their last vector.
        let shapes = [(20, 1), (70, 11), (70, 35), (20, 61), (9, 130)];
        bits_are_those_of_the_trees(types, &shapes, NORMAL);
    }
}

#[test]
fn bits_are_those_of_the_trees_of_chunks() {
    for types in pairs() {
        bits_are_those_of_the_trees(types, &[(2, 1025), (2, 3000)], NORMAL);
    }
    let shapes = [(1, 33_001), (1, 35_840)];
    bits_are_those_of_the_trees(F32, &shapes, NORMAL);
    bits_are_those_of_the_trees((DType::F16, DType::F16), &shapes, NORMAL);
}

#[test]
fn bits_are_those_of_the_trees_less_the_maximum() {
    let content = Content::Near { centre: 3e9 };
    for types in [F32, BF16] {
        bits_are_those_of_the_trees(types, &[(2, 61), (2, 1000), (2, 3000)], content);
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

/// Rows apart from each other by different gaps on either side.
fn rows_with_gaps(types: (DType, DType), lengths: &[usize], gaps: (usize, usize)) {
    let runner = Runner::new("quick gaps");
    for &cols in lengths {
        let lead = [2];
        let case = Case::new(types, &lead, cols)
            .x_at(Placement::padded(&lead, cols + gaps.0, GUARD + gaps.0 % 8))
            .y_at(Placement::padded(&lead, cols + gaps.1, GUARD + gaps.1 % 8));
        runner.check(&case.fill_with(NORMAL, cols as u64));
    }
    runner.finish();
}

#[test]
fn rows_with_gaps_unaligned() {
    for types in [F32, BF16] {
        rows_with_gaps(types, &[17, 260, 1100], (3, 5));
    }
}

#[test]
fn rows_with_gaps_aligned() {
    for types in [F32, BF16] {
        rows_with_gaps(types, &[24, 256, 1104], (8, 16));
    }
}

/// Rows that follow each other, the last of which do not fill a warp or a block.
fn rows_without_gaps(types: (DType, DType)) {
    let runner = Runner::new("quick rows");
    for (rows, cols) in [
        (67, 1),
        (35, 5),
        (34, 20),
        (33, 33),
        (9, 63),
        (5, 127),
        (3, 333),
        (2, 1001),
    ] {
        let at = |skew| Placement::packed(&[rows], cols, GUARD + skew);
        let case = Case::new(types, &[rows], cols).x_at(at(1)).y_at(at(3));
        for content in [NORMAL, Content::Equal(f32::NEG_INFINITY)] {
            runner.check(&case.clone().fill_with(content, 7));
        }
    }
    runner.finish();
}

/// Where the larger of two types decides what a warp has of shared memory.
#[test]
fn rows_without_gaps_of_two_types() {
    rows_without_gaps(F32_TO_BF16);
    rows_without_gaps((DType::BF16, DType::F32));
}

#[test]
fn rows_without_gaps_in_f32() {
    rows_without_gaps(F32);
}

#[test]
fn rows_without_gaps_in_bf16() {
    rows_without_gaps(BF16);
}

/// Rows of one value beside rows of many, none of which may write where its neighbour does.
fn rows_of_one_value_beside_others(types: (DType, DType)) {
    let runner = Runner::new("quick neighbours");
    let checks = Checks {
        seed: Some(3),
        ..Checks::ALL
    };
    for cols in [1, 2, 5, 11, 13, 20, 33, 35, 61, 70, 127, 250, 333] {
        for odd in [0, 1] {
            let mut random = Random::new(cols as u64);
            let case = Case::new(types, &[5], cols).fill(|r| {
                if r % 2 == odd {
                    NORMAL.row(cols, &mut random)
                } else {
                    vec![f32::NEG_INFINITY; cols]
                }
            });
            checked(checks, || runner.check(&case));
        }
    }
    runner.finish();
}

#[test]
fn rows_of_one_value_beside_others_in_f32() {
    rows_of_one_value_beside_others(F32);
}

#[test]
fn rows_of_one_value_beside_others_in_bf16() {
    rows_of_one_value_beside_others(BF16);
}

/// 16-bit rows so long that they get the GPU's own exponential: whole vectors or not, both sides skewed alike or not.
#[test]
fn fast_exponentials() {
    let runner = Runner::new("quick fast");
    for (cols, skew) in [(5_000, (0, 0)), (5_001, (1, 1)), (5_001, (1, 2))] {
        let at = |skew: usize| Placement::packed(&[2], cols, GUARD + skew);
        let op = |scale| Op {
            scale,
            ..Op::default()
        };
        for (content, op) in [
            (NORMAL, op(1.0)),
            (Content::Levels { gap: 40.0 }, op(-2.0)),
            (Content::Near { centre: 3e9 }, op(1.0)),
            (Content::Speckled(f32::NEG_INFINITY), op(0.5)),
            (Content::Equal(f32::NEG_INFINITY), op(1.0)),
        ] {
            let case = Case::new(BF16, &[2], cols)
                .x_at(at(skew.0))
                .y_at(at(skew.1))
                .op(op);
            runner.check(&case.fill_with(content, 6));
        }
    }
    runner.finish();
}

/// The same, where the last chunk is less than a vector, or the last vector less than a whole one, and wherever in
/// a vector the row begins.
#[test]
fn fast_exponentials_at_the_end_of_a_chunk() {
    let runner = Runner::new("quick fast ends");
    let checks = Checks {
        seed: Some(5),
        ..Checks::ALL
    };
    for (more, skew) in [
        (1, 1),
        (1, 3),
        (1, 7),
        (2, 5),
        (3, 6),
        (7, 1),
        (8, 2),
        (9, 4),
        (1023, 7),
    ] {
        let cols = 4 * 1024 + more;
        let at = Placement::packed(&[2], cols, GUARD + skew);
        let case = Case::new(BF16, &[2], cols).x_at(at.clone()).y_at(at);
        checked(checks, || {
            runner.check(&case.clone().fill_with(NORMAL, more as u64))
        });
        for nan_policy in [NanPolicy::Propagate, NanPolicy::Ignore] {
            let op = Op {
                nan_policy,
                scale: -0.5,
                ..Op::default()
            };
            runner.check(&case.clone().op(op).fill(|_| {
                let mut row = NORMAL.row(cols, &mut Random::new(more as u64));
                row[cols - 1] = f32::NAN;
                row
            }));
        }
    }
    runner.finish();
}

/// Whether results go straight to where they belong or through the stage: those of a chunk that is a single element, and
/// those of its neighbour that share a vector with it.
#[test]
fn fast_exponentials_of_a_last_element() {
    let device = Device::emulator();
    let cols = 4 * 1024 + 1;
    for skew in [1, 4, 7] {
        let at = Placement::packed(&[1], cols, GUARD + skew);
        let case = Case::new(BF16, &[1], cols).x_at(at.clone()).y_at(at);
        let case = case.fill_with(NORMAL, 6);
        let ran = backend::run(&device, &case, Choice::Default).unwrap();
        let row = case.input_rows().next().unwrap();
        let x: Vec<f32> = row.iter().map(|&bits| DType::BF16.value(bits)).collect();
        let expected = reference::softmax(&x, BF16, &Options::default());
        let mut pairs = ran.bits.iter().zip(&expected);
        assert!(pairs.all(|(a, b)| a.abs_diff(*b) <= 1), "{}", ran.plan);
    }
}

/// Every way, with nothing that two threads of a block do in shared memory left to chance. Rows too large for
/// exponentials go round twice.
fn no_races(types: (DType, DType), lengths: &[usize]) {
    let runner = Runner::new("quick races");
    for seed in [None, Some(1)] {
        for &cols in lengths {
            for content in [NORMAL, Content::Near { centre: 3e9 }] {
                let at = |skew| Placement::packed(&[2], cols, GUARD + skew % 8);
                let case = Case::new(types, &[2], cols)
                    .x_at(at(cols))
                    .y_at(at(2 * cols));
                let case = case.fill_with(content, 8);
                let checks = Checks {
                    seed,
                    ..Checks::ALL
                };
                checked(checks, || runner.check(&case));
            }
        }
    }
    runner.finish();
}

/// Rows of two warps, whose shares of the block's memory the larger of two types decides.
#[test]
fn no_races_between_warps_of_packed_rows() {
    let checks = Checks {
        seed: Some(1),
        ..Checks::ALL
    };
    for types in [F32_TO_BF16, (DType::BF16, DType::F32)] {
        for cols in [5, 35] {
            let case = Case::new(types, &[70], cols).fill_with(NORMAL, 8);
            let run = || backend::run(&Device::emulator(), &case, Choice::Reproducible);
            checked(checks, run).unwrap();
        }
    }
}

#[test]
fn no_races_in_f32() {
    no_races(F32, &[33, 1000, 2052, 2053]);
}

#[test]
fn no_races_in_bf16() {
    no_races(BF16, &[33, 1001, 2056, 2053]);
}

#[test]
fn no_races_in_fast_exponentials() {
    no_races(BF16, &[5_000, 5_001]);
}

/// More partials than lanes, of which each lane has two to merge; and more than that: one warp of each block merges them.
#[test]
fn no_races_among_many_chunks() {
    let runner = Runner::new("quick races");
    let checks = Checks {
        seed: Some(1),
        ..Checks::ALL
    };
    for cols in [33_000, 66_000] {
        let case = Case::new(BF16, &[1], cols).fill_with(NORMAL, 8);
        checked(checks, || runner.check(&case));
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

/// Every option, on rows that show it: with NaN or -inf among their elements, with nothing left, and plain. Scales of 40
/// tell a row's maximum from any other number: exponentials relative to less would be infinite.
fn options(types: (DType, DType), cols: usize) {
    let runner = Runner::new("quick options");
    for (scale, nan_policy, fully_masked) in [
        (0.25, NanPolicy::Propagate, FullyMasked::Zero),
        (-2.0, NanPolicy::Ignore, FullyMasked::Uniform),
        (0.0, NanPolicy::Ignore, FullyMasked::Nan),
        (0.0, NanPolicy::Propagate, FullyMasked::Zero),
        (40.0, NanPolicy::Propagate, FullyMasked::Zero),
        (40.0, NanPolicy::Ignore, FullyMasked::Zero),
        (-40.0, NanPolicy::Propagate, FullyMasked::Zero),
    ] {
        let op = Op {
            scale,
            nan_policy,
            fully_masked,
        };
        let contents = [
            NORMAL,
            Content::Speckled(f32::NAN),
            Content::Speckled(f32::NEG_INFINITY),
            Content::Equal(f32::NEG_INFINITY),
        ];
        let mut random = Random::new(5);
        let case = Case::new(types, &[contents.len()], cols).op(op);
        runner.check(&case.fill(|r| contents[r].row(cols, &mut random)));
    }
    runner.finish();
}

#[test]
fn options_of_short_rows() {
    options(F32, 29);
    options(BF16, 29);
}

#[test]
fn options_of_long_rows() {
    options(F32, 1501);
    options(BF16, 1501);
}

#[test]
fn options_of_long_aligned_rows() {
    options(F32, 1504);
    options(BF16, 1504);
}
