//! Tensors that own their memory, and views of them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use crate::device::Memory;
use crate::layout::Layout;
use crate::problem::Side;
use crate::{DType, Device, Element, Error, Scalar};

/// A tensor: elements of one type, row after row without gaps, in a device's memory.
///
/// Work on it is ordered on its device's stream, and so is freeing its memory when it is dropped: a
/// tensor may be dropped while a kernel that uses it has not run yet.
pub struct Tensor<T> {
    memory: Memory,
    layout: Layout,
    elem: PhantomData<T>,
}

/// A tensor that is read: another's elements, all of them or some, in any order of dimensions.
#[derive(Clone)]
pub struct TensorView<'a, T> {
    place: Place<'a>,
    elem: PhantomData<&'a T>,
}

/// A tensor that is written: another's elements, all of them or some, in any order of dimensions.
pub struct TensorViewMut<'a, T> {
    place: Place<'a>,
    elem: PhantomData<&'a mut T>,
}

/// Where a view's elements are.
#[derive(Clone)]
struct Place<'a> {
    device: &'a Device,
    /// Of the first element; means nothing if there is none.
    address: u64,
    layout: Cow<'a, Layout>,
}

/// What can be read as a tensor: `&Tensor`, [`TensorView`] and `&TensorView`.
pub trait Input<'a> {
    /// The type of the elements.
    type Elem: Scalar;

    /// The tensor to be read.
    fn into_view(self) -> TensorView<'a, Self::Elem>;
}

/// What can be written as a tensor: `&mut Tensor`, [`TensorViewMut`] and `&mut TensorViewMut`.
pub trait Output<'a> {
    /// The type of the elements.
    type Elem: Scalar;

    /// The tensor to be written.
    fn into_view_mut(self) -> TensorViewMut<'a, Self::Elem>;
}

impl<'a, T: Scalar> Input<'a> for TensorView<'a, T> {
    type Elem = T;

    fn into_view(self) -> TensorView<'a, T> {
        self
    }
}

impl<'a, T: Scalar> Input<'a> for &'a TensorView<'_, T> {
    type Elem = T;

    fn into_view(self) -> TensorView<'a, T> {
        TensorView::new(self.place.borrowed())
    }
}

impl<'a, T: Scalar> Input<'a> for &'a Tensor<T> {
    type Elem = T;

    fn into_view(self) -> TensorView<'a, T> {
        self.view()
    }
}

impl<'a, T: Scalar> Output<'a> for TensorViewMut<'a, T> {
    type Elem = T;

    fn into_view_mut(self) -> TensorViewMut<'a, T> {
        self
    }
}

impl<'a, T: Scalar> Output<'a> for &'a mut TensorViewMut<'_, T> {
    type Elem = T;

    fn into_view_mut(self) -> TensorViewMut<'a, T> {
        self.view_mut()
    }
}

impl<'a, T: Scalar> Output<'a> for &'a mut Tensor<T> {
    type Elem = T;

    fn into_view_mut(self) -> TensorViewMut<'a, T> {
        self.view_mut()
    }
}

impl Device {
    /// A tensor of `data`, which has the shape's elements in row-major order.
    ///
    /// # Errors
    ///
    /// Where the number of elements is not the shape's, or memory is exhausted.
    pub fn tensor_from<T: Scalar>(
        &self,
        data: &[T],
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor<T>, Error> {
        let layout = Layout::packed(shape.as_ref())?;
        check_length(data, &layout)?;
        let mut tensor = Tensor::uninitialised(self, layout)?;
        tensor.copy_from(data)?;
        Ok(tensor)
    }

    /// A tensor of zeros; of `bool`, of false.
    ///
    /// # Errors
    ///
    /// Where the shape is too large, or memory is exhausted.
    pub fn zeros<T: Scalar>(&self, shape: impl AsRef<[usize]>) -> Result<Tensor<T>, Error> {
        let layout = Layout::packed(shape.as_ref())?;
        let memory = Memory::zeroed(self, layout.len() * size_of::<T>())?;
        Ok(Tensor {
            memory,
            layout,
            elem: PhantomData,
        })
    }
}

/// What all three say of themselves.
macro_rules! describe {
    ($ty:ty) => {
        impl<T: Scalar> $ty {
            /// Elements of each dimension, outermost first.
            pub fn shape(&self) -> &[usize] {
                self.layout().shape()
            }

            /// From one index of each dimension to the next, in elements.
            pub fn strides(&self) -> &[usize] {
                self.layout().strides()
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                self.layout().len()
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The type of the elements.
            pub fn dtype(&self) -> DType
            where
                T: Element,
            {
                T::DTYPE
            }

            /// The address of the first element: in device memory on a GPU, in the process's on the
            /// emulator.
            pub fn address(&self) -> u64 {
                self.place().address
            }

            /// The device, with the stream that work on the tensor is ordered on.
            pub fn device(&self) -> &Device {
                self.place().device
            }
        }

        impl<T: Scalar> fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($ty))
                    .field("elements", &T::NAME)
                    .field("shape", &self.shape())
                    .field("strides", &self.strides())
                    .field("device", &self.device().name())
                    .finish()
            }
        }
    };
}

describe!(Tensor<T>);
describe!(TensorView<'_, T>);
describe!(TensorViewMut<'_, T>);

impl<T: Scalar> Tensor<T> {
    /// A tensor whose elements may be anything until they are written.
    pub(crate) fn uninitialised(device: &Device, layout: Layout) -> Result<Self, Error> {
        let memory = Memory::uninitialised(device, layout.len() * size_of::<T>())?;
        Ok(Self {
            memory,
            layout,
            elem: PhantomData,
        })
    }

    /// The whole tensor, to be read.
    pub fn view(&self) -> TensorView<'_, T> {
        TensorView::new(self.place())
    }

    /// The whole tensor, to be written.
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T> {
        TensorViewMut::new(self.place())
    }

    /// The elements in row-major order, once the stream's work is done.
    ///
    /// # Errors
    ///
    /// Where the device fails, now or in work that was still to be done, or the stream is being
    /// captured.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        self.view().to_vec()
    }

    /// Replaces the elements by `data`, in row-major order.
    ///
    /// # Errors
    ///
    /// Where the number of elements differs, the device fails, or the stream is being captured.
    pub fn copy_from(&mut self, data: &[T]) -> Result<(), Error> {
        check_length(data, &self.layout)?;
        // SAFETY: the memory has as many bytes, and it is borrowed for writing.
        unsafe {
            self.memory.device().upload(
                self.memory.address(),
                data.as_ptr().cast(),
                size_of_val(data),
            )
        }
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn place(&self) -> Place<'_> {
        Place {
            device: self.memory.device(),
            address: self.memory.address(),
            layout: Cow::Borrowed(&self.layout),
        }
    }
}

impl<'a, T: Scalar> TensorView<'a, T> {
    fn new(place: Place<'a>) -> Self {
        Self {
            place,
            elem: PhantomData,
        }
    }

    /// A view of memory that something else owns.
    ///
    /// `ptr` is the first element: an address in the GPU's memory, or in the process's for the
    /// emulator. The memory goes on for `extent_elems` elements from there. Strides are in
    /// elements.
    ///
    /// # Errors
    ///
    /// Where shape and strides do not fit the extent or one another, or the address is not a
    /// multiple of the element's size.
    ///
    /// # Safety
    ///
    /// * **live**: until all work that the view was given to is done on the device's stream, the
    ///   extent is initialised memory of the device, and its elements are values of `T`.
    /// * **unwritten**: meanwhile nothing writes it that is not ordered with that work.
    pub unsafe fn from_raw(
        device: &'a Device,
        ptr: *const T,
        extent_elems: usize,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[usize]>,
    ) -> Result<Self, Error> {
        Place::checked::<T>(device, ptr, extent_elems, shape.as_ref(), strides.as_ref())
            .map(Self::new)
    }

    /// The indices in `range` of dimension `dim`, counted from 0.
    ///
    /// # Errors
    ///
    /// Where there is no such dimension, or the range is not within it.
    pub fn slice(&self, dim: usize, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        Ok(Self::new(
            self.place.moved::<T>(self.layout().slice(dim, range)?),
        ))
    }

    /// Index `index` of dimension `dim`, without that dimension.
    ///
    /// # Errors
    ///
    /// Where there is no such dimension or index.
    pub fn select(&self, dim: usize, index: usize) -> Result<Self, Error> {
        Ok(Self::new(
            self.place.moved::<T>(self.layout().select(dim, index)?),
        ))
    }

    /// The dimensions in another order: the new dimension `i` is the old `order[i]`.
    ///
    /// A softmax needs the old last dimension to stay last.
    ///
    /// # Errors
    ///
    /// Where `order` does not name each dimension once.
    pub fn permute(&self, order: &[usize]) -> Result<Self, Error> {
        Ok(Self::new(
            self.place.moved::<T>((self.layout().permute(order)?, 0)),
        ))
    }

    /// Repeated into `shape`, without a copy: counted from the last, a dimension that is absent or
    /// of one element here may have any number there, and its stride is 0.
    ///
    /// # Errors
    ///
    /// Where any other dimension differs.
    pub fn broadcast(&self, shape: impl AsRef<[usize]>) -> Result<Self, Error> {
        Ok(Self::new(
            self.place
                .moved::<T>((self.layout().broadcast(shape.as_ref())?, 0)),
        ))
    }

    /// The elements in row-major order, once the stream's work is done.
    ///
    /// From a GPU this copies all memory from the first element to the last, what lies between
    /// included.
    ///
    /// # Errors
    ///
    /// Where the device fails, now or in work that was still to be done, the stream is being
    /// captured, or memory is exhausted.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let layout = self.layout();
        let span = layout.span();
        let mut elems = with_room::<T>(span)?;
        // SAFETY: the view's memory spans as many elements, and so does the vector's. All are
        // initialised, and any bits are an element.
        unsafe {
            let (to, bytes) = (elems.as_mut_ptr().cast(), span * size_of::<T>());
            self.place.device.download(to, self.place.address, bytes)?;
            elems.set_len(span);
        }
        if layout.is_packed() {
            return Ok(elems);
        }
        // Repeated elements may be far more than there are.
        let mut gathered = with_room(layout.len())?;
        gathered.extend(layout.offsets().map(|offset| elems[offset]));
        Ok(gathered)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.place.layout
    }

    /// The device, for as long as the elements are borrowed.
    pub(crate) fn place_device(&self) -> &'a Device {
        self.place.device
    }

    fn place(&self) -> &Place<'a> {
        &self.place
    }

    pub(crate) fn side(&self) -> Side<'_>
    where
        T: Element,
    {
        self.place.side::<T>()
    }
}

impl<'a, T: Scalar> TensorViewMut<'a, T> {
    fn new(place: Place<'a>) -> Self {
        Self {
            place,
            elem: PhantomData,
        }
    }

    /// A view of memory that something else owns; see [`TensorView::from_raw`].
    ///
    /// # Errors
    ///
    /// As for [`TensorView::from_raw`].
    ///
    /// # Safety
    ///
    /// * **live**: until all work that the view was given to is done on the device's stream, the
    ///   extent is memory of the device that may be written; it is initialised by the time that the
    ///   view is read, in place or by [`to_vec`](Self::to_vec).
    /// * **unshared**: meanwhile nothing reads or writes it that is not ordered with that work,
    ///   except where the same elements are given as the input of an operation in place.
    pub unsafe fn from_raw(
        device: &'a Device,
        ptr: *mut T,
        extent_elems: usize,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[usize]>,
    ) -> Result<Self, Error> {
        Place::checked::<T>(device, ptr, extent_elems, shape.as_ref(), strides.as_ref())
            .map(Self::new)
    }

    /// The same elements, to be read.
    pub fn view(&self) -> TensorView<'_, T> {
        TensorView::new(self.place.borrowed())
    }

    /// The same elements, to be written: a view to give away, and then go on with this one.
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T> {
        TensorViewMut::new(self.place.borrowed())
    }

    /// The indices in `range` of dimension `dim`, counted from 0.
    ///
    /// # Errors
    ///
    /// Where there is no such dimension, or the range is not within it.
    pub fn slice(self, dim: usize, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        Ok(Self::new(
            self.place.moved::<T>(self.layout().slice(dim, range)?),
        ))
    }

    /// Index `index` of dimension `dim`, without that dimension.
    ///
    /// # Errors
    ///
    /// Where there is no such dimension or index.
    pub fn select(self, dim: usize, index: usize) -> Result<Self, Error> {
        Ok(Self::new(
            self.place.moved::<T>(self.layout().select(dim, index)?),
        ))
    }

    /// The dimensions in another order: the new dimension `i` is the old `order[i]`.
    ///
    /// A softmax needs the old last dimension to stay last.
    ///
    /// # Errors
    ///
    /// Where `order` does not name each dimension once.
    pub fn permute(self, order: &[usize]) -> Result<Self, Error> {
        Ok(Self::new(
            self.place.moved::<T>((self.layout().permute(order)?, 0)),
        ))
    }

    /// The elements in row-major order, once the stream's work is done; see [`TensorView::to_vec`].
    ///
    /// # Errors
    ///
    /// As for [`TensorView::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        self.view().to_vec()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.place.layout
    }

    fn place(&self) -> &Place<'a> {
        &self.place
    }

    pub(crate) fn side(&self) -> Side<'_>
    where
        T: Element,
    {
        self.place.side::<T>()
    }
}

impl<'a> Place<'a> {
    fn checked<T: Scalar>(
        device: &'a Device,
        ptr: *const T,
        extent_elems: usize,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Self, Error> {
        let layout = Layout::strided(shape, strides)?;
        let needed = layout.span();
        if extent_elems < needed {
            return Err(Error::ExtentTooSmall {
                given: extent_elems,
                needed,
                shape: shape.into(),
                strides: strides.into(),
            });
        }
        let address = ptr.expose_provenance() as u64;
        if needed > 0 && (address == 0 || !address.is_multiple_of(size_of::<T>() as u64)) {
            return Err(Error::Address {
                address,
                elem: T::NAME,
                elem_bytes: size_of::<T>(),
            });
        }
        Ok(Self {
            device,
            address,
            layout: Cow::Owned(layout),
        })
    }

    /// Another layout, `offset` elements further on.
    fn moved<T>(&self, (layout, offset): (Layout, usize)) -> Self {
        Self {
            device: self.device,
            address: self.address + (offset * size_of::<T>()) as u64,
            layout: Cow::Owned(layout),
        }
    }

    fn borrowed(&self) -> Place<'_> {
        Place {
            device: self.device,
            address: self.address,
            layout: Cow::Borrowed(&self.layout),
        }
    }

    fn side<T: Element>(&self) -> Side<'_> {
        Side {
            dtype: T::DTYPE,
            layout: &self.layout,
            address: self.address,
        }
    }
}

/// A vector with room for so many elements.
fn with_room<T>(elems: usize) -> Result<Vec<T>, Error> {
    let mut room = Vec::new();
    let exhausted = |_| Error::OutOfMemory {
        bytes: elems.saturating_mul(size_of::<T>()),
        device: "the host".into(),
    };
    room.try_reserve_exact(elems).map_err(exhausted)?;
    Ok(room)
}

fn check_length<T>(data: &[T], layout: &Layout) -> Result<(), Error> {
    if data.len() == layout.len() {
        return Ok(());
    }
    Err(Error::Length {
        given: data.len(),
        shape: layout.shape().into(),
        expected: layout.len(),
    })
}
