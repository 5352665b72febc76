//! The operation.

use kernels_gpu::options::{FullyMasked, NanPolicy, Options};

use crate::layout::Layout;
use crate::problem::Side;
use crate::{Device, Element, Error, Input, Output, Plan, Problem, Tensor, Way, launch};

/// Softmax over the last dimension: `y_i = exp(scale * x_i) / sum_j exp(scale * x_j)`.
///
/// | in a row | gives |
/// |---|---|
/// | finite elements | positive numbers that sum to 1, as far as the type can say |
/// | -inf | 0 |
/// | nothing but -inf | as [`fully_masked`](Self::fully_masked) says: zeros |
/// | a NaN | as [`nan_policy`](Self::nan_policy) says: NaN in the whole row, and in no other |
/// | +inf | NaN in the whole row |
/// | no elements, or no rows | nothing; not an error |
///
/// Arithmetic is in f32 whatever the types. The bits of a row's results depend on the row, the
/// scale and the types alone: not on its place in the batch, the number of rows, strides or the
/// device.
///
/// # Tensors
///
/// Any rank from 1. The last dimension's stride is 1, other strides are anything that keeps the
/// output's elements apart; an input's may be 0, or lead to the same elements otherwise. Input and
/// output have one shape and one [`Device`]. They share memory only if they are the same elements:
/// then the operation is in place. Rows have up to [`MAX_COLS`](crate::MAX_COLS) elements; there
/// may be any number of them.
///
/// # Errors
///
/// All methods check their request before anything is launched, and say in the [`Error`] what was
/// given and what is allowed. On a GPU a method returns once the work is on the stream; that it
/// fails there is said by a later call.
///
/// # Example
///
/// ```
/// use warp_softmax::{Device, Softmax};
///
/// let device = Device::emulator();
/// let scores = device.tensor_from(&[2.0f32, 2.0, 6.0, f32::NEG_INFINITY], [2, 2])?;
/// let weights = Softmax::new().scale(0.125).forward(&scores)?;
/// assert_eq!(weights.to_vec()?, [0.5, 0.5, 1.0, 0.0]);
/// # Ok::<(), warp_softmax::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Softmax {
    pub(crate) options: Options,
    forced_way: Option<Way>,
}

impl Softmax {
    /// The plain softmax: scale 1, zeros for a row with nothing left, NaN for a row with a NaN.
    pub fn new() -> Self {
        Self::default()
    }

    /// Multiplies every element by `scale`, in f32, before anything else.
    pub fn scale(mut self, scale: f32) -> Self {
        self.options.scale = scale;
        self
    }

    /// What a row gives in which every element is masked or -inf.
    pub fn fully_masked(mut self, fully_masked: FullyMasked) -> Self {
        self.options.fully_masked = fully_masked;
        self
    }

    /// What a NaN in the input does.
    pub fn nan_policy(mut self, nan_policy: NanPolicy) -> Self {
        self.options.nan_policy = nan_policy;
        self
    }

    /// Asks for the same bits on every GPU and on the emulator, even where that is slower.
    ///
    /// No kernel so far gives anything else, so this changes nothing.
    pub fn reproducible(self) -> Self {
        self
    }

    /// Takes this way and no other.
    #[doc(hidden)]
    pub fn force_way(mut self, way: Way) -> Self {
        self.forced_way = Some(way);
        self
    }

    /// A new packed tensor of the input's shape and type.
    ///
    /// # Errors
    ///
    /// As [above](Self#errors), and where memory is exhausted or the stream is being captured.
    pub fn forward<'a, X: Input<'a>>(&self, x: X) -> Result<Tensor<X::Elem>, Error> {
        self.forward_as::<X::Elem>(x)
    }

    /// A new packed tensor of the input's shape, with elements of type `U`.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward), and where there is no kernel for the two types.
    pub fn forward_as<'a, U: Element>(&self, x: impl Input<'a>) -> Result<Tensor<U>, Error> {
        let x = x.into_view();
        // Before the allocation: a request that is refused costs nothing.
        let (problem, plan) = self.plan_fresh::<U>(x.device(), x.side())?;
        let y = Tensor::uninitialised(x.device(), Layout::packed(x.shape())?)?;
        // SAFETY: planned: for an output like `y`, which is aligned as all new memory and nobody
        // else's; live: both vouch for their memory, and the device's stream orders all work on it.
        unsafe {
            launch::softmax(
                x.device(),
                &problem,
                &plan,
                self.options,
                x.side(),
                y.view().side(),
            )?
        };
        Ok(y)
    }

    /// Writes the results into `y`.
    ///
    /// After [`prepare`](Self::prepare) it allocates nothing, waits for nothing, and can be
    /// captured into a CUDA graph.
    ///
    /// # Errors
    ///
    /// As [above](Self#errors).
    pub fn forward_into<'x, 'y>(&self, x: impl Input<'x>, y: impl Output<'y>) -> Result<(), Error> {
        let (x, y) = (x.into_view(), y.into_view_mut());
        if !x.device().shares_stream_with(y.device()) {
            return Err(Error::DeviceMismatch {
                first: x.device().name().into(),
                second: y.device().name().into(),
            });
        }
        // SAFETY: both views vouch for their memory, and the device's stream orders all work on it.
        unsafe { self.run(x.device(), x.side(), y.side()) }
    }

    /// Replaces the elements of `x` by the results.
    ///
    /// # Errors
    ///
    /// As [above](Self#errors).
    pub fn forward_in_place<'a>(&self, x: impl Output<'a>) -> Result<(), Error> {
        let x = x.into_view_mut();
        // SAFETY: the view vouches for its memory, and the device's stream orders all work on it.
        unsafe { self.run(x.device(), x.side(), x.side()) }
    }

    /// What [`forward`](Self::forward) would launch.
    ///
    /// # Errors
    ///
    /// Those that [`forward`](Self::forward) would find in the request.
    pub fn plan<'a, X: Input<'a>>(&self, x: X) -> Result<Plan, Error> {
        let x = x.into_view();
        self.plan_fresh::<X::Elem>(x.device(), x.side())
            .map(|(_, plan)| plan)
    }

    /// What a call with this problem would launch on `device`.
    ///
    /// # Errors
    ///
    /// Those that the call would find in the request.
    pub fn plan_for(&self, device: &Device, problem: &Problem) -> Result<Plan, Error> {
        let Options { scale, .. } = self.options;
        if !scale.is_finite() {
            return Err(Error::ScaleNotFinite { scale });
        }
        Plan::new(problem, device.properties(), self.forced_way)
    }

    /// Loads the kernels that a call with this problem needs, so that the call itself only
    /// launches.
    ///
    /// No workspace is needed.
    ///
    /// # Errors
    ///
    /// As for [`plan_for`](Self::plan_for), and where the driver cannot load a kernel.
    pub fn prepare(&self, device: &Device, problem: &Problem) -> Result<(), Error> {
        device.prepare(self.plan_for(device, problem)?.kernel())
    }

    /// The plan for a packed output that is yet to be made.
    fn plan_fresh<U: Element>(
        &self,
        device: &Device,
        input: Side<'_>,
    ) -> Result<(Problem, Plan), Error> {
        let layout = Layout::packed(input.layout.shape())?;
        let problem = Problem::of_sides(input, Side::fresh(U::DTYPE, &layout))?;
        let plan = self.plan_for(device, &problem)?;
        Ok((problem, plan))
    }

    /// # Safety
    ///
    /// Until the work is done, both sides are memory of the device, and nothing touches the
    /// output's elements, or writes the input's, that is not ordered with the work.
    unsafe fn run(&self, device: &Device, input: Side<'_>, output: Side<'_>) -> Result<(), Error> {
        let (problem, plan) = self.plan_sides(device, input, output)?;
        // SAFETY: planned: just now, and the sides do not meet; live: the caller's.
        unsafe { launch::softmax(device, &problem, &plan, self.options, input, output) }
    }

    /// The plan from one side to another that do not meet, unless they are the same elements.
    pub(crate) fn plan_sides(
        &self,
        device: &Device,
        input: Side<'_>,
        output: Side<'_>,
    ) -> Result<(Problem, Plan), Error> {
        let problem = Problem::of_sides(input, output)?;
        if problem.operands_meet(input.address, output.address) {
            return Err(Error::InputOutputOverlap {
                shape: input.layout.shape().into(),
                input: input.address,
                input_strides: input.layout.strides().into(),
                input_dtype: input.dtype,
                output: output.address,
                output_strides: output.layout.strides().into(),
                output_dtype: output.dtype,
            });
        }
        let plan = self.plan_for(device, &problem)?;
        Ok((problem, plan))
    }
}
