//! Device memory: allocating, copying, filling, and asking about an address.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::Driver;
use crate::error::{check, output};
use crate::{CUcontext, CUdevice, CUdeviceptr, CUstream, CuError, MemoryType};

const CU_POINTER_ATTRIBUTE_CONTEXT: c_int = 1;
const CU_POINTER_ATTRIBUTE_MEMORY_TYPE: c_int = 2;
const CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: c_int = 9;
const CU_MEMPOOL_ATTR_USED_MEM_CURRENT: c_int = 7;

/// Memory of the current context's device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Free, as far as the operating system knows.
    pub free_bytes: usize,
    /// All of it.
    pub total_bytes: usize,
}

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// Its first address.
    pub base: CUdeviceptr,
    /// Its length.
    pub bytes: usize,
}

impl Driver {
    /// Allocates device memory in the current context, at least 256-byte aligned, not cleared.
    /// No bytes is an error.
    pub fn mem_alloc(&self, bytes: usize) -> Result<CUdeviceptr, CuError> {
        // SAFETY: a place for the address.
        output(0, |address| unsafe {
            (self.functions.mem_alloc)(address, bytes)
        })
    }

    /// Frees memory, after all work of the context.
    ///
    /// # Safety
    ///
    /// `address` came from [`mem_alloc`](Self::mem_alloc) or
    /// [`mem_alloc_async`](Self::mem_alloc_async) and is freed once; nothing uses it afterwards.
    pub unsafe fn mem_free(&self, address: CUdeviceptr) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.mem_free)(address) })
    }

    /// Allocates device memory from the device's pool, in stream order: work on `stream`, or
    /// ordered after it, may use it. No bytes is an error.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn mem_alloc_async(
        &self,
        bytes: usize,
        stream: CUstream,
    ) -> Result<CUdeviceptr, CuError> {
        // SAFETY: a place for the address, and the caller's promise.
        output(0, |address| unsafe {
            (self.functions.mem_alloc_async)(address, bytes, stream)
        })
    }

    /// Frees memory in stream order.
    ///
    /// # Safety
    ///
    /// **live**; `address` as for [`mem_free`](Self::mem_free), and only work ordered before this
    /// call uses it.
    pub unsafe fn mem_free_async(
        &self,
        address: CUdeviceptr,
        stream: CUstream,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.mem_free_async)(address, stream) })
    }

    /// Copies `bytes` from host to device. Pageable memory is copied before the call returns.
    ///
    /// # Safety
    ///
    /// **live**, **device range**, **host range**.
    pub unsafe fn memcpy_htod_async(
        &self,
        to: CUdeviceptr,
        from: *const c_void,
        bytes: usize,
        stream: CUstream,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promises.
        check(unsafe { (self.functions.memcpy_htod_async)(to, from, bytes, stream) })
    }

    /// Copies `bytes` from device to host.
    ///
    /// # Safety
    ///
    /// **live**, **device range**, **host range**.
    pub unsafe fn memcpy_dtoh_async(
        &self,
        to: *mut c_void,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promises.
        check(unsafe { (self.functions.memcpy_dtoh_async)(to, from, bytes, stream) })
    }

    /// Copies `bytes` on the device, between ranges that do not overlap.
    ///
    /// # Safety
    ///
    /// **live**, **device range**.
    pub unsafe fn memcpy_dtod_async(
        &self,
        to: CUdeviceptr,
        from: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promises.
        check(unsafe { (self.functions.memcpy_dtod_async)(to, from, bytes, stream) })
    }

    /// Fills `bytes` bytes.
    ///
    /// # Safety
    ///
    /// **live**, **device range**.
    pub unsafe fn memset_d8_async(
        &self,
        to: CUdeviceptr,
        value: u8,
        bytes: usize,
        stream: CUstream,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promises.
        check(unsafe { (self.functions.memset_d8_async)(to, value, bytes, stream) })
    }

    /// Fills `words` words of four bytes; `to` is a multiple of four.
    ///
    /// # Safety
    ///
    /// **live**, **device range**.
    pub unsafe fn memset_d32_async(
        &self,
        to: CUdeviceptr,
        value: u32,
        words: usize,
        stream: CUstream,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promises; the driver checks the alignment.
        check(unsafe { (self.functions.memset_d32_async)(to, value, words, stream) })
    }

    /// Free and total memory of the current context's device.
    pub fn mem_get_info(&self) -> Result<MemoryInfo, CuError> {
        let (mut free_bytes, mut total_bytes) = (0, 0);
        // SAFETY: places for both numbers.
        check(unsafe { (self.functions.mem_get_info)(&mut free_bytes, &mut total_bytes) })?;
        Ok(MemoryInfo {
            free_bytes,
            total_bytes,
        })
    }

    /// Bytes of the device's default pool that this process has allocated with
    /// [`mem_alloc_async`](Self::mem_alloc_async) and not freed.
    pub fn mem_pool_used_bytes(&self, device: CUdevice) -> Result<u64, CuError> {
        // SAFETY: a place for the handle; the driver checks the device.
        let pool = output(ptr::null_mut(), |pool| unsafe {
            (self.functions.device_get_default_mem_pool)(pool, device)
        })?;
        // SAFETY: the pool is the driver's own; this attribute is a 64-bit number, and there is a place for it.
        output(0u64, |used| unsafe {
            (self.functions.mem_pool_get_attribute)(
                pool,
                CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                ptr::from_mut(used).cast(),
            )
        })
    }

    /// The allocation that an address lies in. Any address may be asked for.
    pub fn mem_get_address_range(&self, address: CUdeviceptr) -> Result<AddressRange, CuError> {
        let (mut base, mut bytes) = (0, 0);
        // SAFETY: places for both numbers; the driver looks the address up and does not follow it.
        check(unsafe { (self.functions.mem_get_address_range)(&mut base, &mut bytes, address) })?;
        Ok(AddressRange { base, bytes })
    }

    /// Where the memory at an address lives. Any address may be asked for; memory that CUDA does
    /// not know, such as a `Vec`'s, is [`CuError::INVALID_VALUE`].
    pub fn pointer_get_memory_type(&self, address: CUdeviceptr) -> Result<MemoryType, CuError> {
        // SAFETY: this attribute is a `CUmemorytype`, an int.
        unsafe { self.pointer_get(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address, MemoryType(0)) }
    }

    /// The context that the memory at an address was allocated in; null for memory from a pool.
    /// Any address may be asked for.
    pub fn pointer_get_context(&self, address: CUdeviceptr) -> Result<CUcontext, CuError> {
        // SAFETY: this attribute is a context.
        unsafe { self.pointer_get(CU_POINTER_ATTRIBUTE_CONTEXT, address, ptr::null_mut()) }
    }

    /// The ordinal of the device that the memory at an address belongs to. Any address may be
    /// asked for.
    pub fn pointer_get_device_ordinal(&self, address: CUdeviceptr) -> Result<i32, CuError> {
        // SAFETY: this attribute is an int.
        unsafe { self.pointer_get(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address, 0) }
    }

    /// One of the facts about an address.
    ///
    /// # Safety
    ///
    /// `T` is the attribute's type.
    unsafe fn pointer_get<T>(
        &self,
        attribute: c_int,
        address: CUdeviceptr,
        before: T,
    ) -> Result<T, CuError> {
        // SAFETY: a place for the attribute's type, says the caller; the driver looks the address
        // up and does not follow it.
        output(before, |value| unsafe {
            (self.functions.pointer_get_attribute)(ptr::from_mut(value).cast(), attribute, address)
        })
    }
}
