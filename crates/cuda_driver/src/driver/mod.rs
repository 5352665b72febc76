//! The driver's own calls, with their statuses as they are.

mod context;
mod device;
mod event;
mod graph;
mod launch;
mod memory;
mod module;
mod stream;

use std::sync::OnceLock;
use std::{env, fmt};

use crate::error::{check, output};
use crate::functions::{Functions, Startup};
use crate::library::Library;
use crate::{CuError, DriverError};

pub use event::EventTiming;
pub(crate) use launch::RawLaunchConfig;
pub use launch::{LaunchConfig, StreamOrder};
pub use memory::{AddressRange, MemoryInfo};
pub use stream::{CaptureMode, CaptureStatus};

/// The driver's own: the GPUs that it shows to this process.
const VISIBLE_DEVICES_VARIABLE: &str = "CUDA_VISIBLE_DEVICES";

/// The driver: open, new enough, initialised, every function found.
///
/// A method is the `cu*` function of its name. Each can also return an error that earlier
/// asynchronous work left behind.
///
/// # Safety
///
/// The `unsafe` methods name what the caller promises:
///
/// * **live**: each handle came from this driver and is not destroyed, released or unloaded; a
///   null stream means the default stream.
/// * **device range**: the device memory named is allocated, and until the work on the stream is
///   done nobody frees it, nobody else writes it, and nobody else reads what is written.
/// * **host range**: the host memory named is valid for the copy until the stream has reached it,
///   and nobody touches it in between except to read what is only read.
pub struct Driver {
    functions: Functions,
    version: Version,
}

impl Driver {
    /// The oldest driver that will do. The kernels for sm_90 are PTX 8.1, which came with CUDA 12.1.
    pub const MINIMUM_VERSION: Version = Version(12_010);

    /// The driver, opened and initialised by the first call.
    ///
    /// What the first call finds, a driver or an error, holds for the process.
    ///
    /// # Errors
    ///
    /// No library, one that is too old or lacks a function, or a driver that does not start: see
    /// [`DriverError`].
    ///
    /// # Example
    ///
    /// ```
    /// match cuda_driver::Driver::load() {
    ///     Ok(driver) => println!("CUDA {}", driver.version()),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn load() -> Result<&'static Self, DriverError> {
        static DRIVER: OnceLock<Result<Driver, DriverError>> = OnceLock::new();
        DRIVER
            .get_or_init(Self::start)
            .as_ref()
            .map_err(Clone::clone)
    }

    /// The newest CUDA that the driver supports.
    pub fn version(&self) -> Version {
        self.version
    }

    fn start() -> Result<Self, DriverError> {
        let library = Library::get()?;
        let startup = Startup::find(library)?;
        // Before the other functions are looked for: a driver that is too old lacks some of them,
        // and its age is the better message.
        // SAFETY: a place for the number. This works before `cuInit`.
        let version = output(0, |version| unsafe {
            (startup.driver_get_version)(version)
        })
        .map(Version)
        .map_err(failed("cuDriverGetVersion"))?;
        if version < Self::MINIMUM_VERSION {
            return Err(DriverError::TooOld {
                found: version,
                needed: Self::MINIMUM_VERSION,
            });
        }
        let functions = Functions::find(library)?;
        // SAFETY: the only flags there are: none.
        check(unsafe { (startup.init)(0) }).map_err(|error| match error {
            CuError::NO_DEVICE => DriverError::NoDevice {
                visible_devices: env::var_os(VISIBLE_DEVICES_VARIABLE)
                    .map(|value| value.to_string_lossy().into_owned()),
            },
            error => failed("cuInit")(error),
        })?;
        Ok(Self { functions, version })
    }
}

fn failed(function: &'static str) -> impl FnOnce(CuError) -> DriverError {
    move |error| DriverError::Failed { function, error }
}

/// A CUDA version as the driver counts it: 1000 for a major, 10 for a minor.
///
/// ```
/// assert_eq!(cuda_driver::Version(12_040).to_string(), "12.4");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}
