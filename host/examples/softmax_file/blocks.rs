//! The work: rows through the device, a block of them at a time.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressStyle};
use warp_softmax::{DType, Device, Element, Softmax};

use super::tensor_file::TensorFile;

/// An element with a place in a file, in little-endian order.
trait Stored: Element {
    /// Elements of these bytes.
    fn read(bytes: &[u8]) -> Vec<Self>;
    /// Appends the bytes of `values`.
    fn write(values: &[Self], bytes: &mut Vec<u8>);
}

macro_rules! stored {
    ($($type:ty),*) => {
        $(impl Stored for $type {
            fn read(bytes: &[u8]) -> Vec<Self> {
                let (words, _) = bytes.as_chunks();
                words.iter().map(|&word| Self::from_le_bytes(word)).collect()
            }

            fn write(values: &[Self], bytes: &mut Vec<u8>) {
                bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
        })*
    };
}

stored!(f32, f16, bf16);

/// What is to be done with a tensor.
pub struct Work<'a> {
    /// Where to compute.
    pub device: &'a Device,
    /// What to compute.
    pub softmax: Softmax,
    /// Bytes to read at a time, unless a single row has more.
    pub block_bytes: usize,
}

impl Work<'_> {
    /// Writes the softmax of `input`, as `out_dtype`, to `output`.
    ///
    /// # Errors
    ///
    /// Where reading, computing or writing fails.
    pub fn run(&self, input: TensorFile, out_dtype: DType, output: &mut impl Write) -> Result<()> {
        match input.dtype {
            DType::F32 => self.run_from::<f32>(input, out_dtype, output),
            DType::F16 => self.run_from::<f16>(input, out_dtype, output),
            DType::BF16 => self.run_from::<bf16>(input, out_dtype, output),
        }
    }

    fn run_from<T: Stored>(
        &self,
        input: TensorFile,
        out_dtype: DType,
        output: &mut impl Write,
    ) -> Result<()> {
        match out_dtype {
            DType::F32 => self.run_from_to::<T, f32>(input, output),
            DType::F16 => self.run_from_to::<T, f16>(input, output),
            DType::BF16 => self.run_from_to::<T, bf16>(input, output),
        }
    }

    fn run_from_to<T: Stored, U: Stored>(
        &self,
        mut input: TensorFile,
        output: &mut impl Write,
    ) -> Result<()> {
        let elements: usize = input.shape.iter().product();
        if elements == 0 {
            return Ok(());
        }
        let cols = input.shape[input.shape.len() - 1];
        let rows = elements / cols;
        let row_bytes = cols * size_of::<T>();
        let block_rows = (self.block_bytes / row_bytes).clamp(1, rows);
        let progress = if block_rows < rows {
            progress_bar(elements * size_of::<T>())
        } else {
            ProgressBar::hidden()
        };

        let mut bytes_in = vec![0; block_rows * row_bytes];
        let mut bytes_out = Vec::new();
        let mut row = 0;
        while row < rows {
            let block_rows = block_rows.min(rows - row);
            let bytes_in = &mut bytes_in[..block_rows * row_bytes];
            input
                .data
                .read_exact(bytes_in)
                .context("the input was cut while it was read")?;
            let results = self.rows::<T, U>(&T::read(bytes_in), cols)?;
            bytes_out.clear();
            U::write(&results, &mut bytes_out);
            output
                .write_all(&bytes_out)
                .context("the output cannot be written")?;
            row += block_rows;
            progress.inc(bytes_in.len() as u64);
        }
        progress.finish_and_clear();
        Ok(())
    }

    /// The softmax of rows of `cols`.
    fn rows<T: Stored, U: Stored>(
        &self,
        values: &[T],
        cols: usize,
    ) -> Result<Vec<U>, warp_softmax::Error> {
        let x = self
            .device
            .tensor_from(values, [values.len() / cols, cols])?;
        self.softmax.forward_as::<U>(&x)?.to_vec()
    }
}

/// A bar on standard error, if that is a terminal.
fn progress_bar(bytes: usize) -> ProgressBar {
    let template = "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => ProgressBar::new(bytes as u64).with_style(style),
        Err(_) => ProgressBar::new(bytes as u64),
    }
}
