//! A shared object built with this crate and `cust`.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Library, in_own_process};

/// Builds the example `plugin`. `cargo test` has built it already, unless told not to.
fn plugin() -> PathBuf {
    let target_folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--example=plugin"])
        .arg("--target-dir")
        .arg(target_folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success());
    target_folder.join("debug/examples/libplugin.so")
}

/// A shared object, opened.
struct Object(*mut c_void);

impl Object {
    fn open(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a C string; the object is ours.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(
            !handle.is_null(),
            "{path:?} needs something that is not there"
        );
        Self(handle)
    }

    /// Looks in the object and in all that it is linked to.
    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: an open object and a C string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

#[test]
fn plugin_has_the_driver_inside_and_exports_none_of_it() {
    let plugin = Object::open(&plugin());
    assert!(!plugin.symbol(c"plugin_init").is_null());
    // Were the object linked to libcuda, this would find its functions there.
    for name in [
        c"cuInit",
        c"cuMemAlloc_v2",
        c"cuLaunchKernel",
        c"cuGetErrorName",
    ] {
        assert!(plugin.symbol(name).is_null(), "{name:?}");
    }
}

#[test]
fn plugin_runs_without_a_driver() {
    in_own_process(
        "plugin_runs_without_a_driver",
        Library::Missing,
        &[],
        || {
            let init = Object::open(&plugin()).symbol(c"plugin_init");
            assert!(!init.is_null());
            // SAFETY: the plugin's own function.
            let init = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> u32>(init) };
            assert_eq!(init(), 100);
        },
    );
}
