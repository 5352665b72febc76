//! The statuses that `cust_raw` can hold: those of CUDA 11.4.

mod list;

use std::ffi::CStr;

use crate::{CUresult, CuError};
use list::CODES;

/// The status itself if `cust_raw`'s enum has it, else `CUDA_ERROR_UNKNOWN`.
pub(crate) extern "C" fn clamp(status: CUresult) -> CUresult {
    match name(status) {
        Some(_) => status,
        None => CuError::UNKNOWN.0,
    }
}

/// The name of a status of CUDA 11.4.
pub(crate) fn name(status: CUresult) -> Option<&'static CStr> {
    let index = CODES
        .binary_search_by_key(&status, |&(code, _)| code)
        .ok()?;
    Some(CODES[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamp_keeps_what_the_enum_has_and_nothing_else() {
        for status in [0, 1, 8, 34, 100, 500, 803, 911, 999] {
            assert_eq!(clamp(status), status);
        }
        // Newer than CUDA 11.4: 36, 46, 225, 721, 912. In no header: the others.
        for status in [36, 46, 225, 721, 912, -1, 9, 1000, i32::MIN, i32::MAX] {
            assert_eq!(clamp(status), 999);
        }
    }
}
