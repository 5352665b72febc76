//! Masks, biases, caps, sinks and logarithms: every kind by every way on every backend, against f64 arithmetic, and to the bit
//! against one another.

use core::ops::Range;

use cuda_std::emulator::{Buffer, Checks, Kernel, Launch, checked, launch};
use half::{bf16, f16};
use kernels_gpu::attention::{self, block_walks};
use kernels_gpu::entries::REGISTRY;
use kernels_gpu::exchange::{Alone, BlockInTurns, Exchange};
use kernels_gpu::exp::{Accuracy, Full, Reference};
use kernels_gpu::ln::ln_pair;
use kernels_gpu::online::{Pair, Partial};
use kernels_gpu::options::Options;
use kernels_gpu::row::RowLayout;
use kernels_gpu::scores::{Bias, Reach, Scores as KernelScores, Strides, Sum};
use proptest::prelude::*;
use warp_softmax::{
    Align, DType, Device, Error, FullyMasked, NanPolicy, Operand, Softmax, TensorView,
};
use warp_softmax_tests::attention::{Asked, Given, Numbers, Scores, check};
use warp_softmax_tests::content::Content;
use warp_softmax_tests::drawn_scores::{any_scores, contents};
use warp_softmax_tests::format::{Format, PAIRS, pairs};
use warp_softmax_tests::parameter::pointer;
use warp_softmax_tests::property::property;
use warp_softmax_tests::random::Random;

/// Lengths on both sides of what ends a vector, a warp's row, and a block's.
const LENGTHS: [usize; 14] = [
    1, 3, 4, 5, 31, 33, 128, 257, 1000, 1023, 1024, 1025, 2049, 5000,
];

#[track_caller]
fn expect(scores: &Scores, asked: Asked) -> Given {
    check(scores, asked)
        .unwrap_or_else(|what| panic!("{what}"))
        .0
}

/// Every way, with nothing that two threads of a block do in shared memory left to chance. Scores too large for exponentials go
/// round twice.
#[test]
fn no_races() {
    for types in [(DType::F32, DType::F32), (DType::BF16, DType::BF16)] {
        for keys in [100, 1000, 2053] {
            for centre in [0.0, 3e9] {
                let mut random = Random::new(1);
                let x = Numbers::new(&[2, keys], |_| (centre + random.between(-3.0, 3.0)) as f32);
                let scores = Scores {
                    causal: Some(Align::BottomRight),
                    ..Scores::new(types, x)
                };
                let checks = Checks {
                    seed: Some(2),
                    ..Checks::ALL
                };
                for asked in [Asked::Softmax, Asked::Both] {
                    checked(checks, || expect(&scores, asked));
                }
            }
        }
    }
}

/// More chunks than a block has warps, and all that hides a key at once, NaN among the scores.
#[test]
fn several_chunks_for_each_warp() {
    for types in [(DType::F32, DType::F32), (DType::BF16, DType::BF16)] {
        let keys = 17_501;
        let mut random = Random::new(3);
        let x = Numbers::new(&[2, keys], |i| match i % 97 {
            0 => f32::NAN,
            _ => random.between(-3.0, 3.0) as f32,
        });
        let mut scores = Scores {
            window: Some((15_000, 0, Align::BottomRight)),
            hide: Some(Numbers::new(&[keys], |key| key % 5 == 0)),
            ..Scores::new(types, x)
        };
        scores.op.nan_policy = NanPolicy::Ignore;
        for asked in [Asked::Softmax, Asked::Both] {
            expect(&scores, asked);
        }
    }
}

/// Without a mask the results are those of the plain softmax, to the bit.
#[test]
fn nothing_masked_is_the_plain_softmax() {
    let device = Device::emulator();
    for types in pairs() {
        for cols in LENGTHS {
            let mut random = Random::new(cols as u64);
            let x = contents(&[2, cols], Content::Normal { sigma: 4.0 }, &mut random);
            let scores = Scores::new(types, x);
            let given = expect(&scores, Asked::Softmax);
            let bits = plain(&device, &scores);
            assert_eq!(given.rows, bits, "{types:?}, {cols} columns");
        }
    }
}

/// The same of chunks so far apart that exponentials relative to their own maximum go through a factor more.
#[test]
fn chunks_far_apart_are_those_of_the_plain_softmax() {
    let device = Device::emulator();
    for types in [(DType::F32, DType::F32), (DType::BF16, DType::BF16)] {
        for gap in [25.0, 43.0] {
            for cols in [3072, 3071] {
                let x = contents(&[1, cols], Content::Levels { gap }, &mut Random::new(5));
                let scores = Scores::new(types, x);
                let given = expect(&scores, Asked::Softmax);
                let bits = plain(&device, &scores);
                assert_eq!(given.rows, bits, "{types:?}, {cols} columns");
            }
        }
    }
}

/// What `Softmax::forward_as` gives.
fn plain(device: &Device, scores: &Scores) -> Vec<u32> {
    let shape = &scores.x.shape;
    let values = &scores.x.values;
    let softmax = Softmax::new().reproducible();
    macro_rules! input {
        ($x:expr) => {{
            let x = device.tensor_from(&$x, shape).unwrap();
            match scores.output {
                DType::F32 => softmax
                    .forward_as::<f32>(&x)
                    .unwrap()
                    .to_vec()
                    .unwrap()
                    .iter()
                    .map(|y| y.to_bits())
                    .collect(),
                DType::F16 => softmax
                    .forward_as::<f16>(&x)
                    .unwrap()
                    .to_vec()
                    .unwrap()
                    .iter()
                    .map(|y| y.to_bits().into())
                    .collect(),
                DType::BF16 => softmax
                    .forward_as::<bf16>(&x)
                    .unwrap()
                    .to_vec()
                    .unwrap()
                    .iter()
                    .map(|y| y.to_bits().into())
                    .collect(),
            }
        }};
    }
    match scores.input {
        DType::F32 => input!(values.clone()),
        DType::F16 => input!(values.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>()),
        DType::BF16 => input!(
            values
                .iter()
                .map(|&x| bf16::from_f32(x))
                .collect::<Vec<_>>()
        ),
    }
}

/// Every kind of row, for one output.
fn is_within_its_bounds_on_every_kind_of_content(asked: Asked) {
    for types in pairs() {
        let mut worst = (0.0f64, 0.0f64);
        for (seed, &content) in Content::ALL.iter().enumerate() {
            for cols in [1, 2, 7, 40, 300, 1100, 2500] {
                let mut random = Random::new((seed * 10_000 + cols) as u64);
                let scores = Scores::new(types, contents(&[2, cols], content, &mut random));
                let (_, (rows, sums), _) =
                    check(&scores, asked).unwrap_or_else(|what| panic!("{content:?}: {what}"));
                worst = (worst.0.max(rows), worst.1.max(sums));
            }
        }
        let unit = match asked {
            Asked::Log => "of what is allowed",
            _ => "ulp",
        };
        println!(
            "{types:?}, {asked:?}: rows {:.3} {unit}, logsumexp {:.3} ulp",
            worst.0, worst.1
        );
    }
}

#[test]
fn softmax_is_within_its_bounds_on_every_kind_of_content() {
    is_within_its_bounds_on_every_kind_of_content(Asked::Softmax);
}

#[test]
fn log_softmax_is_within_its_bounds_on_every_kind_of_content() {
    is_within_its_bounds_on_every_kind_of_content(Asked::Log);
}

#[test]
fn logsumexp_is_within_its_bounds_on_every_kind_of_content() {
    is_within_its_bounds_on_every_kind_of_content(Asked::Sum);
}

#[test]
fn both_outputs_are_within_their_bounds_on_every_kind_of_content() {
    is_within_its_bounds_on_every_kind_of_content(Asked::Both);
}

/// With its logsumexp, which may take a second look at the row, a softmax of f32 results has the same bits.
#[test]
fn logsumexp_beside_it_changes_no_softmax() {
    let mut random = Random::new(21);
    for sigma in [0.01, 0.3, 4.0] {
        for keys in [3, 70, 1500] {
            let x = contents(&[20, keys], Content::Normal { sigma }, &mut random);
            let scores = f32s(x);
            let alone = expect(&scores, Asked::Softmax);
            assert_eq!(
                expect(&scores, Asked::Both).rows,
                alone.rows,
                "{keys} keys, {sigma}"
            );
        }
    }
}

/// Rows of few numbers, near 0 and near 1: where the logarithm of the sum is small, its bound is small too.
#[test]
fn logsumexp_is_within_its_bound_where_it_is_small() {
    let mut worst = 0.0f64;
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let magnitude = random.between(-30.0, 2.0).exp2();
        let keys = 1 + random.below(5);
        let x = Numbers::new(&[40, keys], |_| (magnitude * random.normal()) as f32);
        let scores = Scores::new((DType::F32, DType::F32), x);
        let device = Device::emulator();
        let given = scores.run(&device, None, Asked::Both).unwrap().unwrap();
        let (_, sums) = scores
            .compare(Asked::Both, &given)
            .unwrap_or_else(|what| panic!("{what}"));
        worst = worst.max(sums);
    }
    println!("largest error {worst:.3} ulp");
}

/// The partial of a row of four keys and a sink, as its kernels have it. `finely`: with what rounding takes from exponentials.
fn partial_of(z: [f32; 4], sink: f32, finely: bool) -> Partial {
    let rest = |z, reference| match finely {
        true => Full::rest(z, reference),
        false => 0.0,
    };
    let max = z.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let reference = Reference::of_max(max);
    let [a, b, c, d] = z.map(|z| Pair::cut(Full::exp(z, reference)));
    let mut sum = a.plus_cut(c).plus_cut(b.plus_cut(d));
    sum.lo += z.map(|z| rest(z, reference)).iter().sum::<f32>();
    let part = Partial::of(max, sum);
    if sink == f32::NEG_INFINITY {
        return part;
    }
    let reference = Reference::of_max(sink);
    let sum = Pair {
        hi: Full::exp(sink, reference),
        lo: rest(sink, reference),
    };
    part.merge(Partial::of(sink, sum))
}

/// The logarithm of its sum relative to its maximum, which is not too large for exponentials.
fn log_of_relative_sum(whole: Partial, finely: bool) -> Pair {
    let reference = Reference::of_max(whole.max);
    let one = Full::exp(whole.max, reference);
    let rest_of_one = match finely {
        true => Full::rest(whole.max, reference),
        false => 0.0,
    };
    let quotient = whole.sum.hi / one;
    let missing =
        quotient.mul_add(-one, whole.sum.hi) + quotient.mul_add(-rest_of_one, whole.sum.lo);
    ln_pair(Pair::two_sum(quotient, missing / one))
}

/// The logarithm of its sum.
fn log_of_sum(z: [f32; 4], sink: f32) -> f32 {
    let whole = partial_of(z, sink, false);
    let max = whole.max;
    let one = Full::exp(max, Reference::of_max(max));
    let log = if max.abs() < 1.0 && whole.sum.hi < core::f32::consts::E * one {
        log_of_relative_sum(partial_of(z, sink, true), true)
    } else {
        log_of_relative_sum(whole, false)
    };
    let sum = Pair::two_sum(max, log.hi);
    sum.hi + (sum.lo + log.lo)
}

/// The logarithms of its softmax.
fn logs_of(z: [f32; 4], sink: f32) -> [f32; 4] {
    let whole = partial_of(z, sink, false);
    let log = log_of_relative_sum(whole, false);
    z.map(|z| {
        let below = Pair::two_sum(z, -whole.max);
        let result = Pair::two_sum(below.hi, -log.hi);
        result.hi + (result.lo + (below.lo - log.lo))
    })
}

/// Four keys whose sum is e times the exponential of their maximum, to the bit.
fn keys_of_sum_e(random: &mut Random) -> [f32; 4] {
    loop {
        let max = random.between(-0.9, 0.9) as f32;
        let reference = Reference::of_max(max);
        let one = Full::exp(max, reference);
        let sum = core::f32::consts::E * one;
        let [b, c] = [0; 2].map(|_| max - random.between(0.2, 0.6) as f32);
        let three = [max, b, c].map(|z| Pair::cut(Full::exp(z, reference)).hi);
        let left = sum - three.iter().sum::<f32>();
        let keys = [max, b, c, max + (left / one).ln()];
        if partial_of(keys, f32::NEG_INFINITY, false).sum.hi == sum {
            return keys;
        }
    }
}

/// Exactly where the maximum is below 1 and the sum below e times its exponential: there alone exponentials and their
/// rests are summed, sinks' too. Anywhere else that is a waste, and there their sums are not near enough.
#[test]
fn small_logarithms_of_sums_have_the_rests_of_exponentials_in_them() {
    let mut random = Random::new(12);
    let rows = 400;
    let mut keys = Vec::new();
    for row in 0..rows {
        let top = match row % 8 {
            0 => 1.0,
            1 => -1.0,
            2 => 1.0f32.next_down(),
            _ => {
                let magnitude = random.between(-6.0, 2.0).exp2();
                (magnitude * random.between(-1.0, 1.0)) as f32
            }
        };
        let spread = random.between(0.0, 3.0);
        keys.extend([0; 4].map(|_| top - (spread * random.between(0.0, 1.0)) as f32));
        keys[4 * row] = top;
        if row % 8 == 3 {
            keys[4 * row..].copy_from_slice(&keys_of_sum_e(&mut random));
        }
    }
    let mut scores = f32s(Numbers::new(&[1, rows, 1, 4], |i| keys[i]));
    let sinks: Vec<f32> = (0..rows)
        .map(|row| match row % 3 {
            _ if row % 8 == 3 => f32::NEG_INFINITY,
            0 => f32::NEG_INFINITY,
            1 => keys[4 * row] - random.between(0.0, 3.0) as f32,
            _ => keys[4 * row] + random.between(0.0, 0.5) as f32,
        })
        .collect();
    scores.sinks = Some(Numbers::new(&[rows], |row| sinks[row]));
    let device = Device::emulator();
    let given = scores.run(&device, None, Asked::Both).unwrap().unwrap();
    scores
        .compare(Asked::Both, &given)
        .unwrap_or_else(|what| panic!("{what}"));
    for (row, z) in keys.as_chunks().0.iter().enumerate() {
        let (got, expected) = (f32::from_bits(given.sums[row]), log_of_sum(*z, sinks[row]));
        assert_eq!(got, expected, "of {z:?} and the sink {}", sinks[row]);
    }
    let logs = scores.run(&device, None, Asked::Log).unwrap().unwrap();
    for (row, (z, got)) in keys
        .as_chunks()
        .0
        .iter()
        .zip(self::rows(&logs).chunks(4))
        .enumerate()
    {
        assert_eq!(
            got,
            logs_of(*z, sinks[row]),
            "of {z:?} and the sink {}",
            sinks[row]
        );
    }
}

#[test]
fn any_masks_of_any_scores_by_any_way() {
    property("attention", any::<u64>(), |seed| {
        let (scores, asked) = any_scores(seed);
        check(&scores, asked).map(|_| ())
    });
}

/// One mask at a time, at both sides of every length at which the plan changes its mind, longest rows included.
#[test]
fn every_kind_of_mask_at_both_sides_of_every_threshold() {
    for keys in [1000, 1023, 1024, 1025, 1026, 16_384, 16_385, 32_768, 32_776] {
        for kind in 0..7 {
            let mut random = Random::new(keys as u64 + kind);
            let types = PAIRS[(keys + kind as usize) % PAIRS.len()];
            let shape = [2, 1, keys];
            let x = contents(&shape, Content::Normal { sigma: 2.0 }, &mut random);
            let mut scores = Scores::new(types, x);
            match kind {
                0 => {
                    let bias = Numbers::new(&[1, keys], |_| random.below(8) as f32 - 4.0);
                    scores.bias = Some((DType::BF16, bias));
                }
                1 => scores.keep = Some(Numbers::new(&[2, 1, keys], |i| (i % 5 != 0) as u8)),
                2 => scores.hide = Some(Numbers::new(&[keys], |i| i + 1 == keys)),
                3 => scores.causal = Some(Align::TopLeft),
                4 => scores.window = Some((keys / 2, 0, Align::BottomRight)),
                5 => scores.lengths = Some(Numbers::new(&[2], |b| [keys as u32 - 1, 1][b])),
                _ => scores.slopes = Some((Numbers::new(&[2], |h| h as f32), Align::BottomRight)),
            }
            let asked = Asked::ALL[kind as usize % 4];
            check(&scores, asked).unwrap_or_else(|what| panic!("{what}"));
        }
    }
}

fn f32s(x: Numbers<f32>) -> Scores {
    Scores::new((DType::F32, DType::F32), x)
}

fn rows(given: &Given) -> Vec<f32> {
    given
        .rows
        .iter()
        .map(|&bits| f32::from_bits(bits))
        .collect()
}

/// The number of keys that each query sees.
fn seen(queries: usize, keys: usize, align: Align) -> Vec<usize> {
    let mut scores = f32s(Numbers::new(&[queries, keys], |_| 0.5));
    scores.causal = Some(align);
    let given = expect(&scores, Asked::Softmax);
    let rows = rows(&given);
    rows.chunks(keys)
        .map(|row| row.iter().filter(|&&y| y > 0.0).count())
        .collect()
}

#[test]
fn causality_is_aligned_as_it_is_named() {
    assert_eq!(seen(1, 5, Align::BottomRight), [5]);
    assert_eq!(seen(1, 5, Align::TopLeft), [1]);
    assert_eq!(seen(2, 3, Align::BottomRight), [2, 3]);
    assert_eq!(seen(3, 2, Align::BottomRight), [0, 1, 2]);
    assert_eq!(seen(3, 2, Align::TopLeft), [1, 2, 2]);
}

/// Masks whose content differs along each of their dimensions, all of which differ.
#[test]
fn masks_of_every_shape_stand_for_what_they_are_broadcast_to() {
    let shape = [2, 3, 4, 5];
    for mask in [
        vec![2, 1, 1, 5],
        vec![1, 3, 1, 5],
        vec![1, 1, 4, 5],
        vec![2, 1, 4, 5],
        vec![1, 1, 1, 5],
        vec![2, 3, 4, 1],
        vec![4, 5],
        vec![5],
        vec![1],
        vec![],
    ] {
        let mut random = Random::new(1);
        let x = contents(&shape, Content::Normal { sigma: 1.0 }, &mut random);
        let mut scores = f32s(x);
        scores.bias = Some((
            DType::F32,
            Numbers::new(&mask, |i| (i * 7 % 11) as f32 * 0.5),
        ));
        scores.keep = Some(Numbers::new(&mask, |i| (i % 4 != 1) as u8));
        expect(&scores, Asked::Both);
    }
}

#[test]
fn a_stride_that_nobody_follows_changes_nothing() {
    let device = Device::emulator();
    let x = device.tensor_from(&[0.5f32; 64], [1, 64]).unwrap();
    let bias = device.tensor_from(&[1.0f32; 64], [64]).unwrap();
    let softmax = Softmax::new();
    let expected = softmax.masked().additive(&bias).plan(&x).unwrap();
    let first = core::ptr::with_exposed_provenance(bias.address() as usize);
    for stride in [0, 64, 65, 1 << 40, usize::MAX] {
        // SAFETY: live: the tensor is borrowed as long; unwritten: nobody writes it.
        let row = unsafe { TensorView::<f32>::from_raw(&device, first, 64, [1, 64], [stride, 1]) };
        let masked = softmax.masked().additive(row.unwrap());
        assert_eq!(masked.plan(&x).unwrap(), expected, "{stride}");
        assert_eq!(
            masked.forward(&x).unwrap().to_vec().unwrap(),
            [1.0 / 64.0; 64]
        );
    }
}

/// Additive masks of every type, over scores of every type, with both boolean masks, where all move in whole vectors and where
/// they do not.
#[test]
fn all_masks_at_once_over_every_pair_of_types() {
    for types in pairs() {
        for mask in DType::ALL {
            for (keys, gaps) in [
                (72, (0, 0)),
                (72, (2, 3)),
                (72, (4, 1)),
                (71, (0, 0)),
                (1040, (0, 0)),
            ] {
                let mut random = Random::new(keys as u64);
                let x = contents(&[2, keys], Content::Normal { sigma: 2.0 }, &mut random);
                let mut scores = Scores::new(types, x);
                scores.gaps = gaps;
                let bias = Numbers::new(&[2, keys], |_| random.below(9) as f32 - 4.0);
                scores.bias = Some((mask, bias));
                scores.keep = Some(Numbers::new(&[keys], |_| (random.below(3) * 7) as u8));
                scores.hide = Some(Numbers::new(&[2, keys], |_| random.below(4) == 0));
                for asked in [Asked::Softmax, Asked::Both] {
                    expect(&scores, asked);
                }
            }
        }
    }
}

/// Wherever a mask begins, and however far apart its keys are.
#[test]
fn masks_that_lie_anywhere_are_the_same_masks() {
    let device = Device::emulator();
    let keys = 64;
    let mut random = Random::new(14);
    let values: Vec<bf16> = (0..keys)
        .map(|_| bf16::from_f32(random.normal() as f32))
        .collect();
    let bias: Vec<f32> = (0..keys).map(|_| random.normal() as f32).collect();
    let keep: Vec<bool> = (0..keys).map(|_| random.below(3) > 0).collect();
    let x = device.tensor_from(&values, [1, keys]).unwrap();
    let y = |bias: TensorView<'_, f32>, keep: TensorView<'_, bool>| {
        let masked = Softmax::new().masked().additive(bias).keep(keep);
        masked.forward(&x).unwrap().to_vec().unwrap()
    };
    let added = device.tensor_from(&bias, [1, keys]).unwrap();
    let kept = device.tensor_from(&keep, [1, keys]).unwrap();
    let expected = y(added.view(), kept.view());
    for step in [1, 2, 3] {
        // Up to where every remainder of an address by 16 and by 17 has been, from the same address on.
        const OFFSETS: usize = 68;
        let extent = (keys - 1) * step + 1;
        let mut biases = device.zeros::<f32>([OFFSETS + extent]).unwrap();
        let mut keeps = device.zeros::<bool>([OFFSETS + extent]).unwrap();
        for offset in 0..OFFSETS {
            let mut added = vec![f32::NAN; OFFSETS + extent];
            let mut kept = vec![true; OFFSETS + extent];
            for key in 0..keys {
                added[offset + key * step] = bias[key];
                kept[offset + key * step] = keep[key];
            }
            biases.copy_from(&added).unwrap();
            keeps.copy_from(&kept).unwrap();
            let at = |address: u64, bytes| {
                core::ptr::with_exposed_provenance::<u8>(address as usize + offset * bytes)
            };
            let (shape, strides) = ([1, keys], [extent, step]);
            // SAFETY: live: the tensors are borrowed as long; unwritten: nobody writes them.
            let (bias, keep) = unsafe {
                (
                    TensorView::<f32>::from_raw(
                        &device,
                        at(biases.address(), 4).cast(),
                        extent,
                        shape,
                        strides,
                    ),
                    TensorView::<bool>::from_raw(
                        &device,
                        at(keeps.address(), 1).cast(),
                        extent,
                        shape,
                        strides,
                    ),
                )
            };
            assert_eq!(
                y(bias.unwrap(), keep.unwrap()),
                expected,
                "{offset}, {step}"
            );
        }
    }
}

/// Also where it is less the maximum, with scores too large for exponentials, and where it is 0, which is not none.
#[test]
fn a_sink_counts_as_a_key_whatever_its_size() {
    for size in [0.0f32, 3.0, -100_000.0, 1e6, 3e9] {
        let mut scores = f32s(Numbers::new(&[1, 1, 1, 4], |_| size));
        scores.sinks = Some(Numbers::new(&[1], |_| size));
        assert_eq!(rows(&expect(&scores, Asked::Softmax)), [0.2; 4], "{size}");
    }
}

#[test]
fn a_sink_that_is_nan_is_none_or_makes_its_rows_nan() {
    for nan_policy in [NanPolicy::Ignore, NanPolicy::Propagate] {
        let mut scores = f32s(Numbers::new(&[1, 2, 1, 3], |key| key as f32));
        scores.op.nan_policy = nan_policy;
        scores.sinks = Some(Numbers::new(&[2], |head| [f32::NAN, 1.0][head]));
        for asked in Asked::ALL {
            let given = expect(&scores, asked);
            if asked == Asked::Softmax {
                let is_nan = rows(&given).iter().map(|y| y.is_nan()).collect::<Vec<_>>();
                let first = nan_policy == NanPolicy::Propagate;
                assert_eq!(is_nan, [first, first, first, false, false, false]);
            }
        }
    }
}

#[test]
fn what_is_hidden_may_hold_anything() {
    let mut random = Random::new(3);
    for keys in [40, 1500] {
        let x = contents(&[2, 4, keys], Content::Normal { sigma: 1.0 }, &mut random);
        let mut scores = f32s(x.clone());
        scores.lengths = Some(Numbers::new(&[2], |b| [keys as u32 / 2, 7][b]));
        let clean = expect(&scores, Asked::Both);
        let mut dirty = x;
        for (i, x) in dirty.values.iter_mut().enumerate() {
            let (batch, key) = (i / (4 * keys), i % keys);
            if key >= [keys / 2, 7][batch] {
                *x = [f32::NAN, f32::INFINITY][i % 2];
            }
        }
        scores.x = dirty;
        assert_eq!(expect(&scores, Asked::Both), clean);
    }
}

/// The emulator knows of no memory beside the vectors that a key is seen of, of scores or masks: reading there would be a
/// fault. Nor do blocks past the last row do anything.
#[test]
fn what_is_not_seen_is_not_read() {
    for (way, cols, warps, shared_bytes) in [
        ("warp", 500u32, 1, 4096),
        ("block", 1000, 1, 4096 + 16),
        ("block", 5000, 5, 5 * (4096 + 16)),
        ("block_log", 5000, 5, 5 * (4096 + 32)),
        ("block_log", 5001, 5, 5 * (4096 + 32)),
        ("stream_log", 5000, 16, 16 * 4096 + 512),
    ] {
        // Where a vector begins or ends, and where none does.
        for (begin, end) in [
            (0, 101),
            (128, 259),
            (130, 260),
            (253, 257),
            (cols - 101, cols),
            (cols - 1, cols),
            // Nothing at all.
            (130, 130),
            (131, 131),
        ] {
            is_not_read(way, cols, warps, shared_bytes, begin..end);
        }
    }
}

fn is_not_read(way: &str, cols: u32, warps: u32, shared_bytes: u32, seen: Range<u32>) {
    let name = format!("attention_{way}_f32_f32");
    let kernel = REGISTRY.iter().find(|kernel| kernel.name == name).unwrap();
    let count = cols as usize;
    // Aligned as vectors are.
    let (x, bias) = (
        vec![[0.5f32; 4]; count.div_ceil(4)],
        vec![[0.0f32; 4]; count.div_ceil(4)],
    );
    let keep = vec![[1u8; 16]; count.div_ceil(16)];
    let mut y = vec![7.0f32; count];
    // Whole vectors, where those are read at once.
    let vector = if cols.is_multiple_of(4) { 4 } else { 1 };
    let first = u64::from(seen.start / vector * vector);
    let after = u64::from(seen.end.next_multiple_of(vector));
    let part = |address: usize, size: u64| Buffer {
        address: address as u64 + first * size,
        bytes: if seen.is_empty() {
            0
        } else {
            (after - first) * size
        },
        writable: false,
    };
    let (x_address, bias_address, keep_address, y_address) = (
        x.as_ptr().expose_provenance(),
        bias.as_ptr().expose_provenance(),
        keep.as_ptr().expose_provenance(),
        y.as_mut_ptr().expose_provenance(),
    );
    let scores = KernelScores {
        reach: Reach {
            begin: seen.start as i32,
            end: seen.end as i32,
        },
        bias: Bias::F32,
        bias_step: 1,
        has: KernelScores::KEEP,
        keep_step: 1,
        ..KernelScores::default()
    };
    // A block too many would be at a second row, for which there is no memory.
    let layout = RowLayout::new(&[(2, 1 << 20, 1 << 20)]);
    let (rows, options, none) = (1u32, Options::default(), 0u64);
    let mut parameters = vec![
        pointer(&x_address),
        pointer(&y_address),
        pointer(&rows),
        pointer(&cols),
        pointer(&options),
        pointer(&layout),
        pointer(&bias_address),
        pointer(&keep_address),
    ];
    parameters.extend([pointer(&none); 5]);
    parameters.push(pointer(&scores));
    let shape = Launch {
        grid: if way.starts_with("stream") { 1 } else { 2 },
        block: 32 * warps,
        cluster: 1,
        shared_bytes,
        buffers: &[
            part(x_address, 4),
            part(bias_address, 4),
            part(keep_address, 1),
            Buffer {
                address: y_address as u64,
                bytes: 4 * u64::from(cols),
                writable: true,
            },
        ],
    };
    // SAFETY: parameters: of the types that all entries of attention have; buffers: all live; contract: but for
    // what must not be read, the rows are the buffers'.
    let outcome = unsafe { launch(kernel, &shape, &parameters) };
    outcome.unwrap_or_else(|fault| panic!("{way}, {cols}, {seen:?}: {fault}"));
    let expected = 1.0 / seen.len() as f32;
    for (key, y) in (0..cols).zip(y) {
        let expected = if seen.contains(&key) { expected } else { 0.0 };
        assert!(
            (y - expected).abs() <= 1e-7 * expected,
            "{way}, {cols}, {seen:?}: {y} at {key}"
        );
    }
}

/// What differs from one head of a query to the next, besides scores and sinks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ByHead {
    Nothing,
    BooleanMasks,
    AdditiveMask,
    Lengths,
    /// The query's number, by so much, and with it what causality leaves, and distances.
    Query(u64),
    Slopes,
}

const BY_HEADS: [ByHead; 7] = [
    ByHead::Nothing,
    ByHead::BooleanMasks,
    ByHead::AdditiveMask,
    ByHead::Lengths,
    ByHead::Query(1),
    ByHead::Query(7),
    ByHead::Slopes,
];

/// A block that walks rows gives each the bits that it has alone: whatever changes from one to the next, and whether or not the
/// next has the same row of the additive mask. Rows too large for exponentials go round twice.
#[track_caller]
fn walked_as_alone(name: &str, keys: u32, by_heads: &[ByHead]) {
    let kernel = REGISTRY.iter().find(|kernel| kernel.name == name).unwrap();
    for &by_head in by_heads {
        for large in [None, Some(2), Some(7)] {
            let alone = bits_of_walk(kernel, keys, 1, by_head, large);
            for rows in [2, 3, 8] {
                assert!(
                    bits_of_walk(kernel, keys, rows, by_head, large) == alone,
                    "{name}, {keys} keys, {by_head:?}, {rows} rows a block, row {large:?} large"
                );
            }
        }
    }
}

#[test]
fn pairs_of_rows_are_as_if_alone() {
    walked_as_alone("attention_warp_f32_f32", 68, &BY_HEADS[..6]);
    walked_as_alone("attention_warp_bf16_bf16", 264, &BY_HEADS[..6]);
}

#[test]
fn rows_that_a_warp_walks_are_as_if_alone() {
    walked_as_alone("attention_block_bf16_bf16", 72, &BY_HEADS[..6]);
    walked_as_alone("attention_block_any_bf16_bf16", 37, &BY_HEADS);
    walked_as_alone("attention_block_log_f32_f32", 37, &BY_HEADS);
}

#[test]
fn rows_that_a_block_walks_are_as_if_alone() {
    walked_as_alone("attention_block_bf16_bf16", 1032, &BY_HEADS[..2]);
    walked_as_alone("attention_block_any_bf16_bf16", 1027, &BY_HEADS[..1]);
}

#[test]
fn rows_that_any_kernel_walks_are_as_if_alone() {
    let mut walked = 0;
    for kernel in REGISTRY {
        let Some(name) = kernel.name.strip_prefix("attention_") else {
            continue;
        };
        let bytes = if name.contains("f32_") { 4 } else { 2 };
        let only_masks = !name.contains("_any_") && !name.contains("_log_");
        let walks = name.starts_with("block_") && block_walks(bytes, only_masks);
        if walks || name.starts_with("warp_") {
            let rows = |rows| bits_of_walk(kernel, 8, rows, ByHead::BooleanMasks, None);
            assert!(rows(3) == rows(1), "{name}");
            walked += 1;
        }
    }
    assert!(walked > 20);
}

/// Vectors of `values` as elements of a type.
fn vectors(dtype: &str, values: impl Iterator<Item = f32>) -> Vec<[u64; 2]> {
    let bytes: Vec<u8> = values
        .flat_map(|value| match dtype {
            "f32" => value.to_le_bytes().to_vec(),
            "f16" => f16::from_f32(value).to_le_bytes().to_vec(),
            _ => bf16::from_f32(value).to_le_bytes().to_vec(),
        })
        .collect();
    bytes
        .chunks(16)
        .map(|bytes| {
            let mut vector = [0; 16];
            vector[..bytes.len()].copy_from_slice(bytes);
            let vector = u128::from_le_bytes(vector);
            [vector as u64, (vector >> 64) as u64]
        })
        .collect()
}

/// Results and logarithms of sums of 2 batches of 4 queries of 3 heads, `rows` to a block; the scores of row `large` are large.
fn bits_of_walk(
    kernel: &Kernel,
    keys: u32,
    rows: u32,
    by_head: ByHead,
    large: Option<usize>,
) -> (Vec<[u64; 2]>, Vec<u32>) {
    const BATCHES: u64 = 2;
    const QUERIES: u64 = 4;
    const HEADS: u64 = 3;
    const COUNT: usize = (BATCHES * QUERIES * HEADS) as usize;
    let name = kernel.name;
    let mut types = name.rsplit('_');
    let (output, input) = (types.next().unwrap(), types.next().unwrap());
    let (logs, any) = (name.contains("_log_"), name.contains("_any_"));
    let (cols, row) = (keys as usize, u64::from(keys));
    let mut random = Random::new(row);
    let mut between = |low: f64, high: f64| random.between(low, high) as f32;

    let x: Vec<f32> = (0..COUNT * cols)
        .map(|i| {
            // No f16 is large enough to go round twice.
            let is_large = large == Some(i / cols) && input != "f16";
            between(-3.0, 3.0) * if is_large { 1e6 } else { 1.0 }
        })
        .collect();
    let x = vectors(input, x.into_iter());
    let bias: Vec<f32> = (0..COUNT * cols).map(|_| between(-2.0, 2.0)).collect();
    let bias = vectors(input, bias.into_iter());
    let mut mask = |hidden: u8, seen: u8| -> Vec<[u8; 16]> {
        let mut byte = || {
            if between(0.0, 8.0) < 1.0 {
                hidden
            } else {
                seen
            }
        };
        (0..(COUNT * cols).div_ceil(16))
            .map(|_| core::array::from_fn(|_| byte()))
            .collect()
    };
    let (keep, hide) = (mask(0, 1), mask(3, 0));
    let lengths: Vec<u32> = (0..10).map(|i| keys - i * keys / 16).collect();
    let (slopes, sinks) = ([0.5f32, 0.25, 0.125], [0.5f32, f32::NEG_INFINITY, 2.0]);
    let size = if output == "f32" { 4 } else { 2 };
    let mut y = vec![[0u64; 2]; (COUNT * cols * size).div_ceil(16)];
    let mut sums = vec![0.0f32; COUNT];

    // Of heads, queries, batches.
    let mut strides = [
        Strides {
            sum: QUERIES,
            sinks: 1,
            ..Strides::default()
        },
        Strides {
            bias: row,
            keep: row,
            hide: row,
            sum: 1,
            lengths: 1,
            query: 5,
            ..Strides::default()
        },
        Strides {
            bias: QUERIES * row,
            keep: QUERIES * row,
            hide: QUERIES * row,
            sum: HEADS * QUERIES,
            lengths: QUERIES,
            ..Strides::default()
        },
    ];
    let far = BATCHES * QUERIES * row;
    match by_head {
        ByHead::Nothing => {}
        ByHead::BooleanMasks => (strides[0].keep, strides[0].hide) = (far, far),
        // And all else by neither head nor query.
        ByHead::AdditiveMask => {
            strides[0].bias = far;
            (strides[1].bias, strides[1].lengths, strides[1].query) = (0, 0, 0);
        }
        // And not by the query.
        ByHead::Lengths => (strides[0].lengths, strides[1].lengths) = (1, 0),
        ByHead::Query(by) => strides[0].query = by,
        ByHead::Slopes => strides[0].slopes = 1,
    }
    let mut has =
        KernelScores::KEEP | KernelScores::HIDE | KernelScores::LENGTHS | KernelScores::SINKS;
    if by_head == ByHead::Slopes || logs || any {
        has |= KernelScores::SLOPES;
    }
    let mut scores = KernelScores {
        bias: match input {
            "f32" => Bias::F32,
            "f16" => Bias::F16,
            _ => Bias::Bf16,
        },
        bias_step: 1,
        has,
        keep_step: 1,
        hide_step: 1,
        reach: Reach {
            begin: i32::MIN,
            end: keys as i32 - 13,
        },
        sum: if logs { Sum::F32 } else { Sum::None },
        ..KernelScores::default()
    };
    scores.strides[..3].copy_from_slice(&strides);
    let layout = RowLayout::new(&[
        (BATCHES as u32, HEADS * QUERIES * row, HEADS * QUERIES * row),
        (QUERIES as u32, row, row),
        (HEADS as u32, QUERIES * row, QUERIES * row),
    ])
    .walked_in(rows);
    let (count, options) = (COUNT as u32, Options::default());
    let buffer = |address: *const u8, bytes: usize, writable: bool| Buffer {
        address: address.expose_provenance() as u64,
        bytes: bytes as u64,
        writable,
    };
    let buffers = [
        buffer(x.as_ptr().cast(), size_of_val(&*x), false),
        buffer(y.as_mut_ptr().cast::<u8>(), size_of_val(&*y), true),
        buffer(bias.as_ptr().cast(), size_of_val(&*bias), false),
        buffer(keep.as_ptr().cast(), size_of_val(&*keep), false),
        buffer(hide.as_ptr().cast(), size_of_val(&*hide), false),
        buffer(lengths.as_ptr().cast(), size_of_val(&*lengths), false),
        buffer(slopes.as_ptr().cast(), size_of_val(&slopes), false),
        buffer(sinks.as_ptr().cast(), size_of_val(&sinks), false),
        buffer(sums.as_mut_ptr().cast::<u8>(), size_of_val(&*sums), true),
    ];
    let [x_at, y_at, others @ ..] = buffers.each_ref().map(|buffer| pointer(&buffer.address));
    let mut parameters = vec![
        x_at,
        y_at,
        pointer(&count),
        pointer(&keys),
        pointer(&options),
        pointer(&layout),
    ];
    parameters.extend(others);
    parameters.push(pointer(&scores));
    let warps = keys.div_ceil(1024);
    let exchange = if name.starts_with("attention_warp") {
        Alone::bytes(warps)
    } else {
        BlockInTurns::bytes(warps)
    };
    let shape = Launch {
        grid: count.div_ceil(rows),
        block: 32 * warps,
        cluster: 1,
        shared_bytes: attention::shared_bytes(exchange, warps),
        buffers: &buffers,
    };
    // SAFETY: parameters: of the types that all entries of attention have; buffers: all live; contract: strides lead to the
    // buffers' elements.
    let outcome = unsafe { launch(kernel, &shape, &parameters) };
    outcome
        .unwrap_or_else(|fault| panic!("{name}, {keys} keys, {by_head:?}, {rows} rows: {fault}"));
    (y, sums.iter().map(|sum| sum.to_bits()).collect())
}

/// Scale, then cap, then mask.
#[test]
fn the_order_is_scale_cap_bias() {
    let mut scores = f32s(Numbers::new(&[3], |i| i as f32 + 1.0));
    scores.op.scale = 0.5;
    scores.cap = Some(2.0);
    scores.bias = Some((DType::F32, Numbers::new(&[3], |i| [-3.0, 0.0, 0.5][i])));
    let z = [0.25f64, 0.5, 0.75].map(|q| 2.0 * q.tanh());
    let z = [z[0] - 3.0, z[1], z[2] + 0.5];
    let sum: f64 = z.iter().map(|z| z.exp()).sum();
    for (got, z) in rows(&expect(&scores, Asked::Softmax)).into_iter().zip(z) {
        assert!((f64::from(got) - z.exp() / sum).abs() < 1e-6);
    }
}

#[test]
fn masks_of_the_lowest_halves_are_added_in_f32() {
    let mut scores = Scores::new(
        (DType::F16, DType::F32),
        Numbers::new(&[1, 4], |i| -20.0 - i as f32),
    );
    scores.bias = Some((DType::F16, Numbers::new(&[4], |_| -65_504.0)));
    let expected = [0.643_91, 0.236_88, 0.087_14, 0.032_06];
    for (got, expected) in rows(&expect(&scores, Asked::Softmax))
        .into_iter()
        .zip(expected)
    {
        assert!((got - expected).abs() < 2e-3, "{got} for {expected}");
    }
}

#[test]
fn a_row_with_nothing_left_follows_the_policy_and_its_neighbour_does_not() {
    for (policy, softmax, log) in [
        (FullyMasked::Zero, 0.0, f32::NEG_INFINITY),
        (FullyMasked::Uniform, 0.25, -1.386_294_4),
        (FullyMasked::Nan, f32::NAN, f32::NAN),
    ] {
        let mut scores = f32s(Numbers::new(&[2, 4], |i| i as f32));
        scores.keep = Some(Numbers::new(&[2, 1], |i| i as u8));
        scores.op.fully_masked = policy;
        let same = |a: f32, b: f32| a == b || (a.is_nan() && b.is_nan());
        let given = expect(&scores, Asked::Softmax);
        assert!(
            rows(&given)[..4].iter().all(|&y| same(y, softmax)),
            "{given:?}"
        );
        let given = expect(&scores, Asked::Log);
        assert!(rows(&given)[..4].iter().all(|&y| same(y, log)), "{given:?}");
        let given = expect(&scores, Asked::Both);
        assert_eq!(f32::from_bits(given.sums[0]), f32::NEG_INFINITY);
        assert!(rows(&given)[4..].iter().all(|&y| y > 0.0));
    }
}

#[test]
fn of_infinity_and_of_nan_everything_is_nan() {
    for output in DType::ALL {
        for value in [f32::INFINITY, f32::NAN] {
            for keys in [2, 8, 1500] {
                let x = Numbers::new(&[keys], |key| [0.5, value][key % 2]);
                let scores = Scores::new((DType::F32, output), x);
                for asked in Asked::ALL {
                    let Given { rows, sums } = expect(&scores, asked);
                    let of_sums = if asked == Asked::Both {
                        DType::F32
                    } else {
                        output
                    };
                    let is_nan = |dtype: DType, all: &[u32]| {
                        all.iter().all(|&bits| bits == dtype.canonical_nan())
                    };
                    assert!(is_nan(output, &rows) && is_nan(of_sums, &sums));
                }
            }
        }
    }
}

#[test]
fn single_keys_have_probability_1_and_its_logarithm_is_0() {
    for value in [0.7, -60_000.0, 1e30, -1e-30, 70_000.0, -88.8] {
        let scores = f32s(Numbers::new(&[1], |_| value));
        assert_eq!(rows(&expect(&scores, Asked::Log)), [0.0]);
        let given = expect(&scores, Asked::Both);
        assert_eq!(rows(&given), [1.0]);
        assert_eq!(f32::from_bits(given.sums[0]), value);
    }
}

#[test]
fn a_sink_takes_its_share_and_nothing_else() {
    let mut scores = f32s(Numbers::new(&[1, 2, 1, 3], |_| 1.0));
    scores.sinks = Some(Numbers::new(&[2], |head| [1.0, f32::NEG_INFINITY][head]));
    let rows = rows(&expect(&scores, Asked::Softmax));
    assert_eq!(rows[..3], [0.25; 3]);
    assert_eq!(rows[3..], [1.0 / 3.0; 3]);
    // Alone, it is what is left of the sum.
    scores.keep = Some(Numbers::new(&[1], |_| 0));
    let given = expect(&scores, Asked::Both);
    assert_eq!(given.rows, [0; 6]);
    assert_eq!(
        given
            .sums
            .iter()
            .map(|&bits| f32::from_bits(bits))
            .collect::<Vec<_>>(),
        [1.0, f32::NEG_INFINITY]
    );
}

#[test]
fn masks_that_do_not_fit_are_named_with_both_shapes() {
    let device = Device::emulator();
    let x = device.zeros::<f32>([2, 3, 4, 5]).unwrap();
    let bias = device.zeros::<f32>([2, 4, 5]).unwrap();
    let softmax = Softmax::new().masked();
    let error = softmax.clone().additive(&bias).forward(&x).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the additive mask of shape [2, 4, 5] does not fit scores of shape [2, 3, 4, 5]: counted from the \
         last, each dimension must be that of the scores, 1 or absent"
    );
    let keep = device.zeros::<bool>([4]).unwrap();
    let lengths = device.zeros::<u32>([3]).unwrap();
    let heads = device.zeros::<f32>([2]).unwrap();
    for (operand, masked) in [
        (Operand::KeepMask, softmax.clone().keep(&keep)),
        (Operand::HideMask, softmax.clone().hide(&keep)),
        (Operand::KeyLengths, softmax.clone().key_lengths(&lengths)),
        (
            Operand::AlibiSlopes,
            softmax.clone().alibi(&heads, Align::TopLeft),
        ),
        (Operand::Sinks, softmax.clone().sink(&heads)),
    ] {
        match masked.forward(&x).unwrap_err() {
            Error::OperandShape {
                operand: named,
                scores,
                ..
            } => {
                assert_eq!((named, &scores[..]), (operand, &[2, 3, 4, 5][..]));
            }
            error => panic!("{error}"),
        }
    }
    let mut sums = device.zeros::<f32>([2, 3, 5]).unwrap();
    assert!(matches!(
        softmax.logsumexp_into(&x, &mut sums),
        Err(Error::OperandShape {
            operand: Operand::LogSumExp,
            ..
        })
    ));
    for cap in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-39] {
        let error = softmax.clone().soft_cap(cap).forward(&x).unwrap_err();
        assert!(matches!(error, Error::SoftCap { .. }) && error.is_invalid_request());
    }
}

#[test]
fn no_elements_are_no_error() {
    let device = Device::emulator();
    for shape in [vec![0], vec![3, 0], vec![0, 3], vec![4, 0, 5, 2]] {
        let x = device.zeros::<f32>(&shape).unwrap();
        let softmax = Softmax::new().masked().causal(Align::BottomRight);
        assert_eq!(softmax.forward(&x).unwrap().shape(), shape);
        assert_eq!(softmax.log_softmax(&x).unwrap().shape(), shape);
        let (y, sums) = softmax.forward_with_logsumexp(&x).unwrap();
        assert_eq!(
            (y.shape(), sums.shape()),
            (&shape[..], &shape[..shape.len() - 1])
        );
    }
}

#[test]
fn in_place_is_the_same() {
    let device = Device::emulator();
    let mut random = Random::new(11);
    let x = contents(&[3, 5, 70], Content::Normal { sigma: 3.0 }, &mut random);
    let mut tensor = device.tensor_from(&x.values, &x.shape).unwrap();
    let masked = Softmax::new().scale(0.3).masked().causal(Align::TopLeft);
    let expected = masked.forward(&tensor).unwrap().to_vec().unwrap();
    let logs = masked.log_softmax(&tensor).unwrap().to_vec().unwrap();
    masked.forward_in_place(&mut tensor).unwrap();
    assert_eq!(tensor.to_vec().unwrap(), expected);
    tensor.copy_from(&x.values).unwrap();
    masked.log_softmax_in_place(&mut tensor).unwrap();
    assert_eq!(tensor.to_vec().unwrap(), logs);
}
