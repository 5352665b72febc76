//! Platforms without a driver: there is no GPU, and no value of these types.

use std::convert::Infallible;
use std::ffi::c_void;

use super::{DeviceProperties, Launch};
use crate::Error;
use crate::plan::KernelId;

pub(super) struct Queue(Infallible);

fn unsupported() -> Error {
    Error::NoDriver {
        source: "CUDA is looked for on Linux alone, on x86-64 and aarch64".into(),
    }
}

impl Queue {
    pub(super) fn open(_ordinal: usize) -> Result<Self, Error> {
        Err(unsupported())
    }

    pub(super) unsafe fn borrow(_ordinal: usize, _stream: *mut c_void) -> Result<Self, Error> {
        Err(unsupported())
    }

    pub(super) fn new_stream(&self) -> Result<Self, Error> {
        match self.0 {}
    }

    pub(super) fn name(&self) -> String {
        match self.0 {}
    }

    pub(super) fn properties(&self) -> &DeviceProperties {
        match self.0 {}
    }

    pub(super) fn stream_number(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn is_same_stream(&self, _other: &Self) -> bool {
        match self.0 {}
    }

    pub(super) fn synchronize(&self) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) fn prepare(&self, _kernel: KernelId) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) unsafe fn launch(&self, _launch: &Launch<'_>) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) fn allocate(&self, _bytes: usize) -> Result<u64, Error> {
        match self.0 {}
    }

    pub(super) unsafe fn free(&self, _address: u64) {
        match self.0 {}
    }

    pub(super) unsafe fn zero(&self, _address: u64, _bytes: usize) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) unsafe fn upload(
        &self,
        _to: u64,
        _from: *const c_void,
        _bytes: usize,
    ) -> Result<(), Error> {
        match self.0 {}
    }

    pub(super) unsafe fn download(
        &self,
        _to: *mut c_void,
        _from: u64,
        _bytes: usize,
    ) -> Result<(), Error> {
        match self.0 {}
    }
}
