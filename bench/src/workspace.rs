//! Input and output of the benches: allocated once, and looked at in any shape.

use warp_softmax::bench_support::copy;
use warp_softmax::{Device, Error, Softmax, Tensor, TensorView, TensorViewMut};

use crate::Failed;
use crate::check::check;
use crate::number::Number;
use crate::record::Accuracy;
use crate::source::Source;

/// Elements of poison that are kept, to be copied.
const POISON_ELEMS: usize = 1 << 22;

/// An input that is filled from a [`Source`], and an output.
pub struct Workspace<'a, T> {
    device: &'a Device,
    source: &'a Source<T>,
    x: Tensor<T>,
    y: Tensor<T>,
    poison: Tensor<T>,
}

impl<'a, T: Number> Workspace<'a, T> {
    /// Room for `elems` elements on either side.
    ///
    /// # Errors
    ///
    /// Where there is too little memory.
    pub fn new(device: &'a Device, source: &'a Source<T>, elems: usize) -> Result<Self, Failed> {
        let period = source.period();
        let mut x = device.zeros([elems])?;
        tile(
            &device.tensor_from(period, [period.len()])?,
            &mut x.view_mut(),
        )?;
        let poison = vec![T::POISON; elems.min(POISON_ELEMS)];
        Ok(Self {
            device,
            source,
            x,
            y: device.zeros([elems])?,
            poison: device.tensor_from(&poison, [poison.len()])?,
        })
    }

    /// The first `rows * cols` elements as rows.
    pub fn shaped(
        &mut self,
        rows: usize,
        cols: usize,
    ) -> Result<(TensorView<'_, T>, TensorViewMut<'_, T>), Error> {
        self.shaped_as(&[rows, cols])
    }

    /// The first elements in any shape, packed.
    pub fn shaped_as(
        &mut self,
        shape: &[usize],
    ) -> Result<(TensorView<'_, T>, TensorViewMut<'_, T>), Error> {
        let (x, y) = (self.x.address(), self.y.address());
        let extent = self.x.len();
        let mut strides = vec![1; shape.len()];
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim] * shape[dim];
        }
        let strides = &strides[..];
        // SAFETY: live: the tensors are borrowed as long as the views, and the device orders its work;
        // unwritten, unshared: the input is borrowed for reading, the output for writing.
        unsafe {
            let x = TensorView::from_raw(
                self.device,
                std::ptr::with_exposed_provenance(x as usize),
                extent,
                shape,
                strides,
            )?;
            let y = TensorViewMut::from_raw(
                self.device,
                std::ptr::with_exposed_provenance_mut(y as usize),
                extent,
                shape,
                strides,
            )?;
            Ok((x, y))
        }
    }

    /// Poisons the first `elems` elements of the output.
    pub fn poison(&mut self, elems: usize) -> Result<(), Failed> {
        tile(&self.poison, &mut self.y.view_mut().slice(0, ..elems)?)
    }

    /// A row of the output, where all have `cols` elements.
    pub fn row(&self, row: usize, cols: usize) -> Result<Vec<T>, Failed> {
        Ok(self
            .y
            .view()
            .slice(0, row * cols..(row + 1) * cols)?
            .to_vec()?)
    }

    /// Poisons the output, computes once, and looks at every element.
    ///
    /// # Errors
    ///
    /// What is wrong with the result, or could not be done.
    pub fn check(
        &mut self,
        softmax: &Softmax,
        rows: usize,
        cols: usize,
    ) -> Result<Accuracy, Failed> {
        self.poison(rows * cols)?;
        let (x, y) = self.shaped(rows, cols)?;
        softmax.forward_into(x, y)?;
        self.device.synchronize()?;
        let y = self.y.view();
        check(self.source, rows, cols, |first, number| {
            Ok(y.slice(0, first * cols..(first + number) * cols)?
                .to_vec()?)
        })
    }
}

/// Fills `to` with `from`, over and over.
///
/// # Errors
///
/// Where the device fails.
pub fn tile<T: Number>(from: &Tensor<T>, to: &mut TensorViewMut<'_, T>) -> Result<(), Failed> {
    let elems = to.len();
    for first in (0..elems).step_by(from.len()) {
        let number = from.len().min(elems - first);
        copy(
            from.view().slice(0, ..number)?,
            to.view_mut().slice(0, first..first + number)?,
        )?;
    }
    Ok(())
}
