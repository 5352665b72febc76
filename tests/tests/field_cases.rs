//! Kinds of fault that softmax kernels have had in the field, each over the whole kind: every way,
//! every type, both sides of the edge. (The runner looks after guards, gaps and the input itself.)

use kernels_gpu::row::RowLayout;
use warp_softmax::{DType, Error, FullyMasked, NanPolicy, Problem, Softmax, Way};
use warp_softmax_tests::backend::{self, Choice, Refused};
use warp_softmax_tests::case::{Case, GUARD, Placement};
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::{Format, pairs, same_types};
use warp_softmax_tests::oracle::{self, Op};
use warp_softmax_tests::random::Random;
use warp_softmax_tests::runner::{Results, Runner};

/// The row has these values, within the tolerance of its type.
#[track_caller]
fn expect(results: &Results, r: usize, dtype: DType, exact: &[f64]) {
    if let Err(what) = oracle::compare(dtype, results.row(r), exact) {
        panic!("row {r}: {what}");
    }
}

/// Row stride ignored (padded vocab): each row over its own values, pad slots neither read nor written.
#[test]
fn row_stride_of_a_padded_vocabulary() {
    let runner = Runner::new("padded rows");
    for types in pairs() {
        for pad in [1e30, f32::NAN] {
            let lead = [3];
            let padded = Placement::padded(&lead, 16, GUARD);
            let case = Case::new(types, &lead, 10).gaps(pad).x_at(padded.clone());
            runner.check(
                &case
                    .clone()
                    .y_at(padded)
                    .fill_with(Content::Normal { sigma: 1.0 }, 1),
            );
            if types.0 == types.1 {
                runner.check(&case.in_place().fill_with(Content::Normal { sigma: 1.0 }, 1));
            }
        }
    }
    // The emulator takes its time over 192 rows of this length; the drift that ignoring the stride
    // would cause is 10 elements a row from the second row on.
    let rows = if runner.backends().len() > 1 { 192 } else { 6 };
    let padded = Placement::padded(&[rows], 100_288, GUARD);
    let case = Case::new((DType::F32, DType::F32), &[rows], 100_278).x_at(padded);
    runner.check(&case.in_place().fill_with(Content::RawLogits, 2));
    runner.finish();
}

/// Unaligned row head / negative remainder: row starts that cycle through all alignments.
#[test]
fn unaligned_row_heads() {
    let runner = Runner::new("row heads");
    let f32s = (DType::F32, DType::F32);
    for cols in (513..1024).step_by(14) {
        let results = runner.check(&Case::new(f32s, &[2], cols).fill(|_| vec![0.0; cols]));
        expect(&results, 1, DType::F32, &vec![1.0 / cols as f64; cols]);
    }
    for (rows, cols) in [(1024, 587), (9, 1017), (5, 517)] {
        runner.check(&Case::new(f32s, &[rows], cols).fill_with(Content::Equal(0.0), 0));
    }
    for types in same_types() {
        // Steps are prime to every alignment.
        for cols in (1..70)
            .chain((70..1024).step_by(17))
            .chain((1024..=4096).step_by(129))
        {
            runner.check(
                &Case::new(types, &[5], cols)
                    .fill_with(Content::Normal { sigma: 2.0 }, cols as u64),
            );
        }
    }
    runner.finish();
}

/// Vector tail on very long odd rows: nothing of a row falls off its end, at any start modulo 16 bytes.
#[test]
fn vector_tails_of_very_long_odd_rows() {
    let runner = Runner::new("long odd rows");
    for types in same_types() {
        let cols = 65_537;
        let case = Case::new(types, &[8], cols);
        let mut random = Random::new(1);
        let results =
            runner.check(&case.fill(|_| (0..cols).map(|_| random.unit() as f32).collect()));
        // Between e^0 / (N e) and e / N, so that the logarithm never is near 0.
        for &bits in results.row(7) {
            let y = types.1.value(bits) * cols as f32;
            assert!((0.3..2.8).contains(&y), "{y} over {cols}");
        }
    }
    runner.finish();
}

/// Mixed alignment between operands: each of the two pointers off by every number of elements alone.
#[test]
fn mixed_alignment_between_operands() {
    let runner = Runner::new("mixed alignment");
    for types in pairs() {
        for cols in [30_522, 4096 + 2, 510] {
            for skew in 1..8 {
                let (aligned, skewed) = (
                    Placement::packed(&[], cols, GUARD),
                    Placement::packed(&[], cols, GUARD + skew),
                );
                let case = Case::new(types, &[], cols);
                let cases = [
                    case.clone().x_at(skewed.clone()).y_at(aligned.clone()),
                    case.x_at(aligned).y_at(skewed),
                ];
                let results = cases
                    .map(|case| runner.check(&case.fill_with(Content::Normal { sigma: 2.0 }, 3)));
                assert_eq!(results[0], results[1]);
            }
        }
    }
    runner.finish();
}

/// 32-bit index overflow (total size): the offsets of rows on both sides of 2^31 and 2^32 elements.
/// (The tensors themselves need a GPU's memory, and have a suite of their own.)
#[test]
fn offsets_beyond_32_bits() {
    for (rows, cols) in [
        (2_097_153, 1024),
        (42_692, 50_304),
        (16_384, 133_120),
        (85_632, 50_259),
        (1_100_000_000, 2),
    ] {
        let (pitch_in, pitch_out) = (cols, cols + 16);
        let layout = RowLayout::new(&[(rows, pitch_in, pitch_out)]);
        let around = |pitch: u64| [1u64 << 31, 1 << 32].map(|edge| edge / pitch);
        let near = around(pitch_in)
            .into_iter()
            .chain(around(pitch_out))
            .flat_map(|row| row.saturating_sub(2)..row + 3);
        for row in near
            .chain([0, 1, u64::from(rows) - 1])
            .filter(|&row| row < u64::from(rows))
        {
            assert_eq!(
                layout.locate(row as u32),
                (row * pitch_in, row * pitch_out),
                "row {row}"
            );
        }
    }
}

/// Finite sentinel instead of -inf: rows below any such number, and one live element far down.
#[test]
fn no_finite_number_stands_for_minus_infinity() {
    let runner = Runner::new("no sentinel");
    for types in pairs() {
        let output = types.1;
        for value in [-5.1e4, -60_000.0, -1e38, -65_504.0] {
            for cols in [2, 31, 1000, 1025, 3000, 40_000] {
                let results =
                    runner.check(&Case::new(types, &[1], cols).fill(|_| vec![value; cols]));
                expect(&results, 0, output, &vec![1.0 / cols as f64; cols]);
            }
            let results = runner.check(&Case::new(types, &[1], 1).fill(|_| vec![value]));
            expect(&results, 0, output, &[1.0]);
            let results =
                runner.check(&Case::new(types, &[1], 2).fill(|_| vec![value, f32::NEG_INFINITY]));
            expect(&results, 0, output, &[1.0, 0.0]);
        }
    }
    runner.finish();
}

/// Fully masked row comes out uniform: zeros by default, NaN on request, the next row unaffected.
#[test]
fn a_row_of_minus_infinity_follows_its_policy() {
    let runner = Runner::new("dead rows");
    for types in pairs() {
        for cols in [4, 1000, 1025, 40_000] {
            let case = |fully_masked| {
                let op = Op {
                    fully_masked,
                    ..Op::default()
                };
                let content = [
                    Content::Equal(f32::NEG_INFINITY),
                    Content::Normal { sigma: 1.0 },
                ];
                let case = Case::new(types, &[2], cols).op(op);
                case.fill(|r| content[r].row(cols, &mut Random::new(1)))
            };
            let zero = runner.check(&case(FullyMasked::Zero));
            let nan = runner.check(&case(FullyMasked::Nan));
            let uniform = runner.check(&case(FullyMasked::Uniform));
            assert!(zero.row(0).iter().all(|&bits| bits == 0));
            assert!(
                nan.row(0)
                    .iter()
                    .all(|&bits| bits == types.1.canonical_nan())
            );
            expect(&uniform, 0, types.1, &vec![1.0 / cols as f64; cols]);
            assert!(zero.row(1) == nan.row(1) && zero.row(1) == uniform.row(1));
        }
    }
    runner.finish();
}

/// Wrong reduction identity: strictly negative rows that do not fill their last tile.
#[test]
fn strictly_negative_rows_of_ragged_length() {
    let runner = Runner::new("negative rows");
    for types in pairs() {
        for cols in (1025..2048).step_by(73).chain([5, 47, 1023, 2047]) {
            for value in [-30.0, -60_000.0] {
                let results =
                    runner.check(&Case::new(types, &[1], cols).fill(|_| vec![value; cols]));
                expect(&results, 0, types.1, &vec![1.0 / cols as f64; cols]);
            }
        }
    }
    runner.finish();
}

/// Missing barrier on reused shared memory: the same bits from launch to launch.
#[test]
fn repeated_launches_give_the_same_bits() {
    let runner = Runner::new("repeated launches");
    for types in same_types() {
        for cols in [15, 16, 1001, 1024, 20_000] {
            // Beyond 2^20 a block goes over its row, and its shared memory, twice.
            for content in [
                Content::Normal { sigma: 3.0 },
                Content::Near { centre: 3e6 },
            ] {
                let case = Case::new(types, &[7], cols).fill_with(content, 1);
                let first = runner.check(&case);
                assert!((0..8).all(|_| runner.check(&case) == first));
            }
        }
    }
    runner.finish();
}

/// Vector width larger than lane share: every length up to one chunk and a bit.
#[test]
fn every_length_up_to_a_chunk() {
    let runner = Runner::new("lengths to 1025");
    for types in same_types() {
        for cols in 1..=1025 {
            runner.check(
                &Case::new(types, &[1], cols)
                    .fill_with(Content::Normal { sigma: 2.0 }, cols as u64),
            );
        }
    }
    runner.finish();
}

/// Inactive lanes in shuffle: rows shorter than the lanes at work on them.
#[test]
fn lanes_without_elements_take_no_part() {
    let runner = Runner::new("inactive lanes");
    for types in pairs() {
        for cols in [1, 2, 3, 17, 31, 32, 33] {
            runner.check(
                &Case::new(types, &[3], cols)
                    .fill(|_| (0..cols).map(|i| -100.0 - i as f32).collect()),
            );
        }
        let results =
            runner.check(&Case::new(types, &[1], 3).fill(|_| vec![-100.0, -101.0, -102.0]));
        let exact = [
            0.665_240_955_774_821_8,
            0.244_728_471_054_797_67,
            0.090_030_573_170_380_46,
        ];
        expect(&results, 0, types.1, &exact);
    }
    runner.finish();
}

/// Long-row path has different maths: every option at a length of every path.
#[test]
fn long_rows_have_the_same_maths() {
    let runner = Runner::new("long rows");
    for types in same_types() {
        for cols in [512, 4096, 131_072] {
            for scale in [1.0, -0.5] {
                for nan_policy in [NanPolicy::Propagate, NanPolicy::Ignore] {
                    let op = Op {
                        scale,
                        nan_policy,
                        ..Op::default()
                    };
                    let results = runner.check(
                        &Case::new(types, &[2], cols)
                            .op(op)
                            .fill(|_| vec![0.0; cols]),
                    );
                    expect(&results, 1, types.1, &vec![1.0 / cols as f64; cols]);
                }
            }
        }
    }
    runner.finish();
}

/// Dead dispatch branch for wide rows: they come out right, and a way made for them did it.
#[test]
fn wide_rows_are_done_by_a_way_for_wide_rows() {
    let runner = Runner::new("wide rows");
    for types in same_types() {
        for cols in [65_536, 65_537, 131_072, 262_144] {
            for rows in [1, 8] {
                let case = Case::new(types, &[rows], cols);
                let problem = Problem::packed(&[rows, cols], types.0, types.1).unwrap();
                for backend in runner.backends() {
                    let plan = Softmax::new().plan_for(&backend.device, &problem).unwrap();
                    assert!(!matches!(plan.way(), Way::Warp | Way::Block), "{plan}");
                }
                if cols * rows <= 300_000 || runner.backends().len() > 1 {
                    runner.check(&case.fill_with(Content::RawLogits, 4));
                }
            }
        }
    }
    runner.finish();
}

/// Low-precision accumulator: sums of equal terms far past where 16-bit sums stop.
#[test]
fn sums_do_not_stop_where_16_bit_sums_do() {
    let runner = Runner::new("accumulators");
    for types in pairs() {
        for cols in [512, 4096, 8192, 65_536] {
            let results = runner.check(&Case::new(types, &[1], cols).fill(|_| vec![1.0; cols]));
            let sum: f64 = results
                .row(0)
                .iter()
                .map(|&bits| f64::from(types.1.value(bits)))
                .sum();
            assert_eq!(sum, 1.0, "{types:?}, {cols}");
        }
    }
    runner.finish();
}

/// Strides ignored: transposed leading dimensions give what the packed copy gives; a transposed last
/// dimension is refused.
#[test]
fn transposed_tensors_are_walked_by_their_strides_or_refused() {
    let runner = Runner::new("transposed");
    for types in pairs() {
        let lead = [8, 9];
        for cols in [5, 32, 1025] {
            let row = |a: usize, b: usize| {
                Content::Normal { sigma: 2.0 }.row(cols, &mut Random::new((a * 9 + b) as u64))
            };
            let packed = runner.check(&Case::new(types, &lead, cols).fill(|r| row(r / 9, r % 9)));
            let transposed = Placement {
                offset: GUARD,
                strides: vec![cols, 8 * cols],
            };
            let case = Case::new(types, &lead, cols).x_at(transposed.clone());
            assert_eq!(runner.check(&case.fill(|r| row(r / 9, r % 9))), packed);
            let case = Case::new(types, &lead, cols).y_at(transposed);
            assert_eq!(runner.check(&case.fill(|r| row(r / 9, r % 9))), packed);
        }
    }
    for backend in runner.backends() {
        let x = backend.device.zeros::<f32>([32, 32]).unwrap();
        let error = Softmax::new()
            .forward(x.view().permute(&[1, 0]).unwrap())
            .unwrap_err();
        assert!(
            matches!(error, Error::LastStride { stride: 32, .. }),
            "{error}"
        );
    }
    runner.finish();
}

/// Non-contiguous output: a strided one gets every element, its gaps nothing. One operand at a time.
#[test]
fn strided_outputs_get_every_element() {
    let runner = Runner::new("strided outputs");
    for types in pairs() {
        for (lead, cols) in [(vec![2], 3), (vec![3, 3], 3), (vec![2, 3], 1025)] {
            let packed = Placement::packed(&lead, cols, GUARD);
            let gaps = Placement::padded(&lead, cols + 7, GUARD);
            let case = Case::new(types, &lead, cols);
            for (x, y) in [(packed.clone(), gaps.clone()), (gaps, packed)] {
                runner.check(
                    &case
                        .clone()
                        .x_at(x)
                        .y_at(y)
                        .fill_with(Content::Normal { sigma: 1.0 }, 5),
                );
            }
        }
    }
    runner.finish();
}

/// Input silently overwritten: unchanged unless the call is in place.
#[test]
fn the_input_is_unchanged() {
    for backend in backend::all() {
        let data: Vec<half::f16> = (0..4 * 64)
            .map(|i| half::f16::from_f32(i as f32 / 17.0))
            .collect();
        let x = backend.device.tensor_from(&data, [4, 64]).unwrap();
        let y = Softmax::new().forward(&x).unwrap();
        assert_eq!(x.to_vec().unwrap(), data);
        assert_ne!(y.to_vec().unwrap(), data);
    }
}

/// Grid limit 65535: every row is written on both sides of it, wherever the rows come from.
#[test]
fn more_rows_than_65535() {
    let runner = Runner::new("many rows");
    for types in same_types() {
        for rows in [65_535, 65_536, 98_304] {
            for cols in [1, 9] {
                runner.check(
                    &Case::new(types, &[rows], cols).fill_with(Content::Normal { sigma: 2.0 }, 6),
                );
            }
        }
        runner.check(
            &Case::new(types, &[1, 2, 65_536], 1).fill_with(Content::Normal { sigma: 2.0 }, 6),
        );
    }
    let case = Case::new((DType::F32, DType::F32), &[(1 << 20) + 1], 2);
    runner.check(&case.fill_with(Content::Normal { sigma: 2.0 }, 6));
    runner.finish();
}

/// Launch maths overflow, many tiny rows: every row of 2^28 and of 2.2e9 is in some launch, and no
/// launch is larger than a grid can be. (They run on a GPU, in a suite of their own.)
#[test]
fn many_tiny_rows_fit_their_launches() {
    for backend in backend::all() {
        for (dtype, rows, cols) in [
            (DType::F32, 1usize << 28, 9),
            (DType::F16, 2_200_000_000, 1),
            (DType::BF16, 5_000_000_000, 2),
        ] {
            let problem = Problem::packed(&[rows, cols], dtype, dtype).unwrap();
            for way in Way::ALL {
                let plan = match Softmax::new()
                    .force_way(way)
                    .plan_for(&backend.device, &problem)
                {
                    // More blocks than a grid has, with several blocks a row.
                    Err(Error::WayNotPossible { .. })
                        if matches!(way, Way::Split | Way::SplitSpread | Way::SplitStaged) =>
                    {
                        continue;
                    }
                    // Rows of other than whole vectors.
                    Err(Error::WayNotPossible { .. })
                        if matches!(
                            way,
                            Way::Block | Way::Spread | Way::Parked | Way::SplitParked
                        ) =>
                    {
                        continue;
                    }
                    plan => plan.unwrap_or_else(|error| panic!("{way}: {error}")),
                };
                let blocks =
                    u128::from(plan.grid() / plan.blocks_per_row()) * u128::from(plan.launches());
                let covered = blocks * u128::from(plan.rows_per_block());
                assert!(plan.grid() <= i32::MAX as u32, "{plan}");
                assert!(covered >= rows as u128, "{plan}");
                assert!(plan.launches() <= rows.div_ceil(1 << 30) as u64, "{plan}");
            }
        }
    }
}

/// Zero-size dims: an empty result of the same shape, no launch, no error.
#[test]
fn zero_size_dimensions_give_empty_results() {
    for backend in backend::all() {
        for shape in [
            vec![0, 2],
            vec![4, 0, 5, 2],
            vec![10, 0],
            vec![0],
            vec![0, 0],
        ] {
            let x = backend.device.zeros::<f32>(&shape[..]).unwrap();
            let y = Softmax::new().forward(&x).unwrap();
            assert_eq!(y.shape(), shape);
            assert!(y.to_vec().unwrap().is_empty());
            let y = Softmax::new().forward_as::<half::bf16>(&x).unwrap();
            assert_eq!(y.shape(), shape);
            let (mut into, mut in_place) = (backend.device.zeros::<f32>(&shape[..]).unwrap(), x);
            Softmax::new().forward_into(&in_place, &mut into).unwrap();
            Softmax::new().forward_in_place(&mut in_place).unwrap();
        }
    }
}

/// Row length 1: 1 for a finite value; -inf, +inf and NaN follow the policies of longer rows.
#[test]
fn rows_of_length_one() {
    let runner = Runner::new("length 1");
    for types in pairs() {
        let values = [0.7, f32::NEG_INFINITY, f32::INFINITY, f32::NAN];
        let results = runner.check(&Case::new(types, &[4], 1).fill(|r| vec![values[r]]));
        let exact = [1.0, 0.0, f64::NAN, f64::NAN];
        for (r, exact) in exact.into_iter().enumerate() {
            expect(&results, r, types.1, &[exact]);
        }
    }
    runner.finish();
}

/// Max not subtracted: scores whose exponentials overflow.
#[test]
fn scores_whose_exponentials_overflow() {
    let runner = Runner::new("large scores");
    for types in pairs() {
        let rows = [
            [151.29, 0.0, -1000.0, f32::NEG_INFINITY],
            [2000.5, 0.0, 3.0, -2000.0],
        ];
        let results = runner.check(&Case::new(types, &[2], 4).fill(|r| rows[r].to_vec()));
        expect(
            &results,
            0,
            types.1,
            &[
                1.0,
                (-f64::from(types.0.value(types.0.bits(151.29)))).exp(),
                0.0,
                0.0,
            ],
        );
        expect(&results, 1, types.1, &[1.0, 0.0, 0.0, 0.0]);
        let results = runner.check(&Case::new(types, &[1], 2).fill(|_| vec![65_504.0, 0.0]));
        expect(&results, 0, types.1, &[1.0, 0.0]);
    }
    runner.finish();
}

/// Rows not multiple of rows per block: rows past the end are neither read nor written.
#[test]
fn rows_that_do_not_fill_their_last_block() {
    let runner = Runner::new("ragged blocks");
    for types in pairs() {
        for rows in [1, 3, 5, 127, 129] {
            for cols in (8..=128).step_by(15) {
                runner.check(
                    &Case::new(types, &[rows], cols).fill_with(Content::Normal { sigma: 2.0 }, 7),
                );
            }
        }
    }
    runner.finish();
}

/// Block kernel on short rows: each way forced on lengths outside its usual range.
#[test]
fn every_way_takes_short_rows() {
    for backend in backend::all() {
        for types in pairs() {
            for cols in [1, 33, 256] {
                let case = Case::new(types, &[3], cols).fill(|_| vec![2.0; cols]);
                for way in Way::ALL {
                    let ran = backend::run(&backend.device, &case, Choice::Forced(way));
                    let ran = match ran {
                        Err(Refused::Way) => {
                            let splits = matches!(
                                way,
                                Way::Split | Way::SplitSpread | Way::SplitParked | Way::SplitStaged
                            );
                            let keeps_type = matches!(way, Way::Parked | Way::SplitParked);
                            let is_for_aligned = keeps_type
                                || matches!(
                                    way,
                                    Way::Block | Way::Spread | Way::Split | Way::SplitSpread
                                );
                            assert!(
                                splits && backend.device.properties().max_cluster_blocks == 1
                                    || keeps_type && types.0 != types.1
                                    || is_for_aligned && cols != 256,
                                "{way} on {cols}"
                            );
                            continue;
                        }
                        ran => ran.unwrap_or_else(|why| panic!("{way} on {cols}: {why:?}")),
                    };
                    assert_eq!(ran.plan.way(), way);
                    for row in ran.bits.chunks(cols) {
                        let checked = oracle::compare(types.1, row, &vec![1.0 / cols as f64; cols]);
                        checked.unwrap_or_else(|what| panic!("{way} on {cols}: {what}"));
                    }
                }
            }
        }
    }
}

/// NaN rows beside real rows: real rows keep their bits, also where several rows share a warp.
#[test]
fn nan_rows_beside_real_rows() {
    let runner = Runner::new("NaN rows");
    for types in pairs() {
        for cols in [1, 2, 8, 33, 128, 1025] {
            let real =
                |r: usize| Content::Normal { sigma: 2.0 }.row(cols, &mut Random::new(r as u64));
            let clean = runner.check(&Case::new(types, &[8], cols).fill(real));
            for (live, spoil) in [
                (1, f32::NAN),
                (4, f32::INFINITY),
                (5, f32::NAN),
                (7, f32::NAN),
            ] {
                let case = Case::new(types, &[8], cols);
                let mixed = runner
                    .check(&case.fill(|r| if r < live { real(r) } else { vec![spoil; cols] }));
                (0..live)
                    .for_each(|r| assert_eq!(clean.every(r), mixed.every(r), "row {r} of {live}"));
            }
        }
    }
    runner.finish();
}

/// Scale/mask order, scale alone: the input is scaled before anything else.
#[test]
fn scale_comes_first() {
    let runner = Runner::new("scale");
    for types in pairs() {
        let op = Op {
            scale: 2.0,
            ..Op::default()
        };
        let results = runner.check(
            &Case::new(types, &[1], 3)
                .op(op)
                .fill(|_| vec![1.0, 2.0, 3.0]),
        );
        let exact = [
            0.015_876_239_976_466_765,
            0.117_310_427_826_198_35,
            0.866_813_332_197_334_8,
        ];
        expect(&results, 0, types.1, &exact);
    }
    runner.finish();
}
