//! From a plan to launches. Nothing is decided here, and nothing else launches a softmax kernel.

use std::ffi::c_void;
use std::ptr;

use cuda_std::emulator::Buffer;
use kernels_gpu::options::{Options, StreamOrder};
use kernels_gpu::row::RowLayout;
use kernels_gpu::scores::Scores;

use crate::device::{Device, Launch};
use crate::problem::Side;
use crate::{Error, Plan, Problem};

/// What every softmax kernel takes, in its order.
struct Parameters {
    x: *const c_void,
    y: *mut c_void,
    rows: u32,
    cols: u32,
    options: Options,
    layout: RowLayout,
}

impl Parameters {
    fn pointers(&self) -> [*const c_void; 6] {
        [
            ptr::from_ref(&self.x).cast(),
            ptr::from_ref(&self.y).cast(),
            ptr::from_ref(&self.rows).cast(),
            ptr::from_ref(&self.cols).cast(),
            ptr::from_ref(&self.options).cast(),
            ptr::from_ref(&self.layout).cast(),
        ]
    }
}

/// Launches what `plan` says on the device's stream.
///
/// # Safety
///
/// * **planned**: `plan` was made for `problem`, and `problem` for `input` and `output`, which do
///   not meet unless they are the same elements.
/// * **live**: until the work is done, the elements are memory of this device, and nothing touches
///   the output's, or writes the input's, that is not ordered with the work.
pub(crate) unsafe fn softmax(
    device: &Device,
    problem: &Problem,
    plan: &Plan,
    options: Options,
    input: Side<'_>,
    output: Side<'_>,
) -> Result<(), Error> {
    // SAFETY: parameters: the kernel's own, in its order; buffers: live; kernel: planned: for every
    // row of a part, the layout leads to elements of both, aligned where the kernel is for such rows, and
    // the plan's grid covers the part.
    each(problem, plan, options, input, output, |launch| unsafe {
        device.launch(launch)
    })
}

/// Makes the launches that `plan` says and gives them to `launch`, until one fails.
pub(crate) fn each(
    problem: &Problem,
    plan: &Plan,
    options: Options,
    input: Side<'_>,
    output: Side<'_>,
    mut launch: impl FnMut(&Launch<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let buffers = [buffer(input, false), buffer(output, true)];
    for number in 0..plan.launches() {
        let part = problem.part(number);
        let parameters = Parameters {
            x: ptr::with_exposed_provenance(element(input, part.first_in)),
            y: ptr::with_exposed_provenance_mut(element(output, part.first_out)),
            rows: part.rows,
            cols: problem.cols() as u32,
            options,
            layout: part.layout,
        };
        let pointers = parameters.pointers();
        launch(&planned(
            plan,
            part.rows,
            options.order,
            &pointers,
            &buffers,
        ))?;
    }
    Ok(())
}

/// The launch of `plan` for `rows` rows.
fn planned<'a>(
    plan: &Plan,
    rows: u32,
    order: StreamOrder,
    parameters: &'a [*const c_void],
    buffers: &'a [Buffer],
) -> Launch<'a> {
    Launch {
        kernel: plan.kernel(),
        grid: rows.div_ceil(plan.rows_per_block()) * plan.blocks_per_row(),
        cluster: plan.blocks_per_row(),
        block: plan.threads_per_block(),
        shared_bytes: plan.shared_bytes(),
        order,
        parameters,
        buffers,
    }
}

/// What every kernel of attention takes, in its order.
struct ScoresParameters {
    softmax: Parameters,
    /// Of the additive mask, the masks of keys to keep and to hide, the lengths, slopes and sinks.
    operands: [*const c_void; 6],
    sums: *mut c_void,
    scores: Scores,
}

impl ScoresParameters {
    fn pointers(&self) -> [*const c_void; 14] {
        let [x, y, rows, cols, options, layout] = self.softmax.pointers();
        let [bias, keep, hide, lengths, slopes, sinks] = self
            .operands
            .each_ref()
            .map(|operand| ptr::from_ref(operand).cast());
        let (sums, scores) = (ptr::from_ref(&self.sums), ptr::from_ref(&self.scores));
        [
            x,
            y,
            rows,
            cols,
            options,
            layout,
            bias,
            keep,
            hide,
            lengths,
            slopes,
            sinks,
            sums.cast(),
            scores.cast(),
        ]
    }
}

/// The rows of one launch of attention.
pub(crate) struct ScoresPart {
    pub(crate) x: u64,
    pub(crate) y: u64,
    pub(crate) rows: u32,
    pub(crate) cols: u32,
    pub(crate) layout: RowLayout,
    pub(crate) operands: [u64; 6],
    pub(crate) sums: u64,
    pub(crate) scores: Scores,
}

/// Launches a part of what `plan` says on the device's stream; `buffers` is all memory that it may touch.
///
/// # Safety
///
/// * **planned**: `plan` was made for the part's rows; its layout and strides lead to elements of `buffers`, of all
///   operands that its `scores` ask for, of the types that they say; rows that are written do not overlap.
/// * **live**: until the work is done, the buffers are memory of this device, and nothing touches the
///   output's, or writes the others', that is not ordered with the work.
pub(crate) unsafe fn scores(
    device: &Device,
    plan: &Plan,
    options: Options,
    part: &ScoresPart,
    buffers: &[Buffer],
) -> Result<(), Error> {
    let parameters = ScoresParameters {
        softmax: Parameters {
            x: ptr::with_exposed_provenance(part.x as usize),
            y: ptr::with_exposed_provenance_mut(part.y as usize),
            rows: part.rows,
            cols: part.cols,
            options,
            layout: part.layout,
        },
        operands: part
            .operands
            .map(|address| ptr::with_exposed_provenance(address as usize)),
        sums: ptr::with_exposed_provenance_mut(part.sums as usize),
        scores: part.scores,
    };
    let pointers = parameters.pointers();
    // SAFETY: parameters: the kernel's own, in its order; buffers: live; kernel: planned.
    unsafe { device.launch(&planned(plan, part.rows, options.order, &pointers, buffers)) }
}

pub(crate) fn buffer(side: Side<'_>, writable: bool) -> Buffer {
    Buffer {
        address: side.address,
        bytes: (side.layout.span() * side.dtype.size_bytes()) as u64,
        writable,
    }
}

/// The address of the element at `offset`.
fn element(side: Side<'_>, offset: u64) -> usize {
    (side.address + offset * side.dtype.size_bytes() as u64) as usize
}

#[cfg(test)]
mod tests {
    use kernels_gpu::entries::REGISTRY;

    use super::*;

    #[test]
    fn kernels_take_these_parameters() {
        let Parameters {
            x,
            y,
            rows,
            cols,
            options,
            layout,
        } = Parameters {
            x: ptr::null(),
            y: ptr::null_mut(),
            rows: 0,
            cols: 0,
            options: Options::default(),
            layout: RowLayout::new(&[]),
        };
        let bytes = [
            size_of_val(&x),
            size_of_val(&y),
            size_of_val(&rows),
            size_of_val(&cols),
            size_of_val(&options),
            size_of_val(&layout),
        ];
        let pointer = size_of::<*const c_void>();
        let of_attention = [&bytes[..], &[pointer; 7], &[size_of::<Scores>()]].concat();
        assert!(!REGISTRY.is_empty());
        for kernel in REGISTRY {
            let expected = if kernel.name.starts_with("attention_") {
                &of_attention[..]
            } else {
                &bytes[..]
            };
            assert_eq!(kernel.param_bytes, expected, "{}", kernel.name);
        }
    }
}
