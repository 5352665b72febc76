//! What the crate asks of the CUDA driver, held against a driver that writes it down. No GPU needed.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;

use std::ptr;

use common::{Log, with_fake};
use cuda_driver::{CUcontext, CUstream, Driver};
use half::bf16;
use warp_softmax::bench_support::{self, Event, Graph};
use warp_softmax::{Align, DType, Device, Error, Problem, Softmax, Tensor, TensorView};

fn stream_of(device: &Device) -> String {
    format!("{:#x}", bench_support::raw_stream(device) as usize)
}

fn context(handle: usize) -> CUcontext {
    ptr::without_provenance_mut(handle)
}

fn set_current(handle: usize) {
    // SAFETY: the fake driver takes any number for a context.
    unsafe { Driver::load().unwrap().ctx_set_current(context(handle)) }.unwrap();
}

#[test]
fn a_softmax_is_one_launch_on_the_device_s_stream() {
    with_fake(
        "a_softmax_is_one_launch_on_the_device_s_stream",
        &[("WARP_SOFTMAX_CODE", "ptx")],
        |mut log| {
            let device = Device::cuda(0).unwrap();
            assert_eq!(device.name(), "Fake GPU (cuda:0, sm_90, driver 13.0)");
            assert!(device.is_cuda());
            assert_eq!(device.properties().max_cluster_blocks, 16);
            assert_eq!(device.properties().compute_capability, Some((9, 0)));
            let stream = stream_of(&device);
            let created = format!("cuStreamCreate flags 1 stream {stream}");
            assert!(
                log.lines().contains(&created),
                "a stream that does not wait for the default stream"
            );

            let x = device.tensor_from(&[1.0f32; 3 * 2001], [3, 2001]).unwrap();
            assert_eq!(
                log.lines(),
                [
                    format!("cuMemAllocAsync 24012 stream {stream}"),
                    format!("cuMemcpyHtoDAsync 24012 stream {stream}"),
                    format!("cuStreamSynchronize {stream}"),
                ]
            );
            let mut y = device.zeros::<f32>([3, 2001]).unwrap();
            assert_eq!(y.to_vec().unwrap(), [0.0; 6003]);
            log.lines();

            Softmax::new().forward_into(&x, &mut y).unwrap();
            let launch = format!(
                "cuLaunchKernel softmax_staged_f32_f32 grid 3 1 1 block 32 1 1 shared 9088 stream {stream} \
             x {:#x} y {:#x} rows 3 cols 2001",
                x.address(),
                y.address()
            );
            assert_eq!(
                log.lines(),
                [
                    "cuModuleLoadDataEx 1",
                    "cuModuleGetFunction softmax_staged_f32_f32",
                    // All shared memory of a block, less what the kernel has by itself.
                    &format!("cuFuncSetAttribute 8 {}", 226 * 1024),
                    // Clusters of 16 blocks.
                    "cuFuncSetAttribute 14 1",
                    &launch,
                ]
            );
            Softmax::new().forward_into(&x, &mut y).unwrap();
            assert_eq!(log.lines(), [launch], "a warm call only launches");

            let address = x.address();
            drop(x);
            assert_eq!(
                log.lines(),
                [format!("cuMemFreeAsync {address:#x} stream {stream}")]
            );
            drop(device);
            assert_eq!(log.calls(), [""; 0], "the output still has the stream");
            drop(y);
            assert_eq!(log.calls(), ["cuMemFreeAsync", "cuStreamDestroy"]);
        },
    );
}

#[test]
fn blocks_that_share_a_row_are_a_cluster() {
    with_fake("blocks_that_share_a_row_are_a_cluster", &[], |mut log| {
        let device = Device::cuda(0).unwrap();
        let x: Tensor<f32> = device.zeros([2, 8192]).unwrap();
        let plan = Softmax::new().plan(&x).unwrap();
        assert!(plan.blocks_per_row() > 1, "{plan}");
        Softmax::new().forward(&x).unwrap();
        let expected = format!(
            "cuLaunchKernelEx {} grid {} 1 1 block {} 1 1 cluster {} 1 1 shared {} stream {}",
            plan.kernel_name(),
            2 * plan.blocks_per_row(),
            plan.threads_per_block(),
            plan.blocks_per_row(),
            plan.shared_bytes(),
            stream_of(&device)
        );
        let lines = log.lines();
        assert!(lines.contains(&expected), "{expected}\n{lines:#?}");
    });
}

/// Whether a launch that may begin early is one, with a block a row and, unless the device has none, with clusters.
fn launches_begin_early(mut log: Log, expected: bool) {
    let device = Device::cuda(0).unwrap();
    for cols in [64, 8192] {
        let x: Tensor<f32> = device.zeros([2, cols]).unwrap();
        for (softmax, early) in [
            (Softmax::new(), false),
            (Softmax::new().programmatic(), expected),
        ] {
            let in_clusters = softmax.plan(&x).unwrap().blocks_per_row() > 1;
            assert_eq!(in_clusters, cols == 8192 && expected);
            log.calls();
            softmax.forward(&x).unwrap();
            let lines = log.lines();
            let launch = lines.iter().find(|line| line.starts_with("cuLaunch"));
            let launch = launch.unwrap();
            assert_eq!(launch.contains(" programmatic "), early, "{launch}");
            assert_eq!(launch.contains(" cluster "), in_clusters, "{launch}");
        }
    }
}

#[test]
fn launches_begin_early_where_that_was_asked_for() {
    with_fake(
        "launches_begin_early_where_that_was_asked_for",
        &[],
        |log| launches_begin_early(log, true),
    );
}

#[test]
fn launches_of_kernels_that_cannot_wait_do_not_begin_early() {
    with_fake(
        "launches_of_kernels_that_cannot_wait_do_not_begin_early",
        &[("WARP_SOFTMAX_ARCH", "sm_80")],
        |log| launches_begin_early(log, false),
    );
}

#[test]
fn masked_calls_load_nothing_after_they_are_prepared() {
    with_fake(
        "masked_calls_load_nothing_after_they_are_prepared",
        &[],
        |mut log| {
            let device = Device::cuda(0).unwrap();
            let x: Tensor<bf16> = device.zeros([4, 64]).unwrap();
            // The rows of the second do not begin at whole vectors.
            let (mut packed, mut padded): (Tensor<bf16>, Tensor<bf16>) = (
                device.zeros([4, 64]).unwrap(),
                device.zeros([4, 65]).unwrap(),
            );
            let masked = Softmax::new().masked().causal(Align::TopLeft);
            masked.prepare_as::<bf16>(&x).unwrap();
            log.lines();
            masked.forward_into(&x, &mut packed).unwrap();
            let part = padded.view_mut().slice(1, ..64).unwrap();
            masked.forward_into(&x, part).unwrap();
            let lines = log.lines();
            let launches: Vec<_> = lines
                .iter()
                .filter(|line| line.starts_with("cuLaunch"))
                .collect();
            assert_eq!(launches.len(), 2, "{lines:#?}");
            assert!(launches[1].contains("_any_"), "{}", launches[1]);
            assert!(
                !lines.iter().any(|line| line.contains("Module")),
                "{lines:#?}"
            );
        },
    );
}

#[test]
fn kernels_are_loaded_once_for_all_streams_of_a_gpu() {
    with_fake(
        "kernels_are_loaded_once_for_all_streams_of_a_gpu",
        &[],
        |mut log| {
            let problem = Problem::packed(&[4, 32], DType::F32, DType::F32).unwrap();
            let first = Device::cuda(0).unwrap();
            Softmax::new().prepare(&first, &problem).unwrap();
            assert_eq!(
                log.calls()
                    .iter()
                    .filter(|call| *call == "cuModuleLoadDataEx")
                    .count(),
                1
            );
            for device in [first.new_stream().unwrap(), Device::cuda(0).unwrap(), first] {
                Softmax::new().prepare(&device, &problem).unwrap();
            }
            let calls = log.calls();
            assert!(!calls.contains(&"cuModuleLoadDataEx".into()), "{calls:?}");
            assert!(
                !calls.contains(&"cuDevicePrimaryCtxRetain".into()),
                "{calls:?}"
            );
            Softmax::new()
                .prepare(&Device::cuda(1).unwrap(), &problem)
                .unwrap();
            let calls = log.calls();
            assert!(
                calls.contains(&"cuModuleLoadDataEx".into()),
                "another GPU: {calls:?}"
            );
            assert!(
                !calls.contains(&"cuDevicePrimaryCtxRelease".into()),
                "{calls:?}"
            );
        },
    );
}

#[test]
fn a_thread_keeps_the_context_it_had() {
    with_fake("a_thread_keeps_the_context_it_had", &[], |mut log| {
        let driver = Driver::load().unwrap();
        set_current(0xabc);
        let device = Device::cuda(0).unwrap();
        let x = device.tensor_from(&[1.0f32, 2.0], [2]).unwrap();
        let y = Softmax::new().forward(&x).unwrap();
        assert_eq!(driver.ctx_get_current().unwrap(), context(0xabc));
        drop((x, y));
        assert_eq!(driver.ctx_get_current().unwrap(), context(0xabc));

        // Where there was none, ours stays, and no later call has to set it.
        set_current(0);
        device.synchronize().unwrap();
        assert_eq!(driver.ctx_get_current().unwrap(), context(0x1000));
        log.lines();
        device.synchronize().unwrap();
        assert_eq!(log.calls(), ["cuStreamSynchronize"]);
        std::thread::scope(|scope| {
            scope.spawn(|| device.synchronize().unwrap());
        });
    });
}

/// Each thread of another context than the tensor's, and one of none.
#[test]
fn a_tensor_may_be_used_and_dropped_under_any_context() {
    with_fake(
        "a_tensor_may_be_used_and_dropped_under_any_context",
        &[],
        |mut log| {
            let device = Device::cuda(0).unwrap();
            let (stream, elsewhere) = (stream_of(&device), Device::cuda(1).unwrap());
            for current in [0x1001, 0xabc, 0] {
                let x = device.tensor_from(&[1.0f32, 2.0], [2]).unwrap();
                let y = Softmax::new().forward(&x).unwrap();
                log.lines();
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        set_current(current);
                        elsewhere.synchronize().unwrap();
                        y.to_vec().unwrap();
                        drop((x, y));
                        // Where there was none, the first to be used stays: the other GPU's.
                        let left = if current == 0 { 0x1001 } else { current };
                        let driver = Driver::load().unwrap();
                        assert_eq!(driver.ctx_get_current().unwrap(), context(left));
                    });
                });
                let freed: Vec<_> = log
                    .lines()
                    .into_iter()
                    .filter(|line| line.starts_with("cuMemFreeAsync"))
                    .collect();
                assert_eq!(freed.len(), 2);
                assert!(
                    freed.iter().all(|line| line.ends_with(&stream)),
                    "{freed:?}"
                );
            }
        },
    );
}

#[test]
fn capture_needs_prepared_kernels_and_memory() {
    with_fake(
        "capture_needs_prepared_kernels_and_memory",
        &[],
        |mut log| {
            let device = Device::cuda(0).unwrap();
            let softmax = Softmax::new();
            let x = device.tensor_from(&[1.0f32, 2.0], [2]).unwrap();
            let mut y = device.zeros::<f32>([2]).unwrap();
            let mut z = Some(device.zeros::<f32>([2]).unwrap());
            let captured = |work: &mut dyn FnMut() -> Result<(), Error>| {
                // SAFETY: no graph outlives the tensors.
                unsafe { Graph::capture(&device, work) }
            };
            let refused =
                |work: &mut dyn FnMut() -> Result<(), Error>| match captured(work).map(|_| ()) {
                    Err(Error::Capture { what, .. }) => what,
                    other => panic!("{other:?}"),
                };
            assert_eq!(
                refused(&mut || softmax.forward_into(&x, &mut y)),
                "its kernel is not loaded yet"
            );
            assert_eq!(
                log.calls().last().unwrap(),
                "cuGraphDestroy",
                "the capture is over"
            );
            softmax
                .prepare(&device, &Problem::between(&x, &mut y).unwrap())
                .unwrap();

            let allocated = refused(&mut || softmax.forward(&x).map(|_| ()));
            assert_eq!(allocated, "memory cannot be allocated meanwhile");
            refused(&mut || x.to_vec().map(|_| ()));
            refused(&mut || y.copy_from(&[1.0, 2.0]));
            refused(&mut || device.synchronize());
            log.lines();

            let graph = captured(&mut || {
                drop(z.take());
                softmax.forward_into(&x, &mut y)
            });
            let graph = graph.unwrap();
            graph.launch().unwrap();
            drop(graph);
            assert_eq!(
                log.calls(),
                [
                    "cuStreamBeginCapture",
                    "cuLaunchKernel",
                    "cuStreamEndCapture",
                    "cuGraphInstantiate",
                    "cuGraphDestroy",
                    "cuGraphLaunch",
                    "cuGraphExecDestroy",
                ],
                "what was dropped meanwhile is not freed as part of the graph"
            );
            let _more = device.zeros::<f32>([2]).unwrap();
            assert_eq!(
                log.calls(),
                ["cuMemFreeAsync", "cuMemAllocAsync", "cuMemsetD8Async"]
            );
        },
    );
}

#[test]
fn a_stream_of_somebody_else_s_is_used_and_not_destroyed() {
    with_fake(
        "a_stream_of_somebody_else_s_is_used_and_not_destroyed",
        &[],
        |mut log| {
            let owner = Device::cuda(0).unwrap();
            let stream = bench_support::raw_stream(&owner);
            // SAFETY: `owner` has the stream until the end.
            let device = unsafe { Device::from_raw_stream(0, stream) }.unwrap();
            let x = owner.tensor_from(&[1.0f32, 2.0], [2]).unwrap();
            let mut y = device.zeros::<f32>([2]).unwrap();
            Softmax::new().forward_into(&x, &mut y).unwrap();
            log.lines();
            drop((device, y));
            assert_eq!(log.calls(), ["cuMemFreeAsync"]);

            // SAFETY: null is always a stream.
            let default = unsafe { Device::from_raw_stream(0, ptr::null_mut()) }.unwrap();
            assert_eq!(stream_of(&default), "0x0");
            let elsewhere: CUstream = ptr::without_provenance_mut(0x10);
            // SAFETY: the fake driver knows the handle.
            let refused = unsafe { Device::from_raw_stream(0, elsewhere.cast()) };
            assert!(matches!(refused, Err(Error::ForeignStream { ordinal: 0 })));
            // CU_STREAM_LEGACY is the default stream as well.
            // SAFETY: always a stream.
            let legacy = unsafe { Device::from_raw_stream(0, ptr::without_provenance_mut(1)) };
            let x = default.tensor_from(&[1.0f32, 2.0], [2]).unwrap();
            let mut y = legacy.unwrap().zeros::<f32>([2]).unwrap();
            Softmax::new().forward_into(&x, &mut y).unwrap();
            // CU_STREAM_PER_THREAD would be two streams in two threads, and count as one.
            // SAFETY: refused.
            let refused = unsafe { Device::from_raw_stream(0, ptr::without_provenance_mut(2)) };
            assert!(matches!(refused, Err(Error::PerThreadStream)));
        },
    );
}

#[test]
fn tensors_of_different_streams_do_not_mix() {
    with_fake("tensors_of_different_streams_do_not_mix", &[], |mut log| {
        let device = Device::cuda(0).unwrap();
        let others = [
            device.new_stream().unwrap(),
            Device::cuda(1).unwrap(),
            Device::emulator(),
        ];
        let x = device.zeros::<f32>([1, 1, 2, 2]).unwrap();
        for other in others {
            let mut y = other.zeros::<f32>([1, 1, 2, 2]).unwrap();
            let mut sums = other.zeros::<f32>([1, 1, 2]).unwrap();
            let bias = other.zeros::<f32>([2]).unwrap();
            let mask = other.zeros::<bool>([2]).unwrap();
            let lengths = other.zeros::<u32>([1]).unwrap();
            let of_heads = other.zeros::<f32>([1]).unwrap();
            let mut own = device.zeros::<f32>([1, 1, 2, 2]).unwrap();
            log.lines();
            let masked = Softmax::new().masked();
            let with = [
                masked.clone().additive(&bias),
                masked.clone().keep(&mask),
                masked.clone().hide(&mask),
                masked.clone().key_lengths(&lengths),
                masked.clone().alibi(&of_heads, Align::TopLeft),
                masked.clone().sink(&of_heads),
            ];
            let mut mixed = vec![
                Softmax::new().forward_into(&x, &mut y),
                masked.forward_into(&x, &mut y),
                masked.log_softmax_into(&x, &mut y),
                masked.logsumexp_into(&x, &mut sums),
                masked.forward_with_logsumexp_into(&x, &mut y, &mut sums),
                masked.forward_with_logsumexp_into(&x, &mut own, &mut sums),
            ];
            for masked in &with {
                mixed.push(masked.forward(&x).map(drop));
                mixed.push(masked.forward_in_place(&mut own));
                mixed.push(masked.logsumexp(&x).map(drop));
                mixed.push(masked.plan(&x).map(drop));
                mixed.push(masked.prepare_as::<f32>(&x));
            }
            for (call, result) in mixed.into_iter().enumerate() {
                match result {
                    Err(Error::DeviceMismatch { first, second }) => {
                        let place = |device: &Device| match device.is_cuda() {
                            true => format!("{}, stream {}", device.name(), stream_of(device)),
                            false => device.name().to_owned(),
                        };
                        assert_eq!((first, second), (place(&device), place(&other)));
                    }
                    result => panic!("call {call}: {result:?}"),
                }
            }
            assert_eq!(log.calls(), [""; 0]);
        }
        let mut y = device.clone().zeros::<f32>([1, 1, 2, 2]).unwrap();
        Softmax::new().forward_into(&x, &mut y).unwrap();
    });
}

/// A panic on the way leaves no capture behind.
#[test]
fn a_panic_ends_the_capture() {
    with_fake("a_panic_ends_the_capture", &[], |_| {
        let device = Device::cuda(0).unwrap();
        let mut dropped = Some(device.zeros::<f32>([2]).unwrap());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // SAFETY: there will be no graph.
            let _ = unsafe {
                Graph::capture(&device, || {
                    drop(dropped.take());
                    panic!("in the middle")
                })
            };
        }));
        assert!(panicked.is_err());
        device.synchronize().unwrap();
        let x = device.tensor_from(&[1.0f32, 2.0], [2]).unwrap();
        assert_eq!(x.to_vec().unwrap(), [1.0, 2.0]);
    });
}

#[test]
fn raw_memory_is_launched_on_where_it_lies() {
    with_fake("raw_memory_is_launched_on_where_it_lies", &[], |mut log| {
        let device = Device::cuda(0).unwrap();
        let mut y = device.zeros::<f32>([4, 8]).unwrap();
        let address: *const f32 = ptr::without_provenance(0x7000_0000_0010);
        // SAFETY: the fake driver's kernels touch nothing.
        let x = unsafe { TensorView::from_raw(&device, address, 36, [4, 6], [10, 1]) }.unwrap();
        let y = y.view_mut().slice(1, 2..).unwrap();
        let at = y.address();
        Softmax::new().forward_into(&x, y).unwrap();
        let lines = log.lines();
        let expected = format!("x 0x700000000010 y {at:#x} rows 4 cols 6");
        assert!(lines.last().unwrap().ends_with(&expected), "{lines:?}");
    });
}

#[test]
fn a_gpu_without_pools_waits_before_it_frees() {
    let pools = [("FAKE_CUDA_POOLS", "0")];
    with_fake(
        "a_gpu_without_pools_waits_before_it_frees",
        &pools,
        |mut log| {
            let device = Device::cuda(0).unwrap();
            log.lines();
            drop(device.zeros::<f32>([2]).unwrap());
            let calls = [
                "cuMemAlloc",
                "cuMemsetD8Async",
                "cuStreamSynchronize",
                "cuMemFree",
            ];
            assert_eq!(log.calls(), calls);
        },
    );
}

#[test]
fn the_older_ptx_is_taken_where_it_is_named() {
    let arch = [("WARP_SOFTMAX_ARCH", "sm_70")];
    with_fake("the_older_ptx_is_taken_where_it_is_named", &arch, |_| {
        let refused = Device::cuda(0);
        assert!(matches!(
            refused,
            Err(Error::Environment {
                variable: "WARP_SOFTMAX_ARCH",
                ..
            })
        ));
    });
}

#[test]
fn code_is_of_a_kind_that_there_is() {
    let code = [("WARP_SOFTMAX_CODE", "0")];
    with_fake("code_is_of_a_kind_that_there_is", &code, |mut log| {
        let text = Device::cuda(0).unwrap_err().to_string();
        assert_eq!(
            text,
            "WARP_SOFTMAX_CODE=0 is not allowed: it may be cubin or ptx"
        );
        assert_eq!(log.calls(), [""; 0], "no context is made for it");
    });
}

#[test]
fn auto_takes_the_first_gpu() {
    with_fake("auto_takes_the_first_gpu", &[], |_| {
        let device = Device::auto().unwrap();
        assert_eq!(device.name(), "Fake GPU (cuda:0, sm_90, driver 13.0)");
        assert_eq!(device.reason(), "a driver and a GPU were found");
        assert!(matches!(
            Device::cuda(2),
            Err(Error::NoSuchGpu {
                ordinal: 2,
                count: 2
            })
        ));
    });
}

#[test]
fn auto_obeys_the_variable() {
    let named = [("WARP_SOFTMAX_DEVICE", "cuda:1")];
    with_fake("auto_obeys_the_variable", &named, |_| {
        let device = Device::auto().unwrap();
        assert_eq!(device.name(), "Fake GPU (cuda:1, sm_90, driver 13.0)");
        assert_eq!(device.reason(), "WARP_SOFTMAX_DEVICE=cuda:1");
    });
}

#[test]
fn auto_refuses_what_the_variable_may_not_say() {
    let named = [("WARP_SOFTMAX_DEVICE", "gpu")];
    with_fake("auto_refuses_what_the_variable_may_not_say", &named, |_| {
        assert_eq!(
            Device::auto().unwrap_err().to_string(),
            "WARP_SOFTMAX_DEVICE=gpu is not allowed: \
             it may be auto, cuda, cuda:N with a GPU's number N, or emulator"
        );
    });
}

#[test]
fn a_module_without_its_kernel_is_unloaded() {
    let fail = [("FAKE_CUDA_FAIL", "cuModuleGetFunction=500")];
    with_fake(
        "a_module_without_its_kernel_is_unloaded",
        &fail,
        |mut log| {
            let device = Device::cuda(0).unwrap();
            let problem = Problem::packed(&[1, 1], DType::F32, DType::F32).unwrap();
            assert!(matches!(
                Softmax::new().prepare(&device, &problem),
                Err(Error::Load { .. })
            ));
            assert_eq!(log.calls().last().unwrap(), "cuModuleUnload");
        },
    );
}

#[test]
fn benches_measure_on_the_device_s_stream() {
    with_fake("benches_measure_on_the_device_s_stream", &[], |mut log| {
        let device = Device::cuda(0).unwrap();
        let x = device.tensor_from(&[1.0f32, 2.0], [2]).unwrap();
        let mut y = device.zeros::<f32>([2]).unwrap();
        log.lines();
        let before = Event::record(&device).unwrap();
        bench_support::copy(&x, &mut y).unwrap();
        let after = Event::record(&device).unwrap();
        assert_eq!(after.milliseconds_since(&before).unwrap(), 1.0);
        let stream = stream_of(&device);
        let lines = log.lines();
        assert_eq!(
            lines[..2],
            [
                "cuEventCreate flags 0".to_owned(),
                format!("cuEventRecord {stream}")
            ]
        );
        assert_eq!(lines[2], format!("cuMemcpyDtoDAsync 8 stream {stream}"));
        assert_eq!(y.to_vec().unwrap(), [1.0, 2.0]);
        log.lines();
        drop((before, after));
        assert_eq!(log.calls(), ["cuEventDestroy", "cuEventDestroy"]);
        assert!(matches!(
            Event::record(&Device::emulator()),
            Err(Error::NoDriver { .. })
        ));
    });
}
