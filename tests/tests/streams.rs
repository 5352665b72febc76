//! Threads, streams and CUDA graphs: work is ordered where it has to be, and nothing waits or allocates
//! where it may not.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::thread;

use warp_softmax::bench_support::{Graph, copy, raw_stream};
use warp_softmax::{DType, Device, Error, Problem, Softmax, Tensor, Way};
use warp_softmax_tests::backend;
use warp_softmax_tests::content::Content;
use warp_softmax_tests::random::Random;
use warp_softmax_tests::settings;

/// Input of one worker: a shape for each way, and contents of its own.
fn data(worker: usize, shape: [usize; 2]) -> Vec<f32> {
    Content::Normal { sigma: 3.0 }.row(shape[0] * shape[1], &mut Random::new(worker as u64))
}

const SHAPES: [[usize; 2]; 5] = [[40, 32], [9, 1000], [3, 4097], [2, 20_000], [1, 70_000]];

fn expected(worker: usize, shape: [usize; 2]) -> Vec<f32> {
    softmax_on(&Device::emulator(), worker, shape)
}

fn softmax_on(device: &Device, worker: usize, shape: [usize; 2]) -> Vec<f32> {
    let x = device
        .tensor_from(&data(worker, shape), shape)
        .expect("a tensor");
    Softmax::new()
        .forward(&x)
        .expect("a result")
        .to_vec()
        .expect("its elements")
}

/// Runs a worker on each device at once, each over all shapes several times.
fn run_together(devices: &[Device]) {
    let expected: Vec<Vec<Vec<f32>>> = (0..devices.len())
        .map(|worker| SHAPES.map(|shape| expected(worker, shape)).to_vec())
        .collect();
    thread::scope(|scope| {
        for (worker, (device, expected)) in devices.iter().zip(&expected).enumerate() {
            scope.spawn(move || {
                for _ in 0..settings::cases().clamp(1, 5) {
                    for (shape, expected) in SHAPES.iter().zip(expected) {
                        assert_eq!(
                            &softmax_on(device, worker, *shape),
                            expected,
                            "worker {worker}, {shape:?}"
                        );
                    }
                }
            });
        }
    });
}

#[test]
fn threads_share_a_device() {
    for backend in backend::all() {
        run_together(&[
            backend.device.clone(),
            backend.device.clone(),
            backend.device,
        ]);
    }
}

#[test]
fn streams_of_one_device_work_side_by_side() {
    for backend in backend::all() {
        let streams: Vec<Device> = (0..3)
            .map(|_| backend.device.new_stream().expect("a stream"))
            .collect();
        run_together(&streams);
    }
}

/// A slow producer, the softmax, a consumer, and nothing that waits in between; the tensors go before
/// the work is done.
#[test]
fn producer_softmax_and_consumer_keep_their_order() {
    for backend in backend::all() {
        let device = &backend.device;
        let rows = if device.is_cuda() { 200_000 } else { 200 };
        let shape = [rows, 256];
        let first: Vec<f32> = (0..rows * 256).map(|i| (i % 97) as f32 * 0.1).collect();
        let last: Vec<f32> = (0..rows * 256).map(|i| (i % 89) as f32 * 0.1).collect();
        let serial = Softmax::new()
            .forward(&device.tensor_from(&last, shape).unwrap())
            .unwrap()
            .to_vec()
            .unwrap();
        let mut result = device.zeros::<f32>(shape).unwrap();
        {
            let (first, last) = (
                device.tensor_from(&first, shape).unwrap(),
                device.tensor_from(&last, shape).unwrap(),
            );
            let mut x = device.zeros::<f32>(shape).unwrap();
            for _ in 0..20 {
                copy(&first, &mut x).unwrap();
                copy(&last, &mut x).unwrap();
            }
            let y = Softmax::new().forward(&x).unwrap();
            copy(&first, &mut x).unwrap();
            copy(&y, &mut result).unwrap();
        }
        assert!(result.to_vec().unwrap() == serial);
    }
}

/// Each of a chain of launches that may begin early reads what the one ahead of it wrote, and writes over what that read.
#[test]
fn launches_that_begin_early_wait_for_the_one_ahead() {
    for backend in backend::all() {
        let device = &backend.device;
        let shapes = if device.is_cuda() {
            vec![
                [40_000, 32],
                [3_000, 1001],
                [1, 32_768],
                [8, 50_257],
                [500, 65_536],
            ]
        } else {
            vec![[40, 32], [3, 1001], [1, 8192]]
        };
        for shape in shapes {
            let sources: Vec<Tensor<f32>> = (0..6)
                .map(|i| device.tensor_from(&data(i, shape), shape).unwrap())
                .collect();
            let chain = |softmax: Softmax| {
                let mut between = device.zeros::<f32>(shape).unwrap();
                let mut results: Vec<Tensor<f32>> = sources
                    .iter()
                    .map(|_| device.zeros(shape).unwrap())
                    .collect();
                for (source, result) in sources.iter().zip(&mut results) {
                    softmax.forward_into(source, &mut between).unwrap();
                    softmax.forward_into(&between, result).unwrap();
                }
                let read = results.iter().map(|result| result.to_vec().unwrap());
                read.collect::<Vec<_>>()
            };
            let expected = chain(Softmax::new());
            for _ in 0..settings::cases().clamp(1, 5) {
                let early = chain(Softmax::new().programmatic());
                assert!(early == expected, "{shape:?} on {}", backend.name);
            }
        }
    }
}

/// The GPU, or nothing and the reason printed.
fn gpu(what: &str) -> Option<Device> {
    let gpu = backend::cuda().map(|backend| backend.device);
    if gpu.is_none() {
        println!("left out, as there is no GPU: {what}");
    }
    gpu
}

/// A graph of a copy in, the softmax and a copy out, for every way, launched again after the input has changed.
#[test]
fn prepared_calls_can_be_captured_and_replayed() {
    let Some(device) = gpu("capture and replay") else {
        return;
    };
    for way in Way::ALL {
        let shape = [24, 480];
        let problem = Problem::packed(&shape, DType::F32, DType::F32).unwrap();
        let op = Softmax::new().force_way(way);
        match op.prepare(&device, &problem) {
            // An older GPU without clusters.
            Err(Error::WayNotPossible { .. }) => continue,
            prepared => prepared.unwrap(),
        }
        let mut source = device.tensor_from(&data(0, shape), shape).unwrap();
        let (mut x, mut y, mut out): (Tensor<f32>, Tensor<f32>, Tensor<f32>) = (
            device.zeros(shape).unwrap(),
            device.zeros(shape).unwrap(),
            device.zeros(shape).unwrap(),
        );
        // SAFETY: all tensors outlive the graph, and while it is launched nothing else uses them.
        let graph = unsafe {
            Graph::capture(&device, || {
                copy(&source, &mut x)?;
                op.forward_into(&x, &mut y)?;
                copy(&y, &mut out)
            })
        };
        let graph = graph.unwrap_or_else(|error| panic!("{way}: {error}"));
        for worker in 0..3 {
            source.copy_from(&data(worker, shape)).unwrap();
            graph.launch().unwrap();
            assert_eq!(out.to_vec().unwrap(), expected(worker, shape), "{way}");
        }
    }
}

#[test]
fn capture_refuses_what_a_graph_cannot_hold() {
    let Some(device) = gpu("what capture refuses") else {
        return;
    };
    let shape = [2, 33_000];
    let x = device.tensor_from(&data(0, shape), shape).unwrap();
    // No other test of this process loads this kernel.
    let op = Softmax::new().force_way(Way::Stream);
    let mut y = device.zeros::<half::bf16>(shape).unwrap();
    let mut capture = |work: &mut dyn FnMut(&mut Tensor<half::bf16>) -> Result<(), Error>| {
        // SAFETY: the tensors outlive the graph, which is not launched but at the end, when nothing uses them.
        unsafe { Graph::capture(&device, || work(&mut y)) }
    };
    let refused = |result: Result<Graph, Error>| match result {
        Err(error @ Error::Capture { .. }) => assert!(error.is_invalid_request(), "{error}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("captured"),
    };
    refused(capture(&mut |y| op.forward_into(&x, y)));
    refused(capture(&mut |_| x.to_vec().map(drop)));
    refused(capture(&mut |_| device.synchronize()));
    refused(capture(&mut |_| Softmax::new().forward(&x).map(drop)));
    // The stream is as good as before.
    let problem = Problem::packed(&shape, x.dtype(), DType::BF16).unwrap();
    op.prepare(&device, &problem).unwrap();
    let graph = capture(&mut |y| op.forward_into(&x, y)).unwrap();
    graph.launch().unwrap();
    let direct = op.forward_as::<half::bf16>(&x).unwrap().to_vec().unwrap();
    assert_eq!(y.to_vec().unwrap(), direct);
}

/// A stream that somebody else made, and the legacy default stream.
#[test]
fn work_goes_to_a_given_stream() {
    let Some(owner) = gpu("foreign streams") else {
        return;
    };
    for stream in [raw_stream(&owner), core::ptr::null_mut()] {
        // SAFETY: live: `owner` keeps its stream until after the last use; null is always there.
        let device = unsafe { Device::from_raw_stream(0, stream) }.unwrap();
        for shape in SHAPES {
            assert_eq!(softmax_on(&device, 1, shape), expected(1, shape));
        }
    }
}
