//! A driver library for the tests, which compile it with `rustc --crate-type cdylib`.
//!
//! Device memory is the process's, copies are made at once, and kernels do nothing. Every call that
//! says what the crate asks of the driver is written down, a line each, in the file `FAKE_CUDA_LOG`.
//!
//! | variable | meaning |
//! |---|---|
//! | `FAKE_CUDA_CAPABILITY` | compute capability, `9.0` unless set |
//! | `FAKE_CUDA_POOLS` | `0`: no allocation in stream order |
//! | `FAKE_CUDA_VERSION` | the newest CUDA that it supports, `13000` unless set |
//! | `FAKE_CUDA_GPUS` | how many GPUs there are, 2 unless set |
//! | `FAKE_CUDA_MEMORY` | bytes of memory, all in all; no end of them unless set |
//! | `FAKE_CUDA_FAIL` | `cuName=2`: that function returns that status; `cubin=2`: cuModuleLoadDataEx does, of cubins. 700, which breaks the context, is from then on what every call in one returns |

#![allow(non_snake_case)]

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::collections::HashMap;
use std::env;
use std::ffi::{CStr, c_char, c_void};
use std::fs::OpenOptions;
use std::io::Write;
use std::slice;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Handle of GPU 0's primary context; GPU 1's is one more.
const PRIMARY: usize = 0x1000;

const INVALID_VALUE: i32 = 1;
const INVALID_DEVICE: i32 = 101;
const INVALID_CONTEXT: i32 = 201;
const OUT_OF_MEMORY: i32 = 2;
/// The status that breaks the context.
const ILLEGAL_ADDRESS: i32 = 700;
const CAPTURE_UNSUPPORTED: i32 = 900;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Whether the context is broken.
static BROKEN: AtomicBool = AtomicBool::new(false);
static NEXT_HANDLE: AtomicUsize = AtomicUsize::new(0x2000);
/// Streams that are being captured.
static CAPTURING: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// All that were ever loaded.
static MODULES: Mutex<Vec<Image>> = Mutex::new(Vec::new());
/// Bytes of what is allocated.
static MEMORY: Mutex<Option<HashMap<u64, usize>>> = Mutex::new(None);

fn new_handle() -> usize {
    NEXT_HANDLE.fetch_add(1, Ordering::Relaxed)
}

fn write_down(line: &str) {
    let path = env::var_os("FAKE_CUDA_LOG").unwrap();
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    writeln!(file, "{line}").unwrap();
}

/// What a function returns: success, unless the environment says otherwise.
fn status(function: &str) -> i32 {
    let failing = env::var("FAKE_CUDA_FAIL").unwrap_or_default();
    match failing.split_once('=') {
        Some((name, status)) if name == function => status.parse().unwrap(),
        _ => 0,
    }
}

/// The same of a call in a context.
fn status_in_context(function: &str) -> i32 {
    if status(function) == ILLEGAL_ADDRESS {
        BROKEN.store(true, Ordering::Relaxed);
    }
    if BROKEN.load(Ordering::Relaxed) {
        ILLEGAL_ADDRESS
    } else {
        status(function)
    }
}

fn number(variable: &str, otherwise: usize) -> usize {
    env::var(variable).map_or(otherwise, |value| value.parse().unwrap())
}

/// A call in a context: written down if it has anything to say, refused without a context.
macro_rules! call {
    ($name:literal, $($say:tt)*) => {{
        write_down(&format!($($say)*));
        match status_in_context($name) {
            0 if CURRENT.get() == 0 => return INVALID_CONTEXT,
            0 => {}
            failed => return failed,
        }
    }};
}

fn refuse_capture(stream: usize) -> i32 {
    if CAPTURING.lock().unwrap().contains(&stream) {
        CAPTURE_UNSUPPORTED
    } else {
        0
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: u32) -> i32 {
    status("cuInit")
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> i32 {
    unsafe { *version = number("FAKE_CUDA_VERSION", 13_000) as i32 };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(_status: i32, _text: *mut *const c_char) -> i32 {
    INVALID_VALUE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(_status: i32, _text: *mut *const c_char) -> i32 {
    INVALID_VALUE
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut i32) -> i32 {
    unsafe { *count = number("FAKE_CUDA_GPUS", 2) as i32 };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> i32 {
    if !(0..number("FAKE_CUDA_GPUS", 2) as i32).contains(&ordinal) {
        return INVALID_DEVICE;
    }
    unsafe { *device = ordinal };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, room: i32, _device: i32) -> i32 {
    let text = c"Fake GPU";
    assert!(text.count_bytes() < room as usize);
    unsafe { name.copy_from(text.as_ptr(), text.count_bytes() + 1) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut i32, attribute: i32, _device: i32) -> i32 {
    let capability = env::var("FAKE_CUDA_CAPABILITY").unwrap_or("9.0".into());
    let (major, minor) = capability.split_once('.').unwrap();
    let answer = match attribute {
        16 => 132,
        38 => 50 << 20,
        75 => major.parse().unwrap(),
        76 => minor.parse().unwrap(),
        97 => 227 * 1024,
        115 => (env::var("FAKE_CUDA_POOLS").as_deref() != Ok("0")).into(),
        120 => 1,
        _ => return INVALID_VALUE,
    };
    unsafe { *value = answer };
    0
}

/// Makes nothing current.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) -> i32 {
    write_down(&format!("cuDevicePrimaryCtxRetain {device}"));
    unsafe { *context = PRIMARY + device as usize };
    status("cuDevicePrimaryCtxRetain")
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> i32 {
    write_down(&format!("cuDevicePrimaryCtxRelease {device}"));
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: usize) -> i32 {
    write_down(&format!("cuCtxSetCurrent {context:#x}"));
    CURRENT.set(context);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut usize) -> i32 {
    unsafe { *context = CURRENT.get() };
    0
}

/// What a module is loaded from.
enum Image {
    Ptx(String),
    Cubin(Vec<u8>),
}

impl Image {
    unsafe fn read(image: *const u8) -> Self {
        unsafe {
            if !slice::from_raw_parts(image, 4).starts_with(b"\x7fELF") {
                let text = CStr::from_ptr(image.cast());
                return Self::Ptx(text.to_str().unwrap().to_owned());
            }
            // A cubin ends with its program headers: so many, of 56 bytes each.
            let number = |at| image.add(at).cast::<u64>().read_unaligned() as usize;
            let (start, count) = (number(32), number(56) & 0xffff);
            Self::Cubin(slice::from_raw_parts(image, start + 56 * count).to_owned())
        }
    }

    /// Whether it has the kernel `name`: a cubin then has a section.
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Ptx(text) => text.contains(&format!(".entry {name}(")),
            Self::Cubin(bytes) => {
                let section = format!("\0.text.{name}\0");
                let mut windows = bytes.windows(section.len());
                windows.any(|window| window == section.as_bytes())
            }
        }
    }
}

/// The module's handle is how many were loaded with it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut usize,
    image: *const u8,
    count: u32,
    options: *const i32,
    values: *const *mut c_void,
) -> i32 {
    let image = unsafe { Image::read(image) };
    let failed = match &image {
        Image::Ptx(text) => {
            let entries = text.matches(".entry ").count();
            write_down(&format!("cuModuleLoadDataEx {entries}"));
            status_in_context("cuModuleLoadDataEx")
        }
        Image::Cubin(_) => {
            write_down("cuModuleLoadDataEx cubin");
            match status_in_context("cubin") {
                0 => status_in_context("cuModuleLoadDataEx"),
                failed => failed,
            }
        }
    };
    if failed != 0 {
        for i in 0..count as usize {
            // The error log's buffer.
            if unsafe { *options.add(i) } == 5 {
                let log = c"ptxas fatal: it will not do";
                let to = unsafe { *values.add(i) }.cast::<c_char>();
                unsafe { to.copy_from(log.as_ptr(), log.count_bytes() + 1) };
            }
        }
        return failed;
    }
    let mut modules = MODULES.lock().unwrap();
    modules.push(image);
    unsafe { *module = modules.len() };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(_module: usize) -> i32 {
    call!("cuModuleUnload", "cuModuleUnload");
    0
}

/// The kernel's handle is the address of its name.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut usize,
    module: usize,
    name: *const c_char,
) -> i32 {
    let name = unsafe { CStr::from_ptr(name) };
    let name_text = name.to_str().unwrap();
    call!("cuModuleGetFunction", "cuModuleGetFunction {name_text}");
    if !MODULES.lock().unwrap()[module - 1].has(name_text) {
        return 500;
    }
    unsafe { *function = name.to_owned().into_raw() as usize };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(value: *mut i32, attribute: i32, _function: usize) -> i32 {
    if attribute != 1 {
        return INVALID_VALUE;
    }
    unsafe { *value = 1024 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(_function: usize, attribute: i32, value: i32) -> i32 {
    call!(
        "cuFuncSetAttribute",
        "cuFuncSetAttribute {attribute} {value}"
    );
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: usize,
    parameters: *const *const c_void,
    _extra: usize,
) -> i32 {
    let name = unsafe { CStr::from_ptr(function as *const c_char) }
        .to_str()
        .unwrap();
    let parameter = |i| unsafe { *parameters.add(i) };
    let (x, y) = unsafe { (*parameter(0).cast::<u64>(), *parameter(1).cast::<u64>()) };
    let (rows, cols) = unsafe { (*parameter(2).cast::<u32>(), *parameter(3).cast::<u32>()) };
    call!(
        "cuLaunchKernel",
        "cuLaunchKernel {name} grid {grid_x} {grid_y} {grid_z} block {block_x} {block_y} {block_z} \
         shared {shared_bytes} stream {stream:#x} x {x:#x} y {y:#x} rows {rows} cols {cols}"
    );
    0
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
    padding: i32,
    value: [u32; 16],
}

/// Takes a launch with a cluster, or that may begin early, or both.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernelEx(
    config: *const LaunchConfig,
    function: usize,
    _parameters: *const *const c_void,
    _extra: usize,
) -> i32 {
    let config = unsafe { &*config };
    let attributes =
        unsafe { slice::from_raw_parts(config.attributes, config.attribute_count as usize) };
    let mut said = String::new();
    for attribute in attributes {
        said += &match (attribute.id, attribute.value) {
            (4, [x, y, z, ..]) => format!(" cluster {x} {y} {z}"),
            (6, [1, ..]) => " programmatic".into(),
            _ => return INVALID_VALUE,
        };
    }
    if said.is_empty() {
        return INVALID_VALUE;
    }
    let name = unsafe { CStr::from_ptr(function as *const c_char) }
        .to_str()
        .unwrap();
    let text = |dims: &[u32]| format!("{} {} {}", dims[0], dims[1], dims[2]);
    call!(
        "cuLaunchKernelEx",
        "cuLaunchKernelEx {name} grid {} block {}{said} shared {} stream {:#x}",
        text(&config.grid),
        text(&config.block),
        config.shared_bytes,
        config.stream
    );
    0
}

// Found when the driver is opened; this crate does not call them.
macro_rules! unused {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> i32 {
            801
        }
    )* };
}

unused! {
    cuDeviceGetUuid_v2 cuDeviceTotalMem_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxSynchronize
    cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxActiveClusters
    cuStreamWaitEvent cuMemsetD32Async cuMemGetInfo_v2 cuMemGetAddressRange_v2 cuPointerGetAttribute
    cuDeviceGetDefaultMemPool cuMemPoolGetAttribute
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(stream: *mut usize, flags: u32) -> i32 {
    let handle = new_handle();
    call!(
        "cuStreamCreate",
        "cuStreamCreate flags {flags} stream {handle:#x}"
    );
    unsafe { *stream = handle };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(stream: usize) -> i32 {
    call!("cuStreamDestroy", "cuStreamDestroy {stream:#x}");
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(stream: usize) -> i32 {
    call!("cuStreamSynchronize", "cuStreamSynchronize {stream:#x}");
    refuse_capture(stream)
}

/// Streams with handles below those that were made here belong to GPU 1.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCtx(stream: usize, context: *mut usize) -> i32 {
    unsafe {
        *context = match stream {
            0 => CURRENT.get(),
            1..0x2000 => PRIMARY + 1,
            _ => PRIMARY,
        };
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: usize, capturing: *mut i32) -> i32 {
    unsafe { *capturing = CAPTURING.lock().unwrap().contains(&stream).into() };
    status_in_context("cuStreamIsCapturing")
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: i32) -> i32 {
    call!(
        "cuStreamBeginCapture",
        "cuStreamBeginCapture {stream:#x} mode {mode}"
    );
    CAPTURING.lock().unwrap().push(stream);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> i32 {
    call!("cuStreamEndCapture", "cuStreamEndCapture {stream:#x}");
    CAPTURING
        .lock()
        .unwrap()
        .retain(|&capturing| capturing != stream);
    unsafe { *graph = new_handle() };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGraphInstantiateWithFlags(
    exec: *mut usize,
    _graph: usize,
    _flags: u64,
) -> i32 {
    call!("cuGraphInstantiate", "cuGraphInstantiate");
    unsafe { *exec = new_handle() };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(_exec: usize, stream: usize) -> i32 {
    call!("cuGraphLaunch", "cuGraphLaunch {stream:#x}");
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(_exec: usize) -> i32 {
    call!("cuGraphExecDestroy", "cuGraphExecDestroy");
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(_graph: usize) -> i32 {
    call!("cuGraphDestroy", "cuGraphDestroy");
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(event: *mut usize, flags: u32) -> i32 {
    call!("cuEventCreate", "cuEventCreate flags {flags}");
    unsafe { *event = new_handle() };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(_event: usize, stream: usize) -> i32 {
    call!("cuEventRecord", "cuEventRecord {stream:#x}");
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(_event: usize) -> i32 {
    call!("cuEventSynchronize", "cuEventSynchronize");
    0
}

/// As if a millisecond lay between any event and the next.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) -> i32 {
    unsafe { *milliseconds = end as f32 - start as f32 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(_event: usize) -> i32 {
    call!("cuEventDestroy", "cuEventDestroy");
    0
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 512).unwrap()
}

/// Memory full of NaNs, if there is as much left.
unsafe fn allocate(address: *mut u64, bytes: usize) -> i32 {
    assert!(bytes > 0);
    let mut all = MEMORY.lock().unwrap();
    let all = all.get_or_insert_default();
    let taken: usize = all.values().sum();
    if bytes > number("FAKE_CUDA_MEMORY", usize::MAX) - taken {
        return OUT_OF_MEMORY;
    }
    let memory = unsafe { alloc::alloc(layout(bytes)) };
    unsafe { memory.write_bytes(0xff, bytes) };
    all.insert(memory as u64, bytes);
    unsafe { *address = memory as u64 };
    0
}

fn free(address: u64) -> i32 {
    let Some(bytes) = MEMORY
        .lock()
        .unwrap()
        .get_or_insert_default()
        .remove(&address)
    else {
        return INVALID_VALUE;
    };
    unsafe { alloc::dealloc(address as *mut u8, layout(bytes)) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> i32 {
    call!("cuMemAlloc", "cuMemAlloc {bytes}");
    unsafe { allocate(address, bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> i32 {
    call!("cuMemFree", "cuMemFree {address:#x}");
    free(address)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize) -> i32 {
    call!(
        "cuMemAllocAsync",
        "cuMemAllocAsync {bytes} stream {stream:#x}"
    );
    unsafe { allocate(address, bytes) }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: u64, stream: usize) -> i32 {
    call!(
        "cuMemFreeAsync",
        "cuMemFreeAsync {address:#x} stream {stream:#x}"
    );
    free(address)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const u8,
    bytes: usize,
    stream: usize,
) -> i32 {
    call!(
        "cuMemcpyHtoDAsync",
        "cuMemcpyHtoDAsync {bytes} stream {stream:#x}"
    );
    unsafe { (to as *mut u8).copy_from(from, bytes) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut u8,
    from: u64,
    bytes: usize,
    stream: usize,
) -> i32 {
    call!(
        "cuMemcpyDtoHAsync",
        "cuMemcpyDtoHAsync {bytes} stream {stream:#x}"
    );
    unsafe { to.copy_from(from as *const u8, bytes) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) -> i32 {
    call!(
        "cuMemcpyDtoDAsync",
        "cuMemcpyDtoDAsync {bytes} stream {stream:#x}"
    );
    unsafe { (to as *mut u8).copy_from(from as *const u8, bytes) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: usize) -> i32 {
    call!(
        "cuMemsetD8Async",
        "cuMemsetD8Async {value} {bytes} stream {stream:#x}"
    );
    unsafe { (to as *mut u8).write_bytes(value, bytes) };
    0
}
