//! A case: one softmax call, down to where every row lies in memory.

use core::fmt;

use warp_softmax::DType;

use crate::content::Content;
use crate::format::Format;
use crate::oracle::Op;
use crate::random::Random;

/// Elements of guard before and after a tensor: more than any access is wide.
pub const GUARD: usize = 64;

/// Where a tensor's rows lie in a buffer. Strides and offsets in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The first element of the first row.
    pub offset: usize,
    /// A stride for each leading dimension, outermost first.
    pub strides: Vec<usize>,
}

impl Placement {
    /// Rows one after another from `offset` on.
    pub fn packed(lead: &[usize], cols: usize, offset: usize) -> Self {
        Self::padded(lead, cols, offset)
    }

    /// Rows `pitch` elements apart from `offset` on, and the dimensions before the last two packed.
    pub fn padded(lead: &[usize], pitch: usize, offset: usize) -> Self {
        let mut stride = pitch;
        let mut strides = vec![0; lead.len()];
        for (slot, &extent) in strides.iter_mut().zip(lead).rev() {
            *slot = stride;
            stride *= extent;
        }
        Self { offset, strides }
    }

    /// First element of every row, the last leading dimension running fastest.
    pub fn rows(&self, lead: &[usize]) -> Vec<usize> {
        let mut starts = vec![self.offset];
        for (&extent, &stride) in lead.iter().zip(&self.strides) {
            starts = starts
                .iter()
                .flat_map(|&start| (0..extent).map(move |i| start + i * stride))
                .collect();
        }
        starts
    }

    /// Elements from the first one to the end of the last row that lies furthest.
    pub fn extent(&self, lead: &[usize], cols: usize) -> usize {
        if cols == 0 || lead.contains(&0) {
            return 0;
        }
        let furthest: usize = lead
            .iter()
            .zip(&self.strides)
            .map(|(&n, &stride)| (n - 1) * stride)
            .sum();
        furthest + cols
    }

    /// Elements of a buffer that holds the tensor with a guard behind it.
    pub fn buffer_elements(&self, lead: &[usize], cols: usize) -> usize {
        self.offset + self.extent(lead, cols) + GUARD
    }
}

/// Where the results go.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// Over the input.
    InPlace,
    /// To a buffer of their own.
    Apart(Placement),
}

/// One softmax call.
#[derive(Clone)]
pub struct Case {
    /// Type of the input.
    pub input: DType,
    /// Type of the output.
    pub output: DType,
    /// The dimensions before the last.
    pub lead: Vec<usize>,
    /// The last dimension: elements of a row.
    pub cols: usize,
    /// Where the input lies.
    pub x: Placement,
    /// Where the output goes.
    pub y: Target,
    /// What is asked for.
    pub op: Op,
    /// What guards and gaps of the input hold: NaN unless told otherwise.
    pub gaps: f32,
    /// What the rows hold, for messages.
    pub contents: String,
    /// The whole input buffer, guards and gaps included, as bits.
    pub buffer: Vec<u32>,
}

impl Case {
    /// Packed tensors at 256 bytes, apart, with default options and not yet filled.
    pub fn new((input, output): (DType, DType), lead: &[usize], cols: usize) -> Self {
        let packed = Placement::packed(lead, cols, GUARD);
        Self {
            input,
            output,
            lead: lead.to_vec(),
            cols,
            x: packed.clone(),
            y: Target::Apart(packed),
            op: Op::default(),
            gaps: f32::NAN,
            contents: "the test's own".into(),
            buffer: Vec::new(),
        }
    }

    /// The same call in place.
    pub fn in_place(mut self) -> Self {
        assert_eq!(self.input, self.output, "in place, both types are the same");
        self.y = Target::InPlace;
        self
    }

    /// The same with the input elsewhere.
    pub fn x_at(mut self, x: Placement) -> Self {
        assert!(
            self.buffer.is_empty(),
            "place the input before it is filled"
        );
        assert_eq!(
            x.strides.len(),
            self.lead.len(),
            "a stride for each leading dimension"
        );
        self.x = x;
        self
    }

    /// The same with the output elsewhere.
    pub fn y_at(mut self, y: Placement) -> Self {
        assert_eq!(
            y.strides.len(),
            self.lead.len(),
            "a stride for each leading dimension"
        );
        self.y = Target::Apart(y);
        self
    }

    /// The same with other options.
    pub fn op(mut self, op: Op) -> Self {
        self.op = op;
        self
    }

    /// The same with something else in the input's guards and gaps.
    pub fn gaps(mut self, value: f32) -> Self {
        self.gaps = value;
        self
    }

    /// Gives the input its contents, `row(r)` for the r-th row. Where rows share memory, the last one
    /// fills it.
    pub fn fill(self, mut row: impl FnMut(usize) -> Vec<f32>) -> Self {
        let input = self.input;
        self.fill_bits(|r| row(r).into_iter().map(|x| input.finite_bits(x)).collect())
    }

    /// As [`Case::fill`], from bits.
    pub fn fill_bits(mut self, mut row: impl FnMut(usize) -> Vec<u32>) -> Self {
        let length = self.x.buffer_elements(&self.lead, self.cols);
        self.buffer = vec![self.input.finite_bits(self.gaps); length];
        for (r, start) in self.x.rows(&self.lead).into_iter().enumerate() {
            let bits = row(r);
            assert_eq!(bits.len(), self.cols, "a row of another length");
            self.buffer[start..start + self.cols].copy_from_slice(&bits);
        }
        self
    }

    /// Fills every row with the same kind of content.
    pub fn fill_with(self, content: Content, seed: u64) -> Self {
        let (cols, mut random) = (self.cols, Random::new(seed));
        let filled = self.fill(|_| content.row(cols, &mut random));
        Self {
            contents: format!("{content:?}, seed {seed}"),
            ..filled
        }
    }

    /// Fills each row with a kind of content of its own.
    pub fn fill_with_any(self, seed: u64) -> Self {
        let (cols, mut random) = (self.cols, Random::new(seed));
        let mut contents = Vec::new();
        let filled = self.fill(|_| {
            let content = Content::any(&mut random);
            contents.push(format!("{content:?}"));
            content.row(cols, &mut random)
        });
        Self {
            contents: format!("{}, seed {seed}", contents.join(", ")),
            ..filled
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lead.iter().product()
    }

    /// The shape: leading dimensions, then columns.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self.lead.clone();
        shape.push(self.cols);
        shape
    }

    /// The input's rows, as bits, in order.
    pub fn input_rows(&self) -> impl Iterator<Item = &[u32]> {
        self.x
            .rows(&self.lead)
            .into_iter()
            .map(|start| &self.buffer[start..start + self.cols])
    }
}

/// All but the elements: those follow from what the contents say.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("input", &self.input)
            .field("output", &self.output)
            .field("lead", &self.lead)
            .field("cols", &self.cols)
            .field("x", &self.x)
            .field("y", &self.y)
            .field("op", &self.op)
            .field("contents", &self.contents)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_where_strides_say() {
        let placement = Placement {
            offset: 5,
            strides: vec![100, 0, 7],
        };
        let lead = [2, 2, 3];
        assert_eq!(
            placement.rows(&lead),
            [5, 12, 19, 5, 12, 19, 105, 112, 119, 105, 112, 119]
        );
        assert_eq!(placement.extent(&lead, 4), 118);
        assert_eq!(placement.extent(&[2, 0, 3], 4), 0);
        assert_eq!(Placement::packed(&[], 4, 9).rows(&[]), [9]);
        assert_eq!(Placement::padded(&[2, 3], 16, 0).strides, [48, 16]);
    }

    #[test]
    fn gaps_and_guards_hold_nan_and_rows_their_contents() {
        let case = Case::new((DType::F32, DType::F32), &[2], 3)
            .x_at(Placement {
                offset: 1,
                strides: vec![5],
            })
            .fill(|r| vec![r as f32; 3]);
        assert_eq!(case.buffer.len(), 1 + 8 + GUARD);
        for (i, &bits) in case.buffer.iter().enumerate() {
            let expected = match i {
                1..4 => 0.0f32.to_bits(),
                6..9 => 1.0f32.to_bits(),
                _ => 0x7fc0_0000,
            };
            assert_eq!(bits, expected, "element {i}");
        }
        let rows: Vec<_> = case.input_rows().collect();
        assert_eq!(rows, [[0; 3], [1.0f32.to_bits(); 3]]);
    }
}
