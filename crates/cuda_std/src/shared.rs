//! Shared memory as raw pointers, rust-cuda's way.
//!
//! [`ext::Shared`](crate::ext::Shared) is the faster form on the device, and the one whose every access the
//! emulator checks; through the pointers here it sees nothing.

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::context;

/// The start of the dynamic shared memory of the block, aligned to 128 bytes; its size is the launch's.
///
/// In the emulator, bytes reached this way count as written from then on.
///
/// # Panics
///
/// On the host, outside a launch.
#[inline(always)]
pub fn dynamic_shared_mem<T>() -> *mut T {
    by_target! {
        device: {
            let address: u64;
            // SAFETY: computes an address; `#[kernel]` declares the symbol.
            unsafe {
                core::arch::asm!(
                    "{{ .reg .b64 window; mov.u64 window, cuda_std_dynamic_shared;",
                    "cvta.shared.u64 {address}, window; }}",
                    address = out(reg64) address,
                    options(pure, nomem, nostack),
                );
            }
            address as *mut T
        },
        host: context::current().block().shared().raw_dynamic().cast(),
    }
}

/// `shared_array![T; N]`: room for `N` values of `T` in the static shared memory of the block, as `*mut T`.
///
/// Each place in the source is one array, the same for all threads of the block. It starts uninitialised.
///
/// Put it where every thread passes once, outside loops and branches: on the device the array is declared by
/// the instruction that takes its address, so a copy that the compiler makes of the one is another array.
#[macro_export]
macro_rules! shared_array {
    ($type:ty; $len:expr) => {{
        #[cfg(target_arch = "nvptx64")]
        {
            let address: u64;
            // SAFETY: declares an array and computes its address. Not `pure`: two places may read the same, and
            // must not be merged.
            unsafe {
                ::core::arch::asm!(
                    "{{ .shared .align {align} .b8 array[{bytes}];",
                    ".reg .b64 window; mov.u64 window, array;",
                    "cvta.shared.u64 {address}, window; }}",
                    align = const ::core::mem::align_of::<$type>(),
                    bytes = const ::core::mem::size_of::<[$type; $len]>(),
                    address = out(reg64) address,
                    options(nomem, nostack),
                );
            }
            address as *mut $type
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // The address of this static tells one place in the source from another.
            static PLACE: u8 = 0;
            $crate::emulator::shared_array(
                &PLACE,
                ::core::alloc::Layout::new::<[$type; $len]>(),
            )
            .cast::<$type>()
        }
    }};
}
#[doc(inline)]
pub use shared_array;
