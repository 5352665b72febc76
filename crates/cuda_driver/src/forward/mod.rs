//! The `cu*` symbols that `cust_raw` declares.
//!
//! Each symbol is a naked function. Most call through the symbol's slot, with the argument
//! registers as they came, and then clamp the driver's status. That way an argument list need not
//! be known, as long as it fits in registers. The few functions that pass arguments on the stack,
//! and those that open the driver, go on in a Rust function with the real signature: see `typed`.
//!
//! The symbols are hidden, so that a shared library made from this crate does not export a
//! `cuInit` that another library would then find in place of the driver's.

// The driver's names, here and in the files below.
#![allow(non_snake_case, non_upper_case_globals)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::library::Library;
use crate::{CUresult, CuError, codes};

#[cfg(target_arch = "aarch64")]
#[macro_use]
mod aarch64;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod x86_64;

/// Where a symbol goes: into the driver, or to one of the two functions below. It is never null.
type Slot = AtomicPtr<c_void>;

/// Stands in every slot until the driver is opened.
#[unsafe(naked)]
extern "C" fn not_initialized() -> i32 {
    return_status!(3) // CUDA_ERROR_NOT_INITIALIZED
}

/// Stands in the slots of functions that the driver lacks.
#[unsafe(naked)]
extern "C" fn not_found() -> i32 {
    return_status!(500) // CUDA_ERROR_NOT_FOUND
}

/// Points every slot to the driver's function, or to [`not_found`] if it has none.
pub(crate) fn fill(library: &Library) {
    for &(name, slot) in symbols::SLOTS {
        let address = match library.symbol(name) {
            Some(address) => address.as_ptr(),
            None => not_found as *mut c_void,
        };
        // Release: who sees the address sees the library that was loaded before, too.
        slot.store(address, Ordering::Release);
    }
}

/// The status itself if `cust_raw`'s enum has it, else `CUDA_ERROR_UNKNOWN`.
extern "C" fn clamp(status: CUresult) -> CUresult {
    match codes::name(status) {
        Some(_) => status,
        None => CuError::UNKNOWN.0,
    }
}

/// Makes the slots and the symbols of a list of functions.
macro_rules! forward {
    (in_registers { $($register:ident)* } typed { $($typed:ident)* }) => {
        /// The slots, each under its symbol's name.
        pub(super) mod slot {
            use crate::forward::{Slot, not_initialized};

            $(pub(crate) static $register: Slot = Slot::new(not_initialized as *mut _);)*
            $(pub(crate) static $typed: Slot = Slot::new(not_initialized as *mut _);)*
        }

        /// Every slot, with its symbol's name.
        pub(super) static SLOTS: &[(&std::ffi::CStr, &crate::forward::Slot)] = &[
            $((crate::functions::c_name(concat!(stringify!($register), "\0")), &slot::$register),)*
            $((crate::functions::c_name(concat!(stringify!($typed), "\0")), &slot::$typed),)*
        ];

        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $register() -> i32 {
                call_slot!($register)
            }
        )*
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $typed() -> i32 {
                jump_to_typed!($typed)
            }
        )*
    };
}

mod symbols;
mod typed;

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
