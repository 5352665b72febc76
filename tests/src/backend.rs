//! The devices of this machine, and one call on one of them.

use std::sync::OnceLock;

use half::{bf16, f16};
use warp_softmax::{DType, Device, Element, Error, Plan, Problem, Softmax, Tensor, TensorView, TensorViewMut, Way};

use crate::case::{Case, Placement, Target};
use crate::oracle::Op;

/// A device to run cases on.
#[derive(Clone, Debug)]
pub struct Backend {
    /// `emulator` or `cuda`.
    pub name: &'static str,
    /// The device.
    pub device: Device,
}

/// The emulator.
pub fn emulator() -> Backend {
    Backend { name: "emulator", device: Device::emulator() }
}

/// The first GPU, on a stream of its own; nothing, and the reason said once, where there is none.
pub fn cuda() -> Option<Backend> {
    static FIRST: OnceLock<Option<Device>> = OnceLock::new();
    let first = FIRST.get_or_init(|| match Device::cuda(0) {
        Ok(device) => {
            println!("on {}", device.name());
            Some(device)
        }
        Err(error) => {
            println!("no GPU here: {error}");
            None
        }
    });
    first.as_ref().map(|device| Backend {
        name: "cuda",
        device: device.new_stream().expect("a GPU has another stream"),
    })
}

/// Every backend that this machine has.
pub fn all() -> Vec<Backend> {
    core::iter::once(emulator()).chain(cuda()).collect()
}

/// An element and its bits.
trait Native: Element {
    fn from_u32(bits: u32) -> Self;
    fn to_u32(self) -> u32;
}

impl Native for f32 {
    fn from_u32(bits: u32) -> Self {
        Self::from_bits(bits)
    }
    fn to_u32(self) -> u32 {
        self.to_bits()
    }
}

impl Native for f16 {
    fn from_u32(bits: u32) -> Self {
        Self::from_bits(bits as u16)
    }
    fn to_u32(self) -> u32 {
        self.to_bits().into()
    }
}

impl Native for bf16 {
    fn from_u32(bits: u32) -> Self {
        Self::from_bits(bits as u16)
    }
    fn to_u32(self) -> u32 {
        self.to_bits().into()
    }
}

/// What fills an output buffer before the call: no result has these bits.
const POISON: u32 = 0x5a5a_5a5a;

fn native<T: Native>(bits: &[u32]) -> Vec<T> {
    bits.iter().map(|&bits| T::from_u32(bits)).collect()
}

fn bits<T: Native>(elements: &[T]) -> Vec<u32> {
    elements.iter().map(|&element| element.to_u32()).collect()
}

/// The operation that a case asks for.
fn softmax(op: &Op, forced: Option<Way>) -> Softmax {
    let softmax = Softmax::new().scale(op.scale).fully_masked(op.fully_masked).nan_policy(op.nan_policy);
    match forced {
        Some(way) => softmax.force_way(way),
        None => softmax,
    }
}

fn plan(op: &Softmax, device: &Device, problem: &Problem, forced: Option<Way>) -> Result<Plan, Refused> {
    let plan = op.plan_for(device, problem)?;
    let threads = plan.launches() * u64::from(plan.grid()) * u64::from(plan.threads_per_block());
    if forced.is_some() && !device.is_cuda() && threads > MOST_EMULATED_THREADS {
        return Err(Refused::Slow);
    }
    Ok(plan)
}

/// Why a call gave no results.
#[derive(Debug)]
pub enum Refused {
    /// The forced way cannot hold the row.
    Way,
    /// The forced way takes more threads for these rows than the emulator runs in a moment.
    Slow,
    /// Anything else: a failure.
    Other(String),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::WayNotPossible { .. } => Self::Way,
            error => Self::Other(error.to_string()),
        }
    }
}

/// What a call gave.
#[derive(Debug)]
pub struct Ran {
    /// What ran.
    pub plan: Plan,
    /// The results as bits, row after row.
    pub bits: Vec<u32>,
}

/// Most threads that a forced way may take on the emulator: a block of a thousand for each of very
/// many short rows takes minutes there, and shows nothing that fewer rows do not.
const MOST_EMULATED_THREADS: u64 = 1 << 17;

/// Runs a case on a device, by the plan's way or by a forced one.
///
/// It is an error if anything but the output's rows has changed: the input, the gaps and guards of
/// either side.
pub fn run(device: &Device, case: &Case, forced: Option<Way>) -> Result<Ran, Refused> {
    match &case.y {
        Target::InPlace => match case.input {
            DType::F32 => run_in_place::<f32>(device, case, forced),
            DType::F16 => run_in_place::<f16>(device, case, forced),
            DType::BF16 => run_in_place::<bf16>(device, case, forced),
        },
        Target::Apart(y) => match (case.input, case.output) {
            (DType::F32, DType::F32) => run_apart::<f32, f32>(device, case, y, forced),
            (DType::F16, DType::F16) => run_apart::<f16, f16>(device, case, y, forced),
            (DType::BF16, DType::BF16) => run_apart::<bf16, bf16>(device, case, y, forced),
            (DType::F16, DType::F32) => run_apart::<f16, f32>(device, case, y, forced),
            (DType::BF16, DType::F32) => run_apart::<bf16, f32>(device, case, y, forced),
            (DType::F32, DType::F16) => run_apart::<f32, f16>(device, case, y, forced),
            (DType::F32, DType::BF16) => run_apart::<f32, bf16>(device, case, y, forced),
            (input, output) => Err(Refused::Other(format!("the tests know no {input} to {output}"))),
        },
    }
}

fn run_apart<I: Native, O: Native>(
    device: &Device,
    case: &Case,
    y: &Placement,
    forced: Option<Way>,
) -> Result<Ran, Refused> {
    let op = softmax(&case.op, forced);
    let x = device.tensor_from(&native::<I>(&case.buffer), [case.buffer.len()])?;
    let before = vec![O::from_u32(POISON); y.buffer_elements(&case.lead, case.cols)];
    let mut out = device.tensor_from(&before, [before.len()])?;
    let problem = Problem::between(view(&x, case, &case.x)?, view_mut(&mut out, case, y)?)?;
    let plan = plan(&op, device, &problem, forced)?;
    op.forward_into(view(&x, case, &case.x)?, view_mut(&mut out, case, y)?)?;
    expect_same("the input", &case.buffer, &bits(&x.to_vec()?))?;
    let bits = rows_of(case, y, &bits(&before), &bits(&out.to_vec()?))?;
    Ok(Ran { plan, bits })
}

fn run_in_place<T: Native>(device: &Device, case: &Case, forced: Option<Way>) -> Result<Ran, Refused> {
    let op = softmax(&case.op, forced);
    let mut x = device.tensor_from(&native::<T>(&case.buffer), [case.buffer.len()])?;
    let (shape, mut strides) = (case.shape(), case.x.strides.clone());
    strides.push(1);
    let problem = Problem::new(&shape, (T::DTYPE, &strides), (T::DTYPE, &strides))?;
    let plan = plan(&op, device, &problem, forced)?;
    op.forward_in_place(view_mut(&mut x, case, &case.x)?)?;
    let bits = rows_of(case, &case.x, &case.buffer, &bits(&x.to_vec()?))?;
    Ok(Ran { plan, bits })
}

/// The rows of a placement in a buffer, and not an element more: the emulator stops a kernel that
/// touches the rest.
fn view<'a, T: Native>(buffer: &'a Tensor<T>, case: &Case, placement: &Placement) -> Result<TensorView<'a, T>, Error> {
    let first = address_of::<T>(buffer.address(), placement);
    let (shape, strides, extent) = geometry(case, placement);
    // SAFETY: live: the buffer, which is longer, is borrowed as long; unwritten: by safe code, since it is.
    unsafe { TensorView::from_raw(buffer.device(), core::ptr::with_exposed_provenance(first), extent, shape, strides) }
}

/// As [`view`], to be written.
fn view_mut<'a, T: Native>(
    buffer: &'a mut Tensor<T>,
    case: &Case,
    placement: &Placement,
) -> Result<TensorViewMut<'a, T>, Error> {
    let first = address_of::<T>(buffer.address(), placement);
    let (shape, strides, extent) = geometry(case, placement);
    let first = core::ptr::with_exposed_provenance_mut(first);
    // SAFETY: live: the buffer, which is longer, is borrowed as long; unshared: since it is borrowed mutably.
    unsafe { TensorViewMut::from_raw(buffer.device(), first, extent, shape, strides) }
}

fn address_of<T>(buffer: u64, placement: &Placement) -> usize {
    buffer as usize + placement.offset * size_of::<T>()
}

/// Shape, strides and extent.
fn geometry(case: &Case, placement: &Placement) -> (Vec<usize>, Vec<usize>, usize) {
    let mut strides = placement.strides.clone();
    strides.push(1);
    (case.shape(), strides, placement.extent(&case.lead, case.cols))
}

/// The rows of a buffer after the call; an error if anything else is not as before.
fn rows_of(case: &Case, placement: &Placement, before: &[u32], after: &[u32]) -> Result<Vec<u32>, Refused> {
    let mut rows = Vec::with_capacity(case.rows() * case.cols);
    let mut around = after.to_vec();
    for start in placement.rows(&case.lead) {
        let row = start..start + case.cols;
        rows.extend_from_slice(&after[row.clone()]);
        around[row.clone()].copy_from_slice(&before[row]);
    }
    expect_same("memory around the output", before, &around)?;
    Ok(rows)
}

fn expect_same(what: &str, before: &[u32], after: &[u32]) -> Result<(), Refused> {
    match before.iter().zip(after).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(i) => Err(Refused::Other(format!(
            "{what} changed: element {i} of the buffer was {:#x} and is {:#x}",
            before[i], after[i]
        ))),
    }
}
