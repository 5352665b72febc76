//! Tensors of more than 2^31 or 2^32 elements, rows or strides. They need a GPU's memory: elsewhere they
//! are left out, and `field_cases` puts the same numbers through the kernels' offset arithmetic.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::sync::{Mutex, MutexGuard, PoisonError};

use half::f16;
use warp_softmax::bench_support::copy;
use warp_softmax::{Device, Element, Error, Softmax, Tensor, TensorViewMut};
use warp_softmax_tests::backend;
use warp_softmax_tests::content::Content;
use warp_softmax_tests::random::Random;

/// The GPU, for one test at a time, as each takes much of its memory; or the reason printed.
fn gpu(what: &str) -> Option<(Device, MutexGuard<'static, ()>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    match backend::cuda() {
        Some(backend) => Some((
            backend.device,
            ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner),
        )),
        None => {
            println!("left out, as there is no GPU: {what}");
            None
        }
    }
}

/// A tensor of zeros, or the reason printed where the GPU has too little memory.
fn zeros<T: Element>(device: &Device, shape: &[usize]) -> Option<Tensor<T>> {
    match device.zeros(shape) {
        Ok(tensor) => Some(tensor),
        Err(error @ Error::OutOfMemory { .. }) => {
            println!("left out: {shape:?}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A type that a number of f32 can be made into.
trait FromF32: Element {
    fn from_f32(value: f32) -> Self;
}

impl FromF32 for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }
}

impl FromF32 for f16 {
    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }
}

/// Rows worth looking at: the first and last, those that start next to index 2^31 and 2^32, and row
/// numbers next to 2^31.
fn rows_at_edges(rows: usize, cols: usize) -> Vec<usize> {
    let starts = [1usize << 31, 1 << 32].map(|index| index / cols);
    let mut edges: Vec<usize> = [0, rows / 2, rows - 1, 1 << 31]
        .into_iter()
        .chain(starts)
        .flat_map(|row| row.saturating_sub(1)..row + 2)
        .collect();
    edges.sort_unstable();
    edges.dedup();
    edges.retain(|&row| row < rows);
    edges
}

/// All zeros but for the rows at edges, in place: those come out as they do alone, the others as 1 / cols.
fn in_place<T: FromF32>(what: &str, rows: usize, cols: usize) {
    let Some((device, _alone)) = gpu(what) else {
        return;
    };
    let Some(mut x) = zeros::<T>(&device, &[rows, cols]) else {
        return;
    };
    let edges = rows_at_edges(rows, cols);
    let mut expected = Vec::new();
    for &row in &edges {
        let mut random = Random::new(row as u64);
        let data: Vec<T> = Content::Normal { sigma: 2.0 }
            .row(cols, &mut random)
            .into_iter()
            .map(T::from_f32)
            .collect();
        let alone = device.tensor_from(&data, [1, cols]).unwrap();
        copy(&alone, x.view_mut().slice(0, row..row + 1).unwrap()).unwrap();
        expected.push(Softmax::new().forward(&alone).unwrap().to_vec().unwrap());
    }
    println!("{what}: {}", Softmax::new().plan(&x).unwrap());
    Softmax::new().forward_in_place(&mut x).unwrap();

    let row = |row: usize| x.view().slice(0, row..row + 1).unwrap().to_vec().unwrap();
    for (&edge, expected) in edges.iter().zip(&expected) {
        assert_eq!(&row(edge), expected, "{what}: row {edge}");
    }
    let uniform = vec![T::from_f32(1.0 / cols as f32); cols];
    let mut random = Random::new(1);
    let others = (0..500)
        .map(|_| random.below(rows))
        .chain(edges.iter().map(|&edge| (edge + 2).min(rows - 1)));
    for other in others.filter(|other| !edges.contains(other)) {
        assert_eq!(row(other), uniform, "{what}: row {other}");
    }
}

#[test]
fn f16_of_4_gib_with_a_row_at_index_2_to_the_31() {
    in_place::<f16>("f16 (2097153, 1024)", 2_097_153, 1024);
}

#[test]
fn f16_of_8_gib_with_rows_at_index_2_to_the_32() {
    in_place::<f16>("f16 (4194306, 1024)", 4_194_306, 1024);
}

#[test]
fn long_rows_past_index_2_to_the_31_and_32() {
    in_place::<f16>("f16 (42692, 50304)", 42_692, 50_304);
    in_place::<f16>("f16 (85632, 50259)", 85_632, 50_259);
    in_place::<f32>("f32 (16384, 133120)", 16_384, 133_120);
}

#[test]
fn more_rows_than_2_to_the_28() {
    in_place::<f32>("f32 (2^28, 9)", 1 << 28, 9);
    in_place::<f16>("f16 (1100000000, 2)", 1_100_000_000, 2);
}

#[test]
fn more_rows_than_2_to_the_31() {
    in_place::<f16>("f16 (2200000000, 1)", 2_200_000_000, 1);
    in_place::<f16>("f16 (2200000000, 3)", 2_200_000_000, 3);
}

/// From one tensor to another of another type, neither of which a 32-bit index reaches the end of.
#[test]
fn f16_to_f32_past_index_2_to_the_32() {
    let what = "f16 to f32 (4194306, 1024)";
    let Some((device, _alone)) = gpu(what) else {
        return;
    };
    let (rows, cols) = (4_194_306, 1024);
    let Some(mut x) = zeros::<f16>(&device, &[rows, cols]) else {
        return;
    };
    let Some(mut y) = zeros::<f32>(&device, &[rows, cols]) else {
        return;
    };
    let edges = rows_at_edges(rows, cols);
    let row_of = |row: usize| {
        let values = Content::Normal { sigma: 2.0 }.row(cols, &mut Random::new(row as u64));
        let data: Vec<f16> = values.into_iter().map(f16::from_f32).collect();
        device.tensor_from(&data, [1, cols]).unwrap()
    };
    for &row in &edges {
        copy(&row_of(row), x.view_mut().slice(0, row..row + 1).unwrap()).unwrap();
    }
    Softmax::new().forward_into(&x, &mut y).unwrap();
    for &row in &edges {
        let alone = Softmax::new()
            .forward_as::<f32>(&row_of(row))
            .unwrap()
            .to_vec()
            .unwrap();
        assert_eq!(
            y.view().slice(0, row..row + 1).unwrap().to_vec().unwrap(),
            alone,
            "row {row}"
        );
    }
}

/// Two rows more than 2^32 elements apart, and nothing between them touched.
#[test]
fn strides_beyond_2_to_the_32() {
    let what = "strides beyond 2^32";
    let Some((device, _alone)) = gpu(what) else {
        return;
    };
    let (cols, stride) = (1000, (1usize << 32) + 8);
    let extent = stride + cols;
    let Some(mut buffer) = zeros::<f16>(&device, &[extent]) else {
        return;
    };
    let values = Content::Normal { sigma: 2.0 }.row(2 * cols, &mut Random::new(3));
    let data: Vec<f16> = values.into_iter().map(f16::from_f32).collect();
    let alone = Softmax::new()
        .forward(&device.tensor_from(&data, [2, cols]).unwrap())
        .unwrap()
        .to_vec()
        .unwrap();
    for (row, first) in [0, stride].into_iter().enumerate() {
        let row = device
            .tensor_from(&data[row * cols..][..cols], [cols])
            .unwrap();
        copy(
            &row,
            buffer.view_mut().slice(0, first..first + cols).unwrap(),
        )
        .unwrap();
    }
    {
        let first = core::ptr::with_exposed_provenance_mut::<f16>(buffer.address() as usize);
        // SAFETY: live, unshared: the buffer outlives the view, and is not used meanwhile.
        let x = unsafe { TensorViewMut::from_raw(&device, first, extent, [2, cols], [stride, 1]) };
        Softmax::new().forward_in_place(x.unwrap()).unwrap();
    }
    let after =
        |range: core::ops::Range<usize>| buffer.view().slice(0, range).unwrap().to_vec().unwrap();
    assert_eq!(after(0..cols), alone[..cols]);
    assert_eq!(after(stride..extent), alone[cols..]);
    // Where a 32-bit offset would put the second row, too: at 8, of which the first row covers the start.
    for gap in [cols..2 * cols, stride - cols..stride] {
        assert!(
            after(gap.clone()).iter().all(|x| x.to_bits() == 0),
            "{gap:?}"
        );
    }
}
