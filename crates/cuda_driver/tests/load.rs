//! What `Driver::load` says about each kind of driver, and about none.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;

use std::collections::BTreeSet;
use std::ptr;
use std::sync::Barrier;
use std::thread;

use common::{Library, MISSING, in_own_process};
use cuda_driver::{CuError, Driver, DriverError, Version};

fn load_error() -> DriverError {
    match Driver::load() {
        Ok(_) => panic!("a driver was loaded"),
        Err(error) => error,
    }
}

#[test]
fn missing_library_is_named() {
    in_own_process("missing_library_is_named", Library::Missing, &[], || {
        let error = load_error();
        let DriverError::NotFound { library, reason } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(library, MISSING);
        assert!(reason.contains("No such file"), "{reason}");
        assert_eq!(
            error.to_string(),
            format!(
                "no CUDA driver: cannot open {MISSING}: {reason} \
                 (install the NVIDIA driver, or name its library in WARP_SOFTMAX_LIBCUDA)"
            )
        );
        assert_eq!(load_error(), error, "the same answer again");
    });
}

#[test]
fn threads_find_one_driver() {
    fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<Driver>();
    crosses_threads::<DriverError>();
    in_own_process("threads_find_one_driver", Library::Fake, &[], || {
        let start = Barrier::new(16);
        let load = || {
            start.wait();
            Driver::load().map(ptr::from_ref).unwrap().addr()
        };
        let found: BTreeSet<usize> = thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(load)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(found.len(), 1);
    });
}

/// Holds on a machine with a driver and on one without.
fn assert_default_is_libcuda_so_1() {
    // SAFETY: a C string; a driver's constructors may run.
    let found = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    match Driver::load() {
        Err(DriverError::NotFound { library, .. }) => {
            assert!(found.is_null());
            assert_eq!(library, "libcuda.so.1");
        }
        _ => assert!(!found.is_null()),
    }
}

#[test]
fn default_is_libcuda_so_1() {
    let test = "default_is_libcuda_so_1";
    in_own_process(test, Library::Unset, &[], assert_default_is_libcuda_so_1);
}

#[test]
fn empty_variable_counts_as_unset() {
    let test = "empty_variable_counts_as_unset";
    in_own_process(test, Library::Empty, &[], assert_default_is_libcuda_so_1);
}

#[test]
fn oldest_driver_that_will_do_is_loaded() {
    let test = "oldest_driver_that_will_do_is_loaded";
    let version = [("FAKE_CUDA_VERSION", "12010")];
    in_own_process(test, Library::Fake, &version, || {
        let driver = Driver::load().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(driver.version(), Driver::MINIMUM_VERSION);
    });
}

#[test]
fn too_old_driver_is_refused_with_both_versions() {
    let test = "too_old_driver_is_refused_with_both_versions";
    let version = [("FAKE_CUDA_VERSION", "12009")];
    // An old driver lacks functions, and that must not be the message.
    in_own_process(test, Library::Damaged, &version, || {
        let error = load_error();
        let expected = DriverError::TooOld {
            found: Version(12_009),
            needed: Version(12_010),
        };
        assert_eq!(error, expected);
        assert_eq!(
            error.to_string(),
            "the CUDA driver is too old: it supports CUDA 12.0, and CUDA 12.1 or newer is needed \
             (update the NVIDIA driver to 530 or newer)"
        );
    });
}

#[test]
fn missing_function_is_named() {
    in_own_process("missing_function_is_named", Library::Damaged, &[], || {
        let error = load_error();
        let symbol = "cuMemAlloc_v2";
        assert_eq!(error, DriverError::MissingSymbol { symbol });
        assert_eq!(
            error.to_string(),
            "the CUDA driver library has no function cuMemAlloc_v2, which CUDA 12.1 has: it is damaged, or not a \
             driver (install the NVIDIA driver anew, or see what WARP_SOFTMAX_LIBCUDA names)"
        );
    });
}

fn assert_init_fails(status: i32, text: &str) {
    let error = load_error();
    let expected = DriverError::Failed {
        function: "cuInit",
        error: CuError(status),
    };
    assert_eq!(error, expected);
    assert_eq!(
        error.to_string(),
        format!("the CUDA driver does not start: cuInit returned {text}")
    );
}

/// `error` where `cuInit` finds no GPU and `CUDA_VISIBLE_DEVICES` holds `visible`.
fn assert_no_device(test: &str, visible: Option<&str>, text: &str) {
    let mut variables = vec![("FAKE_CUDA_INIT", "100")];
    variables.extend(visible.map(|value| ("CUDA_VISIBLE_DEVICES", value)));
    in_own_process(test, Library::Fake, &variables, || {
        let error = load_error();
        let visible_devices = visible.map(Into::into);
        assert_eq!(error, DriverError::NoDevice { visible_devices });
        assert_eq!(error.to_string(), text);
    });
}

#[test]
fn no_device_says_where_to_look() {
    assert_no_device(
        "no_device_says_where_to_look",
        None,
        "the CUDA driver shows no GPU (see whether nvidia-smi lists one, and in a container, whether it was given one)",
    );
}

#[test]
fn hidden_devices_are_told_from_absent_ones() {
    assert_no_device(
        "hidden_devices_are_told_from_absent_ones",
        Some(""),
        "the CUDA driver shows no GPU: CUDA_VISIBLE_DEVICES is ``, which hides all that it does not name \
         (unset it, or name one, such as 0)",
    );
}

#[test]
fn a_status_of_the_set_up_comes_with_its_remedy() {
    let test = "a_status_of_the_set_up_comes_with_its_remedy";
    in_own_process(test, Library::Fake, &[("FAKE_CUDA_INIT", "803")], || {
        assert_init_fails(
            803,
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803) (the driver's library and its kernel module are of different \
             versions: reload the module, or restart the machine)",
        );
    });
}

#[test]
fn status_that_only_the_driver_knows_is_kept_and_named() {
    let test = "status_that_only_the_driver_knows_is_kept_and_named";
    in_own_process(test, Library::Fake, &[("FAKE_CUDA_INIT", "36")], || {
        assert_init_fails(
            36,
            "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER (36): the call needs a newer driver",
        );
    });
}

#[test]
fn status_that_nobody_knows_is_kept() {
    let test = "status_that_nobody_knows_is_kept";
    in_own_process(test, Library::Fake, &[("FAKE_CUDA_INIT", "4242")], || {
        assert_init_fails(4242, "CUDA error 4242");
    });
}
