//! What is to be computed: a validated shape, its strides and its types.

use kernels_gpu::row::{MAX_DIMS, MAX_ROWS, RowLayout};

use crate::layout::{Layout, MAX_ELEMS};
use crate::overlap::{Elements, Rows, rows_meet, tensors_meet};
use crate::walk::{self, Axes};
use crate::{DType, Element, Error, Input, Operand, Output};

/// Longest row that a kernel takes, in elements.
pub const MAX_COLS: usize = MAX_ROWS as usize;

/// The largest alignment that matters, in bytes: the line that memory moves in.
pub const MAX_ROW_ALIGNMENT: u32 = 128;

/// A softmax over the last dimension: shape, strides and types, checked, and reduced to what
/// matters.
///
/// Leading dimensions that can be walked as one are one: two problems that differ only in how the
/// same rows are counted are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    input: DType,
    output: DType,
    cols: u32,
    /// Outermost first; extents of 1 and what could be merged are gone. Empty if there are no
    /// elements.
    dims: Axes<2>,
    has_elems: bool,
    row_alignment_in: u32,
    row_alignment_out: u32,
}

/// A tensor as a problem sees it.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) dtype: DType,
    pub(crate) layout: &'a Layout,
    /// Of the first element.
    pub(crate) address: u64,
}

/// A leading dimension: its strides in the input and in the output.
type Axis = walk::Axis<2>;

/// The rows of one launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    /// Offset of the first row, in elements, in the input.
    pub(crate) first_in: u64,
    /// Offset of the first row, in elements, in the output.
    pub(crate) first_out: u64,
    /// How many rows.
    pub(crate) rows: u32,
    /// Where the rows are, from the first.
    pub(crate) layout: RowLayout,
}

impl Problem {
    /// A softmax of `shape` from one set of strides to another; strides are in elements. The first
    /// elements are taken to lie where new tensors do, at a multiple of [`MAX_ROW_ALIGNMENT`].
    ///
    /// # Errors
    ///
    /// Where there are no dimensions, the types have no kernel, the rows are too long or their
    /// elements not adjacent, the output's elements share memory, or shape and strides are too
    /// large.
    pub fn new(
        shape: &[usize],
        (input, strides_in): (DType, &[usize]),
        (output, strides_out): (DType, &[usize]),
    ) -> Result<Self, Error> {
        let (layout_in, layout_out) = (
            Layout::strided(shape, strides_in)?,
            Layout::strided(shape, strides_out)?,
        );
        Self::of_sides(
            Side::fresh(input, &layout_in),
            Side::fresh(output, &layout_out),
        )
    }

    /// A softmax of `shape` where input and output are packed.
    ///
    /// # Errors
    ///
    /// As for [`Problem::new`].
    pub fn packed(shape: &[usize], input: DType, output: DType) -> Result<Self, Error> {
        let layout = Layout::packed(shape)?;
        Self::of_sides(Side::fresh(input, &layout), Side::fresh(output, &layout))
    }

    /// The softmax from one tensor to another.
    ///
    /// # Errors
    ///
    /// As for [`Problem::new`], and where the shapes differ.
    pub fn between<'x, 'y>(
        x: impl Input<'x, Elem: Element>,
        y: impl Output<'y, Elem: Element>,
    ) -> Result<Self, Error> {
        let (x, y) = (x.into_view(), y.into_view_mut());
        Self::of_sides(x.side(), y.side())
    }

    pub(crate) fn of_sides(input: Side<'_>, output: Side<'_>) -> Result<Self, Error> {
        let (layout_in, layout_out) = (input.layout, output.layout);
        let shape = layout_in.shape();
        if shape != layout_out.shape() {
            return Err(Error::ShapeMismatch {
                input: shape.into(),
                output: layout_out.shape().into(),
            });
        }
        let Some((&cols, leading)) = shape.split_last() else {
            return Err(Error::RankZero);
        };
        let dtypes = (input.dtype, output.dtype);
        if dtypes.0 != dtypes.1 && dtypes.0 != DType::F32 && dtypes.1 != DType::F32 {
            return Err(Error::DTypes {
                input: dtypes.0,
                output: dtypes.1,
            });
        }
        if cols > MAX_COLS {
            return Err(Error::RowTooLong {
                cols,
                limit: MAX_COLS,
            });
        }
        let mut problem = Self {
            input: dtypes.0,
            output: dtypes.1,
            cols: cols as u32,
            dims: Axes::new(),
            has_elems: !shape.contains(&0),
            row_alignment_in: MAX_ROW_ALIGNMENT,
            row_alignment_out: MAX_ROW_ALIGNMENT,
        };
        if !problem.has_elems {
            return Ok(problem);
        }
        for (operand, layout) in [(Operand::Input, layout_in), (Operand::Output, layout_out)] {
            let stride = layout.strides()[leading.len()];
            if cols > 1 && stride != 1 {
                return Err(Error::LastStride {
                    operand,
                    stride,
                    cols,
                });
            }
        }
        let strides = layout_in.strides().iter().zip(layout_out.strides());
        let axes = leading
            .iter()
            .zip(strides)
            .map(|(&extent, (&stride_in, &stride_out))| Axis {
                extent: extent as u64,
                strides: [stride_in as u64, stride_out as u64],
            });
        // The output is written front to back.
        problem.dims = walk::merge(axes, |&Axis { strides, .. }| (strides[1], strides[0]));
        if rows_meet(
            problem
                .dims
                .iter()
                .map(|axis| (axis.extent, axis.strides[1])),
            cols as u64,
        ) {
            return Err(Error::OutputOverlaps {
                shape: shape.into(),
                strides: layout_out.strides().into(),
            });
        }
        problem.row_alignment_in =
            row_alignment(input, problem.dims.iter().map(|axis| axis.strides[0]));
        problem.row_alignment_out =
            row_alignment(output, problem.dims.iter().map(|axis| axis.strides[1]));
        Ok(problem)
    }

    /// The input's type.
    pub fn input(&self) -> DType {
        self.input
    }

    /// The output's type.
    pub fn output(&self) -> DType {
        self.output
    }

    /// Elements a row.
    pub fn cols(&self) -> usize {
        self.cols as usize
    }

    /// Number of rows; 0 if there are no elements, though there be rows of length 0.
    pub fn rows(&self) -> u64 {
        if self.has_elems {
            self.dims.iter().map(|axis| axis.extent).product()
        } else {
            0
        }
    }

    /// Whether the rows follow one another without a gap, in the input and in the output.
    pub fn is_packed(&self) -> bool {
        match self.dims[..] {
            [] => true,
            [Axis { strides, .. }] => strides == [u64::from(self.cols); 2],
            _ => false,
        }
    }

    /// The largest power of two, in bytes and at most [`MAX_ROW_ALIGNMENT`], that the address of
    /// every row of the input is a multiple of.
    pub fn row_alignment_in(&self) -> u32 {
        self.row_alignment_in
    }

    /// The same of the output.
    pub fn row_alignment_out(&self) -> u32 {
        self.row_alignment_out
    }

    /// Whether an element of the input at one address and one of the output at another share
    /// memory, without all of them being the same elements.
    pub(crate) fn operands_meet(&self, input: u64, output: u64) -> bool {
        let (bytes_in, bytes_out) = (
            self.input.size_bytes() as u64,
            self.output.size_bytes() as u64,
        );
        let in_place = input == output
            && bytes_in == bytes_out
            && self
                .dims
                .iter()
                .all(|axis| axis.strides[0] == axis.strides[1]);
        if in_place || !self.has_elems {
            return false;
        }
        let cols = u64::from(self.cols);
        let rows = |address, elem_bytes| Rows {
            address,
            row_bytes: cols * elem_bytes,
        };
        let dims = |side: usize, elem_bytes| {
            let axes = self.dims.iter();
            axes.map(move |axis| (axis.extent, axis.strides[side] * elem_bytes))
        };
        tensors_meet(
            (&rows(input, bytes_in), dims(0, bytes_in)),
            (&rows(output, bytes_out), dims(1, bytes_out)),
        )
    }

    /// That input and output do not meet, unless they are the same elements.
    pub(crate) fn check_overlap(&self, input: Side<'_>, output: Side<'_>) -> Result<(), Error> {
        if !self.operands_meet(input.address, output.address) {
            return Ok(());
        }
        Err(Error::InputOutputOverlap {
            shape: input.layout.shape().into(),
            input: input.address,
            input_strides: input.layout.strides().into(),
            input_dtype: input.dtype,
            output: output.address,
            output_strides: output.layout.strides().into(),
            output_dtype: output.dtype,
        })
    }

    /// Number of launches that [`Problem::part`] divides the rows into, and rows of the first, which is the largest.
    pub(crate) fn parts(&self) -> (u64, u32) {
        if !self.has_elems {
            return (0, 0);
        }
        walk::pieces(&self.dims)
    }

    /// The rows of launch `number`, counted from 0.
    pub(crate) fn part(&self, number: u64) -> Part {
        let piece = walk::piece(&self.dims, number);
        let mut dims = [(1, 0, 0); MAX_DIMS];
        for (slot, &(extent, [stride_in, stride_out])) in dims.iter_mut().zip(piece.dims()) {
            *slot = (extent, stride_in, stride_out);
        }
        Part {
            first_in: piece.first[0],
            first_out: piece.first[1],
            rows: piece.rows,
            layout: RowLayout::new(&dims[..piece.dims().len()]),
        }
    }
}

impl<'a> Side<'a> {
    pub(crate) fn elements(&self) -> Elements<'a> {
        Elements {
            address: self.address,
            layout: self.layout,
            elem_bytes: self.dtype.size_bytes() as u64,
        }
    }

    /// A tensor that is yet to be made; address 0 is a multiple of everything.
    pub(crate) fn fresh(dtype: DType, layout: &'a Layout) -> Self {
        Self {
            dtype,
            layout,
            address: 0,
        }
    }
}

fn row_alignment(side: Side<'_>, strides: impl Iterator<Item = u64>) -> u32 {
    let size = side.dtype.size_bytes() as u64;
    let all = strides.fold(
        side.address | u64::from(MAX_ROW_ALIGNMENT),
        |bits, stride| bits | (stride * size),
    );
    1 << all.trailing_zeros()
}

/// The longest tensor's bytes, as offsets in elements times the element's size, fit a u64.
const _: () = assert!(MAX_ELEMS as u128 * 4 <= u64::MAX as u128);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Input and output offset of every row, by the shape and strides themselves.
    fn rows_by_force(
        shape: &[usize],
        strides_in: &[usize],
        strides_out: &[usize],
    ) -> Vec<(u64, u64)> {
        let leading = shape.len() - 1;
        let starts =
            |strides: &[usize]| Layout::strided(&shape[..leading], &strides[..leading]).unwrap();
        let (input, output) = (starts(strides_in), starts(strides_out));
        input
            .offsets()
            .map(|n| n as u64)
            .zip(output.offsets().map(|n| n as u64))
            .collect()
    }

    fn rows_by_parts(problem: &Problem) -> Vec<(u64, u64)> {
        let parts = (0..problem.parts().0).map(|number| problem.part(number));
        let rows = parts.flat_map(|part| {
            (0..part.rows).map(move |row| {
                let (offset_in, offset_out) = part.layout.locate(row);
                (part.first_in + offset_in, part.first_out + offset_out)
            })
        });
        rows.collect()
    }

    /// Strides of a packed tensor whose dimensions were larger by `gaps` and come in `order`.
    fn strides(shape: &[usize], gaps: &[usize], order: &[usize]) -> Vec<usize> {
        let mut strides = vec![1; shape.len()];
        let mut stride = shape[shape.len() - 1] + gaps[shape.len() - 1];
        for &dim in order {
            strides[dim] = stride;
            stride *= shape[dim].max(1) + gaps[dim];
        }
        strides
    }

    /// A shape of rank 1 to 7, and two sets of strides for it in which no elements meet.
    fn problem() -> impl Strategy<Value = (Vec<usize>, Vec<usize>, Vec<usize>)> {
        let extent = prop_oneof![6 => 1..4usize, 1 => 0..1usize];
        prop::collection::vec(extent, 1..8)
            .prop_flat_map(|shape| {
                let rank = shape.len();
                let gaps =
                    || prop::collection::vec(prop_oneof![3 => 0..1usize, 1 => 0..3usize], rank);
                let order = || {
                    let forward: Vec<usize> = (0..rank - 1).rev().collect();
                    prop_oneof![Just(forward.clone()), Just(forward).prop_shuffle()]
                };
                let broadcast = prop::collection::vec(prop::bool::weighted(0.2), rank);
                (Just(shape), gaps(), gaps(), order(), order(), broadcast)
            })
            .prop_map(
                |(shape, gaps_in, gaps_out, order_in, order_out, broadcast)| {
                    let mut strides_in = strides(&shape, &gaps_in, &order_in);
                    let leading = shape.len() - 1;
                    for (stride, _) in strides_in[..leading]
                        .iter_mut()
                        .zip(broadcast)
                        .filter(|(_, broadcast)| *broadcast)
                    {
                        *stride = 0;
                    }
                    let strides_out = strides(&shape, &gaps_out, &order_out);
                    (shape, strides_in, strides_out)
                },
            )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn parts_walk_every_row_once((shape, strides_in, strides_out) in problem()) {
            let problem = Problem::new(&shape, (DType::F32, &strides_in), (DType::F32, &strides_out)).unwrap();
            let mut got = rows_by_parts(&problem);
            let mut expected = rows_by_force(&shape, &strides_in, &strides_out);
            if shape.contains(&0) {
                expected.clear();
            }
            got.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(problem.rows(), expected.len() as u64);
            prop_assert_eq!(got, expected);
        }
    }

    fn dims(shape: &[usize], strides_in: &[usize], strides_out: &[usize]) -> Vec<(u64, u64, u64)> {
        let problem =
            Problem::new(shape, (DType::F32, strides_in), (DType::F32, strides_out)).unwrap();
        problem
            .dims
            .iter()
            .map(|axis| (axis.extent, axis.strides[0], axis.strides[1]))
            .collect()
    }

    #[test]
    fn dimensions_merge_where_both_strides_allow() {
        let packed = [60, 20, 5, 1];
        assert_eq!(dims(&[2, 3, 4, 5], &packed, &packed), [(24, 5, 5)]);
        // The input has a gap between its outermost blocks.
        assert_eq!(
            dims(&[2, 3, 4, 5], &[61, 20, 5, 1], &packed),
            [(2, 61, 60), (12, 5, 5)]
        );
        // Broadcast over the middle.
        assert_eq!(
            dims(&[2, 3, 4, 5], &[20, 0, 5, 1], &packed),
            [(2, 20, 60), (3, 0, 20), (4, 5, 5)]
        );
        // In place on a permuted tensor: the order of rows does not matter.
        assert_eq!(
            dims(&[4, 3, 2, 5], &[5, 20, 60, 1], &[5, 20, 60, 1]),
            [(24, 5, 5)]
        );
        assert_eq!(dims(&[1, 5], &[0, 1], &[7, 1]), []);
        assert_eq!(dims(&[5], &[1], &[1]), []);
    }

    #[test]
    fn more_rows_than_a_launch_takes_are_several() {
        let rows = |rows: usize| Problem::packed(&[rows, 1], DType::F32, DType::F32).unwrap();
        let limit = MAX_ROWS as usize;
        assert_eq!(rows(limit).parts().0, 1);
        let problem = rows(4 * limit + 5);
        assert_eq!(problem.parts().0, 5);
        let last = problem.part(4);
        assert_eq!((last.first_in, last.rows), (4 * limit as u64, 5));
        let parts: Vec<_> = (0..5).map(|number| problem.part(number)).collect();
        assert_eq!(
            parts.iter().map(|part| u64::from(part.rows)).sum::<u64>(),
            problem.rows()
        );
        assert!(parts[..4].iter().all(|part| part.rows == MAX_ROWS));

        // 3 * 2^30 rows that cannot be merged: the outer dimension is taken one by one.
        let strides = [(2 << 30) + 1, 2, 1];
        let problem = Problem::new(
            &[3, 1 << 30, 2],
            (DType::F32, &strides),
            (DType::F32, &strides),
        )
        .unwrap();
        assert_eq!(problem.parts().0, 3);
        assert_eq!(
            (problem.part(2).first_out, problem.part(2).rows),
            (2 * strides[0] as u64, 1 << 30)
        );
    }

    #[test]
    fn launches_walk_the_shortest_dimensions() {
        // Six dimensions with gaps, the longest outermost.
        let shape = [1000, 2, 2, 2, 3, 2, 1];
        let strides = strides(&shape, &[0, 1, 1, 1, 1, 1, 1], &[5, 4, 3, 2, 1, 0]);
        let problem = Problem::new(&shape, (DType::F32, &strides), (DType::F32, &strides)).unwrap();
        assert_eq!(problem.dims.len(), 6);
        assert_eq!(problem.parts().0, 4);
    }

    #[test]
    fn requests_are_refused_at_their_edge() {
        let packed = |shape: &[usize]| Problem::packed(shape, DType::F32, DType::F32);
        assert!(matches!(packed(&[]), Err(Error::RankZero)));
        assert_eq!(packed(&[2, MAX_COLS]).unwrap().cols(), MAX_COLS);
        assert!(matches!(
            packed(&[2, MAX_COLS + 1]),
            Err(Error::RowTooLong { cols, limit }) if cols == 1 << 31 && limit == cols - 1
        ));

        let strided = |shape: &[usize], input: &[usize], output: &[usize]| {
            Problem::new(shape, (DType::F32, input), (DType::F32, output))
        };
        assert!(
            strided(&[3, 1], &[1, 9], &[1, 0]).is_ok(),
            "one element has no neighbour"
        );
        assert!(matches!(
            strided(&[3, 2], &[4, 2], &[2, 1]),
            Err(Error::LastStride {
                operand: Operand::Input,
                stride: 2,
                cols: 2
            })
        ));
        assert!(matches!(
            strided(&[3, 2], &[2, 1], &[4, 0]),
            Err(Error::LastStride {
                operand: Operand::Output,
                stride: 0,
                ..
            })
        ));
        assert!(strided(&[3, 4], &[0, 1], &[4, 1]).is_ok());
        for stride in [0, 1, 3] {
            assert!(matches!(
                strided(&[3, 4], &[4, 1], &[stride, 1]),
                Err(Error::OutputOverlaps { .. })
            ));
        }
        assert!(
            strided(&[0, 4], &[9, 9], &[0, 0]).is_ok(),
            "no elements, nothing to meet"
        );

        let a = Layout::packed(&[2, 3]).unwrap();
        let b = Layout::packed(&[3, 2]).unwrap();
        assert!(matches!(
            Problem::of_sides(Side::fresh(DType::F32, &a), Side::fresh(DType::F32, &b)),
            Err(Error::ShapeMismatch { .. })
        ));
    }

    #[test]
    fn one_of_two_different_types_is_f32() {
        for input in DType::ALL {
            for output in DType::ALL {
                let possible = input == output || input == DType::F32 || output == DType::F32;
                assert_eq!(
                    Problem::packed(&[1, 8], input, output).is_ok(),
                    possible,
                    "{input} to {output}"
                );
            }
        }
    }

    #[test]
    fn alignment_is_that_of_the_worst_row() {
        let alignment = |dtype, shape: &[usize], strides: &[usize], address| {
            let layout = Layout::strided(shape, strides).unwrap();
            let side = Side {
                dtype,
                layout: &layout,
                address,
            };
            let problem =
                Problem::of_sides(side, Side::fresh(dtype, &Layout::packed(shape).unwrap()));
            problem.unwrap().row_alignment_in()
        };
        assert_eq!(alignment(DType::F32, &[4, 64], &[64, 1], 1 << 20), 128);
        assert_eq!(alignment(DType::F32, &[4, 64], &[64, 1], (1 << 20) + 8), 8);
        assert_eq!(alignment(DType::F32, &[4, 33], &[33, 1], 0), 4);
        assert_eq!(alignment(DType::F16, &[4, 33], &[33, 1], 0), 2);
        assert_eq!(alignment(DType::F16, &[4, 33], &[40, 1], 0), 16);
        assert_eq!(alignment(DType::F32, &[1, 33], &[33, 1], 0), 128, "one row");
        assert_eq!(
            alignment(DType::F32, &[4, 33], &[0, 1], 64),
            64,
            "one row, repeated"
        );
    }

    #[test]
    fn operands_may_be_equal_or_apart() {
        let f32s = Problem::packed(&[4, 8], DType::F32, DType::F32).unwrap();
        assert!(!f32s.operands_meet(4096, 4096));
        assert!(!f32s.operands_meet(4096, 4096 + 128));
        assert!(!f32s.operands_meet(4096, 4096 - 128));
        assert!(f32s.operands_meet(4096, 4096 + 124));
        assert!(f32s.operands_meet(4096, 4096 - 124));
        let narrowing = Problem::packed(&[4, 8], DType::F32, DType::F16).unwrap();
        assert!(
            narrowing.operands_meet(4096, 4096),
            "the second row's results would fall on the first row"
        );
        let gaps = Problem::new(&[4, 8], (DType::F32, &[8, 1]), (DType::F32, &[9, 1])).unwrap();
        assert!(gaps.operands_meet(4096, 4096));
        let empty = Problem::packed(&[0, 8], DType::F32, DType::F16).unwrap();
        assert!(!empty.operands_meet(4096, 4096));
    }
}
