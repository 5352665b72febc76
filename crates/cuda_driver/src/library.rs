//! The driver's shared library: which file, and when it is opened.

use std::env;
use std::ffi::{CStr, CString, OsString, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::{DriverError, LIBRARY_VARIABLE, forward};

/// What the driver is called on every Linux, in containers and under WSL too.
const SONAME: &str = "libcuda.so.1";

static LIBRARY: OnceLock<Result<Library, DriverError>> = OnceLock::new();

/// An open driver library. It is never closed, so its functions and its texts are `'static`.
pub(crate) struct Library {
    handle: NonNull<c_void>,
}

// SAFETY: the handle is only given to `dlsym`, which any thread may call.
unsafe impl Send for Library {}
// SAFETY: as for `Send`.
unsafe impl Sync for Library {}

impl Library {
    /// The driver library, opened by the first call, which also fills the `cu*` slots.
    /// What the first call finds holds for the process.
    pub(crate) fn get() -> Result<&'static Self, DriverError> {
        let opened = LIBRARY.get_or_init(|| {
            let library = Self::open()?;
            forward::fill(&library);
            Ok(library)
        });
        opened.as_ref().map_err(Clone::clone)
    }

    /// The driver library if it is open already; opens nothing.
    pub(crate) fn opened() -> Option<&'static Self> {
        LIBRARY.get()?.as_ref().ok()
    }

    /// The address of the driver's function `name`.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is open, the name is a C string.
        NonNull::new(unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) })
    }

    fn open() -> Result<Self, DriverError> {
        let name = env::var_os(LIBRARY_VARIABLE)
            .filter(|path| !path.is_empty())
            .unwrap_or_else(|| OsString::from(SONAME));
        let not_found = |reason: String| DriverError::NotFound {
            library: name.to_string_lossy().into_owned(),
            reason,
        };
        let c_name = CString::new(name.clone().into_vec())
            .map_err(|_| not_found("the name holds a NUL byte".to_owned()))?;
        // SAFETY: a C string. Running the driver's own constructors is what opening it means.
        // RTLD_NOW: a damaged library fails here, with a reason, and not in some later call.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Self { handle }),
            None => Err(not_found(dlopen_error(&name.to_string_lossy()))),
        }
    }
}

/// Why the last `dlopen` of this thread failed, without the name in front.
fn dlopen_error(name: &str) -> String {
    // SAFETY: no preconditions; glibc and musl keep the text per thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "dlopen gave no reason".to_owned();
    }
    // SAFETY: not null, so a C string, valid until this thread's next `dl*` call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    match text.strip_prefix(name).and_then(|t| t.strip_prefix(": ")) {
        Some(reason) => reason.to_owned(),
        None => text.into_owned(),
    }
}
