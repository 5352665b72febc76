//! A driver library for the tests, which compile it with `rustc --crate-type cdylib`.
//!
//! `FAKE_CUDA_VERSION` and `FAKE_CUDA_INIT` say what `cuDriverGetVersion` and `cuInit` answer. A
//! function that the tests call with arguments of note says whether they came through: success or
//! `CUDA_ERROR_INVALID_VALUE`. Every other function returns a status that no header has. With
//! `--cfg damaged` there is no `cuMemAlloc_v2`.

#![allow(non_snake_case)]

use std::ffi::{CStr, c_char, c_void};
use std::{env, ptr, slice};

const INVALID_PTX: i32 = 218;
const IN_NO_HEADER: i32 = 4242;

fn came_through(arguments: bool) -> i32 {
    if arguments { 0 } else { 1 }
}

fn from_environment(variable: &str, otherwise: i32) -> i32 {
    env::var(variable).map_or(otherwise, |value| value.parse().unwrap())
}

macro_rules! forward {
    (in_registers { $($register:ident)* } typed { $($typed:ident)* }) => {
        $(function! { $register })*
        $(function! { $typed })*
    };
}

macro_rules! function {
    // Written out below.
    (cuInit) => {};
    (cuDriverGetVersion) => {};
    (cuGetErrorName) => {};
    (cuGetErrorString) => {};
    (cuDeviceGetName) => {};
    (cuMemGetInfo_v2) => {};
    (cuDeviceGetDefaultMemPool) => {};
    (cuMemPoolGetAttribute) => {};
    (cuPointerGetAttribute) => {};
    (cuStreamIsCapturing) => {};
    (cuModuleLoadDataEx) => {};
    (cuLaunchKernel) => {};
    (cuIpcOpenMemHandle_v2) => {};
    (cuMemRangeGetAttributes) => {};
    (cuTexRefSetMipmapLevelClamp) => {};
    (cuMemAlloc_v2) => {
        #[cfg(not(damaged))]
        #[unsafe(no_mangle)]
        extern "C" fn cuMemAlloc_v2() -> i32 {
            IN_NO_HEADER
        }
    };
    ($name:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> i32 {
            IN_NO_HEADER
        }
    };
}

include!("../../src/forward/symbols.rs");

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> i32 {
    assert_eq!(flags, 0);
    from_environment("FAKE_CUDA_INIT", 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> i32 {
    unsafe { *version = from_environment("FAKE_CUDA_VERSION", 13_000) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(status: i32, text: *mut *const c_char) -> i32 {
    let name = match status {
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        36 => c"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
        _ => return unknown_status(text),
    };
    unsafe { *text = name.as_ptr() };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(status: i32, text: *mut *const c_char) -> i32 {
    let description = match status {
        2 => c"out of memory",
        36 => c"the call needs a newer driver",
        _ => return unknown_status(text),
    };
    unsafe { *text = description.as_ptr() };
    0
}

fn unknown_status(text: *mut *const c_char) -> i32 {
    unsafe { *text = ptr::null() };
    1
}

/// Fills all the room it gets: the caller has to think of the end.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, room: i32, _device: i32) -> i32 {
    unsafe { name.write_bytes(b'x', room as usize) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> i32 {
    unsafe { (*free, *total) = (1 << 40, 1 << 41) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut u64, device: i32) -> i32 {
    unsafe { *pool = device as u64 + 50 };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolGetAttribute(pool: u64, attribute: i32, value: *mut c_void) -> i32 {
    match (pool, attribute) {
        (50, 7) => unsafe { *value.cast::<u64>() = 1 << 39 },
        _ => return 1,
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttribute(data: *mut c_void, attribute: i32, address: u64) -> i32 {
    match attribute {
        1 => unsafe { *data.cast::<u64>() = address + 1 },
        2 => unsafe { *data.cast::<u32>() = 2 },
        9 => unsafe { *data.cast::<i32>() = 7 },
        _ => return 1,
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: usize, status: *mut i32) -> i32 {
    unsafe { *status = stream as i32 };
    0
}

/// Refuses every module, and says why as far as the log has room.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    _module: *mut *mut c_void,
    image: *const c_char,
    count: u32,
    options: *const i32,
    values: *const *mut c_void,
) -> i32 {
    let image = unsafe { CStr::from_ptr(image) }.to_bytes();
    let options = unsafe { slice::from_raw_parts(options, count as usize) };
    let values = unsafe { slice::from_raw_parts(values, count as usize) };
    let value = |option| values[options.iter().position(|&o| o == option).unwrap()];
    let (log, room) = (value(5).cast::<u8>(), value(6) as usize);
    let text = [b"ptxas: ", image, b"\n"].concat();
    let length = text.len().min(room);
    unsafe { log.copy_from(text.as_ptr(), length) };
    INVALID_PTX
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: usize,
    parameters: *const *const u64,
    extra: usize,
) -> i32 {
    let parameter = unsafe { **parameters };
    came_through(
        (function, stream, parameter, extra) == (11, 18, 19, 0)
            && [grid_x, grid_y, grid_z] == [12, 13, 14]
            && [block_x, block_y, block_z, shared_bytes] == [15, 16, 17, 170],
    )
}

#[repr(C)]
struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: usize,
    attributes: *const LaunchAttribute,
    attribute_count: u32,
}

#[repr(C)]
struct LaunchAttribute {
    id: i32,
    padding: [u8; 4],
    value: LaunchAttributeValue,
}

#[repr(C)]
union LaunchAttributeValue {
    padding: [u8; 64],
    cluster: [u32; 3],
    programmatic: i32,
    pointer: *mut c_void,
}

impl LaunchConfig {
    fn is_as_expected(&self) -> bool {
        let attributes = match self.attribute_count {
            0 => &[],
            count => unsafe { slice::from_raw_parts(self.attributes, count as usize) },
        };
        let mut expected = env::var("FAKE_ATTRIBUTES").unwrap();
        for attribute in attributes {
            let text = match attribute.id {
                4 => format!("cluster {:?};", unsafe { attribute.value.cluster }),
                6 => format!("programmatic {};", unsafe { attribute.value.programmatic }),
                _ => return false,
            };
            match expected.strip_prefix(&text) {
                Some(rest) => expected = rest.to_owned(),
                None => return false,
            }
        }
        expected.is_empty()
            && self.grid == [12, 13, 14]
            && self.block == [15, 16, 17]
            && (self.shared_bytes, self.stream) == (170, 18)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernelEx(
    config: &LaunchConfig,
    function: usize,
    parameters: *const *const u64,
    extra: usize,
) -> i32 {
    let parameter = unsafe { **parameters };
    came_through((function, parameter, extra) == (11, 19, 0) && config.is_as_expected())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxActiveClusters(
    clusters: *mut i32,
    function: usize,
    config: &LaunchConfig,
) -> i32 {
    unsafe { *clusters = 33 };
    came_through(function == 11 && config.is_as_expected())
}

#[repr(C)]
struct IpcHandle([u8; 64]);

/// 64 bytes by value: on the stack on x86-64, behind a pointer on aarch64.
#[unsafe(no_mangle)]
extern "C" fn cuIpcOpenMemHandle_v2(address: usize, handle: IpcHandle, flags: u32) -> i32 {
    let handle_is_whole = (0..64).all(|i| handle.0[i] == i as u8);
    came_through((address, flags) == (11, 12) && handle_is_whole)
}

/// As many arguments as x86-64 has registers for.
#[unsafe(no_mangle)]
extern "C" fn cuMemRangeGetAttributes(
    data: usize,
    data_bytes: usize,
    attributes: usize,
    count: usize,
    address: u64,
    bytes: usize,
) -> i32 {
    came_through(
        (data, data_bytes, attributes, count) == (11, 12, 13, 14) && (address, bytes) == (15, 16),
    )
}

/// Floats beside an integer.
#[unsafe(no_mangle)]
extern "C" fn cuTexRefSetMipmapLevelClamp(texture: usize, least: f32, greatest: f32) -> i32 {
    came_through((texture, least, greatest) == (11, 0.5, 2.5))
}
