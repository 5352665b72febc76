//! Where the elements of a tensor are: shape and strides.

use std::ops::{Bound, RangeBounds};

use smallvec::SmallVec;

use crate::Error;

/// A number for each dimension. Up to eight dimensions cost no allocation.
pub(crate) type Dims = SmallVec<[usize; 8]>;

/// Most elements that a tensor may have or span: the bytes of any type's fit an `isize`.
pub(crate) const MAX_ELEMS: usize = isize::MAX as usize / 4;

/// Shape and strides, both outermost dimension first, strides in elements.
///
/// Number of elements and span are at most [`MAX_ELEMS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    shape: Dims,
    strides: Dims,
}

impl Layout {
    /// Rows one after another without gaps.
    pub(crate) fn packed(shape: &[usize]) -> Result<Self, Error> {
        let mut strides = Dims::from_elem(1, shape.len());
        let mut elems = 1usize;
        for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
            *stride = elems;
            elems = elems
                .checked_mul(extent.max(1))
                .filter(|&elems| elems <= MAX_ELEMS)
                .ok_or_else(|| too_large(shape, &[]))?;
        }
        Ok(Self {
            shape: shape.into(),
            strides,
        })
    }

    /// Any strides, 0 included.
    pub(crate) fn strided(shape: &[usize], strides: &[usize]) -> Result<Self, Error> {
        if shape.len() != strides.len() {
            return Err(Error::StrideCount {
                shape: shape.into(),
                strides: strides.into(),
            });
        }
        let mut elems = 1usize;
        let mut last = 0usize;
        for (&extent, &stride) in shape.iter().zip(strides) {
            let extent = extent.max(1);
            (elems, last) = elems
                .checked_mul(extent)
                .zip(
                    (extent - 1)
                        .checked_mul(stride)
                        .and_then(|n| n.checked_add(last)),
                )
                .filter(|&(elems, last)| elems <= MAX_ELEMS && last < MAX_ELEMS)
                .ok_or_else(|| too_large(shape, strides))?;
        }
        Ok(Self {
            shape: shape.into(),
            strides: strides.into(),
        })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub(crate) fn strides(&self) -> &[usize] {
        &self.strides
    }

    pub(crate) fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        // An extent of 0 may stand beside others whose product would wrap.
        if self.shape.contains(&0) {
            0
        } else {
            self.shape.iter().product()
        }
    }

    /// Elements of memory from the first element to the last, both counted.
    pub(crate) fn span(&self) -> usize {
        if self.shape.contains(&0) {
            return 0;
        }
        let last: usize = self
            .shape
            .iter()
            .zip(&self.strides)
            .map(|(n, stride)| (n - 1) * stride)
            .sum();
        last + 1
    }

    /// Whether the elements follow one another in row-major order.
    pub(crate) fn is_packed(&self) -> bool {
        let mut next = 1;
        self.len() == 0
            || self
                .shape
                .iter()
                .zip(&self.strides)
                .rev()
                .all(|(&extent, &stride)| {
                    let in_place = extent == 1 || stride == next;
                    next *= extent;
                    in_place
                })
    }

    /// The indices in `range` of dimension `dim`, and the offset of their first element.
    pub(crate) fn slice(
        &self,
        dim: usize,
        range: impl RangeBounds<usize>,
    ) -> Result<(Self, usize), Error> {
        let extent = self.extent(dim)?;
        // Saturating: what it hides is out of range all the same.
        let start = match range.start_bound() {
            Bound::Included(&n) => n,
            Bound::Excluded(&n) => n.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&n) => n.saturating_add(1),
            Bound::Excluded(&n) => n,
            Bound::Unbounded => extent,
        };
        if start > end || end > extent {
            return Err(Error::Slice {
                dim,
                start,
                end,
                extent,
            });
        }
        let mut layout = self.clone();
        layout.shape[dim] = end - start;
        // No element, no place: `start` may be one past the last.
        let offset = if start == end {
            0
        } else {
            start * self.strides[dim]
        };
        Ok((layout, offset))
    }

    /// Index `index` of dimension `dim`, which goes, and the offset of the first element.
    pub(crate) fn select(&self, dim: usize, index: usize) -> Result<(Self, usize), Error> {
        let (mut layout, offset) = self.slice(dim, index..=index)?;
        layout.shape.remove(dim);
        layout.strides.remove(dim);
        Ok((layout, offset))
    }

    /// The dimensions in another order: the new dimension `i` is the old `order[i]`.
    pub(crate) fn permute(&self, order: &[usize]) -> Result<Self, Error> {
        let mut named = SmallVec::<[bool; 8]>::from_elem(false, self.rank());
        let ok = order.len() == self.rank()
            && order
                .iter()
                .all(|&dim| dim < self.rank() && !std::mem::replace(&mut named[dim], true));
        if !ok {
            return Err(Error::Permutation {
                order: order.into(),
                rank: self.rank(),
            });
        }
        Ok(Self {
            shape: order.iter().map(|&dim| self.shape[dim]).collect(),
            strides: order.iter().map(|&dim| self.strides[dim]).collect(),
        })
    }

    /// Repeated into `shape`: new dimensions in front, and those of extent 1, get stride 0.
    pub(crate) fn broadcast(&self, shape: &[usize]) -> Result<Self, Error> {
        let error = || Error::Broadcast {
            from: self.shape.to_vec(),
            to: shape.into(),
        };
        let new = shape.len().checked_sub(self.rank()).ok_or_else(error)?;
        let mut strides = Dims::from_elem(0, shape.len());
        for (i, (&from, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            if from == shape[new + i] {
                strides[new + i] = stride;
            } else if from != 1 {
                return Err(error());
            }
        }
        Self::strided(shape, &strides)
    }

    /// Offset of every element, in row-major order.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = usize> {
        let mut index = Dims::from_elem(0, self.rank());
        let mut offset = 0;
        (0..self.len()).map(move |_| {
            let this = offset;
            for dim in (0..self.rank()).rev() {
                if self.shape[dim] == 1 {
                    // Its stride leads nowhere, and may be any number.
                    continue;
                }
                index[dim] += 1;
                offset += self.strides[dim];
                if index[dim] < self.shape[dim] {
                    break;
                }
                offset -= self.strides[dim] * self.shape[dim];
                index[dim] = 0;
            }
            this
        })
    }

    fn extent(&self, dim: usize) -> Result<usize, Error> {
        self.shape.get(dim).copied().ok_or(Error::NoSuchDimension {
            dim,
            rank: self.rank(),
        })
    }
}

fn too_large(shape: &[usize], strides: &[usize]) -> Error {
    Error::TooLarge {
        shape: shape.into(),
        strides: strides.into(),
        limit: MAX_ELEMS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_follow_one_another() {
        let layout = Layout::packed(&[2, 3, 4]).unwrap();
        assert_eq!(layout.strides(), [12, 4, 1]);
        assert_eq!((layout.len(), layout.span()), (24, 24));
        assert!(layout.offsets().eq(0..24));
    }

    #[test]
    fn a_dimension_of_zero_leaves_no_elements() {
        for shape in [vec![0], vec![3, 0], vec![0, 3], vec![0, MAX_ELEMS]] {
            let layout = Layout::packed(&shape).unwrap();
            assert_eq!(
                (layout.len(), layout.span(), layout.offsets().count()),
                (0, 0, 0),
                "{shape:?}"
            );
        }
    }

    #[test]
    fn sizes_are_limited_at_their_edge() {
        assert_eq!(Layout::packed(&[MAX_ELEMS]).unwrap().len(), MAX_ELEMS);
        assert!(matches!(
            Layout::packed(&[MAX_ELEMS + 1]),
            Err(Error::TooLarge { .. })
        ));
        assert!(matches!(
            Layout::packed(&[usize::MAX, usize::MAX]),
            Err(Error::TooLarge { .. })
        ));
        assert_eq!(
            Layout::strided(&[2], &[MAX_ELEMS - 1]).unwrap().span(),
            MAX_ELEMS
        );
        assert!(matches!(
            Layout::strided(&[2], &[MAX_ELEMS]),
            Err(Error::TooLarge { .. })
        ));
        assert!(matches!(
            Layout::strided(&[3], &[usize::MAX]),
            Err(Error::TooLarge { .. })
        ));
        assert!(matches!(
            Layout::strided(&[MAX_ELEMS, 2], &[0, 1]),
            Err(Error::TooLarge { .. })
        ));
        assert!(matches!(
            Layout::strided(&[2, 2], &[1]),
            Err(Error::StrideCount { .. })
        ));
    }

    #[test]
    fn views_read_the_elements_they_name() {
        let layout = Layout::packed(&[3, 4, 5]).unwrap();
        let at = |i: usize, j: usize, k: usize| 20 * i + 5 * j + k;

        let (slice, first) = layout.slice(1, 1..3).unwrap();
        let expected =
            (0..3).flat_map(|i| (1..3).flat_map(move |j| (0..5).map(move |k| at(i, j, k))));
        assert!(slice.offsets().map(|o| o + first).eq(expected));

        let (select, first) = layout.select(0, 2).unwrap();
        assert_eq!(select.shape(), [4, 5]);
        assert!(select.offsets().map(|o| o + first).eq(40..60));

        let permuted = layout.permute(&[1, 0, 2]).unwrap();
        let expected =
            (0..4).flat_map(|j| (0..3).flat_map(move |i| (0..5).map(move |k| at(i, j, k))));
        assert!(permuted.offsets().eq(expected));

        let broadcast = Layout::packed(&[2, 1, 3])
            .unwrap()
            .broadcast(&[2, 2, 2, 3])
            .unwrap();
        assert_eq!(broadcast.strides(), [0, 3, 0, 1]);
        assert_eq!(broadcast.span(), 6);
        let once = [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5];
        assert!(broadcast.offsets().eq(once.into_iter().chain(once)));
    }

    #[test]
    fn the_stride_of_a_single_index_may_be_any_number() {
        let layout = Layout::strided(&[2, 1, 2], &[10, usize::MAX, 1]).unwrap();
        assert_eq!(layout.span(), 12);
        assert!(layout.offsets().eq([0, 1, 10, 11]));
    }

    #[test]
    fn packed_is_what_needs_no_gathering() {
        let strided = |shape: &[usize], strides: &[usize]| Layout::strided(shape, strides).unwrap();
        assert!(Layout::packed(&[2, 1, 3]).unwrap().is_packed());
        assert!(strided(&[2, 1, 3], &[3, 99, 1]).is_packed());
        assert!(strided(&[0, 3], &[7, 7]).is_packed());
        assert!(!strided(&[2, 3], &[4, 1]).is_packed());
        assert!(!strided(&[2, 3], &[1, 2]).is_packed());
        assert!(!strided(&[2, 3], &[0, 1]).is_packed());
    }

    #[test]
    fn views_refuse_what_is_not_there() {
        let layout = Layout::packed(&[3, 4]).unwrap();
        assert!(layout.slice(0, 3..3).unwrap().0.len() == 0);
        assert!(layout.slice(1, ..=3).is_ok());
        #[allow(clippy::reversed_empty_ranges)]
        for range in [0..4, 4..4, 2..1] {
            assert!(matches!(
                layout.slice(0, range),
                Err(Error::Slice { extent: 3, .. })
            ));
        }
        assert!(matches!(
            layout.slice(0, ..=usize::MAX),
            Err(Error::Slice { .. })
        ));
        assert!(matches!(
            layout.slice(2, ..),
            Err(Error::NoSuchDimension { dim: 2, rank: 2 })
        ));
        assert!(matches!(layout.select(0, 3), Err(Error::Slice { .. })));
        for order in [vec![0], vec![0, 0], vec![0, 2], vec![0, 1, 2]] {
            assert!(
                matches!(layout.permute(&order), Err(Error::Permutation { .. })),
                "{order:?}"
            );
        }
        for shape in [vec![4], vec![3, 5], vec![1, 4], vec![0, 4]] {
            assert!(
                matches!(layout.broadcast(&shape), Err(Error::Broadcast { .. })),
                "{shape:?}"
            );
        }
    }
}
