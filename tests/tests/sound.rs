//! Safe calls in any order, from any thread, with anything that may be passed: an error where it has to be one, and
//! never memory that is not the tensor's, or not any more.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;

use half::{bf16, f16};
use warp_softmax::{
    Align, Device, Error, Input, MAX_COLS, MaskedSoftmax, Operand, Output, Plan, Problem, Softmax,
    Tensor, TensorView, TensorViewMut,
};
use warp_softmax_tests::backend::each_device;

/// Asks the compiler what a type is: the inherent constant is there only where the bound holds, and shadows the trait's.
struct Probe<T>(PhantomData<T>);

// On some platforms all types are `Send` and `Sync`.
#[allow(dead_code)]
trait Otherwise {
    const IS_SEND: bool = false;
    const IS_SYNC: bool = false;
    const IS_CLONE: bool = false;
}

impl<T> Otherwise for Probe<T> {}

impl<T: Send> Probe<T> {
    const IS_SEND: bool = true;
}

impl<T: Sync> Probe<T> {
    const IS_SYNC: bool = true;
}

impl<T: Clone> Probe<T> {
    const IS_CLONE: bool = true;
}

macro_rules! assert_traits {
    ($($type:ty: $send:literal $sync:literal $clone:literal;)*) => { $(
        const _: () = {
            assert!(Probe::<$type>::IS_SEND == $send, "Send");
            assert!(Probe::<$type>::IS_SYNC == $sync, "Sync");
            assert!(Probe::<$type>::IS_CLONE == $clone, "Clone");
        };
    )* };
}

// Send, Sync, Clone. What owns memory, or may write it, is one of its kind.
assert_traits! {
    Device: true true true;
    Tensor<f32>: true true false;
    Tensor<bool>: true true false;
    TensorView<'static, f16>: true true true;
    TensorViewMut<'static, bf16>: true true false;
    Softmax: true true true;
    MaskedSoftmax<'static>: true true true;
    Plan: true true true;
    Problem: true true true;
    Error: true true false;
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
// They have no promise about threads, and need none.
assert_traits! {
    warp_softmax::bench_support::Event: false false false;
    warp_softmax::bench_support::Graph: false false false;
}

const COLS: usize = 300;

/// A row like no other row.
fn row(seed: usize) -> Vec<f32> {
    (0..COLS)
        .map(|i| ((i * 7 + seed * 13) % 31) as f32 * 0.1)
        .collect()
}

fn softmax_of(row: &[f32]) -> Vec<f32> {
    let device = Device::emulator();
    let x = device.tensor_from(row, [row.len()]).unwrap();
    Softmax::new().forward(&x).unwrap().to_vec().unwrap()
}

/// Every order of `count` things, by Heap's algorithm.
fn orders(count: usize) -> BTreeSet<Vec<usize>> {
    fn permute(order: &mut Vec<usize>, len: usize, all: &mut BTreeSet<Vec<usize>>) {
        if len <= 1 {
            all.insert(order.clone());
            return;
        }
        for i in 0..len {
            permute(order, len - 1, all);
            order.swap(if len.is_multiple_of(2) { i } else { 0 }, len - 1);
        }
    }
    let mut all = BTreeSet::new();
    permute(&mut (0..count).collect(), count, &mut all);
    all
}

#[test]
fn what_a_call_used_may_go_in_any_order() {
    let expected = softmax_of(&row(1));
    each_device(|device| {
        let orders = orders(5);
        assert_eq!(orders.len(), 120);
        for order in orders {
            let stream = device.new_stream().unwrap();
            let x = stream.tensor_from(&row(1), [COLS]).unwrap();
            let keep = stream.tensor_from(&[true; COLS], [COLS]).unwrap();
            let y = Softmax::new().masked().keep(&keep).forward(&x).unwrap();
            let (kept, sums) = Softmax::new().forward_with_logsumexp(&x).unwrap();
            let mut things: Vec<Option<Box<dyn Any>>> = vec![
                Some(Box::new(stream)),
                Some(Box::new(x)),
                Some(Box::new(keep)),
                Some(Box::new(y)),
                Some(Box::new(sums)),
            ];
            for thing in order {
                things[thing] = None;
            }
            // It has the stream, and its place is nobody else's.
            let other = kept.device().tensor_from(&row(2), [COLS]).unwrap();
            assert_eq!(kept.to_vec().unwrap(), expected);
            assert_eq!(other.to_vec().unwrap(), row(2));
        }
    });
}

#[test]
fn a_tensor_may_be_made_used_read_and_dropped_by_different_threads() {
    let expected = softmax_of(&row(1));
    each_device(|device| {
        let device = device.clone();
        let on = |work: &mut (dyn FnMut() + Send)| {
            thread::scope(|scope| {
                scope.spawn(work);
            });
        };
        let (mut x, mut y) = (None, None);
        on(&mut || x = Some(device.tensor_from(&row(1), [COLS]).unwrap()));
        on(&mut || y = x.as_ref().map(|x| Softmax::new().forward(x).unwrap()));
        on(&mut || drop(x.take()));
        on(&mut || assert_eq!(y.as_ref().unwrap().to_vec().unwrap(), expected));
        on(&mut || drop(y.take()));
    });
}

#[test]
fn many_threads_may_call_at_once() {
    const THREADS: usize = 32;
    each_device(|device| {
        let shared = device.tensor_from(&row(0), [COLS]).unwrap();
        let of_shared = softmax_of(&row(0));
        let start = Barrier::new(THREADS);
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let (shared, of_shared, start) = (&shared, &of_shared, &start);
                scope.spawn(move || {
                    let expected = softmax_of(&row(seed));
                    // Half of them on a stream of their own, the others on one.
                    let stream = match seed % 2 {
                        0 => device.new_stream().unwrap(),
                        _ => device.clone(),
                    };
                    start.wait();
                    for _ in 0..4 {
                        let mut x = stream.tensor_from(&row(seed), [COLS]).unwrap();
                        let y = Softmax::new().forward(&x).unwrap();
                        assert_eq!(
                            &Softmax::new().forward(shared).unwrap().to_vec().unwrap(),
                            of_shared
                        );
                        Softmax::new().forward_in_place(&mut x).unwrap();
                        assert_eq!(y.to_vec().unwrap(), expected);
                        assert_eq!(x.to_vec().unwrap(), expected);
                    }
                });
            }
        });
    });
}

#[test]
fn what_is_forgotten_harms_nobody() {
    each_device(|device| {
        let stream = device.new_stream().unwrap();
        let x = stream.tensor_from(&row(1), [COLS]).unwrap();
        std::mem::forget(stream.tensor_from(&row(2), [COLS]).unwrap());
        std::mem::forget(x.view());
        let mut y = Softmax::new().forward(&x).unwrap();
        std::mem::forget(y.view_mut());
        std::mem::forget(stream.clone());
        drop(stream);
        assert_eq!(y.to_vec().unwrap(), softmax_of(&row(1)));
    });
}

/// An input that does what it is not asked for before it gives a view.
struct Hostile<'a, F> {
    x: &'a Tensor<f32>,
    asked: &'a Cell<u32>,
    before: F,
}

impl<'a, F: FnOnce()> Input<'a> for Hostile<'a, F> {
    type Elem = f32;

    fn into_view(self) -> TensorView<'a, f32> {
        self.asked.set(self.asked.get() + 1);
        (self.before)();
        self.x.view()
    }
}

/// An output that panics.
struct Bomb;

impl Output<'static> for Bomb {
    type Elem = f32;

    fn into_view_mut(self) -> TensorViewMut<'static, f32> {
        panic!("in the middle")
    }
}

#[test]
fn hostile_inputs_are_asked_once_and_may_panic() {
    each_device(|device| {
        let x = device.tensor_from(&row(1), [COLS]).unwrap();
        let expected = softmax_of(&row(1));
        let asked = Cell::new(0);
        fn hostile<'a, F>(x: &'a Tensor<f32>, asked: &'a Cell<u32>, before: F) -> Hostile<'a, F> {
            Hostile { x, asked, before }
        }
        // It calls the library itself, and on another thread too.
        let inside = || {
            let y = Softmax::new().forward(&x).unwrap();
            assert_eq!(y.to_vec().unwrap(), expected);
            thread::scope(|scope| {
                scope.spawn(|| Softmax::new().forward(&x).unwrap());
            });
        };
        let y = Softmax::new().forward(hostile(&x, &asked, inside)).unwrap();
        assert_eq!((asked.get(), y.to_vec().unwrap()), (1, expected.clone()));
        let masked = Softmax::new().masked();
        let (y, _) = masked
            .forward_with_logsumexp(hostile(&x, &asked, inside))
            .unwrap();
        assert_eq!((asked.get(), y.to_vec().unwrap()), (2, expected.clone()));

        let panics = [
            catch_unwind(AssertUnwindSafe(|| {
                let bomb = hostile(&x, &asked, || panic!("in the middle"));
                Softmax::new().forward(bomb).map(drop)
            })),
            catch_unwind(AssertUnwindSafe(|| Softmax::new().forward_into(&x, Bomb))),
            catch_unwind(AssertUnwindSafe(|| {
                masked.forward_with_logsumexp_into(
                    &x,
                    &mut device.zeros::<f32>([COLS]).unwrap(),
                    Bomb,
                )
            })),
        ];
        assert!(panics.iter().all(Result::is_err));
        let y = Softmax::new().forward(&x).unwrap();
        assert_eq!(y.to_vec().unwrap(), expected);
    });
}

#[test]
fn a_thread_that_panics_takes_nothing_with_it() {
    each_device(|device| {
        let panicked = thread::scope(|scope| {
            let work = scope.spawn(|| {
                let x = device.tensor_from(&row(1), [COLS]).unwrap();
                let _y = Softmax::new().forward(&x).unwrap();
                panic!("while the work may still be under way")
            });
            work.join()
        });
        assert!(panicked.is_err());
        let x = device.tensor_from(&row(2), [COLS]).unwrap();
        let y = Softmax::new().forward(&x).unwrap();
        assert_eq!(y.to_vec().unwrap(), softmax_of(&row(2)));
    });
}

#[test]
fn a_view_of_more_than_memory_holds_is_an_error_to_read() {
    each_device(|device| {
        let one = device.tensor_from(&[1.5f32], [1]).unwrap();
        // 2^59 bytes.
        let view = one.view().broadcast([1 << 57]).unwrap();
        let error = view.to_vec().unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 1 << 59)
                && error.is_unavailable(),
            "{error:?}"
        );
        assert!(error.to_string().contains("the host"), "{error}");
        assert_eq!(
            one.view().broadcast([5]).unwrap().to_vec().unwrap(),
            [1.5; 5]
        );
    });
}

#[test]
fn the_stride_of_a_single_index_may_be_any_number() {
    each_device(|device| {
        let buffer = device.tensor_from(&row(1), [COLS]).unwrap();
        let first = core::ptr::with_exposed_provenance::<f32>(buffer.address() as usize);
        let strides = [10, usize::MAX, 1];
        // SAFETY: live, unwritten: the buffer is, and is only read.
        let x = unsafe { TensorView::from_raw(device, first, 14, [2, 1, 4], strides) }.unwrap();
        let row = row(1);
        assert_eq!(x.to_vec().unwrap(), [&row[..4], &row[10..14]].concat());
        let y = Softmax::new().forward(&x).unwrap().to_vec().unwrap();
        assert_eq!(
            y,
            [softmax_of(&row[..4]), softmax_of(&row[10..14])].concat()
        );
        let (y_of_masked, sums) = Softmax::new().forward_with_logsumexp(&x).unwrap();
        assert_eq!(
            (y_of_masked.to_vec().unwrap(), sums.shape()),
            (y, &[2, 1][..])
        );
    });
}

#[test]
fn views_of_nothing_may_be_anywhere() {
    each_device(|device| {
        let last = core::ptr::without_provenance_mut::<f32>(usize::MAX - 3);
        // SAFETY: live: there are no elements.
        let (x, y) = unsafe {
            (
                TensorView::from_raw(device, last, 0, [3, 2, 0], [20, 10, 1]).unwrap(),
                TensorViewMut::from_raw(device, last, 0, [3, 2, 0], [20, 10, 1]).unwrap(),
            )
        };
        let slice = x.slice(0, 2..).unwrap().select(1, 1).unwrap();
        assert_eq!(
            (slice.shape(), slice.to_vec().unwrap()),
            (&[1, 0][..], vec![])
        );
        Softmax::new().forward_into(&x, y).unwrap();
        let sums = Softmax::new().logsumexp(&x).unwrap();
        assert_eq!(sums.to_vec().unwrap(), [f32::NEG_INFINITY; 6]);
    });
}

/// On a GPU new memory holds what the last tensor there held: no result may be left unwritten.
#[test]
fn rows_of_no_keys_have_a_logsumexp() {
    each_device(|device| {
        for shape in [vec![3, 0], vec![2, 3, 0], vec![2, 1, 3, 0]] {
            let rows = shape[..shape.len() - 1].iter().product();
            let poison = device.tensor_from(&vec![7.0f32; rows], [rows]).unwrap();
            drop(poison);
            let x = device.zeros::<f32>(&shape).unwrap();
            let nothing = vec![f32::NEG_INFINITY; rows];
            assert_eq!(
                Softmax::new().logsumexp(&x).unwrap().to_vec().unwrap(),
                nothing
            );
            let (y, sums) = Softmax::new().forward_with_logsumexp(&x).unwrap();
            assert_eq!(
                (y.to_vec().unwrap(), sums.to_vec().unwrap()),
                (vec![], nothing.clone())
            );
            // With all else that a row may have.
            let bias = device.zeros::<f32>([0]).unwrap();
            let keep = device.zeros::<bool>([0]).unwrap();
            let lengths = device.tensor_from(&[5u32], [1]).unwrap();
            let masked = Softmax::new()
                .masked()
                .additive(&bias)
                .keep(&keep)
                .hide(&keep);
            let masked = masked
                .causal(Align::BottomRight)
                .key_lengths(&lengths)
                .soft_cap(2.0);
            let sums = masked.logsumexp(&x).unwrap();
            assert_eq!(sums.to_vec().unwrap(), nothing);
            let halves = masked.logsumexp_as::<f16>(&x).unwrap().to_vec().unwrap();
            assert!(halves.iter().all(|&sum| sum == f16::NEG_INFINITY));
            if shape.len() > 2 {
                let sink = device.tensor_from(&[1.5f32], [1]).unwrap();
                let sums = masked.sink(&sink).logsumexp(&x).unwrap();
                assert_eq!(sums.to_vec().unwrap(), vec![1.5; rows]);
            }
        }
        // No rows at all.
        let x = device.zeros::<f32>([0, 4]).unwrap();
        assert_eq!(Softmax::new().logsumexp(&x).unwrap().len(), 0);
    });
}

/// Views at bytes of one buffer, for a call of masked softmax on scores of `[1, 1, 2, 4]`.
struct Places {
    x: usize,
    y: usize,
    sums: usize,
    operand: usize,
}

/// Where all lie apart: the scores, the results, the sums, the operand; each ends where the next begins.
const APART: Places = Places {
    x: 0,
    y: 32,
    sums: 64,
    operand: 72,
};

/// A call with the views at these places of a buffer.
type Call = fn(&Device, usize, &Places) -> Result<(), Error>;

/// # Safety
///
/// `buffer` has 160 bytes that nothing else uses, all of them zero.
unsafe fn views<'a, T: warp_softmax::Scalar>(
    device: &'a Device,
    buffer: usize,
    at: &Places,
    shape: &[usize],
) -> (
    TensorView<'a, f32>,
    TensorViewMut<'a, f32>,
    TensorViewMut<'a, f32>,
    TensorView<'a, T>,
) {
    let strides: Vec<usize> = (0..shape.len())
        .map(|dim| shape[dim + 1..].iter().product())
        .collect();
    let len = shape.iter().product();
    let read = |at| core::ptr::with_exposed_provenance(buffer + at);
    let write = |at| core::ptr::with_exposed_provenance_mut(buffer + at);
    // SAFETY: live: inside the buffer, zeros being values of every type; unwritten, unshared: the call refuses what
    // would not be, and otherwise the device does one thing at a time.
    unsafe {
        (
            TensorView::from_raw(device, read(at.x), 8, [1, 1, 2, 4], [8, 8, 4, 1]).unwrap(),
            TensorViewMut::from_raw(device, write(at.y), 8, [1, 1, 2, 4], [8, 8, 4, 1]).unwrap(),
            TensorViewMut::from_raw(device, write(at.sums), 2, [1, 1, 2], [2, 2, 1]).unwrap(),
            TensorView::from_raw(
                device,
                core::ptr::with_exposed_provenance(buffer + at.operand),
                len,
                shape,
                strides,
            )
            .unwrap(),
        )
    }
}

#[test]
fn what_is_written_shares_memory_with_no_operand() {
    let scores = [1, 1, 2, 4];
    // Each operand, its bytes, and the call with it.
    let calls: [(Operand, usize, Call); 6] = [
        (Operand::AdditiveMask, 32, |device, buffer, at| {
            // SAFETY: the buffer's, as `test` has it; so for the others.
            let (x, y, sums, bias) = unsafe { views::<f32>(device, buffer, at, &[1, 1, 2, 4]) };
            let masked = Softmax::new().masked().additive(bias);
            masked.forward_with_logsumexp_into(x, y, sums)
        }),
        (Operand::KeepMask, 8, |device, buffer, at| {
            // SAFETY: as above.
            let (x, y, sums, keep) = unsafe { views::<u8>(device, buffer, at, &[1, 1, 2, 4]) };
            Softmax::new()
                .masked()
                .keep(keep)
                .forward_with_logsumexp_into(x, y, sums)
        }),
        (Operand::HideMask, 8, |device, buffer, at| {
            // SAFETY: as above.
            let (x, y, sums, hide) = unsafe { views::<bool>(device, buffer, at, &[1, 1, 2, 4]) };
            Softmax::new()
                .masked()
                .hide(hide)
                .forward_with_logsumexp_into(x, y, sums)
        }),
        (Operand::KeyLengths, 4, |device, buffer, at| {
            // SAFETY: as above.
            let (x, y, sums, lengths) = unsafe { views::<u32>(device, buffer, at, &[1]) };
            Softmax::new()
                .masked()
                .key_lengths(lengths)
                .forward_with_logsumexp_into(x, y, sums)
        }),
        (Operand::AlibiSlopes, 4, |device, buffer, at| {
            // SAFETY: as above.
            let (x, y, sums, slopes) = unsafe { views::<f32>(device, buffer, at, &[1]) };
            let masked = Softmax::new().masked().alibi(slopes, Align::TopLeft);
            masked.forward_with_logsumexp_into(x, y, sums)
        }),
        (Operand::Sinks, 4, |device, buffer, at| {
            // SAFETY: as above.
            let (x, y, sums, sinks) = unsafe { views::<f32>(device, buffer, at, &[1]) };
            Softmax::new()
                .masked()
                .sink(sinks)
                .forward_with_logsumexp_into(x, y, sums)
        }),
    ];
    each_device(|device| {
        for (operand, bytes, call) in calls {
            let test = |at: &Places| {
                let buffer = device.zeros::<u8>([160]).unwrap();
                call(device, buffer.address() as usize, at)
            };
            let met = |at: &Places, written: Operand| match test(at).unwrap_err() {
                Error::OperandOverlap {
                    written: met,
                    other,
                    ..
                } => assert_eq!([met, other], [written, operand]),
                other => panic!("{operand}: {other:?}"),
            };
            // One element of the operand.
            let step = if bytes == 8 { 1 } else { 4 };
            test(&APART).unwrap();
            // From just behind the results, and just before them, to an element into them.
            let behind = |operand| Places {
                sums: 120,
                operand,
                ..APART
            };
            test(&behind(64)).unwrap();
            met(&behind(64 - step), Operand::Output);
            let before = |end: usize| Places {
                y: 72,
                sums: 32,
                operand: end - bytes,
                ..APART
            };
            test(&before(72)).unwrap();
            met(&before(72 + step), Operand::Output);
            // The same with the sums.
            test(&behind(120 - bytes)).unwrap();
            met(&behind(120 + step - bytes), Operand::LogSumExp);
            test(&behind(128)).unwrap();
            met(&behind(128 - step), Operand::LogSumExp);
            // What is only read may be the scores themselves; in place, it would be written.
            let scores = Places {
                operand: 0,
                ..APART
            };
            test(&scores).unwrap();
            met(&Places { y: 0, ..scores }, Operand::Output);
        }
        // The sums, and what is no operand beside the scores.
        let buffer = device.zeros::<u8>([160]).unwrap();
        let call = |sums, y| {
            let at = Places { sums, y, ..APART };
            // SAFETY: the buffer is.
            let (x, y, sums, _) =
                unsafe { views::<f32>(device, buffer.address() as usize, &at, &scores) };
            Softmax::new()
                .masked()
                .forward_with_logsumexp_into(x, y, sums)
        };
        let met = |result: Result<(), Error>, other| {
            let error = result.unwrap_err();
            assert!(error.is_invalid_request());
            let text = error.to_string();
            assert!(
                text.contains("the tensor of log-sum-exps shares memory with the"),
                "{text}"
            );
            match error {
                Error::OperandOverlap {
                    written: Operand::LogSumExp,
                    other: met,
                    written_bytes,
                    other_bytes,
                } => {
                    assert_eq!(met, other);
                    assert_eq!(written_bytes.end - written_bytes.start, 8);
                    assert_eq!(other_bytes.end - other_bytes.start, 32);
                }
                other => panic!("{other:?}"),
            }
        };
        call(32, 40).unwrap();
        met(call(28, 40), Operand::Input);
        met(call(0, 40), Operand::Input);
        met(call(36, 40), Operand::Output);
        call(72, 40).unwrap();
        met(call(68, 40), Operand::Output);
        // In place, they are the scores as well as the results.
        met(call(28, 0), Operand::Input);
    });
}

#[test]
fn sums_lie_apart() {
    each_device(|device| {
        let x = device.zeros::<f32>([3, 4]).unwrap();
        let buffer = device.zeros::<f32>([8]).unwrap();
        let into = |stride: usize| {
            let first = core::ptr::with_exposed_provenance_mut(buffer.address() as usize);
            // SAFETY: live: the buffer is; unshared: nothing else uses it.
            let sums = unsafe { TensorViewMut::<f32>::from_raw(device, first, 8, [3], [stride]) };
            Softmax::new().masked().logsumexp_into(&x, sums.unwrap())
        };
        assert!(matches!(into(0), Err(Error::OutputOverlaps { .. })));
        into(1).unwrap();
        into(3).unwrap();
        assert!(
            (buffer.to_vec().unwrap()[6] - 4f32.ln()).abs() < 1e-6,
            "the third, at twice the stride"
        );
    });
}

#[test]
fn queries_have_a_largest_number_where_it_matters() {
    let device = Device::emulator();
    let one = device.zeros::<f32>([1, 1]).unwrap();
    let most = i32::MAX as usize;
    // Repeated, so that there is no such memory; and only planned.
    let plan = |queries: usize, masked: MaskedSoftmax<'_>| {
        masked.plan_logsumexp(one.view().broadcast([queries, 1]).unwrap())
    };
    let masked = Softmax::new().masked();
    let slopes = device.zeros::<f32>([]).unwrap();
    for asks in [
        masked.clone().causal(Align::BottomRight),
        masked.clone().window(1, 1, Align::TopLeft),
        masked.clone().alibi(&slopes, Align::TopLeft),
    ] {
        assert!(plan(most, asks.clone()).is_ok());
        let error = plan(most + 1, asks).unwrap_err();
        assert!(
            matches!(error, Error::TooLarge { limit, .. } if limit == most),
            "{error:?}"
        );
        assert!(error.to_string().contains("2147483648"), "{error}");
    }
    // Nobody asks for a query's number: any number of rows, in as many launches as it takes.
    assert_eq!(plan(most, masked.clone()).unwrap().launches(), 1);
    assert_eq!(plan(most + 1, masked.clone()).unwrap().launches(), 2);
    assert_eq!(plan(3 * most, masked).unwrap().launches(), 3);
}

#[test]
fn keys_have_a_largest_number() {
    let device = Device::emulator();
    let one = device.zeros::<f32>([1, 1]).unwrap();
    let plan = |keys: usize| {
        let x = one.view().broadcast([1, keys]).unwrap();
        let softmax = Softmax::new();
        let masked = softmax.masked();
        [
            softmax.plan(&x),
            masked.plan(&x),
            masked.plan_log_softmax(&x),
            masked.plan_logsumexp(&x),
        ]
    };
    for result in plan(MAX_COLS + 1) {
        assert!(matches!(
            result,
            Err(Error::RowTooLong { cols, limit }) if cols == MAX_COLS + 1 && limit == MAX_COLS
        ));
    }
    // One key less is not too many: that all are one element is what is refused then.
    for result in plan(MAX_COLS) {
        assert!(matches!(result, Err(Error::LastStride { stride: 0, .. })));
    }
}

#[test]
fn steps_between_keys_have_a_largest_size() {
    let device = Device::emulator();
    let x = device.zeros::<f32>([2, 3]).unwrap();
    let plan = |step: usize| {
        let first = core::ptr::without_provenance(4096);
        // SAFETY: nothing is done with the view but planning.
        let keep = unsafe { TensorView::<u8>::from_raw(&device, first, 2 * step + 1, [3], [step]) };
        Softmax::new().masked().keep(keep.unwrap()).plan(&x)
    };
    let most = u32::MAX as usize;
    assert!(plan(most).is_ok());
    let error = plan(most + 1).unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { limit, .. } if limit == most),
        "{error:?}"
    );
    assert!(error.is_invalid_request());
}
