//! What `Driver`'s methods pass to the driver and make of its answers.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;

use std::ffi::c_void;
use std::ptr;

use common::{Library, in_own_process};
use cuda_driver::{
    CUfunction, CUstream, CaptureStatus, CuError, Driver, LaunchConfig, MemoryType, StreamOrder,
};

fn driver() -> &'static Driver {
    Driver::load().unwrap_or_else(|error| panic!("{error}"))
}

fn handle<T>(number: usize) -> *mut T {
    ptr::without_provenance_mut(number)
}

/// What the fake driver's launches expect.
fn config() -> LaunchConfig {
    LaunchConfig {
        grid: [12, 13, 14],
        block: [15, 16, 17],
        cluster: None,
        shared_bytes: 170,
        stream: handle(18),
        order: StreamOrder::AfterPrevious,
    }
}

const FUNCTION: usize = 11;
const PARAMETER: u64 = 19;

#[test]
fn launch_passes_every_argument() {
    in_own_process("launch_passes_every_argument", Library::Fake, &[], || {
        let parameters = [ptr::from_ref(&PARAMETER).cast::<c_void>()];
        let launch = |function: CUfunction, stream: CUstream| {
            // SAFETY: this driver runs nothing; it reads one 64-bit parameter.
            unsafe {
                driver().launch_kernel(
                    function,
                    [12, 13, 14],
                    [15, 16, 17],
                    170,
                    stream,
                    &parameters,
                )
            }
        };
        assert_eq!(launch(handle(FUNCTION), handle(18)), Ok(()));
        assert_eq!(
            launch(handle(FUNCTION), handle(19)),
            Err(CuError::INVALID_VALUE)
        );
    });
}

/// Launches `config`, and asks how many of its clusters fit.
fn assert_config_comes_through(config: &LaunchConfig) {
    let parameters = [ptr::from_ref(&PARAMETER).cast::<c_void>()];
    // SAFETY: this driver runs nothing; it reads one 64-bit parameter.
    let launched = unsafe { driver().launch_kernel_ex(config, handle(FUNCTION), &parameters) };
    assert_eq!(launched, Ok(()));
    // SAFETY: this driver does not follow the handle.
    let clusters = unsafe { driver().occupancy_max_active_clusters(handle(FUNCTION), config) };
    assert_eq!(clusters, Ok(33));
}

#[test]
fn plain_launch_config_has_no_attributes() {
    let test = "plain_launch_config_has_no_attributes";
    in_own_process(test, Library::Fake, &[("FAKE_ATTRIBUTES", "")], || {
        assert_config_comes_through(&config());
    });
}

#[test]
fn launch_config_passes_cluster_and_order() {
    let test = "launch_config_passes_cluster_and_order";
    let attributes = [("FAKE_ATTRIBUTES", "cluster [2, 3, 4];programmatic 1;")];
    in_own_process(test, Library::Fake, &attributes, || {
        assert_config_comes_through(&LaunchConfig {
            cluster: Some([2, 3, 4]),
            order: StreamOrder::Programmatic,
            ..config()
        });
    });
}

#[test]
fn launch_config_passes_order_alone() {
    let test = "launch_config_passes_order_alone";
    let attributes = [("FAKE_ATTRIBUTES", "programmatic 1;")];
    in_own_process(test, Library::Fake, &attributes, || {
        assert_config_comes_through(&LaunchConfig {
            order: StreamOrder::Programmatic,
            ..config()
        });
    });
}

#[test]
fn refused_module_comes_with_the_compilers_log() {
    let test = "refused_module_comes_with_the_compilers_log";
    in_own_process(test, Library::Fake, &[], || {
        // SAFETY: this driver reads the image as text.
        let error = unsafe { driver().module_load_data(c"not PTX") }.unwrap_err();
        assert_eq!(error.error, CuError(218));
        assert_eq!(error.log, "ptxas: not PTX");
        assert_eq!(
            error.to_string(),
            "CUDA_ERROR_INVALID_PTX (218)\nptxas: not PTX"
        );
    });
}

#[test]
fn cubin_is_handed_over_as_it_is() {
    let test = "cubin_is_handed_over_as_it_is";
    in_own_process(test, Library::Fake, &[], || {
        // SAFETY: this driver reads the image as text.
        let error = unsafe { driver().module_load_cubin(b"\x7fELF\0") }.unwrap_err();
        assert_eq!(error.log, "ptxas: \x7fELF");
    });
}

#[test]
fn log_that_fills_its_room_ends_there() {
    let test = "log_that_fills_its_room_ends_there";
    in_own_process(test, Library::Fake, &[], || {
        let image = std::ffi::CString::new("x".repeat(100_000)).unwrap();
        // SAFETY: this driver reads the image as text.
        let error = unsafe { driver().module_load_data(&image) }.unwrap_err();
        assert_eq!(error.log.len(), 8192);
        assert!(error.log.ends_with('x'));
    });
}

#[test]
fn device_name_that_fills_its_room_ends_there() {
    let test = "device_name_that_fills_its_room_ends_there";
    in_own_process(test, Library::Fake, &[], || {
        assert_eq!(driver().device_get_name(0), Ok("x".repeat(255)));
    });
}

#[test]
fn answers_are_returned() {
    in_own_process("answers_are_returned", Library::Fake, &[], || {
        let memory = driver().mem_get_info().unwrap();
        assert_eq!(memory.free_bytes, 1 << 40);
        assert_eq!(memory.total_bytes, 1 << 41);
        assert_eq!(driver().mem_pool_used_bytes(0), Ok(1 << 39));
        assert_eq!(driver().pointer_get_memory_type(40), Ok(MemoryType::DEVICE));
        assert_eq!(driver().pointer_get_context(40), Ok(handle(41)));
        assert_eq!(driver().pointer_get_device_ordinal(40), Ok(7));
        // SAFETY: this driver answers with the handle's number.
        let capturing = |stream| unsafe { driver().stream_is_capturing(handle(stream)) };
        assert_eq!(capturing(0), Ok(CaptureStatus::None));
        assert_eq!(capturing(1), Ok(CaptureStatus::Active));
        assert_eq!(capturing(2), Ok(CaptureStatus::Invalidated));
    });
}

#[test]
fn statuses_are_kept_as_they_are() {
    in_own_process("statuses_are_kept_as_they_are", Library::Fake, &[], || {
        assert_eq!(driver().mem_alloc(1), Err(CuError(4242)));
        assert_eq!(driver().device_get_count(), Err(CuError(4242)));
        assert_eq!(driver().ctx_synchronize(), Err(CuError(4242)));
    });
}

#[test]
fn errors_are_named_by_the_driver() {
    in_own_process("errors_are_named_by_the_driver", Library::Fake, &[], || {
        let error = CuError::OUT_OF_MEMORY;
        assert_eq!(error.to_string(), "CUDA_ERROR_OUT_OF_MEMORY (2)");
        driver();
        assert_eq!(error.description(), Some("out of memory"));
        assert_eq!(
            error.to_string(),
            "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
        );
        assert_eq!(CuError(4242).name(), None);
    });
}

#[test]
fn what_the_set_up_is_at_fault_for_says_what_to_do() {
    for (status, words) in [
        (34, "LD_LIBRARY_PATH"),
        (46, "nvidia-smi"),
        (221, "libnvidia-ptxjitcompiler.so.1"),
        (222, "update the NVIDIA driver"),
        (223, "CUDA_DISABLE_PTX_JIT"),
        (802, "fabric manager"),
        (803, "reload the module"),
        (804, "the driver's own libcuda"),
    ] {
        let text = CuError(status).to_string();
        assert!(
            text.contains(words) && text.contains(&status.to_string()),
            "{text}"
        );
    }
    assert_eq!(CuError(1).remedy(), None);
}

#[test]
fn errors_that_lose_the_context_are_sticky() {
    for sticky in [214, 700, 702, 710, 714, 716, 719, 721, 911] {
        assert!(CuError(sticky).is_sticky(), "{sticky}");
    }
    for other in [1, 2, 100, 218, 600, 701, 709, 713, 720, 801, 900, 999] {
        assert!(!CuError(other).is_sticky(), "{other}");
    }
    for status in [201, 709] {
        assert!(CuError(status).is_context_destroyed(), "{status}");
    }
    assert!(!CuError(700).is_context_destroyed());
}
