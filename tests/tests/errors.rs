//! Every error of the public interface, on both sides of its edge; and that a refused request has
//! touched nothing.

use half::{bf16, f16};
use warp_softmax::{
    DType, Device, Error, MAX_COLS, Operand, Problem, Softmax, Tensor, TensorView, TensorViewMut,
    Way,
};
use warp_softmax_tests::backend::{self, each_device};

/// The error, which has to be an invalid request whose text names all of `words`.
#[track_caller]
fn invalid<T>(result: Result<T, Error>, words: &[&str]) -> Error {
    let Err(error) = result else {
        panic!("no error; expected one that names {words:?}")
    };
    assert!(
        error.is_invalid_request() && !error.is_unavailable() && !error.is_launch_failure(),
        "{error:?}"
    );
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in `{text}`");
    }
    error
}

macro_rules! assert_matches {
    ($error:expr, $pattern:pat $(if $guard:expr)?) => {
        match $error {
            $pattern $(if $guard)? => {}
            other => panic!("{other:?} is not {}", stringify!($pattern)),
        }
    };
}

fn zeros(device: &Device, shape: &[usize]) -> Tensor<f32> {
    device.zeros(shape).expect("a tensor")
}

#[test]
fn the_number_of_elements_has_to_be_the_shapes() {
    each_device(|device| {
        assert!(device.tensor_from(&[0.0f32; 6], [2, 3]).is_ok());
        for count in [5, 7] {
            let error = invalid(
                device.tensor_from(&vec![0.0f32; count], [2, 3]),
                &["[2, 3]", "6", &count.to_string()],
            );
            assert_matches!(error, Error::Length { given, expected: 6, .. } if given == count);
        }
        let mut x = zeros(device, &[2, 3]);
        assert!(x.copy_from(&[1.0; 6]).is_ok());
        assert_matches!(
            invalid(x.copy_from(&[2.0; 5]), &["5", "6"]),
            Error::Length { .. }
        );
        assert_eq!(x.to_vec().unwrap(), [1.0; 6]);
    });
}

/// Repeating an element takes no memory, reading the repeated ones does.
#[test]
fn more_elements_than_memory_holds_are_an_error_to_read() {
    each_device(|device| {
        let x = zeros(device, &[1]);
        let repeated = x.view().broadcast([1 << 60]).expect("a view");
        let error = repeated.to_vec().expect_err("no memory holds them");
        assert!(error.is_unavailable(), "{error:?}");
        assert_matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 1 << 62);
    });
}

#[test]
fn a_shape_has_to_have_a_last_dimension() {
    each_device(|device| {
        let scalar = device.tensor_from(&[1.0f32], []).unwrap();
        assert_matches!(
            invalid(Softmax::new().forward(&scalar), &["rank 0"]),
            Error::RankZero
        );
        assert!(Softmax::new().forward(&zeros(device, &[1])).is_ok());
    });
}

#[test]
fn a_row_has_a_longest_length() {
    let problem = |cols| Problem::packed(&[3, cols], DType::F32, DType::F32);
    assert!(problem(MAX_COLS).is_ok());
    let error = invalid(problem(MAX_COLS + 1), &["2147483648", "2147483647"]);
    assert_matches!(error, Error::RowTooLong { cols, limit: MAX_COLS } if cols == MAX_COLS + 1);
}

#[test]
fn shapes_have_a_largest_size() {
    let huge = [usize::MAX / 2, usize::MAX / 2, 2];
    assert_matches!(
        invalid(
            Problem::packed(&huge, DType::F32, DType::F32),
            &["elements"]
        ),
        Error::TooLarge { .. }
    );
    let strides = [usize::MAX / 2, 1];
    let problem = Problem::new(&[4, 2], (DType::F32, &strides), (DType::F32, &[2, 1]));
    assert_matches!(
        invalid(problem, &["[4, 2]", "elements"]),
        Error::TooLarge { .. }
    );
    each_device(|device| {
        assert_matches!(
            invalid(device.zeros::<f32>(huge), &["elements"]),
            Error::TooLarge { .. }
        );
    });
}

#[test]
fn memory_that_nobody_has_is_unavailable_not_invalid() {
    // 2^59 bytes.
    let error = Device::emulator().zeros::<f32>([1 << 57]).unwrap_err();
    assert_matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 1 << 59 && error.is_unavailable());
}

#[test]
fn shapes_have_to_agree() {
    each_device(|device| {
        let x = zeros(device, &[2, 3]);
        let mut y = device.tensor_from(&[7.0f32; 6], [3, 2]).unwrap();
        let error = invalid(
            Softmax::new().forward_into(&x, &mut y),
            &["[2, 3]", "[3, 2]"],
        );
        assert_matches!(error, Error::ShapeMismatch { .. });
        let mut flat = zeros(device, &[6]);
        assert_matches!(
            invalid(Softmax::new().forward_into(&x, &mut flat), &["[6]"]),
            Error::ShapeMismatch { .. }
        );
        assert_eq!(y.to_vec().unwrap(), [7.0; 6]);
    });
}

#[test]
fn one_of_two_different_types_has_to_be_f32() {
    each_device(|device| {
        let halves = device.zeros::<f16>([2, 3]).unwrap();
        let brains = device.zeros::<bf16>([2, 3]).unwrap();
        assert!(Softmax::new().forward_as::<f32>(&halves).is_ok());
        assert!(
            Softmax::new()
                .forward_as::<bf16>(&zeros(device, &[2, 3]))
                .is_ok()
        );
        let error = invalid(
            Softmax::new().forward_as::<bf16>(&halves),
            &["f16", "bf16", "f32"],
        );
        assert_matches!(
            error,
            Error::DTypes {
                input: DType::F16,
                output: DType::BF16
            }
        );
        let error = invalid(
            Softmax::new().forward_as::<f16>(&brains),
            &["f16", "bf16", "f32"],
        );
        assert_matches!(
            error,
            Error::DTypes {
                input: DType::BF16,
                output: DType::F16
            }
        );
    });
}

#[test]
fn elements_of_a_row_have_to_be_adjacent() {
    each_device(|device| {
        let (x, mut y) = (zeros(device, &[4, 5]), zeros(device, &[5, 4]));
        let turned = x.view().permute(&[1, 0]).unwrap();
        let error = invalid(
            Softmax::new().forward_into(&turned, &mut y),
            &["input", "stride 5"],
        );
        assert_matches!(
            error,
            Error::LastStride {
                operand: Operand::Input,
                stride: 5,
                cols: 4
            }
        );
        let into = y.view_mut().permute(&[1, 0]).unwrap();
        let error = invalid(
            Softmax::new().forward_into(&x, into),
            &["output", "stride 4"],
        );
        assert_matches!(
            error,
            Error::LastStride {
                operand: Operand::Output,
                stride: 4,
                cols: 5
            }
        );
        // Of one element there is no next one.
        let column = x
            .view()
            .slice(1, 2..3)
            .unwrap()
            .permute(&[1, 0])
            .unwrap()
            .permute(&[1, 0])
            .unwrap();
        assert!(Softmax::new().forward(&column).is_ok());
        let one = x.view().slice(0, 1..2).unwrap().permute(&[1, 0]).unwrap();
        assert_eq!(one.strides(), [1, 5]);
        assert_eq!(
            Softmax::new().forward(&one).unwrap().to_vec().unwrap(),
            [1.0; 5]
        );
        let repeated = zeros(device, &[1]);
        let repeated = repeated.view().broadcast([4, 6]).unwrap();
        let error = invalid(Softmax::new().forward(&repeated), &["stride 0"]);
        assert_matches!(error, Error::LastStride { stride: 0, .. });
    });
}

#[test]
fn elements_of_the_output_have_to_lie_apart() {
    let problem = |strides: [usize; 3]| {
        Problem::new(&[3, 2, 5], (DType::F32, &[0, 0, 1]), (DType::F32, &strides))
    };
    for strides in [[10, 5, 1], [5, 15, 1], [11, 5, 1], [100, 7, 1]] {
        assert!(problem(strides).is_ok(), "{strides:?}");
    }
    for strides in [
        [0, 5, 1],
        [10, 0, 1],
        [10, 4, 1],
        [9, 5, 1],
        [5, 10, 1],
        [4, 15, 1],
        [5, 5, 1],
    ] {
        let error = invalid(problem(strides), &[&format!("{strides:?}"), "[3, 2, 5]"]);
        assert_matches!(error, Error::OutputOverlaps { .. });
    }
}

/// Views of `[2, 4]` in one buffer of 32 elements: the input's first element and row stride, and the output's.
fn overlap(
    device: &Device,
    (x, x_stride): (usize, usize),
    (y, y_stride): (usize, usize),
) -> Result<(), Error> {
    let buffer = zeros(device, &[32]);
    let at = |index: usize| buffer.address() as usize + index * size_of::<f32>();
    // SAFETY: live: the buffer is, and is initialised; unwritten, unshared: two views of the same elements
    // are what the call has to refuse, and it does one thing at a time.
    unsafe {
        let x = core::ptr::with_exposed_provenance(at(x));
        let x = TensorView::<f32>::from_raw(device, x, 4 + x_stride, [2, 4], [x_stride, 1])?;
        let y = core::ptr::with_exposed_provenance_mut(at(y));
        let y = TensorViewMut::<f32>::from_raw(device, y, 4 + y_stride, [2, 4], [y_stride, 1])?;
        Softmax::new().forward_into(x, y)
    }
}

#[test]
fn input_and_output_are_the_same_elements_or_none() {
    each_device(|device| {
        for (x, y) in [
            ((0, 4), (8, 4)),
            ((8, 4), (0, 4)),
            ((0, 8), (4, 8)),
            ((3, 5), (3, 5)),
            ((0, 12), (4, 4)),
        ] {
            assert!(overlap(device, x, y).is_ok(), "{x:?}, {y:?}");
        }
        for (x, y) in [
            ((0, 4), (7, 4)),
            ((7, 4), (0, 4)),
            ((0, 8), (3, 8)),
            ((0, 4), (0, 5)),
            ((0, 4), (1, 4)),
            ((0, 12), (9, 4)),
        ] {
            let error = invalid(overlap(device, x, y), &["share memory", "in place"]);
            assert_matches!(error, Error::InputOutputOverlap { .. });
        }
    });
}

#[test]
fn the_same_memory_as_two_types_is_no_call_in_place() {
    each_device(|device| {
        let buffer = zeros(device, &[8]);
        let address = buffer.address() as usize;
        // SAFETY: as in `overlap`; 16-bit elements fit where f32 ones do.
        let result = unsafe {
            let x = core::ptr::with_exposed_provenance(address);
            let x = TensorView::<f32>::from_raw(device, x, 8, [2, 4], [4, 1]).unwrap();
            let y = core::ptr::with_exposed_provenance_mut(address);
            let y = TensorViewMut::<f16>::from_raw(device, y, 16, [2, 4], [4, 1]).unwrap();
            Softmax::new().forward_into(x, y)
        };
        assert_matches!(
            invalid(result, &["f32", "f16"]),
            Error::InputOutputOverlap { .. }
        );
    });
}

#[test]
fn raw_memory_has_to_hold_the_tensor() {
    each_device(|device| {
        let buffer = zeros(device, &[32]);
        let raw = |skew_bytes: usize, extent, strides: &[usize]| {
            let address = buffer.address() as usize + skew_bytes;
            // SAFETY: live: where the extent is not the buffer's, the view is not used.
            unsafe {
                let first = core::ptr::with_exposed_provenance::<f32>(address);
                TensorView::from_raw(device, first, extent, [3, 4], strides).map(drop)
            }
        };
        assert!(raw(0, 24, &[10, 1]).is_ok());
        let error = invalid(raw(0, 23, &[10, 1]), &["23", "24", "[3, 4]", "[10, 1]"]);
        assert_matches!(
            error,
            Error::ExtentTooSmall {
                given: 23,
                needed: 24,
                ..
            }
        );
        assert_matches!(
            invalid(raw(0, 32, &[10]), &["[10]", "[3, 4]"]),
            Error::StrideCount { .. }
        );
        assert_matches!(
            invalid(raw(0, 32, &[usize::MAX, 1]), &["[3, 4]"]),
            Error::TooLarge { .. }
        );
        for skew in 1..4 {
            assert_matches!(
                invalid(raw(skew, 24, &[10, 1]), &["f32", "4"]),
                Error::Address { .. }
            );
        }
        // SAFETY: live: no elements, or refused.
        let at_null = |shape: [usize; 1]| unsafe {
            TensorView::<f32>::from_raw(device, core::ptr::null(), shape[0], shape, [1]).map(drop)
        };
        assert!(at_null([0]).is_ok());
        assert_matches!(
            invalid(at_null([1]), &["null"]),
            Error::Address { address: 0, .. }
        );
    });
}

#[test]
fn the_scale_has_to_be_finite() {
    each_device(|device| {
        let x = zeros(device, &[2, 3]);
        let mut y = device.tensor_from(&[7.0f32; 6], [2, 3]).unwrap();
        for scale in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let op = Softmax::new().scale(scale);
            let words = &[&*scale.to_string(), "finite"];
            assert_matches!(invalid(op.forward(&x), words), Error::ScaleNotFinite { .. });
            assert_matches!(
                invalid(op.forward_into(&x, &mut y), words),
                Error::ScaleNotFinite { .. }
            );
            assert_matches!(
                invalid(op.forward_in_place(&mut y), words),
                Error::ScaleNotFinite { .. }
            );
            assert_matches!(invalid(op.plan(&x), words), Error::ScaleNotFinite { .. });
        }
        assert_eq!(y.to_vec().unwrap(), [7.0; 6]);
        for scale in [f32::MAX, f32::MIN, 0.0, f32::from_bits(1)] {
            assert!(Softmax::new().scale(scale).forward(&x).is_ok());
        }
    });
}

#[test]
fn views_stay_within_their_tensor() {
    each_device(|device| {
        let x = zeros(device, &[3, 4]);
        let view = x.view();
        assert!(view.slice(1, 4..4).is_ok() && view.slice(1, ..=3).is_ok());
        for range in [0..5, 5..5] {
            let error = invalid(
                view.slice(1, range.clone()),
                &["dimension 1", "4", &format!("{range:?}")],
            );
            assert_matches!(
                error,
                Error::Slice {
                    dim: 1,
                    extent: 4,
                    ..
                }
            );
        }
        assert_matches!(
            invalid(view.slice(2, ..), &["dimension 2", "rank 2"]),
            Error::NoSuchDimension { .. }
        );
        assert_matches!(
            invalid(view.select(0, 3), &["dimension 0", "3"]),
            Error::Slice { .. }
        );
        for order in [&[0][..], &[0, 0], &[0, 2], &[0, 1, 2]] {
            assert_matches!(
                invalid(view.permute(order), &[&format!("{order:?}")]),
                Error::Permutation { rank: 2, .. }
            );
        }
        assert!(view.broadcast([2, 3, 4]).is_ok());
        for shape in [&[4][..], &[3, 5], &[1, 4], &[4, 3, 5]] {
            let error = invalid(view.broadcast(shape), &["[3, 4]", &format!("{shape:?}")]);
            assert_matches!(error, Error::Broadcast { .. });
        }
    });
}

#[test]
fn a_forced_way_has_to_hold_the_row() {
    each_device(|device| {
        let longest = [
            (Way::Warp, 1024, 1),
            (Way::Packed, 512, 1),
            // Of whole vectors alone.
            (Way::Block, 32_768, 4),
            (Way::Staged, 32_768, 1),
        ];
        for (way, limit, step) in longest {
            let op = Softmax::new().force_way(way);
            assert_eq!(op.plan(&zeros(device, &[2, limit])).unwrap().way(), way);
            let x = zeros(device, &[2, limit + step]);
            let words = &[
                &*way.to_string(),
                &limit.to_string(),
                &(limit + step).to_string(),
            ];
            let error = invalid(op.forward(&x), words);
            assert_matches!(error, Error::WayNotPossible { limit: given, .. } if given == limit);
            assert_matches!(invalid(op.plan(&x), words), Error::WayNotPossible { .. });
        }
        let unaligned = Softmax::new().force_way(Way::Block);
        assert_matches!(
            invalid(unaligned.plan(&zeros(device, &[2, 33])), &["block"]),
            Error::WayNotPossible { limit: 0, .. }
        );
        assert!(
            Softmax::new()
                .force_way(Way::Stream)
                .forward(&zeros(device, &[1, 33_000]))
                .is_ok()
        );
    });
}

#[test]
fn tensors_of_different_devices_do_not_mix() {
    let mut devices: Vec<Device> = backend::all()
        .into_iter()
        .map(|backend| backend.device)
        .collect();
    if let Some(other_stream) = devices
        .last()
        .filter(|device| device.is_cuda())
        .map(Device::new_stream)
    {
        devices.push(other_stream.unwrap());
    }
    let mut refused = 0;
    for a in &devices {
        for b in &devices {
            let (x, mut y) = (zeros(a, &[2, 3]), zeros(b, &[2, 3]));
            let result = Softmax::new().forward_into(&x, &mut y);
            if core::ptr::eq(a, b) {
                result.unwrap();
            } else {
                assert_matches!(
                    invalid(result, &[a.name(), b.name()]),
                    Error::DeviceMismatch { .. }
                );
                refused += 1;
            }
        }
    }
    assert_eq!(refused, devices.len() * (devices.len() - 1));
    if refused == 0 {
        println!("one device here: no two to mix");
    }
}

#[test]
fn a_gpu_that_is_not_there_is_unavailable() {
    let error = Device::cuda(1000).unwrap_err();
    assert!(
        error.is_unavailable() && !error.is_invalid_request() && !error.is_launch_failure(),
        "{error:?}"
    );
    match &error {
        Error::NoSuchGpu { ordinal: 1000, .. } => assert!(error.to_string().contains("1000")),
        Error::NoDriver { .. } => assert!(std::error::Error::source(&error).is_some(), "{error}"),
        other => panic!("{other:?}"),
    }
}
