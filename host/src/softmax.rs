//! The operation.

use kernels_gpu::options::{FullyMasked, NanPolicy, Options, StreamOrder};

use crate::layout::Layout;
use crate::problem::Side;
use crate::{Device, Element, Error, Input, Output, Plan, Problem, Tensor, Way, launch};

/// Softmax over the last dimension: `y_i = exp(scale * x_i) / sum_j exp(scale * x_j)`.
///
/// | in a row | gives |
/// |---|---|
/// | finite elements | numbers from 0 to 1 that sum to 1, as far as the type can say |
/// | -inf | 0 |
/// | nothing but -inf | as [`fully_masked`](Self::fully_masked) says: zeros |
/// | a NaN | as [`nan_policy`](Self::nan_policy) says: NaN in the whole row, and in no other |
/// | +inf | NaN in the whole row |
/// | no elements, or no rows | nothing; not an error |
///
/// Arithmetic is in f32 whatever the types. The bits of a row's results depend on the row, the
/// scale and the types alone: not on its place in the batch, the number of rows, strides or, but for
/// the long 16-bit rows of [`reproducible`](Self::reproducible), the device.
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
    pub(crate) forced_way: Option<Way>,
    reproducible: bool,
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
    /// Only 16-bit rows of more than 4,096 elements, in and out, give anything else without it: there
    /// the plan may take kernels that use the GPU's own exponential. Their results too are within 0.51
    /// units in the last place, and the same for a row alone and in any batch, on one kind of GPU; but
    /// another kind, or the emulator, may differ by one unit in the last place.
    pub fn reproducible(mut self) -> Self {
        self.reproducible = true;
        self
    }

    /// Lets the kernel begin while the one ahead of it on the stream is still ending (programmatic dependent launch).
    ///
    /// The kernel waits until that work is done and can be seen before it touches memory: results are the same, and what
    /// overlaps is the beginning of the one with the end of the other. For chains of short kernels; a captured
    /// graph keeps it. On GPUs before Hopper, and on the emulator, it changes nothing.
    pub fn programmatic(mut self) -> Self {
        self.options.order = StreamOrder::Programmatic;
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
    #[track_caller]
    pub fn forward<'a, X: Input<'a, Elem: Element>>(&self, x: X) -> Result<Tensor<X::Elem>, Error> {
        self.forward_as::<X::Elem>(x)
    }

    /// A new packed tensor of the input's shape, with elements of type `U`.
    ///
    /// # Errors
    ///
    /// As for [`forward`](Self::forward), and where there is no kernel for the two types.
    #[track_caller]
    pub fn forward_as<'a, U: Element>(
        &self,
        x: impl Input<'a, Elem: Element>,
    ) -> Result<Tensor<U>, Error> {
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
    pub fn forward_into<'x, 'y>(
        &self,
        x: impl Input<'x, Elem: Element>,
        y: impl Output<'y, Elem: Element>,
    ) -> Result<(), Error> {
        let (x, y) = (x.into_view(), y.into_view_mut());
        x.device().check_shares_stream_with(y.device())?;
        // SAFETY: both views vouch for their memory, and the device's stream orders all work on it.
        unsafe { self.run(x.device(), x.side(), y.side()) }
    }

    /// Replaces the elements of `x` by the results.
    ///
    /// # Errors
    ///
    /// As [above](Self#errors).
    pub fn forward_in_place<'a>(&self, x: impl Output<'a, Elem: Element>) -> Result<(), Error> {
        let x = x.into_view_mut();
        // SAFETY: the view vouches for its memory, and the device's stream orders all work on it.
        unsafe { self.run(x.device(), x.side(), x.side()) }
    }

    /// What [`forward`](Self::forward) would launch.
    ///
    /// # Errors
    ///
    /// Those that [`forward`](Self::forward) would find in the request.
    pub fn plan<'a, X: Input<'a, Elem: Element>>(&self, x: X) -> Result<Plan, Error> {
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
        Plan::new(
            problem,
            device.properties(),
            self.forced_way,
            self.reproducible,
        )
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
    #[inline]
    pub(crate) fn plan_sides(
        &self,
        device: &Device,
        input: Side<'_>,
        output: Side<'_>,
    ) -> Result<(Problem, Plan), Error> {
        let problem = Problem::of_sides(input, output)?;
        problem.check_overlap(input, output)?;
        let plan = self.plan_for(device, &problem)?;
        Ok((problem, plan))
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;
    use crate::{DType, Operand, TensorView, TensorViewMut, allocations};

    fn device() -> Device {
        Device::emulator()
    }

    /// Numbers in -8..8 that differ from one another.
    fn numbers(count: usize) -> Vec<f32> {
        let step = |i: usize| (i as u32).wrapping_mul(2_654_435_761) >> 8;
        (0..count)
            .map(|i| step(i) as f32 / (1 << 20) as f32 - 8.0)
            .collect()
    }

    fn exact(row: &[f32]) -> Vec<f64> {
        let max = row.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
        let exp = |x: &f32| (f64::from(*x) - f64::from(max)).exp();
        let sum: f64 = row.iter().map(exp).sum();
        row.iter().map(|x| exp(x) / sum).collect()
    }

    fn bits(elems: &[f32]) -> Vec<u32> {
        elems.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn every_way_gives_the_softmax_and_the_same_bits() {
        let device = device();
        let mut compared = 0;
        for cols in [
            1, 2, 3, 4, 5, 31, 32, 33, 255, 257, 1023, 1024, 1025, 2049, 40_000,
        ] {
            let data = numbers(3 * cols);
            let x = device.tensor_from(&data, [3, cols]).unwrap();
            let y = Softmax::new().forward(&x).unwrap();
            let results = y.to_vec().unwrap();
            for (row, got) in data.chunks(cols).zip(results.chunks(cols)) {
                for (got, exact) in got.iter().zip(exact(row)) {
                    let error = (f64::from(*got) - exact).abs() / exact;
                    assert!(error < 5e-7, "{cols} columns: {got} for {exact}");
                }
            }
            for way in Way::ALL {
                match Softmax::new().force_way(way).forward(&x) {
                    Ok(forced) => {
                        assert_eq!(
                            bits(&forced.to_vec().unwrap()),
                            bits(&results),
                            "{way}, {cols} columns"
                        );
                        compared += 1;
                    }
                    Err(Error::WayNotPossible { limit, .. }) => assert!(cols > limit),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        // warp, packed, staged, split_staged, stream; of aligned rows block, spread; parked, split, split_spread, split_parked.
        assert_eq!(compared, 12 + 10 + 14 + 15 + 15 + 2 * 3 + 4 * 4);
    }

    #[test]
    fn results_have_the_type_that_was_asked_for() {
        let device = device();
        let data = numbers(2 * 50);
        let halves: Vec<f16> = data.iter().map(|&x| f16::from_f32(x)).collect();
        let wide: Vec<f32> = halves.iter().map(|x| x.to_f32()).collect();
        let expected: Vec<f64> = wide.chunks(50).flat_map(exact).collect();
        let x = device.tensor_from(&halves, [2, 50]).unwrap();

        let same = Softmax::new().forward(&x).unwrap();
        assert_eq!(same.dtype(), DType::F16);
        let f32s = Softmax::new().forward_as::<f32>(&x).unwrap();
        let of_f32 = device.tensor_from(&wide, [2, 50]).unwrap();
        let bf16s = Softmax::new().forward_as::<bf16>(&of_f32).unwrap();
        let results = same.to_vec().unwrap().into_iter().map(f64::from);
        let results = results
            .zip(f32s.to_vec().unwrap())
            .zip(bf16s.to_vec().unwrap());
        for (((half, single), brain), exact) in results.zip(expected) {
            assert!((half - exact).abs() <= 0.51 * 2f64.powi(-10) * exact + 2f64.powi(-25));
            assert!((f64::from(single) - exact).abs() <= 5e-7 * exact);
            assert!((f64::from(brain) - exact).abs() <= 0.51 * 2f64.powi(-7) * exact);
        }
        assert!(matches!(
            Softmax::new().forward_as::<bf16>(&x),
            Err(Error::DTypes {
                input: DType::F16,
                output: DType::BF16
            })
        ));
    }

    #[test]
    fn options_reach_the_kernel() {
        let device = device();
        let run = |softmax: Softmax, data: [f32; 2]| {
            softmax
                .forward(&device.tensor_from(&data, [2]).unwrap())
                .unwrap()
                .to_vec()
                .unwrap()
        };
        let masked = [f32::NEG_INFINITY; 2];
        assert_eq!(run(Softmax::new(), masked), [0.0; 2]);
        assert_eq!(
            run(Softmax::new().fully_masked(FullyMasked::Uniform), masked),
            [0.5; 2]
        );
        let nan = run(Softmax::new().fully_masked(FullyMasked::Nan), masked);
        assert_eq!(bits(&nan), [0x7fc0_0000; 2]);
        assert_eq!(
            bits(&run(Softmax::new(), [f32::NAN, 1.0])),
            [0x7fc0_0000; 2]
        );
        assert_eq!(
            run(
                Softmax::new().nan_policy(NanPolicy::Ignore),
                [f32::NAN, 1.0]
            ),
            [0.0, 1.0]
        );
        let scaled = run(Softmax::new().scale(0.5), [2.0, 4.0]);
        assert_eq!(
            bits(&scaled),
            bits(&run(Softmax::new().reproducible(), [1.0, 2.0]))
        );
    }

    #[test]
    fn nothing_in_nothing_out() {
        let device = device();
        for shape in [vec![0], vec![3, 0], vec![0, 3], vec![4, 0, 5, 2]] {
            let x = device.zeros::<f32>(&shape).unwrap();
            let mut y = Softmax::new().forward(&x).unwrap();
            assert_eq!(
                (y.shape(), y.len(), y.to_vec().unwrap()),
                (&shape[..], 0, vec![])
            );
            assert_eq!(Softmax::new().plan(&x).unwrap().launches(), 0);
            Softmax::new().forward_in_place(&mut y).unwrap();
        }
    }

    #[test]
    fn in_place_is_the_same() {
        let device = device();
        for cols in [7, 1000, 3000, 40_000] {
            let mut x = device.tensor_from(&numbers(3 * cols), [3, cols]).unwrap();
            let y = Softmax::new().forward(&x).unwrap();
            Softmax::new().forward_in_place(&mut x).unwrap();
            assert_eq!(
                bits(&x.to_vec().unwrap()),
                bits(&y.to_vec().unwrap()),
                "{cols} columns"
            );
        }
    }

    /// A slice of a larger tensor, its leading dimensions in another order.
    fn views() -> impl Strategy<Value = (Vec<usize>, Vec<(usize, usize)>, Vec<usize>)> {
        prop::collection::vec((1..4usize, 0..3usize, 0..3usize), 0..6).prop_flat_map(|leading| {
            let last = (1..40usize, 0..3usize, 0..9usize);
            last.prop_flat_map(move |last| {
                let dims: Vec<_> = leading.iter().copied().chain([last]).collect();
                let shape = dims
                    .iter()
                    .map(|&(extent, before, after)| before + extent + after)
                    .collect();
                let ranges = dims
                    .iter()
                    .map(|&(extent, before, _)| (before, before + extent))
                    .collect();
                let order: Vec<usize> = (0..leading.len()).collect();
                (Just(shape), Just(ranges), Just(order).prop_shuffle())
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn views_are_read_and_written_where_they_lie(
            (shape, ranges, mut order) in views(),
            in_place in any::<bool>(),
        ) {
            let device = device();
            order.push(order.len());
            let poison = f32::from_bits(0x7fc1_2345);
            let count = shape.iter().product();
            let data = numbers(count);
            let mut x = device.tensor_from(&data, &shape).unwrap();
            let mut y = device.tensor_from(&vec![poison; count], &shape).unwrap();
            let read = |tensor: &Tensor<f32>| {
                let mut view = tensor.view();
                for (dim, &(start, end)) in ranges.iter().enumerate() {
                    view = view.slice(dim, start..end).unwrap();
                }
                view.permute(&order).unwrap().to_vec().unwrap()
            };
            fn write<'a>(
                tensor: &'a mut Tensor<f32>,
                ranges: &[(usize, usize)],
                order: &[usize],
            ) -> TensorViewMut<'a, f32> {
                let mut view = tensor.view_mut();
                for (dim, &(start, end)) in ranges.iter().enumerate() {
                    view = view.slice(dim, start..end).unwrap();
                }
                view.permute(order).unwrap()
            }
            let packed_shape: Vec<usize> = order.iter().map(|&dim| ranges[dim].1 - ranges[dim].0).collect();
            let packed = device.tensor_from(&read(&x), &packed_shape).unwrap();
            let expected = Softmax::new().forward(&packed).unwrap().to_vec().unwrap();
            let inside = expected.len();

            let (written, before) = if in_place {
                Softmax::new().forward_in_place(write(&mut x, &ranges, &order)).unwrap();
                (&x, data)
            } else {
                let mut view = x.view();
                for (dim, &(start, end)) in ranges.iter().enumerate() {
                    view = view.slice(dim, start..end).unwrap();
                }
                let view = view.permute(&order).unwrap();
                Softmax::new().forward_into(view, write(&mut y, &ranges, &order)).unwrap();
                prop_assert_eq!(bits(&x.to_vec().unwrap()), bits(&data), "the input");
                (&y, vec![poison; count])
            };
            prop_assert_eq!(bits(&read(written)), bits(&expected));
            let changed = written.to_vec().unwrap();
            let untouched = changed.iter().zip(&before).filter(|(a, b)| a.to_bits() == b.to_bits());
            prop_assert!(untouched.count() >= count - inside);
        }
    }

    #[test]
    fn an_input_may_be_repeated() {
        let device = device();
        let x = device.tensor_from(&numbers(2 * 5), [2, 1, 5]).unwrap();
        let repeated = x.view().broadcast([3, 2, 4, 5]).unwrap();
        let y = Softmax::new().forward(&repeated).unwrap().to_vec().unwrap();
        let once = Softmax::new().forward(&x).unwrap().to_vec().unwrap();
        for (i, row) in y.chunks(5).enumerate() {
            let row_of_x = i / 4 % 2;
            assert_eq!(bits(row), bits(&once[row_of_x * 5..][..5]), "row {i}");
        }
    }

    #[test]
    fn halves_of_one_tensor_can_be_input_and_output() {
        let device = device();
        let data = numbers(4 * 64);
        let mut both = device.tensor_from(&data, [4, 64]).unwrap();
        let address = both.view_mut().address() as usize as *mut f32;
        // SAFETY: the tensor's own memory; the emulator is done with it when a call returns.
        let (x, y) = unsafe {
            let x = TensorView::from_raw(&device, address, 4 * 64, [4, 32], [64, 1]).unwrap();
            let y =
                TensorViewMut::from_raw(&device, address.add(32), 3 * 64 + 32, [4, 32], [64, 1]);
            (x, y.unwrap())
        };
        Softmax::new().forward_into(x, y).unwrap();
        let results = both.to_vec().unwrap();
        for (row, before) in results.chunks(64).zip(data.chunks(64)) {
            assert_eq!(row[..32], before[..32]);
            let sum: f32 = row[32..].iter().sum();
            assert!((sum - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn overlaps_are_refused_and_the_same_elements_are_not() {
        let device = device();
        let mut memory = device.tensor_from(&numbers(256), [256]).unwrap();
        let address = memory.view_mut().address() as usize as *mut f32;
        let run = |offset: usize, strides: [usize; 2]| {
            // SAFETY: all inside the tensor, which nothing else uses meanwhile.
            let (x, y) = unsafe {
                let x = TensorView::from_raw(&device, address, 256, [4, 16], [16, 1]).unwrap();
                let y = TensorViewMut::from_raw(
                    &device,
                    address.add(offset),
                    256 - offset,
                    [4, 16],
                    strides,
                );
                (x, y.unwrap())
            };
            Softmax::new().forward_into(x, y)
        };
        run(0, [16, 1]).unwrap();
        run(64, [16, 1]).unwrap();
        for (offset, strides) in [(63, [16, 1]), (1, [16, 1]), (0, [17, 1]), (48, [48, 1])] {
            assert!(
                matches!(run(offset, strides), Err(Error::InputOutputOverlap { .. })),
                "offset {offset}, strides {strides:?}"
            );
        }
        assert!(matches!(
            run(64, [15, 1]),
            Err(Error::OutputOverlaps { .. })
        ));
        assert!(matches!(run(64, [0, 1]), Err(Error::OutputOverlaps { .. })));
    }

    #[test]
    fn raw_memory_is_checked_at_its_edge() {
        let device = device();
        let memory = [0.0f32; 64];
        let view = |ptr: *const f32, extent, shape: [usize; 2], strides: [usize; 2]| {
            // SAFETY: nothing is done with the view.
            unsafe {
                TensorView::from_raw(&device, ptr, extent, shape, strides).map(|view| view.len())
            }
        };
        let ptr = memory.as_ptr();
        assert_eq!(view(ptr, 35, [4, 5], [10, 1]).unwrap(), 20);
        assert!(matches!(
            view(ptr, 34, [4, 5], [10, 1]),
            Err(Error::ExtentTooSmall {
                given: 34,
                needed: 35,
                ..
            })
        ));
        assert!(matches!(
            view(ptr, 64, [2, 2], [usize::MAX, 1]),
            Err(Error::TooLarge { .. })
        ));
        assert!(matches!(
            view(ptr.wrapping_byte_add(2), 35, [4, 5], [10, 1]),
            Err(Error::Address { .. })
        ));
        assert!(matches!(
            view(std::ptr::null(), 35, [4, 5], [10, 1]),
            Err(Error::Address { address: 0, .. })
        ));
        assert_eq!(view(std::ptr::null(), 0, [0, 5], [10, 1]).unwrap(), 0);
    }

    #[test]
    fn requests_are_refused_before_anything_is_written() {
        let device = device();
        let x = device.tensor_from(&numbers(12), [3, 4]).unwrap();
        let mut y = device.tensor_from(&[7.0f32; 12], [4, 3]).unwrap();
        assert!(matches!(
            Softmax::new().forward_into(&x, &mut y),
            Err(Error::ShapeMismatch { input, output }) if input == [3, 4] && output == [4, 3]
        ));
        let transposed = x.view().permute(&[1, 0]).unwrap();
        assert!(matches!(
            Softmax::new().forward_into(&transposed, &mut y),
            Err(Error::LastStride {
                operand: Operand::Input,
                stride: 4,
                cols: 3
            })
        ));
        for scale in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let softmax = Softmax::new().scale(scale);
            let y = y.view_mut().permute(&[1, 0]).unwrap();
            assert!(matches!(
                softmax.forward(&x),
                Err(Error::ScaleNotFinite { .. })
            ));
            assert!(matches!(
                softmax.forward_into(&x, y),
                Err(Error::LastStride { .. })
            ));
        }
        assert!(Softmax::new().scale(f32::MAX).forward(&x).is_ok());
        let scalar = device.tensor_from(&[1.0f32], []).unwrap();
        assert!(matches!(
            Softmax::new().forward(&scalar),
            Err(Error::RankZero)
        ));
        assert!(matches!(
            device.tensor_from(&[1.0f32; 5], [2, 3]),
            Err(Error::Length {
                given: 5,
                expected: 6,
                ..
            })
        ));
        assert!(matches!(
            y.copy_from(&[1.0; 11]),
            Err(Error::Length {
                given: 11,
                expected: 12,
                ..
            })
        ));
        assert_eq!(y.to_vec().unwrap(), [7.0; 12]);
    }

    #[test]
    fn a_forced_way_takes_its_longest_row_and_no_longer() {
        let device = device();
        // Block takes whole vectors alone.
        for (way, limit, step) in [(Way::Warp, 1024, 1), (Way::Block, 32_768, 4)] {
            let plan = |cols| {
                let problem = Problem::packed(&[1, cols], DType::F32, DType::F32).unwrap();
                Softmax::new().force_way(way).plan_for(&device, &problem)
            };
            assert_eq!(plan(limit).unwrap().way(), way);
            match plan(limit + step) {
                Err(Error::WayNotPossible {
                    way: w,
                    cols,
                    limit: l,
                }) => {
                    assert_eq!((w, cols, l), (way, limit + step, limit));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn more_than_four_dimensions_are_several_launches() {
        let device = device();
        let whole = device
            .tensor_from(&numbers(3 * 3 * 3 * 3 * 3 * 3 * 5), [3, 3, 3, 3, 3, 3, 5])
            .unwrap();
        let mut x = whole.view();
        for dim in 0..6 {
            x = x.slice(dim, 0..2).unwrap();
        }
        assert!(Softmax::new().plan(&x).unwrap().launches() > 1);
        let packed = device.tensor_from(&x.to_vec().unwrap(), [64, 5]).unwrap();
        let expected = Softmax::new().forward(&packed).unwrap().to_vec().unwrap();
        let got = Softmax::new().forward(&x).unwrap();
        assert_eq!(got.shape(), [2, 2, 2, 2, 2, 2, 5]);
        assert_eq!(bits(&got.to_vec().unwrap()), bits(&expected));
    }

    #[test]
    fn nothing_is_allocated_on_the_way_to_a_launch() {
        let device = device();
        let softmax = Softmax::new();
        let x = device
            .tensor_from(&numbers(6 * 5 * 4 * 7), [6, 5, 4, 7])
            .unwrap();
        let mut y = device.zeros::<f32>([4, 5, 6, 7]).unwrap();
        softmax.plan(&x).unwrap();
        let allocations = allocations::count(|| {
            let x = x.view().permute(&[2, 1, 0, 3]).unwrap();
            let y = y.view_mut();
            let problem = Problem::of_sides(x.side(), y.side()).unwrap();
            assert!(!problem.operands_meet(x.address(), y.address()));
            let plan = softmax.plan_for(&device, &problem).unwrap();
            assert_eq!(problem.part(plan.launches() - 1).rows, 120);
        });
        assert_eq!(allocations, 0);
    }

    #[test]
    fn a_prepared_problem_is_the_call_s_own() {
        let device = device();
        let x = device.zeros::<f32>([3, 100]).unwrap();
        let mut y = device.zeros::<f32>([3, 100]).unwrap();
        let problem = Problem::between(&x, &mut y).unwrap();
        assert_eq!(
            problem,
            Problem::packed(&[3, 100], DType::F32, DType::F32).unwrap()
        );
        Softmax::new().prepare(&device, &problem).unwrap();
        assert_eq!(
            Softmax::new().plan_for(&device, &problem).unwrap(),
            Softmax::new().plan(&x).unwrap()
        );
    }
}
