//! The devices of this machine, and one call on one of them.

use std::sync::OnceLock;

use half::{bf16, f16};
use warp_softmax::{
    DType, Device, Element, Error, Plan, Problem, Softmax, Tensor, TensorView, TensorViewMut, Way,
};

use crate::case::{Case, Placement, Target};
use crate::oracle::Op;
use crate::settings;

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
    Backend {
        name: "emulator",
        device: Device::emulator(),
    }
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
            println!("no GPU here: {}", error.chain());
            None
        }
    });
    first.as_ref().map(|device| Backend {
        name: "cuda",
        device: device.new_stream().expect("a GPU has another stream"),
    })
}

/// Every backend that this machine has and the environment leaves.
///
/// # Panics
///
/// Where none is left.
pub fn all() -> Vec<Backend> {
    let emulator = settings::runs_on("emulator").then(emulator);
    let cuda = settings::runs_on("cuda").then(cuda).flatten();
    let all: Vec<Backend> = emulator.into_iter().chain(cuda).collect();
    assert!(!all.is_empty(), "WARP_SOFTMAX_BACKEND leaves no backend");
    all
}

/// Calls `test` for the device of [`all`] of them.
///
/// # Panics
///
/// Where there is none.
pub fn each_device(test: impl Fn(&Device)) {
    all().iter().for_each(|backend| test(&backend.device));
}

/// An element and its bits.
pub(crate) trait Native: Element {
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

pub(crate) fn native<T: Native>(bits: &[u32]) -> Vec<T> {
    bits.iter().map(|&bits| T::from_u32(bits)).collect()
}

pub(crate) fn bits<T: Native>(elements: &[T]) -> Vec<u32> {
    elements.iter().map(|&element| element.to_u32()).collect()
}

/// Who chooses the kernel of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// The plan, among those that give the same bits everywhere.
    Reproducible,
    /// The plan.
    Default,
    /// The test, by way; of those too that give the same bits everywhere.
    Forced(Way),
}

/// The operation that a case asks for.
fn softmax(op: &Op, choice: Choice) -> Softmax {
    let softmax = Softmax::new()
        .scale(op.scale)
        .fully_masked(op.fully_masked)
        .nan_policy(op.nan_policy);
    match choice {
        Choice::Reproducible => softmax.reproducible(),
        Choice::Default => softmax,
        Choice::Forced(way) => softmax.force_way(way),
    }
}

/// A plan, unless it takes too many threads.
fn plan(
    op: &Softmax,
    device: &Device,
    problem: &Problem,
    most_threads: u64,
) -> Result<Plan, Refused> {
    let plan = op.plan_for(device, problem)?;
    let threads = plan.launches() * u64::from(plan.grid()) * u64::from(plan.threads_per_block());
    if threads > most_threads {
        Err(Refused::Slow)
    } else {
        Ok(plan)
    }
}

/// Why a call gave no results.
#[derive(Debug)]
pub enum Refused {
    /// The forced way cannot hold the row.
    Way,
    /// The call takes more threads than it may.
    Slow,
    /// Anything else: a failure.
    Other(String),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            Error::WayNotPossible { .. } => Self::Way,
            error => Self::Other(error.chain()),
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

/// Runs a case on a device.
///
/// It is an error if anything but the output's rows has changed: the input, the gaps and guards of
/// either side.
pub fn run(device: &Device, case: &Case, choice: Choice) -> Result<Ran, Refused> {
    run_within(device, case, choice, u64::MAX)
}

/// As [`run`], unless it takes more threads than that.
pub fn run_within(
    device: &Device,
    case: &Case,
    choice: Choice,
    most_threads: u64,
) -> Result<Ran, Refused> {
    let op = softmax(&case.op, choice);
    let call = Call {
        device,
        case,
        op,
        most_threads,
    };
    match &case.y {
        Target::InPlace => match case.input {
            DType::F32 => call.in_place::<f32>(),
            DType::F16 => call.in_place::<f16>(),
            DType::BF16 => call.in_place::<bf16>(),
        },
        Target::Apart(y) => match (case.input, case.output) {
            (DType::F32, DType::F32) => call.apart::<f32, f32>(y),
            (DType::F16, DType::F16) => call.apart::<f16, f16>(y),
            (DType::BF16, DType::BF16) => call.apart::<bf16, bf16>(y),
            (DType::F16, DType::F32) => call.apart::<f16, f32>(y),
            (DType::BF16, DType::F32) => call.apart::<bf16, f32>(y),
            (DType::F32, DType::F16) => call.apart::<f32, f16>(y),
            (DType::F32, DType::BF16) => call.apart::<f32, bf16>(y),
            (input, output) => Err(Refused::Other(format!(
                "the tests know no {input} to {output}"
            ))),
        },
    }
}

/// A case on a device, by a choice of kernel.
struct Call<'a> {
    device: &'a Device,
    case: &'a Case,
    op: Softmax,
    most_threads: u64,
}

impl Call<'_> {
    fn apart<I: Native, O: Native>(&self, y: &Placement) -> Result<Ran, Refused> {
        let Self {
            device,
            case,
            op,
            most_threads,
        } = self;
        let x = device.tensor_from(&native::<I>(&case.buffer), [case.buffer.len()])?;
        let before = vec![O::from_u32(POISON); y.buffer_elements(&case.lead, case.cols)];
        let mut out = device.tensor_from(&before, [before.len()])?;
        let problem = Problem::between(view(&x, case, &case.x)?, view_mut(&mut out, case, y)?)?;
        let plan = plan(op, device, &problem, *most_threads)?;
        op.forward_into(view(&x, case, &case.x)?, view_mut(&mut out, case, y)?)?;
        expect_same("the input", &case.buffer, &bits(&x.to_vec()?))?;
        let bits = rows_of(case, y, &bits(&before), &bits(&out.to_vec()?))?;
        Ok(Ran { plan, bits })
    }

    fn in_place<T: Native>(&self) -> Result<Ran, Refused> {
        let Self {
            device,
            case,
            op,
            most_threads,
        } = self;
        let mut x = device.tensor_from(&native::<T>(&case.buffer), [case.buffer.len()])?;
        // A problem looks at the rows' addresses only: those of any other tensor do, aligned as `x` is.
        let other = device.zeros::<T>([case.buffer.len()])?;
        let problem = Problem::between(
            view(&other, case, &case.x)?,
            view_mut(&mut x, case, &case.x)?,
        )?;
        let plan = plan(op, device, &problem, *most_threads)?;
        op.forward_in_place(view_mut(&mut x, case, &case.x)?)?;
        let bits = rows_of(case, &case.x, &case.buffer, &bits(&x.to_vec()?))?;
        Ok(Ran { plan, bits })
    }
}

/// The rows of a placement in a buffer, and not an element more: the emulator stops a kernel that
/// touches the rest.
fn view<'a, T: Native>(
    buffer: &'a Tensor<T>,
    case: &Case,
    placement: &Placement,
) -> Result<TensorView<'a, T>, Error> {
    let first = address_of::<T>(buffer.address(), placement);
    let (shape, strides, extent) = geometry(case, placement);
    // SAFETY: live: the buffer, which is longer, is borrowed as long; unwritten: by safe code, since it is.
    unsafe {
        TensorView::from_raw(
            buffer.device(),
            core::ptr::with_exposed_provenance(first),
            extent,
            shape,
            strides,
        )
    }
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
    (
        case.shape(),
        strides,
        placement.extent(&case.lead, case.cols),
    )
}

/// The rows of a buffer after the call; an error if anything else is not as before.
fn rows_of(
    case: &Case,
    placement: &Placement,
    before: &[u32],
    after: &[u32],
) -> Result<Vec<u32>, Refused> {
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
