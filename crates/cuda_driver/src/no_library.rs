//! Platforms on which no driver is looked for.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use crate::DriverError;

/// A driver library; there is none here.
pub(crate) enum Library {}

impl Library {
    pub(crate) fn get() -> Result<&'static Self, DriverError> {
        Err(DriverError::UnsupportedPlatform)
    }

    pub(crate) fn opened() -> Option<&'static Self> {
        None
    }

    pub(crate) fn symbol(&self, _name: &CStr) -> Option<NonNull<c_void>> {
        match *self {}
    }
}
