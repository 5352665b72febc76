//! Modules and the kernels in them.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use super::Driver;
use crate::error::{check, output};
use crate::{CUfunction, CUmodule, CuError, FunctionAttribute, ModuleLoadError};

/// Room for the PTX compiler's error log. It stops where the room ends.
const LOG_BYTES: usize = 8192;

const CU_JIT_ERROR_LOG_BUFFER: c_int = 5;
const CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;

impl Driver {
    /// Loads PTX into the current context; the driver compiles it.
    ///
    /// # Safety
    ///
    /// `image` is PTX. (The driver knows other images by their first bytes, and reads those as far
    /// as their own headers say, not up to the NUL.)
    ///
    /// # Errors
    ///
    /// What the driver returned, with its compiler's error log.
    pub unsafe fn module_load_data(&self, image: &CStr) -> Result<CUmodule, ModuleLoadError> {
        // SAFETY: the caller's promise.
        unsafe { self.load_image(image.as_ptr().cast()) }
    }

    /// Loads a cubin into the current context: machine code, which is taken as it is.
    ///
    /// # Safety
    ///
    /// `cubin` is one, and whole: the driver reads as far as its headers say.
    ///
    /// # Errors
    ///
    /// What the driver returned.
    pub unsafe fn module_load_cubin(&self, cubin: &[u8]) -> Result<CUmodule, ModuleLoadError> {
        // SAFETY: the caller's promise.
        unsafe { self.load_image(cubin.as_ptr().cast()) }
    }

    /// # Safety
    ///
    /// `image` leads to what the driver takes for one by its first bytes.
    unsafe fn load_image(&self, image: *const c_void) -> Result<CUmodule, ModuleLoadError> {
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            // The driver takes the number itself in the pointer's place.
            ptr::without_provenance_mut(LOG_BYTES),
        ];
        // SAFETY: `image` is the caller's promise; two options with two values, of which the
        // first is room for as many bytes as the second says.
        let loaded = output(ptr::null_mut(), |module| unsafe {
            (self.functions.module_load_data_ex)(
                module,
                image,
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        });
        loaded.map_err(|error| {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
            let log = String::from_utf8_lossy(&log[..end]).trim_end().to_owned();
            ModuleLoadError { error, log }
        })
    }

    /// Unloads a module.
    ///
    /// # Safety
    ///
    /// **live**. Its kernels are not used afterwards, and none of them is running.
    pub unsafe fn module_unload(&self, module: CUmodule) -> Result<(), CuError> {
        // SAFETY: the caller's promise.
        check(unsafe { (self.functions.module_unload)(module) })
    }

    /// The kernel `name` of a module.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn module_get_function(
        &self,
        module: CUmodule,
        name: &CStr,
    ) -> Result<CUfunction, CuError> {
        // SAFETY: a place for the handle, a C string, and the caller's promise.
        output(ptr::null_mut(), |function| unsafe {
            (self.functions.module_get_function)(function, module, name.as_ptr())
        })
    }

    /// One of the numbers that describe a kernel.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn func_get_attribute(
        &self,
        attribute: FunctionAttribute,
        function: CUfunction,
    ) -> Result<i32, CuError> {
        // SAFETY: a place for the number, and the caller's promise.
        output(0, |value| unsafe {
            (self.functions.func_get_attribute)(value, attribute.0, function)
        })
    }

    /// Sets one of a kernel's numbers that can be set.
    ///
    /// # Safety
    ///
    /// **live**.
    pub unsafe fn func_set_attribute(
        &self,
        function: CUfunction,
        attribute: FunctionAttribute,
        value: i32,
    ) -> Result<(), CuError> {
        // SAFETY: the caller's promise; the driver checks attribute and value.
        check(unsafe { (self.functions.func_set_attribute)(function, attribute.0, value) })
    }
}
