//! What is said, and what still works, when the driver, the GPU or another library gives trouble: with a fake driver
//! that has any trouble, and with a GPU, if there is one, that has what it can be made to have.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;
#[allow(dead_code, reason = "`main` is for the program itself")]
#[path = "../examples/quickstart/main.rs"]
mod quickstart;

use std::ptr;

use common::{Library, in_own_process, with_fake, with_gpu};
use cuda_driver::{CUcontext, CuError, Driver};
use cust::sys;
use warp_softmax::{Device, Error, Softmax, Tensor};

/// The error's text with its causes, which names all of `words`.
#[track_caller]
fn told(error: &Error, words: &[&str]) -> String {
    let text = error.chain();
    for word in words {
        assert!(text.contains(word), "`{word}` is not in `{text}`");
    }
    text
}

/// That there is no GPU to be had, for the reason that names all of `words`: so says the call that wants one, and
/// the emulator that takes its place.
#[track_caller]
fn no_gpu(words: &[&str]) {
    let error = Device::cuda(0).unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let text = told(&error, words);
    let device = Device::auto().unwrap();
    assert!(!device.is_cuda());
    assert_eq!(device.reason(), text);
    let x = device.tensor_from(&[1.0f32, 1.0], [2]).unwrap();
    assert_eq!(
        Softmax::new().forward(&x).unwrap().to_vec().unwrap(),
        [0.5, 0.5]
    );
}

#[test]
fn without_a_driver_there_is_the_emulator() {
    let test = "without_a_driver_there_is_the_emulator";
    in_own_process(test, Library::Missing, &[], |_| {
        assert!(matches!(Device::cuda(0), Err(Error::NoDriver { .. })));
        no_gpu(&[
            "no GPU can be used: no CUDA driver: cannot open /nowhere/libcuda.so.1: ",
            "install the NVIDIA driver",
            "WARP_SOFTMAX_LIBCUDA",
        ]);
    });
}

/// As the program prints it.
#[test]
fn an_example_tells_an_error_with_its_causes() {
    let test = "an_example_tells_an_error_with_its_causes";
    let variables = [("WARP_SOFTMAX_DEVICE", "cuda")];
    in_own_process(test, Library::Missing, &variables, |_| {
        let arguments = lexopt::Parser::from_args([""; 0]);
        let error = quickstart::run(arguments, &mut Vec::new()).unwrap_err();
        let text = format!("{error:#}");
        assert_eq!(text, Device::cuda(0).unwrap_err().chain());
        assert_eq!(text.matches("cannot open /nowhere/libcuda.so.1").count(), 1);
    });
}

#[test]
fn a_driver_that_is_too_old_is_refused() {
    let version = [("FAKE_CUDA_VERSION", "12000")];
    with_fake(
        "a_driver_that_is_too_old_is_refused",
        &version,
        |mut log| {
            no_gpu(&[
                "CUDA 12.0",
                "CUDA 12.1 or newer is needed",
                "update the NVIDIA driver to 530 or newer",
            ]);
            assert_eq!(log.calls(), [""; 0]);
        },
    );
}

#[test]
fn a_driver_that_does_not_start_is_refused() {
    let fail = [("FAKE_CUDA_FAIL", "cuInit=803")];
    with_fake("a_driver_that_does_not_start_is_refused", &fail, |_| {
        no_gpu(&[
            "cuInit",
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)",
            "reload the module",
        ]);
    });
}

#[test]
fn gpus_that_are_hidden_are_told_from_gpus_that_are_not_there() {
    let fail = ("FAKE_CUDA_FAIL", "cuInit=100");
    let variables = [fail, ("CUDA_VISIBLE_DEVICES", "")];
    let test = "gpus_that_are_hidden_are_told_from_gpus_that_are_not_there";
    with_fake(test, &variables, |_| {
        no_gpu(&["shows no GPU", "CUDA_VISIBLE_DEVICES is ``", "unset it"]);
    });
}

#[test]
fn a_machine_without_a_gpu_says_so() {
    let fail = [("FAKE_CUDA_FAIL", "cuInit=100")];
    with_fake("a_machine_without_a_gpu_says_so", &fail, |_| {
        no_gpu(&["shows no GPU", "nvidia-smi"]);
    });
}

#[test]
fn no_gpus_are_an_error_and_no_panic() {
    let none = [("FAKE_CUDA_GPUS", "0")];
    with_fake("no_gpus_are_an_error_and_no_panic", &none, |_| {
        no_gpu(&["cuda:0", "shows 0", "CUDA_VISIBLE_DEVICES"]);
    });
}

#[test]
fn a_gpu_that_is_too_old_is_refused() {
    let capability = [("FAKE_CUDA_CAPABILITY", "7.5")];
    with_fake(
        "a_gpu_that_is_too_old_is_refused",
        &capability,
        |mut log| {
            no_gpu(&["Fake GPU is of compute capability 7.5; the kernels need 8.0 or more"]);
            assert_eq!(log.calls(), [""; 0], "no context is made for it");
        },
    );
}

/// A status that CUDA 11.4 did not have.
#[test]
fn a_gpu_that_another_process_has_to_itself_says_so() {
    let fail = [("FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain=46")];
    let test = "a_gpu_that_another_process_has_to_itself_says_so";
    with_fake(test, &fail, |_| {
        let error = Device::cuda(0).unwrap_err();
        told(
            &error,
            &[
                "cuDevicePrimaryCtxRetain",
                "46",
                "another process has the GPU to itself",
            ],
        );
        assert_eq!(Device::auto().unwrap().reason(), error.chain());
    });
}

#[test]
fn a_failed_launch_says_which_call_and_why() {
    let fail = [("FAKE_CUDA_FAIL", "cuLaunchKernel=701")];
    with_fake("a_failed_launch_says_which_call_and_why", &fail, |_| {
        let device = Device::cuda(0).unwrap();
        let x: Tensor<f32> = device.zeros([10]).unwrap();
        let error = Softmax::new().forward(&x).unwrap_err();
        assert!(error.is_launch_failure() && matches!(error, Error::Driver { .. }));
        assert_eq!(
            error.chain(),
            "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"
        );
        // It is the call that failed, and not the GPU.
        assert_eq!(x.to_vec().unwrap(), [0.0; 10]);
    });
}

/// What is said where the driver answers a kernel's PTX with `status`.
fn no_kernel(test: &str, status: &str, words: &[&str]) {
    let fail = format!("cuModuleLoadDataEx={status}");
    with_fake(test, &[("FAKE_CUDA_FAIL", &fail)], |_| {
        let device = Device::cuda(0).unwrap();
        let x: Tensor<f32> = device.zeros([10]).unwrap();
        let error = Softmax::new().forward(&x).unwrap_err();
        assert!(matches!(error, Error::Load { .. }) && error.is_launch_failure());
        told(&error, &["cannot load kernel softmax_"]);
        told(&error, words);
    });
}

#[test]
fn a_kernel_that_does_not_load_comes_with_the_compiler_s_log() {
    let test = "a_kernel_that_does_not_load_comes_with_the_compiler_s_log";
    no_kernel(test, "218", &["(218)", "ptxas fatal: it will not do"]);
}

#[test]
fn a_driver_older_than_the_ptx_is_to_be_updated() {
    let test = "a_driver_older_than_the_ptx_is_to_be_updated";
    no_kernel(
        test,
        "222",
        &[
            "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            "update the NVIDIA driver",
        ],
    );
}

#[test]
fn a_driver_without_its_compiler_is_to_be_completed() {
    let test = "a_driver_without_its_compiler_is_to_be_completed";
    no_kernel(
        test,
        "221",
        &["libnvidia-ptxjitcompiler.so.1", "driver capability"],
    );
}

#[test]
fn after_exhausted_memory_less_is_still_to_be_had() {
    let memory = [("FAKE_CUDA_MEMORY", "1000")];
    with_fake(
        "after_exhausted_memory_less_is_still_to_be_had",
        &memory,
        |mut log| {
            let device = Device::cuda(0).unwrap();
            let x = device.tensor_from(&[1.0f32; 150], [150]).unwrap();
            let error = Softmax::new().forward(&x).unwrap_err();
            assert!(
                matches!(error, Error::OutOfMemory { bytes: 600, .. }) && error.is_unavailable(),
                "{error:?}"
            );
            told(&error, &["600 bytes", "Fake GPU", "drop tensors"]);
            assert!(!log.calls().contains(&"cuLaunchKernel".into()));
            // 400 bytes are left; one more is too much.
            assert!(matches!(
                device.zeros::<u8>([401]),
                Err(Error::OutOfMemory { bytes: 401, .. })
            ));
            let rest = device.zeros::<u8>([400]).unwrap();
            assert_eq!(x.to_vec().unwrap(), [1.0; 150]);
            drop((x, rest));
            device.zeros::<u8>([1000]).unwrap();
        },
    );
}

/// That all that can be asked of a device says that its context is lost, for a reason that names all of `words`, and that
/// what is left can be dropped.
fn all_is_lost(device: Device, x: Tensor<f32>, words: &[&str]) {
    let results = [
        device.synchronize(),
        x.to_vec().map(drop),
        device.zeros::<f32>([3]).map(drop),
        device.tensor_from(&[1.0f32], [1]).map(drop),
        Softmax::new().forward(&x).map(drop),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::ContextLost { .. }) && error.is_launch_failure(),
            "{error:?}"
        );
        told(&error, &["every call on this GPU", "started anew"]);
        told(&error, words);
    }
    drop((device, x));
}

#[test]
fn a_broken_context_is_not_taken_for_the_call_s_own_failure() {
    let fail = [("FAKE_CUDA_FAIL", "cuGraphLaunch=700")];
    with_fake(
        "a_broken_context_is_not_taken_for_the_call_s_own_failure",
        &fail,
        |_| {
            let device = Device::cuda(0).unwrap();
            let x = device.tensor_from(&[1.0f32, 2.0], [2]).unwrap();
            // Somebody else's work.
            // SAFETY: the fake driver does not follow the handles.
            let broken = unsafe { sys::cuGraphLaunch(ptr::null_mut(), ptr::null_mut()) };
            assert_eq!(broken as i32, 700);
            let words = [
                "earlier work",
                "compute-sanitizer",
                "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
            ];
            all_is_lost(device, x, &words);
        },
    );
}

#[test]
fn a_destroyed_context_says_what_destroys_one() {
    let fail = [("FAKE_CUDA_FAIL", "cuMemAllocAsync=709")];
    with_fake("a_destroyed_context_says_what_destroys_one", &fail, |_| {
        let device = Device::cuda(0).unwrap();
        let error = device.zeros::<f32>([3]).unwrap_err();
        assert!(matches!(error, Error::ContextLost { .. }), "{error:?}");
        told(
            &error,
            &["destroyed", "cudaDeviceReset", "started anew", "(709)"],
        );
    });
}

/// What a GPU can be made to have.
mod gpu {
    use super::*;

    #[test]
    fn a_gpu_s_memory_has_an_end() {
        with_gpu("gpu::a_gpu_s_memory_has_an_end", &[], || {
            let device = Device::cuda(0).unwrap();
            let x = device.tensor_from(&[0.0f32; 8], [2, 4]).unwrap();
            // 2^48 bytes.
            let error = device.zeros::<f32>([1 << 46]).unwrap_err();
            assert!(
                matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 1 << 48),
                "{error:?}"
            );
            told(&error, &["281474976710656 bytes", "cuda:0", "drop tensors"]);
            let y = Softmax::new().forward(&x).unwrap();
            assert_eq!(y.to_vec().unwrap(), [0.25; 8]);
        });
    }

    #[test]
    fn hidden_gpus_are_named_as_such() {
        let hidden = [("CUDA_VISIBLE_DEVICES", "")];
        with_gpu("gpu::hidden_gpus_are_named_as_such", &hidden, || {
            no_gpu(&["CUDA_VISIBLE_DEVICES is ``", "unset it"]);
        });
    }

    fn current() -> CUcontext {
        Driver::load().unwrap().ctx_get_current().unwrap()
    }

    /// That a softmax works, and leaves the context that is current to the thread as it is.
    fn works_and_leaves_the_context(device: &Device) {
        let before = current();
        let x = device.tensor_from(&[1.0f32; 3000], [3, 1000]).unwrap();
        let y = Softmax::new().forward(&x).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.001; 3000]);
        drop((x, y));
        assert_eq!(current(), before);
    }

    #[test]
    fn a_context_of_another_library_stays_current() {
        with_gpu(
            "gpu::a_context_of_another_library_stays_current",
            &[],
            || {
                let driver = Driver::load().unwrap();
                let mut other = ptr::null_mut();
                // SAFETY: a place for the handle, and the first GPU.
                let made = unsafe { sys::cuCtxCreate_v2(&mut other, 0, 0) };
                assert_eq!(made as i32, 0);
                assert_eq!(current(), other.cast());
                let device = Device::cuda(0).unwrap();
                works_and_leaves_the_context(&device);
                // A stream of that context is none for tensors of the primary one.
                let foreign = driver.stream_create_non_blocking().unwrap();
                // SAFETY: live until the end.
                let refused = unsafe { Device::from_raw_stream(0, foreign.cast()) };
                assert!(matches!(refused, Err(Error::ForeignStream { ordinal: 0 })));
                assert_eq!(current(), other.cast());
                // Its end is not ours.
                // SAFETY: made above; nothing uses it or its stream afterwards.
                let destroyed = unsafe { sys::cuCtxDestroy_v2(other) };
                assert_eq!(destroyed as i32, 0);
                let x = device.tensor_from(&[1.0f32; 2], [2]).unwrap();
                let y = Softmax::new().forward(&x).unwrap();
                assert_eq!(y.to_vec().unwrap(), [0.5; 2]);

                // As PyTorch has it: the primary context, which others keep and give back too.
                let ordinal = driver.device_get(0).unwrap();
                let primary = driver.device_primary_ctx_retain(ordinal).unwrap();
                // SAFETY: live.
                unsafe { driver.ctx_set_current(primary) }.unwrap();
                works_and_leaves_the_context(&device);
                // SAFETY: retained above, once.
                unsafe { driver.device_primary_ctx_release(ordinal) }.unwrap();
                works_and_leaves_the_context(&device);
            },
        );
    }

    /// Writes to an address that nobody has.
    const WILD: &std::ffi::CStr = c"
    .version 7.0
    .target sm_80
    .address_size 64
    .visible .entry wild()
    {
        .reg .b32 %r1;
        .reg .b64 %a1;
        mov.u32 %r1, 1;
        mov.u64 %a1, 64;
        st.global.u32 [%a1], %r1;
        ret;
    }
    ";

    #[test]
    fn a_wild_kernel_of_somebody_else_s_is_told_of() {
        with_gpu(
            "gpu::a_wild_kernel_of_somebody_else_s_is_told_of",
            &[],
            || {
                let device = Device::cuda(0).unwrap();
                let x = device.tensor_from(&[1.0f32; 3000], [3, 1000]).unwrap();
                let driver = Driver::load().unwrap();
                // SAFETY: PTX; a kernel without parameters, which breaks the context and nothing else.
                unsafe {
                    let module = driver.module_load_data(WILD).unwrap();
                    let wild = driver.module_get_function(module, c"wild").unwrap();
                    driver
                        .launch_kernel(wild, [1; 3], [1; 3], 0, ptr::null_mut(), &[])
                        .unwrap();
                }
                assert_eq!(driver.ctx_synchronize(), Err(CuError(700)));
                let words = [
                    "earlier work",
                    "compute-sanitizer",
                    "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
                ];
                all_is_lost(device, x, &words);
            },
        );
    }
}
