//! Shared memory, by 32-bit address and width.

use super::Word;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::context;
use core::marker::PhantomData;

/// The address of a `T` in the shared memory of the block.
///
/// Making and moving an address accesses nothing. In the emulator each access is checked: it must lie in the
/// block's dynamic shared memory and be aligned to its size, and bytes must be written before they are read;
/// otherwise the launch ends with a [`Fault`](crate::emulator::Fault) that names the source line.
#[derive(Debug)]
pub struct Shared<T> {
    address: u32,
    element: PhantomData<*mut T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T: Word> Shared<T> {
    /// The address `byte_offset` bytes into the dynamic shared memory, whose start is aligned to 128 bytes.
    #[inline(always)]
    pub fn dynamic(byte_offset: u32) -> Self {
        let start = by_target! {
            device: {
                let start: u32;
                // SAFETY: computes an address; `#[kernel]` declares the symbol.
                unsafe {
                    core::arch::asm!(
                        "mov.b32 {start}, cuda_std_dynamic_shared;",
                        start = out(reg32) start,
                        options(pure, nomem, nostack),
                    );
                }
                start
            },
            host: 0u32,
        };
        Self::from_address(start.wrapping_add(byte_offset))
    }

    #[inline(always)]
    fn from_address(address: u32) -> Self {
        Self {
            address,
            element: PhantomData,
        }
    }

    /// The address in bytes, in the shared window. In the emulator the dynamic shared memory starts at 0.
    #[inline(always)]
    pub fn address(self) -> u32 {
        self.address
    }

    /// The address `index` elements further, modulo 2^32 bytes.
    #[inline(always)]
    pub fn at(self, index: u32) -> Self {
        let offset_bytes = index.wrapping_mul(size_of::<T>() as u32);
        Self::from_address(self.address.wrapping_add(offset_bytes))
    }

    /// The same address, of a `U`.
    #[inline(always)]
    pub fn cast<U: Word>(self) -> Shared<U> {
        Shared::from_address(self.address)
    }

    /// The value at this address.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the `T` here lies in the dynamic shared memory of the launch.
    /// * **aligned**: the address is a multiple of the size of `T`.
    /// * **written**: each of its bytes has been stored to.
    /// * **no race**: no other thread writes it without a barrier in between.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load(self) -> T {
        by_target! {
            // SAFETY: in-bounds, aligned: this function's own contract.
            device: unsafe { T::load_shared(self.address) },
            host: context::current().block().shared().load(self.address),
        }
    }

    /// Puts `value` at this address.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the `T` here lies in the dynamic shared memory of the launch.
    /// * **aligned**: the address is a multiple of the size of `T`.
    /// * **no race**: no other thread accesses it without a barrier in between.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, value: T) {
        by_target! {
            // SAFETY: in-bounds, aligned: this function's own contract.
            device: unsafe { value.store_shared(self.address) },
            host: context::current().block().shared().store(self.address, value),
        }
    }
}
