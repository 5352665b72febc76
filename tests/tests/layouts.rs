//! Where the rows lie: any rank, any leading strides, views of every kind, memory of somebody else.

use half::f16;
use warp_softmax::{DType, Device, Softmax, Tensor, TensorView, TensorViewMut};
use warp_softmax_tests::backend::{self, Choice};
use warp_softmax_tests::case::{Case, GUARD, Placement};
use warp_softmax_tests::content::Content;
use warp_softmax_tests::format::pairs;
use warp_softmax_tests::property::property;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::runner::Runner;
use warp_softmax_tests::strategy;

const NORMAL: Content = Content::Normal { sigma: 3.0 };

/// Leading dimensions of rank 0 to 5, ones among them.
const LEADS: [&[usize]; 7] = [
    &[],
    &[5],
    &[2, 3],
    &[3, 1, 4],
    &[2, 3, 1, 2],
    &[2, 1, 3, 2, 2],
    &[1, 1, 1, 1, 7],
];

#[test]
fn every_rank_packed_and_in_place() {
    let runner = Runner::new("ranks");
    for types in pairs() {
        for lead in LEADS {
            for cols in [1, 6, 33, 1030] {
                let case = Case::new(types, lead, cols).fill_with(NORMAL, 1);
                let results = runner.check(&case);
                if types.0 == types.1 {
                    assert_eq!(runner.check(&case.in_place()), results);
                }
            }
        }
    }
    runner.finish();
}

/// The same rows laid out otherwise, input and output one at a time, give the same bits.
#[test]
fn permuted_and_gapped_leading_dimensions() {
    let runner = Runner::new("permuted");
    for types in pairs() {
        for lead in LEADS {
            for cols in [5, 64, 1025] {
                let row = |r: usize| NORMAL.row(cols, &mut Random::new(r as u64));
                let packed = runner.check(&Case::new(types, lead, cols).fill(row));
                let mut random = Random::new(lead.len() as u64);
                let (x, y) = (
                    strategy::apart(lead, cols, &mut random),
                    strategy::apart(lead, cols, &mut random),
                );
                let case = || Case::new(types, lead, cols);
                assert_eq!(runner.check(&case().x_at(x.clone()).fill(row)), packed);
                assert_eq!(runner.check(&case().y_at(y.clone()).fill(row)), packed);
                assert_eq!(
                    runner.check(&case().x_at(x.clone()).y_at(y).fill(row)),
                    packed
                );
                if types.0 == types.1 {
                    assert_eq!(runner.check(&case().x_at(x).in_place().fill(row)), packed);
                }
            }
        }
    }
    runner.finish();
}

/// Inputs whose rows are one row, or overlap: stride 0 in each leading dimension, and windows.
#[test]
fn repeated_and_overlapping_inputs() {
    let runner = Runner::new("repeated");
    for types in pairs() {
        for cols in [4, 40, 1500] {
            let lead = [3, 2, 4];
            for strides in [
                [0, 0, 0],
                [0, cols, 2 * cols],
                [cols, 0, 3 * cols],
                [cols, 3 * cols, 0],
                [1, 3, 6],
                [2, 1, 0],
            ] {
                let x = Placement {
                    offset: GUARD + 1,
                    strides: strides.to_vec(),
                };
                runner.check(&Case::new(types, &lead, cols).x_at(x).fill_with(NORMAL, 2));
            }
        }
    }
    runner.finish();
}

/// Five and six leading dimensions that cannot be walked as fewer take several launches.
#[test]
fn more_dimensions_than_one_launch_walks() {
    let runner = Runner::new("many dimensions");
    for types in pairs() {
        for (lead, cols) in [
            (vec![2, 3, 2, 3, 2], 9),
            (vec![2, 2, 2, 2, 2, 2], 5),
            (vec![3, 2, 2, 2, 3], 1100),
        ] {
            // A gap after each dimension, so that no two are one.
            let mut strides = vec![0; lead.len()];
            let mut stride = cols + 1;
            for (slot, extent) in strides.iter_mut().zip(&lead).rev() {
                *slot = stride;
                stride = stride * extent + 3;
            }
            let placement = Placement {
                offset: GUARD,
                strides,
            };
            for case in [
                Case::new(types, &lead, cols).x_at(placement.clone()),
                Case::new(types, &lead, cols).y_at(placement.clone()),
            ] {
                let case = case.fill_with(NORMAL, 3);
                runner.check(&case);
                for backend in runner.backends() {
                    let ran = backend::run(&backend.device, &case, Choice::Default).expect("a run");
                    assert!(ran.plan.launches() > 1, "{}", ran.plan);
                }
            }
        }
    }
    runner.finish();
}

/// Numbers of rows around what a block, or a grid's second dimension, holds.
#[test]
fn row_counts_around_blocks_and_grids() {
    let runner = Runner::new("row counts");
    for types in pairs() {
        for cols in [1, 3, 8, 17, 40, 128] {
            for rows in [1, 2, 3, 5, 31, 33, 127, 129, 257] {
                runner.check(&Case::new(types, &[rows], cols).fill_with(NORMAL, rows as u64));
            }
        }
        for rows in [65_535, 65_536, 98_304] {
            runner.check(&Case::new(types, &[rows], 4).fill_with(NORMAL, rows as u64));
        }
    }
    runner.finish();
}

#[test]
fn zero_size_dimensions_of_every_place() {
    let runner = Runner::new("zero-size");
    for types in pairs() {
        for (lead, cols) in [
            (vec![0], 5),
            (vec![3], 0),
            (vec![2, 0, 3], 5),
            (vec![0, 0], 0),
            (vec![], 0),
        ] {
            let case = Case::new(types, &lead, cols).fill_with(NORMAL, 1);
            assert_eq!(runner.check(&case).rows().count(), 0);
        }
    }
    runner.finish();
}

/// Results in the gaps between the input's rows: one buffer, two tensors that never meet.
#[test]
fn input_and_output_may_lie_between_each_other() {
    for backend in backend::all() {
        let device = &backend.device;
        let (rows, cols) = (6, 40);
        let data: Vec<f32> = NORMAL.row(rows * 2 * cols, &mut Random::new(1));
        let buffer = device.tensor_from(&data, [data.len()]).unwrap();
        let address = buffer.address() as usize;
        let (shape, strides, extent) = ([rows, cols], [2 * cols, 1], (2 * rows - 1) * cols);
        // SAFETY: live: the buffer is, and all its elements are initialised; unwritten, unshared: the
        // two views have no element in common, and nothing else uses the buffer meanwhile.
        let (x, y) = unsafe {
            let first = core::ptr::with_exposed_provenance::<f32>(address);
            let second =
                core::ptr::with_exposed_provenance_mut::<f32>(address + cols * size_of::<f32>());
            (
                TensorView::from_raw(device, first, extent, shape, strides).unwrap(),
                TensorViewMut::from_raw(device, second, extent, shape, strides).unwrap(),
            )
        };
        let expected = Softmax::new().forward(&x).unwrap().to_vec().unwrap();
        Softmax::new().forward_into(&x, y).unwrap();
        let after = buffer.to_vec().unwrap();
        for r in 0..rows {
            let (input, output) = after[2 * r * cols..][..2 * cols].split_at(cols);
            assert_eq!(input, &data[2 * r * cols..][..cols], "row {r} of the input");
            assert_eq!(
                output,
                &expected[r * cols..][..cols],
                "row {r} of the output"
            );
        }
    }
}

fn tensor(device: &Device, shape: &[usize]) -> Tensor<f32> {
    let data = NORMAL.row(shape.iter().product(), &mut Random::new(11));
    device.tensor_from(&data, shape).expect("a tensor")
}

/// The softmax of a view is the softmax of a packed copy of it.
#[track_caller]
fn expect_as_copy(device: &Device, view: &TensorView<'_, f32>) {
    let copy = device
        .tensor_from(&view.to_vec().unwrap(), view.shape())
        .unwrap();
    let expected = Softmax::new().forward(&copy).unwrap();
    let got = Softmax::new().forward(view).unwrap();
    assert_eq!(got.shape(), view.shape());
    assert_eq!(
        got.to_vec().unwrap(),
        expected.to_vec().unwrap(),
        "strides {:?}",
        view.strides()
    );
    let got = Softmax::new()
        .forward_as::<f16>(view)
        .unwrap()
        .to_vec()
        .unwrap();
    let expected = Softmax::new()
        .forward_as::<f16>(&copy)
        .unwrap()
        .to_vec()
        .unwrap();
    assert_eq!(got, expected, "to f16, strides {:?}", view.strides());
}

#[test]
fn slices_permutations_selections_and_broadcasts_of_tensors() {
    for backend in backend::all() {
        let device = &backend.device;
        let x = tensor(device, &[4, 6, 5, 40]);
        let view = x.view();
        for first in 0..9 {
            expect_as_copy(device, &view.slice(3, first..40).unwrap());
            expect_as_copy(device, &view.slice(3, first..first + 17).unwrap());
        }
        expect_as_copy(device, &view.slice(0, 1..3).unwrap().slice(2, 2..).unwrap());
        for order in [[1, 0, 2, 3], [2, 1, 0, 3], [0, 2, 1, 3], [2, 0, 1, 3]] {
            let permuted = view.permute(&order).unwrap();
            expect_as_copy(device, &permuted);
            expect_as_copy(
                device,
                &permuted.slice(1, 1..2).unwrap().slice(3, 3..).unwrap(),
            );
        }
        expect_as_copy(device, &view.select(1, 3).unwrap());
        expect_as_copy(device, &view.select(0, 0).unwrap().select(1, 4).unwrap());
        let row = tensor(device, &[40]);
        expect_as_copy(device, &row.view().broadcast([7, 3, 40]).unwrap());
        let middle = tensor(device, &[2, 1, 40]);
        expect_as_copy(device, &middle.view().broadcast([3, 2, 4, 40]).unwrap());
    }
}

/// Results written through a view of a tensor, the rest of which stays as it was.
#[test]
fn results_go_through_views_of_tensors() {
    for backend in backend::all() {
        let device = &backend.device;
        let x = tensor(device, &[3, 4, 20]);
        let expected = Softmax::new().forward(&x).unwrap().to_vec().unwrap();
        for first in 0..5 {
            // Output [4, 3, 26] of which [4, 3, first..first + 20], with the leading dimensions swapped.
            let mut y = device
                .tensor_from(&[7.0f32; 4 * 3 * 26], [4, 3, 26])
                .unwrap();
            let into = y
                .view_mut()
                .slice(2, first..first + 20)
                .unwrap()
                .permute(&[1, 0, 2])
                .unwrap();
            Softmax::new().forward_into(&x, into).unwrap();
            let y = y.to_vec().unwrap();
            for (i, &y) in y.iter().enumerate() {
                let (b, a, column) = (i / 26 / 3, i / 26 % 3, i % 26);
                let exact = match column.checked_sub(first) {
                    Some(column) if column < 20 => expected[(a * 4 + b) * 20 + column],
                    _ => 7.0,
                };
                assert_eq!(y, exact, "[{b}, {a}, {column}]");
            }
        }
    }
}

/// The emulator's tensors may be anybody's memory, at any address that their elements allow.
#[test]
fn memory_of_the_process_as_the_emulators_tensors() {
    let device = Device::emulator();
    let (rows, cols) = (3, 50);
    let data: Vec<f16> = NORMAL
        .row(rows * cols + 8, &mut Random::new(2))
        .into_iter()
        .map(f16::from_f32)
        .collect();
    for skew in 0..8 {
        let x = &data[skew..][..rows * cols];
        let mut y = vec![0.0f32; rows * cols];
        // SAFETY: live: both are memory of the process, initialised; unwritten, unshared: `y` is borrowed
        // mutably until the results are read.
        let (from, into) = unsafe {
            (
                TensorView::from_raw(&device, x.as_ptr(), x.len(), [rows, cols], [cols, 1])
                    .unwrap(),
                TensorViewMut::from_raw(&device, y.as_mut_ptr(), y.len(), [rows, cols], [cols, 1])
                    .unwrap(),
            )
        };
        Softmax::new().forward_into(&from, into).unwrap();
        let copy = device.tensor_from(x, [rows, cols]).unwrap();
        assert_eq!(
            Softmax::new()
                .forward_as::<f32>(&copy)
                .unwrap()
                .to_vec()
                .unwrap(),
            y,
            "{skew} elements on"
        );
    }
}

/// Drawn calls of many small dimensions, where launches, merges and strides go wrong.
#[test]
fn drawn_layouts() {
    let runner = Runner::new("drawn layouts");
    let lead = proptest::collection::vec(1..4usize, 0..=7);
    property(
        "layouts",
        (strategy::types(), lead, 1..40usize, 0..u64::MAX),
        |(types, lead, cols, seed)| {
            let mut random = Random::new(seed);
            let x = strategy::anywhere(&lead, cols, &mut random);
            let y = strategy::apart(&lead, cols, &mut random);
            let case = Case::new(types, &lead, cols)
                .x_at(x)
                .y_at(y)
                .fill_with(NORMAL, seed);
            runner.try_check(&case).map(drop)
        },
    );
    runner.finish();
}

/// Types are not layouts, but views of each are: a view of any type keeps its elements.
#[test]
fn views_of_every_type_read_back_what_was_written() {
    for backend in backend::all() {
        let device = &backend.device;
        for dtype in DType::ALL {
            let data: Vec<f32> = (0..24).map(|i| i as f32 - 3.0).collect();
            match dtype {
                DType::F32 => read_back(device, &data),
                DType::F16 => read_back(
                    device,
                    &data.into_iter().map(f16::from_f32).collect::<Vec<_>>(),
                ),
                DType::BF16 => read_back(
                    device,
                    &data
                        .into_iter()
                        .map(half::bf16::from_f32)
                        .collect::<Vec<_>>(),
                ),
            }
        }
    }
}

fn read_back<T: warp_softmax::Element>(device: &Device, data: &[T]) {
    let x = device.tensor_from(data, [2, 3, 4]).unwrap();
    assert_eq!(x.to_vec().unwrap(), data);
    let turned = x.view().permute(&[2, 0, 1]).unwrap();
    let expected: Vec<T> = (0..24)
        .map(|i| data[i / 6 + i % 6 / 3 * 12 + i % 3 * 4])
        .collect();
    assert_eq!(turned.to_vec().unwrap(), expected);
}
