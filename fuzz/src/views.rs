//! Shapes, strides, views of views, and what a softmax says of them.

use std::collections::HashSet;

use warp_softmax::{DType, Device, Error, Problem, Softmax, Tensor, TensorView};

/// Any bytes, read as numbers one after the other; zeros after the last.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *first
    }

    /// Up to a few dimensions, of any size or small.
    fn numbers(&mut self) -> Vec<usize> {
        let count = self.byte() % 7;
        (0..count).map(|_| self.number()).collect()
    }

    /// Small, or near a power of two of any size.
    fn number(&mut self) -> usize {
        let byte = self.byte();
        let near = |power: u32| 1usize << power;
        match byte >> 6 {
            0 | 1 => usize::from(byte & 15),
            2 => near(u32::from(byte & 63))
                .wrapping_add(usize::from(self.byte() % 3))
                .wrapping_sub(1),
            _ => usize::from(byte & 63),
        }
    }

    fn dtype(&mut self) -> DType {
        DType::ALL[usize::from(self.byte()) % DType::ALL.len()]
    }
}

/// Most elements that are looked at one by one.
const FEW: usize = 512;

/// From so many elements on no memory has them.
const MANY: usize = 1 << 48;

/// Elements, if they can be counted and are few.
fn few(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let count = shape
        .iter()
        .try_fold(1usize, |count, &extent| count.checked_mul(extent))?;
    (count <= FEW).then_some(count)
}

/// Every index of a shape, in row-major order.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    if shape.contains(&0) {
        return vec![];
    }
    let mut all = vec![vec![]];
    for &extent in shape {
        let longer = |index: Vec<usize>| {
            (0..extent).map(move |i| index.iter().copied().chain([i]).collect())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// Shapes, strides and views made of the bytes: an error each, or what they say.
pub fn views(data: &[u8]) {
    let mut bytes = Bytes { rest: data };
    problem(&mut bytes);
    let device = Device::emulator();
    tensor(&mut bytes, &device);
}

/// A problem of any strides, and its plan.
fn problem(bytes: &mut Bytes<'_>) {
    let shape = bytes.numbers();
    let (strides_in, strides_out) = (bytes.numbers(), bytes.numbers());
    let types = (bytes.dtype(), bytes.dtype());
    let device = Device::emulator();
    match Problem::new(&shape, (types.0, &strides_in), (types.1, &strides_out)) {
        Ok(problem) => {
            let rows = shape[..shape.len() - 1]
                .iter()
                .map(|&n| n as u64)
                .product::<u64>();
            if !shape.contains(&0) {
                assert_eq!(problem.rows(), rows, "{problem:?}");
                assert!(!meets(&shape, &strides_out), "{problem:?}");
            }
            let softmax = Softmax::new();
            let plan = softmax
                .plan_for(&device, &problem)
                .expect("a plan for every problem");
            assert_eq!(
                plan.launches() == 0,
                shape.contains(&0),
                "{problem:?}: {plan}"
            );
            assert!(!plan.to_string().is_empty());
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let is_intricate = few(&shape).is_none();
            if matches!(error, Error::OutputOverlaps { .. }) && !is_intricate {
                assert!(meets(&shape, &strides_out), "{error}");
            }
        }
    }
}

/// Whether two of few elements are in one place.
fn meets(shape: &[usize], strides: &[usize]) -> bool {
    let mut places = HashSet::new();
    few(shape).is_some()
        && !indices(shape)
            .iter()
            .all(|index| places.insert(place(index, strides)))
}

fn place(index: &[usize], strides: &[usize]) -> u128 {
    index
        .iter()
        .zip(strides)
        .map(|(&i, &stride)| i as u128 * stride as u128)
        .sum()
}

/// A tensor, a view of it, and views of that; what they hold is what their indices say.
fn tensor(bytes: &mut Bytes<'_>, device: &Device) {
    let shape: Vec<usize> = bytes.numbers();
    let Some(count) = few(&shape) else { return };
    let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
    let tensor: Tensor<f32> = match device.tensor_from(&values, &shape) {
        Ok(tensor) => tensor,
        // An extent of 0 beside some that no machine can count.
        Err(error) => return assert!(matches!(error, Error::TooLarge { .. }), "{error}"),
    };
    let mut view = tensor.view();
    let mut model: Vec<f32> = values;
    for _ in 0..4 {
        let before = view.shape().to_vec();
        let Some((next, from)) = step(bytes, &view) else {
            break;
        };
        let after = next.shape().to_vec();
        if few(&after).is_none() {
            if next.len() >= MANY {
                let refused = next.to_vec();
                assert!(
                    matches!(refused, Err(Error::OutOfMemory { .. })),
                    "{next:?}"
                );
            }
            return;
        }
        let old = |index: &[usize]| -> usize {
            index
                .iter()
                .zip(&before)
                .fold(0, |at, (&i, &extent)| at * extent + i)
        };
        model = indices(&after)
            .iter()
            .map(|index| model[old(&from(index))])
            .collect();
        view = next;
    }
    assert_eq!(view.to_vec().expect("the emulator's memory"), model);
    let plan = Softmax::new().plan(&view);
    if let Ok(plan) = plan {
        assert!(!plan.to_string().is_empty());
    }
}

/// Which index of the old view an index of the new one is.
type OldIndex = Box<dyn Fn(&[usize]) -> Vec<usize>>;

/// Another view, if there is one as the bytes ask.
fn step<'a>(
    bytes: &mut Bytes<'_>,
    view: &TensorView<'a, f32>,
) -> Option<(TensorView<'a, f32>, OldIndex)> {
    let rank = view.shape().len();
    match bytes.byte() % 4 {
        0 => {
            let (dim, start, end) = (bytes.number(), bytes.number(), bytes.number());
            let next = view.slice(dim, start..end).ok()?;
            assert!(dim < rank && start <= end && next.shape()[dim] == end - start);
            Some((
                next,
                Box::new(move |index| {
                    let mut index = index.to_vec();
                    index[dim] += start;
                    index
                }),
            ))
        }
        1 => {
            let (dim, at) = (bytes.number(), bytes.number());
            let next = view.select(dim, at).ok()?;
            assert!(at < view.shape()[dim]);
            Some((
                next,
                Box::new(move |index| {
                    let mut index = index.to_vec();
                    index.insert(dim, at);
                    index
                }),
            ))
        }
        2 => {
            let order = bytes.numbers();
            let next = view.permute(&order).ok()?;
            Some((
                next,
                Box::new(move |index| {
                    let mut old = vec![0; index.len()];
                    for (&i, &dim) in index.iter().zip(&order) {
                        old[dim] = i;
                    }
                    old
                }),
            ))
        }
        _ => {
            let shape = bytes.numbers();
            let next = view.broadcast(&shape).ok()?;
            let old = view.shape().to_vec();
            Some((
                next,
                Box::new(move |index| {
                    let index = &index[index.len() - old.len()..];
                    index
                        .iter()
                        .zip(&old)
                        .map(|(&i, &extent)| if extent == 1 { 0 } else { i })
                        .collect()
                }),
            ))
        }
    }
}
