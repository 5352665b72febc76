//! How the leading dimensions of tensors that are walked together are divided between launches and the
//! inside of a launch.

use kernels_gpu::row::{MAX_DIMS, MAX_ROWS};
use smallvec::SmallVec;

/// A leading dimension of `N` tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis<const N: usize> {
    /// At least 1.
    pub(crate) extent: u64,
    /// Of each tensor, in elements.
    pub(crate) strides: [u64; N],
}

/// Leading dimensions, outermost first.
pub(crate) type Axes<const N: usize> = SmallVec<[Axis<N>; 8]>;

/// The rows of one launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece<const N: usize> {
    /// Offset of the first row in each tensor, in elements.
    pub(crate) first: [u64; N],
    /// How many rows.
    pub(crate) rows: u32,
    dims: [(u32, [u64; N]); MAX_DIMS],
    count: usize,
}

impl<const N: usize> Piece<N> {
    /// The dimensions that the launch walks, outermost first: extent and strides.
    pub(crate) fn dims(&self) -> &[(u32, [u64; N])] {
        &self.dims[..self.count]
    }
}

/// How the dimensions are divided.
#[derive(Clone, Copy)]
struct Split {
    /// The first so many dimensions are walked by launches alone.
    outer: usize,
    /// The next dimension is walked so many indices a launch; those after it wholly in a launch.
    piece: u64,
    /// Rows of a launch that walks as many.
    rows: u32,
}

/// The fewest dimensions that walk the same rows, those with the largest `key` outermost.
pub(crate) fn merge<const N: usize, K: Ord>(
    axes: impl Iterator<Item = Axis<N>>,
    key: impl Fn(&Axis<N>) -> K,
) -> Axes<N> {
    let mut dims: Axes<N> = axes.filter(|axis| axis.extent > 1).collect();
    // Rows may come in any order.
    dims.sort_by_key(|axis| std::cmp::Reverse(key(axis)));
    dims.dedup_by(|inner, outer| {
        let one = inner
            .strides
            .iter()
            .zip(&outer.strides)
            .all(|(inner_stride, outer)| inner.extent.checked_mul(*inner_stride) == Some(*outer));
        if one {
            outer.extent *= inner.extent;
            outer.strides = inner.strides;
        }
        one
    });
    if dims.len() > MAX_DIMS {
        // Launches walk the first ones: the shortest, so that there are few launches.
        dims.sort_by_key(|axis| axis.extent);
    }
    dims
}

/// Number of launches that [`piece`] divides the rows into, and rows of the first, which is the largest.
pub(crate) fn pieces<const N: usize>(dims: &[Axis<N>]) -> (u64, u32) {
    let split = split(dims);
    let before: u64 = dims[..split.outer].iter().map(|axis| axis.extent).product();
    (before * split.cuts(dims), split.rows)
}

/// The rows of launch `number`, counted from 0; none is larger than the first's.
pub(crate) fn piece<const N: usize>(dims: &[Axis<N>], number: u64) -> Piece<N> {
    let split = split(dims);
    let Split { outer, piece, rows } = split;
    let mut part = Piece {
        first: [0; N],
        rows,
        dims: [(1, [0; N]); MAX_DIMS],
        count: dims.len() - outer,
    };
    for (slot, axis) in part.dims.iter_mut().zip(&dims[outer..]) {
        // At most MAX_ROWS together, by the split.
        *slot = (axis.extent as u32, axis.strides);
    }
    if number == 0 {
        part.dims[0].0 = piece as u32;
        return part;
    }
    let mut advance = |axis: &Axis<N>, index: u64| {
        for (first, stride) in part.first.iter_mut().zip(axis.strides) {
            *first += index * stride;
        }
    };
    // There is a dimension, or there would be one launch.
    let cut = &dims[outer];
    let cuts = split.cuts(dims);
    let first = number % cuts * piece;
    advance(cut, first);
    let mut rest = number / cuts;
    for axis in dims[..outer].iter().rev() {
        advance(axis, rest % axis.extent);
        rest /= axis.extent;
    }
    part.dims[0].0 = piece.min(cut.extent - first) as u32;
    part.rows = part.dims().iter().map(|&(extent, _)| extent).product();
    part
}

impl Split {
    /// Launches that walk the indices of the dimension that is cut.
    fn cuts<const N: usize>(self, dims: &[Axis<N>]) -> u64 {
        match dims.get(self.outer) {
            // Most often, and then there is nothing to divide by.
            Some(axis) if axis.extent > self.piece => axis.extent.div_ceil(self.piece),
            _ => 1,
        }
    }
}

fn split<const N: usize>(dims: &[Axis<N>]) -> Split {
    let limit = u64::from(MAX_ROWS);
    let mut split = Split {
        outer: 0,
        piece: 1,
        rows: 1,
    };
    for (outer, axis) in dims.iter().enumerate().rev().take(MAX_DIMS) {
        let rows = u64::from(split.rows);
        let with_all = axis.extent.checked_mul(rows).filter(|&all| all <= limit);
        let piece = with_all.map_or_else(|| limit / rows, |_| axis.extent);
        split = Split {
            outer,
            piece,
            rows: (rows * piece) as u32,
        };
        if with_all.is_none() {
            break;
        }
    }
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(dims: &[(u64, u64)]) -> Axes<1> {
        let axis = |&(extent, stride): &(u64, u64)| Axis {
            extent,
            strides: [stride],
        };
        dims.iter().map(axis).collect()
    }

    /// Every launch has a box of rows, no larger than the first's, and all have all rows once.
    #[test]
    fn launches_are_boxes_that_cover_all_rows() {
        const MOST: u64 = MAX_ROWS as u64;
        for dims in [
            // Cut by the extent of one dimension, of two together, and by the number of dimensions.
            &[(3, 1 << 40), (MOST + 5, 2)][..],
            &[(3, 1 << 50), (2 * MOST, 1 << 8), (2, 4)],
            &[(3, 1 << 50), (1 << 20, 1 << 24), (1 << 20, 1)],
            &[
                (5, 1 << 40),
                (3, 1 << 30),
                (2, 1 << 20),
                (2, 100),
                (2, 10),
                (2, 1),
            ],
            &[(3, 1 << 50), (MOST, 1)],
            &[(MOST, 1)],
            &[(MOST + 1, 1)],
        ] {
            let dims = axes(dims);
            let all: u64 = dims.iter().map(|axis| axis.extent).product();
            let (count, most) = pieces(&dims);
            assert_eq!(most, piece(&dims, 0).rows);
            let (mut rows, mut next) = (0, 0);
            for number in 0..count {
                let piece = piece(&dims, number);
                assert!(piece.rows <= most);
                assert!(piece.dims().len() <= MAX_DIMS);
                let inside: u64 = piece
                    .dims()
                    .iter()
                    .map(|&(extent, _)| u64::from(extent))
                    .product();
                assert_eq!(u64::from(piece.rows), inside);
                // Rows are counted in the order of the dimensions: so this is the first that none had so far.
                let (mut rest, mut first) = (next, 0);
                for axis in dims.iter().rev() {
                    first += rest % axis.extent * axis.strides[0];
                    rest /= axis.extent;
                }
                assert_eq!(piece.first, [first], "launch {number} of {dims:?}");
                rows += inside;
                next = rows;
            }
            assert_eq!(rows, all, "{dims:?}");
        }
    }
}
