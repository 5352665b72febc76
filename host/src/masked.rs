//! The softmax of attention scores: masks, biases, caps, sinks, and the logarithms.

use kernels_gpu::options::Options;
use kernels_gpu::row::RowLayout;
use kernels_gpu::scores::{Bias, Reach, Results, Scores, Strides, Sum};
use smallvec::SmallVec;

use crate::launch::{self, ScoresPart};
use crate::layout::{Dims, Layout};
use crate::overlap::{Elements, rows_meet};
use crate::plan::{self, Ability};
use crate::problem::Side;
use crate::walk::{self, Axes, Axis};
use crate::{
    DType, Device, Element, Error, Input, Operand, Output, Plan, Problem, Scalar, Softmax, Tensor,
    TensorView, TensorViewMut, Truth,
};

/// Which key is a query's own, where there are more keys than queries, or fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Align {
    /// Query `q`'s own key is `q`: the first query has the first key.
    TopLeft,
    /// Query `q`'s own key is `q + keys - queries`: the last query has the last key, as when the latest tokens look
    /// back on a cache of all.
    BottomRight,
}

impl Align {
    /// What is added to a query's number to get its own key's.
    fn offset(self, queries: u64, keys: u64) -> i64 {
        match self {
            Self::TopLeft => 0,
            Self::BottomRight => keys as i64 - queries as i64,
        }
    }
}

/// An operand beside the scores.
#[derive(Clone, Debug)]
struct Beside<'a> {
    device: &'a Device,
    address: u64,
    layout: Layout,
    elem_bytes: u64,
}

impl<'a> Beside<'a> {
    fn of<T: Scalar>(view: &TensorView<'a, T>) -> Self {
        Self {
            device: view.place_device(),
            address: view.address(),
            layout: view.layout().clone(),
            elem_bytes: size_of::<T>() as u64,
        }
    }

    fn elements(&self) -> Elements<'_> {
        Elements {
            address: self.address,
            layout: &self.layout,
            elem_bytes: self.elem_bytes,
        }
    }

    /// Whether every row of it, `strides` being those of the scores' dimensions, of `shape`, moves in whole vectors of
    /// `elems` elements, or of 16 bytes where that is less.
    fn is_wide(&self, strides: &[usize], shape: &[usize], elems: u32) -> bool {
        let Some((&1, leading)) = strides.split_last() else {
            return false;
        };
        let bytes = (u64::from(elems) * self.elem_bytes).min(16);
        // Where there is one element, nobody follows its stride, which may be any number.
        let walked = leading.iter().zip(shape).filter(|(_, extent)| **extent > 1);
        let all = walked.fold(self.address, |bits, (&stride, _)| {
            bits | (stride as u64 * self.elem_bytes)
        });
        all.is_multiple_of(bytes)
    }

    /// Strides for the scores' dimensions, where `layout` is what the operand is broadcast to.
    fn fit(
        &self,
        operand: Operand,
        shape: &[usize],
        broadcast: Result<Layout, Error>,
        rule: &'static str,
    ) -> Result<Dims, Error> {
        match broadcast {
            Ok(layout) => Ok(layout.strides().into()),
            Err(_) => Err(Error::OperandShape {
                operand,
                shape: self.layout.shape().into(),
                scores: shape.into(),
                rule,
            }),
        }
    }
}

/// What masks have to fit.
const RULE_MASK: &str =
    "counted from the last, each dimension must be that of the scores, 1 or absent";
/// What lengths have to fit.
const RULE_LENGTHS: &str = "counted from the first, each dimension must be that of the scores, 1 or absent, and the last is the keys'";
/// What slopes and sinks have to fit.
const RULE_HEADS: &str = "counted from the last but two, that of the heads, each dimension must be that of the scores, 1 or absent";

/// Softmax over the last dimension of attention scores, `[.., heads, queries, keys]`, some of which are hidden.
///
/// For the score `x` of query `q` and key `k`, in f32, each step rounded once:
///
/// ```text
/// z = scale * x
/// z = cap * tanh(z / cap)              with soft_cap
/// z = z + bias[q, k]                   with additive
/// z = z - slope * |own(q) - k|         with alibi
/// ```
///
/// Then the keys that are hidden are taken out as if there were none: by `keep`, `hide`, `causal`, `window` or
/// `key_lengths`. Of those that are left, in real numbers:
///
/// ```text
/// m = max z          s = sum exp(z - m)          with a sink: m = max(z, sink), s = .. + exp(sink - m)
///
/// y = exp(z - m) / s          log y = (z - m) - ln s          logsumexp = m + ln s
/// ```
///
/// | | softmax | log-softmax | logsumexp |
/// |---|---|---|---|
/// | of a hidden key, or one whose `z` is -inf | 0 | -inf | |
/// | of a row with nothing left, and no sink | as [`FullyMasked`](crate::FullyMasked) says: 0, `1 / keys`, NaN | -inf, `-ln keys`, NaN | -inf |
/// | of a row with NaN or +inf where it is not hidden | NaN | NaN | NaN |
/// | error, f32 results | 4 ulp | `4 * 2^-24 * max(1, \|z - m\|, ln s)` | 2 ulp of `max(\|m\|, ln s)` |
/// | error, 16-bit results | 0.51 ulp | the same and half an ulp | the same and half an ulp |
///
/// A row without keys has a logsumexp all the same, as one with nothing left.
///
/// What is hidden may hold anything, NaN as well. What causality, a window or a length hides is not read, but for
/// the rest of a vector at its edge; results are written for it. [`NanPolicy::Ignore`](crate::NanPolicy::Ignore) hides keys whose `z` is NaN.
///
/// All masks may be set together; a second mask of one kind replaces the first. They are views: nothing is copied, and where
/// a dimension is missing, of one element or of stride 0, one element stands for all. Rows that share a row of
/// a mask run close together, so that memory gives it once. Types, devices and errors are as
/// [`Softmax`] has them. All results have the same bits on the emulator and on every GPU.
///
/// ```
/// use warp_softmax::{Align, Device, Softmax};
///
/// let device = Device::emulator();
/// // One head, two queries after one key that is known already.
/// let scores = device.tensor_from(&[1.0f32, 1.0, 9.0, 1.0, 1.0, 9.0], [1, 2, 3])?;
/// let padding = device.tensor_from(&[false, true, true], [3])?;
/// let weights = Softmax::new().masked().causal(Align::BottomRight).keep(&padding).forward(&scores)?;
/// assert_eq!(weights.to_vec()?[..3], [0.0, 1.0, 0.0]);
/// # Ok::<(), warp_softmax::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MaskedSoftmax<'a> {
    softmax: Softmax,
    cap: Option<f32>,
    bias: Option<(Bias, Beside<'a>)>,
    keep: Option<Beside<'a>>,
    hide: Option<Beside<'a>>,
    lengths: Option<Beside<'a>>,
    slopes: Option<(Beside<'a>, Align)>,
    sinks: Option<Beside<'a>>,
    causal: Option<Align>,
    window: Option<(usize, usize, Align)>,
}

impl Softmax {
    /// The same softmax with room for masks and all else that attention does to scores.
    pub fn masked<'a>(&self) -> MaskedSoftmax<'a> {
        MaskedSoftmax {
            softmax: self.clone(),
            cap: None,
            bias: None,
            keep: None,
            hide: None,
            lengths: None,
            slopes: None,
            sinks: None,
            causal: None,
            window: None,
        }
    }

    /// The logarithm of the softmax, as a new packed tensor: [`MaskedSoftmax::log_softmax`] without a mask.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    #[track_caller]
    pub fn log_softmax<'x, X: Input<'x, Elem: Element>>(
        &self,
        x: X,
    ) -> Result<Tensor<X::Elem>, Error> {
        self.masked().log_softmax(x)
    }

    /// The logarithm of each row's sum of exponentials: [`MaskedSoftmax::logsumexp`] without a mask.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    #[track_caller]
    pub fn logsumexp<'x>(&self, x: impl Input<'x, Elem: Element>) -> Result<Tensor<f32>, Error> {
        self.masked().logsumexp(x)
    }

    /// The softmax and the logarithm of each row's sum of exponentials, in one pass:
    /// [`MaskedSoftmax::forward_with_logsumexp`] without a mask.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    #[track_caller]
    pub fn forward_with_logsumexp<'x, X: Input<'x, Elem: Element>>(
        &self,
        x: X,
    ) -> Result<(Tensor<X::Elem>, Tensor<f32>), Error> {
        self.masked().forward_with_logsumexp(x)
    }
}

impl<'a> MaskedSoftmax<'a> {
    /// Bounds scores softly by `cap`, which is positive, after the scale.
    pub fn soft_cap(mut self, cap: f32) -> Self {
        self.cap = Some(cap);
        self
    }

    /// Adds `bias`, of f32, f16 or bf16, to the scores, in f32.
    ///
    /// Counted from the last, each dimension is the scores', 1 or absent.
    pub fn additive<X: Input<'a, Elem: Element>>(mut self, bias: X) -> Self {
        let kind = match X::Elem::DTYPE {
            DType::F32 => Bias::F32,
            DType::F16 => Bias::F16,
            DType::BF16 => Bias::Bf16,
        };
        self.bias = Some((kind, Beside::of(&bias.into_view())));
        self
    }

    /// Hides the keys for which `keep` is false, or 0. Dimensions as for [`additive`](Self::additive).
    pub fn keep(mut self, keep: impl Input<'a, Elem: Truth>) -> Self {
        self.keep = Some(Beside::of(&keep.into_view()));
        self
    }

    /// Hides the keys for which `hide` is true, or not 0. Dimensions as for [`additive`](Self::additive).
    pub fn hide(mut self, hide: impl Input<'a, Elem: Truth>) -> Self {
        self.hide = Some(Beside::of(&hide.into_view()));
        self
    }

    /// Hides from each query the keys after its own.
    ///
    /// With fewer keys than queries, [`Align::BottomRight`] leaves nothing to the first queries.
    pub fn causal(mut self, align: Align) -> Self {
        self.causal = Some(align);
        self
    }

    /// Hides from each query all keys but its own, `left` before it and `right` after it; [`usize::MAX`] is no bound.
    pub fn window(mut self, left: usize, right: usize, align: Align) -> Self {
        self.window = Some((left, right, align));
        self
    }

    /// Hides all keys from number `lengths[batch]` on.
    ///
    /// Counted from the first, each dimension of `lengths` is the scores', 1 or absent: `[batch]` for scores of
    /// `[batch, heads, queries, keys]`.
    pub fn key_lengths(mut self, lengths: impl Input<'a, Elem = u32>) -> Self {
        self.lengths = Some(Beside::of(&lengths.into_view()));
        self
    }

    /// Takes from the scores `slopes[head]` times the distance between the query's own key and the key.
    ///
    /// Counted from the last but two of the scores' dimensions, each dimension of `slopes` is the scores', 1 or absent:
    /// `[heads]` for scores of `[batch, heads, queries, keys]`.
    pub fn alibi(mut self, slopes: impl Input<'a, Elem = f32>, align: Align) -> Self {
        self.slopes = Some((Beside::of(&slopes.into_view()), align));
        self
    }

    /// Lets a logit `sinks[head]` take part in each row's sum, and in nothing else. Neither scale nor cap changes it. Dimensions
    /// as for [`alibi`](Self::alibi).
    pub fn sink(mut self, sinks: impl Input<'a, Elem = f32>) -> Self {
        self.sinks = Some(Beside::of(&sinks.into_view()));
        self
    }

    /// The softmax, as a new packed tensor of the scores' shape and type.
    ///
    /// # Errors
    ///
    /// As for [`Softmax`], where a mask does not fit the scores or is on another device, where what is written shares
    /// memory with a mask, and where the cap is no positive normal number.
    #[track_caller]
    pub fn forward<'x, X: Input<'x, Elem: Element>>(&self, x: X) -> Result<Tensor<X::Elem>, Error> {
        self.forward_as::<X::Elem>(x)
    }

    /// The softmax, as a new packed tensor with elements of type `U`.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward), and where there is no kernel for the two types.
    #[track_caller]
    pub fn forward_as<'x, U: Element>(
        &self,
        x: impl Input<'x, Elem: Element>,
    ) -> Result<Tensor<U>, Error> {
        self.fresh(&x.into_view(), Results::Softmax)
    }

    /// Writes the softmax into `y`.
    ///
    /// Once its kernel is loaded, it allocates nothing, waits for nothing, and can be captured into a CUDA graph.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    pub fn forward_into<'x, 'y>(
        &self,
        x: impl Input<'x, Elem: Element>,
        y: impl Output<'y, Elem: Element>,
    ) -> Result<(), Error> {
        self.view_to_view(&x.into_view(), &y.into_view_mut(), Results::Softmax)
    }

    /// Replaces the scores by their softmax.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    pub fn forward_in_place<'x>(&self, x: impl Output<'x, Elem: Element>) -> Result<(), Error> {
        self.in_place(&x.into_view_mut(), Results::Softmax)
    }

    /// The logarithm of the softmax, as a new packed tensor of the scores' shape and type.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    #[track_caller]
    pub fn log_softmax<'x, X: Input<'x, Elem: Element>>(
        &self,
        x: X,
    ) -> Result<Tensor<X::Elem>, Error> {
        self.log_softmax_as::<X::Elem>(x)
    }

    /// The logarithm of the softmax, as a new packed tensor with elements of type `U`.
    ///
    /// # Errors
    ///
    /// As for [`forward_as`](Self::forward_as).
    #[track_caller]
    pub fn log_softmax_as<'x, U: Element>(
        &self,
        x: impl Input<'x, Elem: Element>,
    ) -> Result<Tensor<U>, Error> {
        self.fresh(&x.into_view(), Results::Log)
    }

    /// Writes the logarithm of the softmax into `y`. As [`forward_into`](Self::forward_into).
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    pub fn log_softmax_into<'x, 'y>(
        &self,
        x: impl Input<'x, Elem: Element>,
        y: impl Output<'y, Elem: Element>,
    ) -> Result<(), Error> {
        self.view_to_view(&x.into_view(), &y.into_view_mut(), Results::Log)
    }

    /// Replaces the scores by the logarithm of their softmax.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    pub fn log_softmax_in_place<'x>(&self, x: impl Output<'x, Elem: Element>) -> Result<(), Error> {
        self.in_place(&x.into_view_mut(), Results::Log)
    }

    /// The logarithm of each row's sum of exponentials, as a new packed tensor of the scores' shape without the keys. It
    /// reads the scores once, and writes one number a row.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    #[track_caller]
    pub fn logsumexp<'x>(&self, x: impl Input<'x, Elem: Element>) -> Result<Tensor<f32>, Error> {
        self.logsumexp_as::<f32>(x)
    }

    /// As [`logsumexp`](Self::logsumexp), with elements of any type.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    #[track_caller]
    pub fn logsumexp_as<'x, U: Element>(
        &self,
        x: impl Input<'x, Elem: Element>,
    ) -> Result<Tensor<U>, Error> {
        let x = x.into_view();
        let layout = layout_of_sums(x.shape())?;
        let fresh = Side::fresh(U::DTYPE, &layout);
        let call = self.call(x.place_device(), x.side(), None, Some(fresh))?;
        let mut sums = Tensor::uninitialised(x.device(), layout.clone())?;
        // SAFETY: both vouch for their memory, and the device's stream orders all work on it.
        unsafe { self.run(&call, x.side(), None, Some(sums.view_mut().side()))? };
        Ok(sums)
    }

    /// Writes the logarithm of each row's sum of exponentials into `sums`, of the scores' shape without the keys. As
    /// [`forward_into`](Self::forward_into).
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward), and where `sums` has another shape or shares memory with the scores.
    pub fn logsumexp_into<'x, 'y>(
        &self,
        x: impl Input<'x, Elem: Element>,
        sums: impl Output<'y, Elem: Element>,
    ) -> Result<(), Error> {
        let (x, sums) = (x.into_view(), sums.into_view_mut());
        x.device().check_shares_stream_with(sums.device())?;
        let call = self.call(x.device(), x.side(), None, Some(sums.side()))?;
        // SAFETY: both vouch for their memory, and the device's stream orders all work on it.
        unsafe { self.run(&call, x.side(), None, Some(sums.side())) }
    }

    /// The softmax, and the logarithm of each row's sum of exponentials, in one pass.
    ///
    /// Exponentials are those of f32 results: 16-bit probabilities may differ in the last place from those of
    /// [`forward`](Self::forward), by less than the error that both may have.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward).
    #[track_caller]
    pub fn forward_with_logsumexp<'x, X: Input<'x, Elem: Element>>(
        &self,
        x: X,
    ) -> Result<(Tensor<X::Elem>, Tensor<f32>), Error> {
        let x = x.into_view();
        let (layout, of_sums) = (Layout::packed(x.shape())?, layout_of_sums(x.shape())?);
        let fresh = Side::fresh(X::Elem::DTYPE, &layout);
        let results = Some((fresh, Results::Softmax));
        let fresh_sums = Side::fresh(DType::F32, &of_sums);
        let call = self.call(x.device(), x.side(), results, Some(fresh_sums))?;
        let y = Tensor::<X::Elem>::uninitialised(x.device(), layout.clone())?;
        let mut sums = Tensor::uninitialised(x.device(), of_sums.clone())?;
        // SAFETY: all vouch for their memory, and the device's stream orders all work on it.
        unsafe {
            let y = y.view();
            self.run(
                &call,
                x.side(),
                Some(y.side()),
                Some(sums.view_mut().side()),
            )?;
        }
        Ok((y, sums))
    }

    /// Writes the softmax into `y`, and the logarithm of each row's sum into `sums`. As
    /// [`forward_with_logsumexp`](Self::forward_with_logsumexp) and [`forward_into`](Self::forward_into).
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward), where `sums` has not the scores' shape without the keys, and where it shares memory
    /// with any of the others.
    pub fn forward_with_logsumexp_into<'x, 'y, 's>(
        &self,
        x: impl Input<'x, Elem: Element>,
        y: impl Output<'y, Elem: Element>,
        sums: impl Output<'s, Elem: Element>,
    ) -> Result<(), Error> {
        let (x, y, sums) = (x.into_view(), y.into_view_mut(), sums.into_view_mut());
        x.device().check_shares_stream_with(y.device())?;
        x.device().check_shares_stream_with(sums.device())?;
        let results = Some((y.side(), Results::Softmax));
        let call = self.call(x.device(), x.side(), results, Some(sums.side()))?;
        // SAFETY: all vouch for their memory, and the device's stream orders all work on it.
        unsafe { self.run(&call, x.side(), Some(y.side()), Some(sums.side())) }
    }

    /// What [`forward`](Self::forward) would launch.
    ///
    /// # Errors
    ///
    /// Those that [`forward`](Self::forward) would find in the request.
    pub fn plan<'x, X: Input<'x, Elem: Element>>(&self, x: X) -> Result<Plan, Error> {
        self.plan_fresh(&x.into_view(), Results::Softmax)
    }

    /// What [`log_softmax`](Self::log_softmax) would launch.
    ///
    /// # Errors
    ///
    /// Those that [`log_softmax`](Self::log_softmax) would find in the request.
    pub fn plan_log_softmax<'x, X: Input<'x, Elem: Element>>(&self, x: X) -> Result<Plan, Error> {
        self.plan_fresh(&x.into_view(), Results::Log)
    }

    /// What [`logsumexp`](Self::logsumexp) would launch.
    ///
    /// # Errors
    ///
    /// Those that [`logsumexp`](Self::logsumexp) would find in the request.
    pub fn plan_logsumexp<'x, X: Input<'x, Elem: Element>>(&self, x: X) -> Result<Plan, Error> {
        let x = x.into_view();
        let layout = layout_of_sums(x.shape())?;
        let sums = Some(Side::fresh(DType::F32, &layout));
        let call = self.call(x.device(), x.side(), None, sums)?;
        Ok(call.plan)
    }

    fn plan_fresh<T: Element>(
        &self,
        x: &TensorView<'_, T>,
        results: Results,
    ) -> Result<Plan, Error> {
        let layout = Layout::packed(x.shape())?;
        let fresh = Side::fresh(T::DTYPE, &layout);
        let call = self.call(x.device(), x.side(), Some((fresh, results)), None)?;
        Ok(call.plan)
    }

    /// Loads the kernels for scores like `x` and results of type `U`, so that calls only launch: for probabilities,
    /// for their logarithms and for those of sums.
    ///
    /// # Errors
    ///
    /// As for [`plan`](Self::plan), and where the driver cannot load a kernel.
    pub fn prepare_as<'x, U: Element>(
        &self,
        x: impl Input<'x, Elem: Element>,
    ) -> Result<(), Error> {
        let x = x.into_view();
        let (layout, of_sums) = (Layout::packed(x.shape())?, layout_of_sums(x.shape())?);
        let fresh = Side::fresh(U::DTYPE, &layout);
        let fresh_sums = Side::fresh(DType::F32, &of_sums);
        // Rows that are not whole vectors, as those of a view with gaps may be, have a kernel of their own.
        let anywhere = Side {
            address: fresh.address + U::DTYPE.size_bytes() as u64,
            ..fresh
        };
        for (results, sums) in [
            (Some((fresh, Results::Softmax)), None),
            (Some((anywhere, Results::Softmax)), None),
            (Some((fresh, Results::Log)), None),
            (None, Some(fresh_sums)),
        ] {
            let call = self.call(x.device(), x.side(), results, sums)?;
            x.device().prepare(call.plan.kernel())?;
        }
        Ok(())
    }

    #[track_caller]
    fn fresh<T: Element, U: Element>(
        &self,
        x: &TensorView<'_, T>,
        results: Results,
    ) -> Result<Tensor<U>, Error> {
        let layout = Layout::packed(x.shape())?;
        let fresh = Side::fresh(U::DTYPE, &layout);
        // Before the allocation: a request that is refused costs nothing.
        let call = self.call(x.device(), x.side(), Some((fresh, results)), None)?;
        let y = Tensor::uninitialised(x.device(), layout.clone())?;
        // SAFETY: both vouch for their memory, and the device's stream orders all work on it.
        unsafe { self.run(&call, x.side(), Some(y.view().side()), None)? };
        Ok(y)
    }

    fn view_to_view<T: Element, U: Element>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, U>,
        results: Results,
    ) -> Result<(), Error> {
        x.device().check_shares_stream_with(y.device())?;
        let call = self.call(x.device(), x.side(), Some((y.side(), results)), None)?;
        // SAFETY: both vouch for their memory, and the device's stream orders all work on it.
        unsafe { self.run(&call, x.side(), Some(y.side()), None) }
    }

    fn in_place<T: Element>(
        &self,
        x: &TensorViewMut<'_, T>,
        results: Results,
    ) -> Result<(), Error> {
        let call = self.call(x.device(), x.side(), Some((x.side(), results)), None)?;
        // SAFETY: the view vouches for its memory, and the device's stream orders all work on it.
        unsafe { self.run(&call, x.side(), Some(x.side()), None) }
    }

    /// Checks a request, and plans it. Without `results`, only logarithms of sums are written.
    fn call<'d>(
        &self,
        device: &'d Device,
        x: Side<'_>,
        results: Option<(Side<'_>, Results)>,
        sums: Option<Side<'_>>,
    ) -> Result<Call<'d>, Error> {
        let Options { scale, .. } = self.softmax.options;
        if !scale.is_finite() {
            return Err(Error::ScaleNotFinite { scale });
        }
        if let Some(cap) = self.cap
            && !(cap.is_normal() && cap > 0.0)
        {
            return Err(Error::SoftCap { cap });
        }
        // Where no row is written, any kernel for the input's type will do.
        let packed = Layout::packed(x.layout.shape())?;
        let (y, results) = results.unwrap_or((Side::fresh(DType::F32, &packed), Results::Nothing));
        let mut problem = Problem::of_sides(x, y)?;
        if results != Results::Nothing && y.address != 0 {
            problem.check_overlap(x, y)?;
        }
        let shape = x.layout.shape();
        let leading = shape.len() - 1;
        let mut strides = SmallVec::<[[u64; OPERANDS]; 8]>::from_elem([0; OPERANDS], leading);
        let mut set = |operand: usize, of: &[usize]| {
            for (strides, &stride) in strides.iter_mut().zip(of) {
                strides[operand] = stride as u64;
            }
        };
        set(X, &x.layout.strides()[..leading]);
        if results != Results::Nothing {
            set(Y, &y.layout.strides()[..leading]);
        }
        if let Some(sums) = sums {
            if sums.layout.shape() != &shape[..leading] {
                return Err(Error::OperandShape {
                    operand: Operand::LogSumExp,
                    shape: sums.layout.shape().into(),
                    scores: shape.into(),
                    rule: "it must be the scores' shape without the last dimension",
                });
            }
            set(SUM, sums.layout.strides());
        }
        let mut scores = Scores {
            results,
            cap: self.cap.unwrap_or(0.0),
            cap_inverse: self.cap.map_or(0.0, |cap| 1.0 / cap),
            ..Scores::default()
        };
        let vector = problem.input().vector_elems();
        let mut is_wide = plan::is_aligned(&problem);
        if let Some((kind, bias)) = &self.bias {
            let fit = self.mask(device, Operand::AdditiveMask, bias, shape)?;
            // Kernels bring no less than 16 bytes of it at once.
            is_wide &= bias.elem_bytes >= problem.input().size_bytes() as u64;
            is_wide &= bias.is_wide(&fit, shape, vector);
            set(BIAS, &fit[..leading]);
            (scores.bias, scores.bias_step) = (*kind, step(fit[leading], shape[leading])?);
        }
        if let Some(keep) = &self.keep {
            let fit = self.mask(device, Operand::KeepMask, keep, shape)?;
            is_wide &= keep.is_wide(&fit, shape, vector);
            set(KEEP, &fit[..leading]);
            scores.keep_step = step(fit[leading], shape[leading])?;
            scores.has |= Scores::KEEP;
        }
        if let Some(hide) = &self.hide {
            let fit = self.mask(device, Operand::HideMask, hide, shape)?;
            is_wide &= hide.is_wide(&fit, shape, vector);
            set(HIDE, &fit[..leading]);
            scores.hide_step = step(fit[leading], shape[leading])?;
            scores.has |= Scores::HIDE;
        }
        if let Some(lengths) = &self.lengths {
            device.check_shares_stream_with(lengths.device)?;
            // Counted from the first: as if dimensions of one element followed.
            let mut full = Dims::from_slice(lengths.layout.shape());
            let mut of = Dims::from_slice(lengths.layout.strides());
            let broadcast = if full.len() <= leading {
                full.resize(leading, 1);
                of.resize(leading, 0);
                Layout::strided(&full, &of).and_then(|layout| layout.broadcast(&shape[..leading]))
            } else {
                Err(Error::RankZero)
            };
            let fit = lengths.fit(Operand::KeyLengths, shape, broadcast, RULE_LENGTHS)?;
            set(LENGTHS, &fit);
            scores.has |= Scores::LENGTHS;
        }
        let heads = &shape[..leading.saturating_sub(1)];
        let queries = if leading > 0 {
            shape[leading - 1] as u64
        } else {
            1
        };
        let keys = shape[leading] as u64;
        let mut asks_for_query = false;
        if let Some((slopes, align)) = &self.slopes {
            device.check_shares_stream_with(slopes.device)?;
            let broadcast = slopes.layout.broadcast(heads);
            let fit = slopes.fit(Operand::AlibiSlopes, shape, broadcast, RULE_HEADS)?;
            set(SLOPES, &fit);
            scores.has |= Scores::SLOPES;
            scores.slope_offset = align.offset(queries, keys) as i32;
            asks_for_query = true;
        }
        if let Some(sinks) = &self.sinks {
            device.check_shares_stream_with(sinks.device)?;
            let broadcast = sinks.layout.broadcast(heads);
            let fit = sinks.fit(Operand::Sinks, shape, broadcast, RULE_HEADS)?;
            set(SINKS, &fit);
            scores.has |= Scores::SINKS;
        }
        let (mut begin, mut end) = (i64::MIN, i64::MAX);
        if let Some(align) = self.causal {
            end = end.min(align.offset(queries, keys) + 1);
            asks_for_query = true;
        }
        if let Some((left, right, align)) = self.window {
            let own = align.offset(queries, keys);
            let keys = |bound: usize| i64::try_from(bound).unwrap_or(i64::MAX);
            begin = own.saturating_sub(keys(left));
            end = end.min(own.saturating_add(keys(right)).saturating_add(1));
            asks_for_query = true;
        }
        let offset = |keys: i64| keys.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        scores.reach = Reach {
            begin: offset(begin),
            end: offset(end),
        };
        if asks_for_query && leading > 0 {
            if queries > i32::MAX as u64 {
                return Err(Error::TooLarge {
                    shape: shape.into(),
                    strides: Vec::new(),
                    limit: i32::MAX as usize,
                });
            }
            strides[leading - 1][QUERY] = 1;
        }
        scores.sum = match sums.map(|sums| sums.dtype) {
            None => Sum::None,
            Some(DType::F32) => Sum::F32,
            Some(DType::F16) => Sum::F16,
            Some(DType::BF16) => Sum::Bf16,
        };
        if let (Some(_), 0) = (sums, keys) {
            // Rows of no keys have a sum all the same, that of a row of one key which no query sees.
            let mut one_key = Dims::from_slice(shape);
            one_key[leading] = 1;
            problem = Problem::packed(&one_key, x.dtype, DType::F32)?;
            scores.results = Results::Nothing;
            scores.reach = NO_KEY;
        }
        let written = (results != Results::Nothing).then_some(y);
        self.check_apart(x, written, sums, &strides)?;
        let ability = if results != Results::Softmax || scores.sum != Sum::None {
            Ability::Logs
        } else if is_wide && self.cap.is_none() && self.slopes.is_none() {
            Ability::Masks
        } else {
            Ability::Any
        };
        Ok(Call {
            device,
            plan: self.plan_rows(device, &problem, ability, &strides, shape)?,
            problem,
            strides,
            scores,
        })
    }

    fn plan_rows(
        &self,
        device: &Device,
        problem: &Problem,
        ability: Ability,
        strides: &[[u64; OPERANDS]],
        shape: &[usize],
    ) -> Result<Plan, Error> {
        let largest = if problem.rows() == 0 {
            (0, 0)
        } else {
            walk::pieces(&axes(shape, strides))
        };
        Plan::of_scores(
            problem,
            device.properties(),
            self.softmax.forced_way,
            ability,
            largest,
        )
    }

    fn mask(
        &self,
        device: &Device,
        operand: Operand,
        mask: &Beside<'_>,
        shape: &[usize],
    ) -> Result<Dims, Error> {
        device.check_shares_stream_with(mask.device)?;
        mask.fit(operand, shape, mask.layout.broadcast(shape), RULE_MASK)
    }

    /// All operands beside the scores, and where their strides are.
    fn besides(&self) -> [(Operand, usize, Option<&Beside<'a>>); 6] {
        let bias = self.bias.as_ref().map(|(_, bias)| bias);
        let slopes = self.slopes.as_ref().map(|(slopes, _)| slopes);
        [
            (Operand::AdditiveMask, BIAS, bias),
            (Operand::KeepMask, KEEP, self.keep.as_ref()),
            (Operand::HideMask, HIDE, self.hide.as_ref()),
            (Operand::KeyLengths, LENGTHS, self.lengths.as_ref()),
            (Operand::AlibiSlopes, SLOPES, slopes),
            (Operand::Sinks, SINKS, self.sinks.as_ref()),
        ]
    }

    /// That what is written shares memory with nothing, but for `x` and `y`, of which a problem knows, and that no sum is
    /// written twice.
    fn check_apart(
        &self,
        x: Side<'_>,
        y: Option<Side<'_>>,
        sums: Option<Side<'_>>,
        strides: &[[u64; OPERANDS]],
    ) -> Result<(), Error> {
        if let Some(sums) = sums {
            let shape = sums.layout.shape();
            let dims = shape.iter().zip(strides);
            let dims = dims.map(|(&extent, strides)| (extent as u64, strides[SUM]));
            if !shape.contains(&0) && rows_meet(dims, 1) {
                return Err(Error::OutputOverlaps {
                    shape: shape.into(),
                    strides: sums.layout.strides().into(),
                });
            }
            let written = (Operand::LogSumExp, sums.elements());
            apart(&written, Operand::Input, &x.elements())?;
            if let Some(y) = y {
                apart(&written, Operand::Output, &y.elements())?;
            }
        }
        let sums = sums.map(|sums| (Operand::LogSumExp, sums.elements()));
        let y = y.map(|y| (Operand::Output, y.elements()));
        for written in [y, sums].iter().flatten() {
            for (operand, _, beside) in self.besides() {
                if let Some(beside) = beside {
                    apart(written, operand, &beside.elements())?;
                }
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// Until the work is done, all sides are memory of the device, and nothing touches the outputs' elements, or writes
    /// the input's, that is not ordered with the work.
    unsafe fn run(
        &self,
        call: &Call<'_>,
        x: Side<'_>,
        y: Option<Side<'_>>,
        sums: Option<Side<'_>>,
    ) -> Result<(), Error> {
        if call.plan.launches() == 0 {
            return Ok(());
        }
        let axes = axes(x.layout.shape(), &call.strides);
        let besides = self.besides();
        let mut buffers = SmallVec::<[_; 9]>::new();
        buffers.push(launch::buffer(x, false));
        buffers.extend(y.map(|y| launch::buffer(y, true)));
        buffers.extend(sums.map(|sums| launch::buffer(sums, true)));
        for (_, _, beside) in besides {
            buffers.extend(beside.map(|beside| cuda_std::emulator::Buffer {
                address: beside.address,
                bytes: beside.layout.span() as u64 * beside.elem_bytes,
                writable: false,
            }));
        }
        for number in 0..walk::pieces(&axes).0 {
            let piece = walk::piece(&axes, number);
            let place = |side: Option<Side<'_>>, operand: usize| {
                side.map_or(0, |side| {
                    side.address + piece.first[operand] * side.dtype.size_bytes() as u64
                })
            };
            let mut scores = call.scores;
            let mut dims = [(1, 0, 0); kernels_gpu::row::MAX_DIMS];
            for (slot, &(extent, strides)) in dims.iter_mut().zip(piece.dims()) {
                *slot = (extent, strides[X], strides[Y]);
            }
            for (slot, &(_, strides)) in scores.strides.iter_mut().zip(piece.dims().iter().rev()) {
                *slot = Strides {
                    bias: strides[BIAS],
                    keep: strides[KEEP],
                    hide: strides[HIDE],
                    sum: strides[SUM],
                    lengths: strides[LENGTHS],
                    slopes: strides[SLOPES],
                    sinks: strides[SINKS],
                    query: strides[QUERY],
                };
            }
            let first_query = piece.first[QUERY] as i32;
            // What is no bound stays none: numbers of queries are below 2^31.
            scores.reach.begin = scores.reach.begin.saturating_add(first_query);
            scores.reach.end = scores.reach.end.saturating_add(first_query);
            scores.slope_offset += first_query;
            let part = ScoresPart {
                x: place(Some(x), X),
                y: place(y, Y),
                rows: piece.rows,
                cols: call.problem.cols() as u32,
                layout: RowLayout::new(&dims[..piece.dims().len()])
                    .walked_in(call.plan.rows_per_block()),
                operands: besides.map(|(_, operand, beside)| {
                    beside.map_or(0, |beside| {
                        beside.address + piece.first[operand] * beside.elem_bytes
                    })
                }),
                sums: place(sums, SUM),
                scores,
            };
            // SAFETY: planned: strides lead to the elements of views of the scores' shape, or of operands
            // broadcast to it; rows were checked not to overlap; live: the caller's, and the masks' borrows.
            unsafe {
                launch::scores(
                    call.device,
                    &call.plan,
                    self.softmax.options,
                    &part,
                    &buffers,
                )?;
            }
        }
        Ok(())
    }
}

/// A request that was checked.
struct Call<'d> {
    device: &'d Device,
    problem: Problem,
    plan: Plan,
    /// Of each leading dimension, for each operand.
    strides: SmallVec<[[u64; OPERANDS]; 8]>,
    scores: Scores,
}

/// The tensors that are walked together, and the query's number.
const OPERANDS: usize = 10;
const X: usize = 0;
const Y: usize = 1;
const BIAS: usize = 2;
const KEEP: usize = 3;
const HIDE: usize = 4;
const LENGTHS: usize = 5;
const SLOPES: usize = 6;
const SINKS: usize = 7;
const SUM: usize = 8;
const QUERY: usize = 9;

/// The leading dimensions as launches walk them: innermost those along which no mask moves, so that rows that share a
/// mask's row follow one another.
fn axes(shape: &[usize], strides: &[[u64; OPERANDS]]) -> Axes<OPERANDS> {
    let axes = shape.iter().zip(strides).map(|(&extent, &strides)| Axis {
        extent: extent as u64,
        strides,
    });
    walk::merge(axes, |axis| {
        let moves = [BIAS, KEEP, HIDE]
            .iter()
            .any(|&mask| axis.strides[mask] != 0);
        (moves, axis.strides[Y], axis.strides[X])
    })
}

/// Reaches no key, whatever the query's number.
const NO_KEY: Reach = Reach {
    begin: i32::MIN,
    end: i32::MIN,
};

/// From a key's element of a mask to the next.
fn step(stride: usize, keys: usize) -> Result<u32, Error> {
    if keys <= 1 {
        return Ok(0);
    }
    u32::try_from(stride).map_err(|_| Error::TooLarge {
        shape: vec![keys],
        strides: vec![stride],
        limit: u32::MAX as usize,
    })
}

/// That what is written shares no memory with `other`.
fn apart(
    (operand, written): &(Operand, Elements<'_>),
    other: Operand,
    elements: &Elements<'_>,
) -> Result<(), Error> {
    if !written.meet(elements) {
        return Ok(());
    }
    Err(Error::OperandOverlap {
        written: *operand,
        written_bytes: written.bytes(),
        other,
        other_bytes: elements.bytes(),
    })
}

/// Of a packed tensor with a number for each row of `shape`.
fn layout_of_sums(shape: &[usize]) -> Result<Layout, Error> {
    let (_, leading) = shape.split_last().ok_or(Error::RankZero)?;
    Layout::packed(leading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations;

    /// Rows that share a row of the mask follow one another.
    #[test]
    fn dimensions_without_a_mask_are_innermost() {
        let shape = [2, 3, 5, 7];
        let strides_of = |bias: [u64; 3]| {
            let packed = [105, 35, 7];
            (0..3)
                .map(|dim| {
                    let mut strides = [0; OPERANDS];
                    (strides[X], strides[Y], strides[BIAS]) = (packed[dim], packed[dim], bias[dim]);
                    strides
                })
                .collect::<Vec<_>>()
        };
        let extents = |bias| {
            let axes = axes(&shape, &strides_of(bias));
            axes.iter().map(|axis| axis.extent).collect::<Vec<_>>()
        };
        // [queries, keys]: batch and heads together, inside.
        assert_eq!(extents([0, 0, 7]), [5, 6]);
        // [batch, 1, queries, keys]: heads inside.
        assert_eq!(extents([35, 0, 7]), [2, 5, 3]);
        // One of the scores' own shape, and none: as they lie.
        assert_eq!(extents([105, 35, 7]), [30]);
        assert_eq!(extents([0, 0, 0]), [30]);
    }

    #[test]
    fn nothing_is_allocated_on_the_way_to_a_launch() {
        let device = Device::emulator();
        let x = device.zeros::<f32>([2, 3, 4, 5]).unwrap();
        let (bias, keep) = (
            device.zeros::<f32>([4, 5]).unwrap(),
            device.zeros::<u8>([2, 1, 1, 5]).unwrap(),
        );
        let lengths = device.zeros::<u32>([2]).unwrap();
        let sinks = device.zeros::<f32>([3]).unwrap();
        let masked = Softmax::new().masked().causal(Align::TopLeft).soft_cap(2.0);
        let masked = masked
            .additive(&bias)
            .keep(&keep)
            .key_lengths(&lengths)
            .sink(&sinks);
        masked.plan(&x).unwrap();
        let (layout, view) = (Layout::packed(x.shape()).unwrap(), x.view());
        let of_sums = layout_of_sums(x.shape()).unwrap();
        let allocations = allocations::count(|| {
            let y = Side::fresh(DType::F32, &layout);
            let results = Some((y, Results::Softmax));
            let sums = Side::fresh(DType::F32, &of_sums);
            let call = masked
                .call(view.device(), view.side(), results, Some(sums))
                .unwrap();
            assert_eq!(call.plan.launches(), 1);
        });
        assert_eq!(allocations, 0);
    }

    /// More leading dimensions than a launch walks, and a query's number in each.
    #[test]
    fn many_dimensions_are_several_launches() {
        let device = Device::emulator();
        let shape = [2, 2, 2, 2, 2, 3, 4];
        let count = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|i| (i * 7 % 31) as f32 * 0.1).collect();
        let x = device.tensor_from(&values, shape).unwrap();
        // Each dimension moves in a way of its own, so that none merge.
        let bias: Vec<f32> = (0..count / 3).map(|i| (i * 5 % 13) as f32 * 0.1).collect();
        let bias = device.tensor_from(&bias, [2, 2, 2, 2, 2, 1, 4]).unwrap();
        let bias = bias.view().permute(&[4, 3, 2, 1, 0, 5, 6]).unwrap();
        let masked = Softmax::new()
            .masked()
            .additive(&bias)
            .causal(Align::TopLeft);
        assert!(masked.plan(&x).unwrap().launches() > 1);
        let (y, sums) = masked.forward_with_logsumexp(&x).unwrap();
        let (y, sums) = (y.to_vec().unwrap(), sums.to_vec().unwrap());
        let bias = bias.broadcast(shape).unwrap().to_vec().unwrap();
        for (row, (y, sum)) in y.chunks(4).zip(sums).enumerate() {
            let seen = row % 3 + 1;
            let z = |key: usize| f64::from(values[row * 4 + key] + bias[row * 4 + key]).exp();
            let exact: f64 = (0..seen).map(z).sum();
            assert!((f64::from(sum) - exact.ln()).abs() < 1e-6, "row {row}");
            for (key, &y) in y.iter().enumerate() {
                let exact = if key < seen { z(key) / exact } else { 0.0 };
                assert!((f64::from(y) - exact).abs() < 1e-6, "row {row}, key {key}");
            }
        }
    }
}
