//! Global memory, by address and width.

use super::Word;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulator::memory;
use core::marker::PhantomData;

/// The address of a `T` in global memory.
///
/// Making and moving an address accesses nothing. In the emulator each access is checked against the buffers
/// of the launch: it must lie in one of them, be aligned to its size, and, if a store, the buffer must be
/// writable; otherwise the launch ends with a [`Fault`](crate::emulator::Fault) that names the source line.
#[derive(Debug)]
pub struct Global<T> {
    address: u64,
    element: PhantomData<*mut T>,
}

impl<T> Clone for Global<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Global<T> {}

impl<T: Word> Global<T> {
    /// The address that `pointer` holds, to load from.
    ///
    /// # Safety
    ///
    /// **global**: `pointer` points into global memory (in the emulator, a buffer of the launch) wherever the
    /// address, or one computed from it, is accessed.
    #[inline(always)]
    pub unsafe fn new(pointer: *const T) -> Self {
        Self::from_address(pointer as u64)
    }

    /// The address that `pointer` holds, to load from and store to.
    ///
    /// # Safety
    ///
    /// **global**: as for [`Self::new`].
    #[inline(always)]
    pub unsafe fn new_mut(pointer: *mut T) -> Self {
        Self::from_address(pointer as u64)
    }

    #[inline(always)]
    fn from_address(address: u64) -> Self {
        Self {
            address,
            element: PhantomData,
        }
    }

    /// The address in bytes.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.address
    }

    /// The address `index` elements further, modulo 2^64 bytes.
    #[inline(always)]
    pub fn at(self, index: u64) -> Self {
        let offset_bytes = index.wrapping_mul(size_of::<T>() as u64);
        Self::from_address(self.address.wrapping_add(offset_bytes))
    }

    /// The same address, of a `U`.
    #[inline(always)]
    pub fn cast<U: Word>(self) -> Global<U> {
        Global::from_address(self.address)
    }

    /// The value at this address.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the `T` here lies in memory that the kernel may read.
    /// * **aligned**: the address is a multiple of the size of `T`.
    /// * **no race**: no other thread writes it without a barrier in between.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load(self) -> T {
        by_target! {
            // SAFETY: in-bounds, aligned: this function's own contract.
            device: unsafe { T::load_global(self.address) },
            // SAFETY: global and no race: the contracts of `new` and of this function.
            host: unsafe { memory::load(self.address) },
        }
    }

    /// The value at this address, which will not be read again soon (`ld.global.cs`).
    ///
    /// # Safety
    ///
    /// As for [`Self::load`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load_streaming(self) -> T {
        by_target! {
            // SAFETY: in-bounds, aligned: this function's own contract.
            device: unsafe { T::load_global_streaming(self.address) },
            // SAFETY: global and no race: the contracts of `new` and of this function.
            host: unsafe { memory::load(self.address) },
        }
    }

    /// Puts `value` at this address.
    ///
    /// # Safety
    ///
    /// * **in-bounds**: the `T` here lies in memory that the kernel may write.
    /// * **aligned**: the address is a multiple of the size of `T`.
    /// * **no race**: no other thread accesses it without a barrier in between.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, value: T) {
        by_target! {
            // SAFETY: in-bounds, aligned: this function's own contract.
            device: unsafe { value.store_global(self.address) },
            // SAFETY: global and no race: the contracts of `new_mut` and of this function.
            host: unsafe { memory::store(self.address, value) },
        }
    }

    /// Puts `value`, which will not be read again soon, at this address (`st.global.cs`).
    ///
    /// # Safety
    ///
    /// As for [`Self::store`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store_streaming(self, value: T) {
        by_target! {
            // SAFETY: in-bounds, aligned: this function's own contract.
            device: unsafe { value.store_global_streaming(self.address) },
            // SAFETY: global and no race: the contracts of `new_mut` and of this function.
            host: unsafe { memory::store(self.address, value) },
        }
    }
}
