//! Calls that would alias memory, or use it after its end: the borrow checker refuses them. The first example has the same
//! lines as the others, in an order that is allowed, so that it is the one line that differs which is refused.

/// Allowed: nothing is written while it is borrowed otherwise, and nothing ends before its last use.
///
/// ```
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// let view = x.view();
/// masked.forward_into(view, &mut y)?;
/// masked.forward_with_logsumexp_into(&x, &mut y, &mut sums)?;
/// // SAFETY: `y` is not written meanwhile.
/// let view = unsafe {
///     let first = std::ptr::with_exposed_provenance::<f32>(y.address() as usize);
///     warp_softmax::TensorView::from_raw(&device, first, 2, [1, 2], [2, 1])?
/// };
/// view.to_vec()?;
/// drop(masked);
/// drop((bias, x, device));
/// y.to_vec()?;
/// # Ok(())
/// # }
/// ```
struct Allowed;

/// A view does not outlive its tensor.
///
/// ```compile_fail
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// let view = x.view();
/// drop(x);
/// masked.forward_into(view, &mut y)?;
/// # Ok(())
/// # }
/// ```
struct ViewAfterTensor;

/// An output is no input, except by `forward_in_place`.
///
/// ```compile_fail
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// masked.forward_into(&y, &mut y)?;
/// # Ok(())
/// # }
/// ```
struct InputAsOutput;

/// Results and sums are two tensors.
///
/// ```compile_fail
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// masked.forward_with_logsumexp_into(&x, &mut sums, &mut sums)?;
/// # Ok(())
/// # }
/// ```
struct OutputTwice;

/// A mask is not written while it masks.
///
/// ```compile_fail
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// masked.forward_into(&x, &mut bias)?;
/// # Ok(())
/// # }
/// ```
struct MaskAsOutput;

/// A mask is there as long as the operation that it is part of.
///
/// ```compile_fail
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// drop(bias);
/// masked.forward_into(&x, &mut y)?;
/// # Ok(())
/// # }
/// ```
struct MaskDropped;

/// A tensor is not read while a view of it may be written.
///
/// ```compile_fail
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// let written = y.view_mut();
/// y.to_vec()?;
/// masked.forward_into(&x, written)?;
/// # Ok(())
/// # }
/// ```
struct ReadWhileWritten;

/// There is one view to write at a time.
///
/// ```compile_fail
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// let written = y.view_mut();
/// let again = y.view_mut();
/// masked.forward_into(&x, written)?;
/// # Ok(())
/// # }
/// ```
struct TwoToWrite;

/// A view of raw memory does not outlive its device.
///
/// ```compile_fail
/// # use warp_softmax::{Device, Softmax};
/// # fn main() -> Result<(), warp_softmax::Error> {
/// # let device = Device::emulator();
/// let x = device.tensor_from(&[1.0f32, 2.0], [1, 2])?;
/// let mut y = device.zeros::<f32>([1, 2])?;
/// let mut sums = device.zeros::<f32>([1])?;
/// let mut bias = device.zeros::<f32>([2])?;
/// let masked = Softmax::new().masked().additive(&bias);
/// // SAFETY: `y` is not written meanwhile.
/// let view = unsafe {
///     let first = std::ptr::with_exposed_provenance::<f32>(y.address() as usize);
///     warp_softmax::TensorView::from_raw(&device, first, 2, [1, 2], [2, 1])?
/// };
/// drop(device);
/// view.to_vec()?;
/// # Ok(())
/// # }
/// ```
struct DeviceAfterRawView;
