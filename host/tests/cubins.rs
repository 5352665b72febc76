//! Which code a kernel is loaded from: a cubin on the GPUs that it was made for, PTX on others and wherever the driver will
//! not have the cubin.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;

use std::fs;
use std::path::Path;

use common::{Log, with_fake, with_gpu};
use warp_softmax::bench_support::compiled_kernels;
use warp_softmax::{Device, Error, Softmax, Tensor};

/// What the crate was built with.
#[allow(dead_code, reason = "PTX has tests of its own")]
mod embedded {
    include!(concat!(env!("OUT_DIR"), "/ptx.rs"));
}

const CUBIN: &str = "cuModuleLoadDataEx cubin";
const PTX: &str = "cuModuleLoadDataEx 1";

/// Whether there are cubins, which there are not where the kernels were changed and not assembled since.
fn are_there() -> bool {
    let there = !embedded::SM_90_CUBINS_ENTRIES.is_empty();
    if !there {
        println!("left out, as the crate was built without cubins");
    }
    there
}

#[test]
fn the_committed_cubins_are_those_of_the_committed_ptx() {
    let hash = |file: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ptx").join(file);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("// source-hash: "));
        line.expect("a hash").to_owned()
    };
    assert_eq!(
        hash("softmax.sm_90.cubins"),
        hash("softmax.sm_90.ptx"),
        "`cargo xtask cubin` makes them anew"
    );
    assert!(are_there());
}

/// Makes a first call, and says what the driver was handed for it.
fn first_call(log: &mut Log) -> (Result<(), Error>, Vec<String>) {
    let device = Device::cuda(0).unwrap();
    let x: Tensor<f32> = device.zeros([10]).unwrap();
    let called = Softmax::new().forward(&x).map(drop);
    let mut lines = log.lines();
    lines.retain(|line| line.starts_with("cuModuleLoadDataEx "));
    (called, lines)
}

/// That a first call loads from `images`, one after another, the last of which will do.
fn loads(test: &str, variables: &[(&str, &str)], images: &[&str]) {
    if !are_there() {
        return;
    }
    with_fake(test, variables, |mut log| {
        let (called, handed) = first_call(&mut log);
        called.unwrap();
        assert_eq!(handed, images);
    });
}

#[test]
fn a_gpu_of_9_0_gets_the_cubin() {
    loads("a_gpu_of_9_0_gets_the_cubin", &[], &[CUBIN]);
}

#[test]
fn a_gpu_of_8_0_gets_ptx() {
    let capability = [("FAKE_CUDA_CAPABILITY", "8.0")];
    loads("a_gpu_of_8_0_gets_ptx", &capability, &[PTX]);
}

#[test]
fn a_gpu_of_10_0_gets_ptx() {
    let capability = [("FAKE_CUDA_CAPABILITY", "10.0")];
    loads("a_gpu_of_10_0_gets_ptx", &capability, &[PTX]);
}

#[test]
fn ptx_is_taken_where_it_is_named() {
    let code = [("WARP_SOFTMAX_CODE", "ptx")];
    loads("ptx_is_taken_where_it_is_named", &code, &[PTX]);
}

#[test]
fn a_cubin_that_is_named_and_not_there_is_no_error() {
    let variables = [
        ("WARP_SOFTMAX_CODE", "cubin"),
        ("WARP_SOFTMAX_ARCH", "sm_80"),
    ];
    let test = "a_cubin_that_is_named_and_not_there_is_no_error";
    loads(test, &variables, &[PTX]);
}

/// Each a status with which some driver may refuse what is not for it.
mod a_cubin_that_is_refused_is_replaced {
    use super::*;

    macro_rules! refused {
        ($($name:ident $status:literal)*) => { $(
            #[test]
            fn $name() {
                let test = concat!("a_cubin_that_is_refused_is_replaced::", stringify!($name));
                let fail = [("FAKE_CUDA_FAIL", concat!("cubin=", $status))];
                loads(test, &fail, &[CUBIN, PTX]);
            }
        )* };
    }

    refused! {
        invalid_value 1
        invalid_image 200
        no_binary_for_gpu 209
        invalid_ptx 218
        unsupported_ptx_version 222
        jit_compilation_disabled 223
        unsupported_exec_affinity 224
        invalid_source 300
        not_found 500
        not_supported 801
        unknown 999
        a_status_of_a_later_release 4321
    }
}

/// That PTX is not tried where a cubin has failed with `status`.
fn is_final(test: &str, status: &str, expected: fn(&Error) -> bool) {
    if !are_there() {
        return;
    }
    with_fake(test, &[("FAKE_CUDA_FAIL", status)], |mut log| {
        let (called, handed) = first_call(&mut log);
        let error = called.unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert_eq!(handed, [CUBIN]);
    });
}

#[test]
fn memory_that_is_out_is_an_error() {
    let test = "memory_that_is_out_is_an_error";
    is_final(test, "cubin=2", |error| {
        matches!(error, Error::Load { .. }) && error.chain().contains("OUT_OF_MEMORY")
    });
}

#[test]
fn a_broken_context_is_an_error() {
    let test = "a_broken_context_is_an_error";
    is_final(test, "cubin=700", |error| {
        matches!(error, Error::ContextLost { .. })
    });
}

#[test]
fn a_destroyed_context_is_an_error() {
    let test = "a_destroyed_context_is_an_error";
    is_final(test, "cubin=709", |error| {
        matches!(error, Error::ContextLost { .. })
    });
}

/// That the driver of a GPU compiles so many kernels for a first call on compute capability 9, and one on others.
fn compiles(test: &str, variables: &[(&str, &str)], expected: usize) {
    if !are_there() {
        return;
    }
    with_gpu(test, variables, || {
        let device = Device::cuda(0).unwrap();
        let x = device.tensor_from(&[1.0f32; 8], [2, 4]).unwrap();
        let y = Softmax::new().forward(&x).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.25; 8]);
        let is_9 = matches!(device.properties().compute_capability, Some((9, _)));
        let expected = if is_9 { expected } else { 1 };
        assert_eq!(compiled_kernels(&device).unwrap(), expected);
    });
}

#[test]
fn a_gpu_runs_a_cubin_that_its_driver_has_not_compiled() {
    let test = "a_gpu_runs_a_cubin_that_its_driver_has_not_compiled";
    compiles(test, &[], 0);
}

#[test]
fn a_gpu_s_driver_compiles_where_that_is_asked_for() {
    let test = "a_gpu_s_driver_compiles_where_that_is_asked_for";
    compiles(test, &[("WARP_SOFTMAX_CODE", "ptx")], 1);
}
