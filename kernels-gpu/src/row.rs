//! Where the rows of a tensor are.
//!
//! A row is the last dimension; its elements are adjacent. The dimensions before it, up to four
//! after the host has merged what can be merged, each have an extent and a stride for the input and
//! for the output. All offsets are 64-bit and in elements.

use cuda_std::ext::math::{mul_hi_u32, opaque_u32};

/// Most leading dimensions that one launch can walk.
pub const MAX_DIMS: usize = 4;

/// Most rows of one launch, and most columns of a row: division by multiplication needs both below 2^31.
pub const MAX_ROWS: u32 = i32::MAX as u32;

/// One leading dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Dim {
    stride_in: u64,
    stride_out: u64,
    extent: u32,
    /// `ceil(2^(31 + log2_ceil) / extent)`.
    magic: u32,
    /// `log2_ceil - 1`, where `log2_ceil = ceil(log2 extent)`.
    shift: u32,
    unused: u32,
}

impl Dim {
    /// Panics where `extent` is 0 or above [`MAX_ROWS`].
    #[inline]
    fn new(extent: u32, stride_in: u64, stride_out: u64) -> Self {
        assert!(
            (1..=MAX_ROWS).contains(&extent),
            "a dimension of {extent} is not in 1..={MAX_ROWS}"
        );
        // Exact for every n < 2^31: Granlund and Montgomery, "Division by invariant integers using
        // multiplication", PLDI 1994, theorem 4.2 with N = 31. An extent of 1 divides as 2 would,
        // and `locate` does not ask it to.
        let log2_ceil = extent.max(2).next_power_of_two().trailing_zeros();
        Self {
            stride_in,
            stride_out,
            extent,
            magic: (1u64 << (31 + log2_ceil)).div_ceil(u64::from(extent.max(2))) as u32,
            shift: log2_ceil - 1,
            unused: 0,
        }
    }

    /// `(n / extent, n % extent)`.
    #[inline(always)]
    fn divide(self, n: u32) -> (u32, u32) {
        // Opaque, or every kernel would begin by reading this of dimensions that there are not.
        let (extent, shift) = (opaque_u32(self.extent), opaque_u32(self.shift));
        let quotient = if extent == 1 {
            n
        } else {
            mul_hi_u32(n, self.magic) >> shift
        };
        (quotient, n.wrapping_sub(quotient.wrapping_mul(extent)))
    }
}

/// Offset of every row of a launch in its input and in its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RowLayout {
    /// Strides of the input and of the output where there is one dimension, 0 where there is none; [`SEVERAL`] where there
    /// are more. With these here and the parameters in this order, all that most launches ask for lies in one line of the
    /// constant cache, each of which takes a tenth of a microsecond to come.
    only: [u64; 2],
    dims: u32,
    /// Where blocks walk rows: how many a block.
    rows_per_block: u32,
    /// Innermost first. Those past `dims` are not looked at.
    dim: [Dim; MAX_DIMS],
}

/// No stride of anything that memory can hold.
const SEVERAL: u64 = 1 << 63;

impl RowLayout {
    /// A layout from `(extent, input stride, output stride)`, outermost dimension first, strides in
    /// elements. No dimensions: a single row.
    ///
    /// # Panics
    ///
    /// Where there are more than [`MAX_DIMS`] dimensions, or an extent is 0 or above [`MAX_ROWS`].
    // Inline, since what is not is compiled for the device too, panics and all, though only the host calls it.
    #[inline]
    pub fn new(dims: &[(u32, u64, u64)]) -> Self {
        assert!(
            dims.len() <= MAX_DIMS,
            "{} leading dimensions, a launch walks {MAX_DIMS}",
            dims.len()
        );
        let mut dim = [Dim::default(); MAX_DIMS];
        for (slot, &(extent, stride_in, stride_out)) in dim.iter_mut().zip(dims.iter().rev()) {
            *slot = Dim::new(extent, stride_in, stride_out);
        }
        let only = match *dims {
            [] => [0, 0],
            [(_, stride_in, stride_out)] => [stride_in, stride_out],
            _ => [SEVERAL; 2],
        };
        Self {
            only,
            dims: dims.len() as u32,
            rows_per_block: 1,
            dim,
        }
    }

    /// The same, for a kernel whose blocks walk up to `rows` rows, at least 1, one after the other.
    pub fn walked_in(self, rows: u32) -> Self {
        Self {
            rows_per_block: rows,
            ..self
        }
    }

    /// Of `rows` rows, the first of those that block or cluster number `block` walks, and the one after the last.
    #[inline(always)]
    pub fn walk(&self, block: u32, rows: u32) -> (u32, u32) {
        // Both fit: a grid has no block without a row, and rows are below 2^31.
        let first = block.wrapping_mul(self.rows_per_block);
        (first, rows.min(first.wrapping_add(self.rows_per_block)))
    }

    /// Offsets, in elements, of the first element of `row` in the input and in the output.
    #[inline(always)]
    pub fn locate(&self, row: u32) -> (u64, u64) {
        let [only_in, only_out] = self.only;
        if only_in != SEVERAL {
            // Nothing to divide.
            let row = u64::from(row);
            return (only_in.wrapping_mul(row), only_out.wrapping_mul(row));
        }
        // Opaque, or the compiler would divide in every case and select afterwards.
        let (mut rest, dims) = (opaque_u32(row), opaque_u32(self.dims));
        let mut offsets = (0, 0);
        // Written out, since a by-value parameter indexed at run time would be copied to local memory.
        self.step::<0>(dims, &mut rest, &mut offsets);
        self.step::<1>(dims, &mut rest, &mut offsets);
        self.step::<2>(dims, &mut rest, &mut offsets);
        self.step::<3>(dims, &mut rest, &mut offsets);
        offsets
    }

    /// The coordinates of `row`.
    #[inline(always)]
    pub fn coordinates(&self, row: u32) -> Coordinates {
        let mut at = [row, 0, 0, 0];
        if self.dims > 1 {
            // Opaque, or the compiler would divide in every case and select afterwards.
            let mut rest = opaque_u32(row);
            at = [
                self.coordinate::<0>(&mut rest),
                self.coordinate::<1>(&mut rest),
                self.coordinate::<2>(&mut rest),
                self.coordinate::<3>(&mut rest),
            ];
        }
        Coordinates {
            at,
            dims: self.dims,
        }
    }

    /// Extent of the innermost dimension; 0 where there is none.
    #[inline(always)]
    pub fn innermost_extent(&self) -> u32 {
        self.dim[0].extent
    }

    /// Strides of a dimension, the innermost being 0, in elements of the input and of the output.
    #[inline(always)]
    pub fn strides(&self, dim: usize) -> (u64, u64) {
        (self.dim[dim].stride_in, self.dim[dim].stride_out)
    }

    /// Takes dimension `D`'s coordinate off `rest`. The outermost one takes all that is left.
    #[inline(always)]
    fn coordinate<const D: usize>(&self, rest: &mut u32) -> u32 {
        if D as u32 + 1 < self.dims {
            let (quotient, remainder) = self.dim[D].divide(*rest);
            *rest = quotient;
            remainder
        } else {
            core::mem::take(rest)
        }
    }

    /// Takes dimension `D`'s coordinate off `rest`. The outermost of `dims` takes all that is left.
    #[inline(always)]
    fn step<const D: usize>(&self, dims: u32, rest: &mut u32, offsets: &mut (u64, u64)) {
        if D as u32 >= dims {
            return;
        }
        let dim = self.dim[D];
        let coordinate = if D as u32 + 1 == dims {
            *rest
        } else {
            let (quotient, remainder) = dim.divide(*rest);
            *rest = quotient;
            remainder
        };
        offsets.0 = offsets
            .0
            .wrapping_add(dim.stride_in.wrapping_mul(u64::from(coordinate)));
        offsets.1 = offsets
            .1
            .wrapping_add(dim.stride_out.wrapping_mul(u64::from(coordinate)));
    }
}

/// Where a row is among those of a launch, innermost dimension first; 0 where there is no dimension.
pub struct Coordinates {
    at: [u32; MAX_DIMS],
    dims: u32,
}

impl Coordinates {
    /// The index in the innermost dimension.
    #[inline(always)]
    pub fn innermost(&self) -> u32 {
        self.at[0]
    }

    /// Offset of the row where dimensions have these strides; those that there are not are not asked for, but the innermost.
    #[inline(always)]
    pub fn place(&self, stride: impl Fn(usize) -> u64) -> u64 {
        let term = |dim: usize| stride(dim).wrapping_mul(u64::from(self.at[dim]));
        // Written out, since a by-value parameter indexed at run time would be copied to local memory.
        let mut offset = term(0);
        if self.dims > 1 {
            offset = offset.wrapping_add(term(1));
            if self.dims > 2 {
                offset = offset.wrapping_add(term(2));
                if self.dims > 3 {
                    offset = offset.wrapping_add(term(3));
                }
            }
        }
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact_at_every_edge() {
        let mut extents: Vec<u32> = (1..=70).collect();
        extents.extend([
            641,
            1000,
            65_535,
            65_536,
            65_537,
            (1 << 30) - 1,
            1 << 30,
            (1 << 30) + 1,
            MAX_ROWS,
        ]);
        for &extent in &extents {
            let dim = Dim::new(extent, 0, 0);
            let multiples = (0..50u64).map(|k| k * u64::from(extent));
            let top = (0..50u64).map(|k| {
                (u64::from(MAX_ROWS) / u64::from(extent)).saturating_sub(k) * u64::from(extent)
            });
            let edges = [0, 1, u64::from(MAX_ROWS) - 1].into_iter();
            for n in multiples
                .chain(top)
                .chain(edges)
                .flat_map(|n| [n.saturating_sub(1), n, n + 1])
            {
                let Ok(n) = u32::try_from(n) else { continue };
                if n < MAX_ROWS {
                    assert_eq!(dim.divide(n), (n / extent, n % extent), "{n} / {extent}");
                }
            }
        }
    }

    #[test]
    fn rows_lie_where_the_strides_say() {
        let dims = [
            (3, 1_000_000_000_000, 7),
            (1, 13, 17),
            (5, 0, 1 << 40),
            (4, 100, 11),
        ];
        let layout = RowLayout::new(&dims);
        let mut row = 0;
        for a in 0..3u64 {
            for c in 0..5u64 {
                for d in 0..4u64 {
                    let expected = (a * 1_000_000_000_000 + d * 100, a * 7 + (c << 40) + d * 11);
                    assert_eq!(layout.locate(row), expected);
                    row += 1;
                }
            }
        }
        assert_eq!(RowLayout::new(&[]).locate(0), (0, 0));
    }
}
