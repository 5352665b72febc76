//! The statuses that `cust_raw` can hold: those of CUDA 11.4.

mod list;

use std::ffi::CStr;

use crate::CUresult;
use list::CODES;

/// The name of a status of CUDA 11.4.
pub(crate) fn name(status: CUresult) -> Option<&'static CStr> {
    let index = CODES
        .binary_search_by_key(&status, |&(code, _)| code)
        .ok()?;
    Some(CODES[index].1)
}
