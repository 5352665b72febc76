//! What can go wrong, from the driver that is not there to the call that failed.

use std::error::Error;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::mem;
use std::ptr;

use crate::codes;
use crate::library::Library;
use crate::{CUresult, Version};

/// A status other than `CUDA_SUCCESS`, as the driver returned it.
///
/// Displays as `CUDA_ERROR_OUT_OF_MEMORY (2): out of memory`; name and text come from the driver. Where
/// there is a [`remedy`](Self::remedy), it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CuError(
    /// The number in `cuda.h`. A newer driver may return one that no header here knows.
    pub CUresult,
);

impl CuError {
    /// An argument is out of range.
    pub const INVALID_VALUE: Self = Self(1);
    /// Not enough memory, on the device or pinned on the host.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// The driver was not initialised.
    pub const NOT_INITIALIZED: Self = Self(3);
    /// There is no CUDA device.
    pub const NO_DEVICE: Self = Self(100);
    /// No context is current to the thread, or not the right one.
    pub const INVALID_CONTEXT: Self = Self(201);
    /// A named function or symbol does not exist.
    pub const NOT_FOUND: Self = Self(500);
    /// The device, or the driver, cannot do this.
    pub const NOT_SUPPORTED: Self = Self(801);
    /// The stream is capturing, and this call cannot be captured.
    pub const STREAM_CAPTURE_UNSUPPORTED: Self = Self(900);
    /// Some other failure.
    pub const UNKNOWN: Self = Self(999);

    /// The name in `cuda.h`, such as `CUDA_ERROR_OUT_OF_MEMORY`.
    ///
    /// From the driver if one is open, else from a table of CUDA 11.4; `None` for a number that
    /// neither knows.
    pub fn name(&self) -> Option<&'static str> {
        self.c_name()?.to_str().ok()
    }

    /// The driver's description, such as `out of memory`; `None` without a driver.
    pub fn description(&self) -> Option<&'static str> {
        self.c_description()?.to_str().ok()
    }

    /// Whether the context is lost: every later call in it returns this error again, and its
    /// memory cannot be read any more. `cuda.h` says so of most of these codes; uncorrectable ECC
    /// and NVLink errors are counted among them.
    pub fn is_sticky(&self) -> bool {
        matches!(
            self.0,
            214 | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721 | 810 | 911
        )
    }

    /// Whether the context is not there any more, as after `cudaDeviceReset`.
    pub fn is_context_destroyed(&self) -> bool {
        matches!(self.0, 201 | 709)
    }

    /// What to do about it, where it is the machine's set-up that is at fault.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self.0 {
            34 => {
                "the toolkit's stub was opened in place of the driver: take its folder off LD_LIBRARY_PATH"
            }
            46 => {
                "another process has the GPU to itself: end it, or see the compute mode in nvidia-smi"
            }
            221 => {
                "libnvidia-ptxjitcompiler.so.1 comes with the driver: install it, and in a container ask for \
                 the driver capability `compute`"
            }
            222 => "the PTX is newer than the driver: update the NVIDIA driver",
            223 => "unset CUDA_DISABLE_PTX_JIT",
            802 => "start the fabric manager, which GPUs behind NVSwitch need, and try again",
            803 => {
                "the driver's library and its kernel module are of different versions: reload the module, \
                 or restart the machine"
            }
            804 => {
                "a compatibility library was opened that this GPU does not take: use the driver's own libcuda"
            }
            _ => return None,
        })
    }

    pub(crate) fn c_name(&self) -> Option<&'static CStr> {
        driver_text(self.0, c"cuGetErrorName").or_else(|| codes::name(self.0))
    }

    pub(crate) fn c_description(&self) -> Option<&'static CStr> {
        driver_text(self.0, c"cuGetErrorString")
    }
}

/// Asks an open driver for a text about `status`.
fn driver_text(status: CUresult, function: &CStr) -> Option<&'static CStr> {
    type GetText = unsafe extern "C" fn(CUresult, *mut *const c_char) -> CUresult;
    let address = Library::opened()?.symbol(function)?;
    // SAFETY: cuGetErrorName and cuGetErrorString have this signature.
    let get = unsafe { mem::transmute::<*mut c_void, GetText>(address.as_ptr()) };
    let mut text = ptr::null();
    // SAFETY: any number may be asked for; `text` is a place for the answer.
    let answer = unsafe { get(status, &mut text) };
    // SAFETY: a text that the driver gives is a C string inside the library, which stays open.
    (answer == 0 && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

impl fmt::Display for CuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0)?,
            None => write!(f, "CUDA error {}", self.0)?,
        }
        if let Some(description) = self.description() {
            write!(f, ": {description}")?;
        }
        match self.remedy() {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

impl Error for CuError {}

/// `Err` unless `status` is `CUDA_SUCCESS`.
pub(crate) fn check(status: CUresult) -> Result<(), CuError> {
    match status {
        0 => Ok(()),
        status => Err(CuError(status)),
    }
}

/// Runs a call that writes its result through a pointer, and returns the result.
pub(crate) fn output<T>(mut value: T, call: impl FnOnce(&mut T) -> CUresult) -> Result<T, CuError> {
    check(call(&mut value))?;
    Ok(value)
}

/// Why there is no [`Driver`](crate::Driver).
///
/// The text says what to do, too. A driver's status is part of it, and no [`source`](Error::source) beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriverError {
    /// The program was built for a platform on which no driver is looked for.
    UnsupportedPlatform,
    /// The driver's library cannot be opened.
    NotFound {
        /// The file or name that was tried.
        library: String,
        /// Why the dynamic linker refused it.
        reason: String,
    },
    /// The library lacks a function that every driver of [`Driver::MINIMUM_VERSION`] has.
    ///
    /// [`Driver::MINIMUM_VERSION`]: crate::Driver::MINIMUM_VERSION
    MissingSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// The driver is older than the kernels need.
    TooOld {
        /// The newest CUDA that the driver supports.
        found: Version,
        /// The oldest CUDA that will do.
        needed: Version,
    },
    /// The driver has no GPU to show.
    NoDevice {
        /// What `CUDA_VISIBLE_DEVICES` holds, if it is set.
        visible_devices: Option<String>,
    },
    /// The driver is there and does not start.
    Failed {
        /// The function that returned the error.
        function: &'static str,
        /// What it returned.
        error: CuError,
    },
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedPlatform => {
                f.write_str("no CUDA driver on this platform: Linux on x86-64 or aarch64 is needed")
            }
            Self::NotFound { library, reason } => write!(
                f,
                "no CUDA driver: cannot open {library}: {reason} \
                 (install the NVIDIA driver, or name its library in {})",
                crate::LIBRARY_VARIABLE
            ),
            Self::MissingSymbol { symbol } => write!(
                f,
                "the CUDA driver library has no function {symbol}, which CUDA {} has: \
                 it is damaged, or not a driver (install the NVIDIA driver anew, or see what {} names)",
                crate::Driver::MINIMUM_VERSION,
                crate::LIBRARY_VARIABLE
            ),
            Self::TooOld { found, needed } => write!(
                f,
                "the CUDA driver is too old: it supports CUDA {found}, \
                 and CUDA {needed} or newer is needed (update the NVIDIA driver to 530 or newer)"
            ),
            Self::NoDevice {
                visible_devices: Some(named),
            } => write!(
                f,
                "the CUDA driver shows no GPU: CUDA_VISIBLE_DEVICES is `{named}`, which hides all that it does not \
                 name (unset it, or name one, such as 0)"
            ),
            Self::NoDevice {
                visible_devices: None,
            } => f.write_str(
                "the CUDA driver shows no GPU (see whether nvidia-smi lists one, and in a container, whether it was \
                 given one)",
            ),
            Self::Failed { function, error } => {
                write!(
                    f,
                    "the CUDA driver does not start: {function} returned {error}"
                )
            }
        }
    }
}

impl Error for DriverError {}

/// A module that the driver would not load, and what its compiler said. The text has both, so that there is no
/// [`source`](Error::source) beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleLoadError {
    /// What the driver returned.
    pub error: CuError,
    /// The PTX compiler's error log; empty if it said nothing.
    pub log: String,
}

impl fmt::Display for ModuleLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        match self.log.as_str() {
            "" => Ok(()),
            log => write!(f, "\n{log}"),
        }
    }
}

impl Error for ModuleLoadError {}
