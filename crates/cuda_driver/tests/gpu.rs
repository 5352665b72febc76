//! The machine's own driver. Where there is one, with a GPU, it is put to work; where there is
//! none, `Driver` and `cust` have to agree on that.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::ffi::{CStr, c_void};
use std::ptr;

use cuda_driver::{
    AddressRange, CUcontext, CUdevice, CUdeviceptr, CUfunction, CUstream, CaptureMode,
    CaptureStatus, CuError, DeviceAttribute, Driver, EventTiming, FunctionAttribute, LaunchConfig,
    MemoryType, StreamOrder,
};
use cust::memory::{CopyDestination, DeviceBuffer};

/// Adds `n` to each of the words at `data`, a thread a word.
const ADD: &CStr = cr"
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 data, .param .u32 n)
{
    .reg .b32 %r<7>;
    .reg .b64 %a<4>;
    ld.param.u64 %a1, [data];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    cvta.to.global.u64 %a2, %a1;
    mad.wide.u32 %a3, %r5, 4, %a2;
    ld.global.u32 %r6, [%a3];
    add.u32 %r6, %r6, %r1;
    st.global.u32 [%a3], %r6;
    ret;
}
";

const BLOCKS: u32 = 8;
const BLOCK_THREADS: u32 = 64;
const WORDS: usize = (BLOCKS * BLOCK_THREADS) as usize;
const BYTES: usize = 4 * WORDS;

#[test]
fn driver_works_or_there_is_none_for_cust_either() {
    match Driver::load() {
        Ok(driver) => Gpu::new(driver).work(),
        Err(error) => {
            println!("{error}");
            assert!(cust::init(cust::CudaFlags::empty()).is_err(), "{error}");
        }
    }
}

/// A device's primary context, current to the thread, with a stream, words in memory and a kernel.
struct Gpu {
    driver: &'static Driver,
    device: CUdevice,
    context: CUcontext,
    stream: CUstream,
    words: CUdeviceptr,
    add: CUfunction,
}

// SAFETY, for all of `Gpu`: every handle and address comes from this driver and is in use until
// the end of the process; copies are followed by a synchronisation before the host looks; the
// kernel has two parameters, an address of `WORDS` words and a `u32`.
impl Gpu {
    fn new(driver: &'static Driver) -> Self {
        assert!(driver.device_get_count().unwrap() > 0);
        let device = driver.device_get(0).unwrap();
        let context = driver.device_primary_ctx_retain(device).unwrap();
        // SAFETY: as above `impl Gpu`.
        unsafe { driver.ctx_set_current(context) }.unwrap();
        // SAFETY: PTX.
        let module = unsafe { driver.module_load_data(ADD) }.unwrap_or_else(|e| panic!("{e}"));
        Self {
            driver,
            device,
            context,
            stream: driver.stream_create_non_blocking().unwrap(),
            words: driver.mem_alloc(BYTES).unwrap(),
            // SAFETY: as above `impl Gpu`.
            add: unsafe { driver.module_get_function(module, c"add") }.unwrap(),
        }
    }

    fn work(&self) {
        self.describes_itself();
        self.refuses_bad_ptx();
        self.fills_and_copies();
        self.launches();
        self.captures_a_graph();
        self.allocates_in_stream_order();
        self.knows_its_addresses();
        self.times();
        self.serves_cust_in_the_same_context();
    }

    fn attribute(&self, attribute: DeviceAttribute) -> i32 {
        self.driver
            .device_get_attribute(attribute, self.device)
            .unwrap()
    }

    fn read(&self) -> Vec<u32> {
        let mut words = vec![0u32; WORDS];
        // SAFETY: as above `impl Gpu`.
        unsafe {
            let to = words.as_mut_ptr().cast();
            self.driver
                .memcpy_dtoh_async(to, self.words, BYTES, self.stream)
                .unwrap();
            self.driver.stream_synchronize(self.stream).unwrap();
        }
        words
    }

    fn set(&self, value: u32) {
        // SAFETY: as above `impl Gpu`.
        unsafe {
            self.driver
                .memset_d32_async(self.words, value, WORDS, self.stream)
        }
        .unwrap();
    }

    fn config(&self) -> LaunchConfig {
        LaunchConfig {
            grid: [BLOCKS, 1, 1],
            block: [BLOCK_THREADS, 1, 1],
            cluster: None,
            shared_bytes: 0,
            stream: self.stream,
            order: StreamOrder::AfterPrevious,
        }
    }

    fn add(&self, n: u32, launch: impl FnOnce(&[*const c_void]) -> Result<(), CuError>) {
        let parameters = [
            ptr::from_ref(&self.words).cast(),
            ptr::from_ref(&n).cast::<c_void>(),
        ];
        launch(&parameters).unwrap();
    }

    fn describes_itself(&self) {
        let name = self.driver.device_get_name(self.device).unwrap();
        println!("CUDA {}, {name}", self.driver.version());
        assert!(!name.is_empty());
        assert_ne!(self.driver.device_get_uuid(self.device), Ok([0; 16]));
        assert!(self.attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR) >= 8);
        assert!(self.attribute(DeviceAttribute::MULTIPROCESSOR_COUNT) > 0);
        let memory = self.driver.mem_get_info().unwrap();
        assert!(memory.free_bytes <= memory.total_bytes);
        assert!(memory.total_bytes <= self.driver.device_total_mem(self.device).unwrap());
        assert_eq!(self.driver.ctx_get_current(), Ok(self.context));
        // SAFETY: as above `impl Gpu`.
        unsafe {
            let regs = self
                .driver
                .func_get_attribute(FunctionAttribute::NUM_REGS, self.add);
            assert!((1..=64).contains(&regs.unwrap()));
            let shared = FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let opt_in = self.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
            self.driver
                .func_set_attribute(self.add, shared, opt_in)
                .unwrap();
            assert_eq!(self.driver.func_get_attribute(shared, self.add), Ok(opt_in));
            let blocks = |bytes| self.driver.occupancy_max_active_blocks(self.add, 64, bytes);
            assert!(blocks(0).unwrap() >= 8);
            assert_eq!(blocks(opt_in as usize), Ok(1));
        }
        assert_eq!(
            self.driver.device_get_name(1000),
            Err(CuError(101)),
            "CUDA_ERROR_INVALID_DEVICE"
        );
        assert_eq!(CuError::OUT_OF_MEMORY.description(), Some("out of memory"));
    }

    fn refuses_bad_ptx(&self) {
        // SAFETY: PTX up to its header.
        let error = unsafe {
            self.driver
                .module_load_data(c".version 7.0\n.target sm_80\n.address_size 64\nnonsense")
        }
        .unwrap_err();
        assert_eq!(error.error.name(), Some("CUDA_ERROR_INVALID_PTX"));
        assert!(error.log.contains("ptxas"), "{error}");
    }

    fn fills_and_copies(&self) {
        self.set(0x0102_0304);
        // SAFETY: as above `impl Gpu`.
        unsafe {
            // Over the second half: a byte in each, then the first word's.
            let half = self.words + BYTES as u64 / 2;
            self.driver
                .memset_d8_async(half, 9, BYTES / 2, self.stream)
                .unwrap();
            self.driver
                .memcpy_dtod_async(half, self.words, 4, self.stream)
                .unwrap();
            let seven = 7u32;
            let from = ptr::from_ref(&seven).cast();
            self.driver
                .memcpy_htod_async(self.words, from, 4, self.stream)
                .unwrap();
        }
        let mut expected = vec![0x0102_0304; WORDS];
        expected[WORDS / 2..].fill(0x0909_0909);
        expected[WORDS / 2] = 0x0102_0304;
        expected[0] = 7;
        assert_eq!(self.read(), expected);
    }

    fn launches(&self) {
        let plain = self.config();
        self.set(1);
        self.add(2, |parameters| {
            let (grid, block) = (plain.grid, plain.block);
            // SAFETY: as above `impl Gpu`.
            unsafe {
                self.driver
                    .launch_kernel(self.add, grid, block, 0, self.stream, parameters)
            }
        });
        let ex = |config: &LaunchConfig, n| {
            self.add(n, |parameters| {
                // SAFETY: as above `impl Gpu`.
                unsafe { self.driver.launch_kernel_ex(config, self.add, parameters) }
            });
        };
        ex(&plain, 10);
        let mut expected = 13;
        let cluster = LaunchConfig {
            cluster: Some([4, 1, 1]),
            ..self.config()
        };
        // SAFETY: as above `impl Gpu`.
        let clusters = unsafe {
            self.driver
                .occupancy_max_active_clusters(self.add, &cluster)
        };
        if self.attribute(DeviceAttribute::CLUSTER_LAUNCH) == 1 {
            assert!(clusters.unwrap() > 0);
            ex(&cluster, 100);
            // This kernel never lets the next one start early, so the order is as without.
            let order = StreamOrder::Programmatic;
            ex(&LaunchConfig { order, ..cluster }, 1000);
            expected += 1100;
        }
        assert_eq!(self.read(), vec![expected; WORDS]);
    }

    fn captures_a_graph(&self) {
        let config = self.config();
        self.set(0);
        // SAFETY: as above `impl Gpu`.
        unsafe {
            let is_capturing = || self.driver.stream_is_capturing(self.stream);
            self.driver.stream_synchronize(self.stream).unwrap();
            let mode = CaptureMode::ThreadLocal;
            self.driver.stream_begin_capture(self.stream, mode).unwrap();
            assert_eq!(is_capturing(), Ok(CaptureStatus::Active));
            self.add(3, |parameters| {
                self.driver.launch_kernel_ex(&config, self.add, parameters)
            });
            let graph = self.driver.stream_end_capture(self.stream).unwrap();
            assert_eq!(is_capturing(), Ok(CaptureStatus::None));
            let exec = self.driver.graph_instantiate(graph).unwrap();
            self.driver.graph_destroy(graph).unwrap();
            assert_eq!(self.read(), vec![0; WORDS], "recorded, not run");
            for _ in 0..5 {
                self.driver.graph_launch(exec, self.stream).unwrap();
            }
            assert_eq!(self.read(), vec![15; WORDS]);
            self.driver.graph_exec_destroy(exec).unwrap();
        }
    }

    fn allocates_in_stream_order(&self) {
        // SAFETY: as above `impl Gpu`; the memory is freed once, after its last use.
        unsafe {
            let words = self.driver.mem_alloc_async(BYTES, self.stream).unwrap();
            self.driver
                .memset_d32_async(words, 21, WORDS, self.stream)
                .unwrap();
            self.driver
                .memcpy_dtod_async(self.words, words, BYTES, self.stream)
                .unwrap();
            self.driver.mem_free_async(words, self.stream).unwrap();
        }
        assert_eq!(self.read(), vec![21; WORDS]);
        assert_eq!(self.driver.mem_alloc(0), Err(CuError::INVALID_VALUE));
        assert_eq!(self.driver.mem_alloc(1 << 50), Err(CuError::OUT_OF_MEMORY));
    }

    fn knows_its_addresses(&self) {
        let inside = self.words + 8;
        let range = AddressRange {
            base: self.words,
            bytes: BYTES,
        };
        assert_eq!(self.driver.mem_get_address_range(inside), Ok(range));
        let memory_type = |address| self.driver.pointer_get_memory_type(address);
        assert_eq!(memory_type(inside), Ok(MemoryType::DEVICE));
        assert_eq!(self.driver.pointer_get_context(inside), Ok(self.context));
        assert_eq!(self.driver.pointer_get_device_ordinal(inside), Ok(0));
        let on_the_host = [0u8; 64];
        let host_address = on_the_host.as_ptr().addr() as u64;
        assert_eq!(memory_type(host_address), Err(CuError::INVALID_VALUE));
        // SAFETY: as above `impl Gpu`.
        unsafe {
            assert_eq!(self.driver.stream_get_ctx(self.stream), Ok(self.context));
            let pool = self.driver.mem_alloc_async(BYTES, self.stream).unwrap();
            assert_eq!(memory_type(pool), Ok(MemoryType::DEVICE));
            assert_eq!(self.driver.pointer_get_context(pool), Ok(ptr::null_mut()));
            assert_eq!(self.driver.pointer_get_device_ordinal(pool), Ok(0));
            self.driver.mem_free_async(pool, self.stream).unwrap();
        }
    }

    fn times(&self) {
        // SAFETY: as above `impl Gpu`; the second stream waits for the event, and is done before the end.
        unsafe {
            let start = self.driver.event_create(EventTiming::Enabled).unwrap();
            let end = self.driver.event_create(EventTiming::Enabled).unwrap();
            let other = self.driver.stream_create_non_blocking().unwrap();
            self.driver.event_record(start, self.stream).unwrap();
            self.set(5);
            self.driver.event_record(end, self.stream).unwrap();
            self.driver.stream_wait_event(other, end).unwrap();
            self.driver.stream_synchronize(other).unwrap();
            self.driver.event_synchronize(end).unwrap();
            assert!(self.driver.event_elapsed_time(start, end).unwrap() > 0.0);
            self.driver.event_destroy(start).unwrap();
            self.driver.event_destroy(end).unwrap();
            self.driver.stream_destroy(other).unwrap();

            let untimed = self.driver.event_create(EventTiming::Disabled).unwrap();
            self.driver.event_record(untimed, self.stream).unwrap();
            self.driver.event_synchronize(untimed).unwrap();
            self.driver.event_destroy(untimed).unwrap();
        }
    }

    /// `cust`'s calls go to the same driver, and see the context that is current here.
    fn serves_cust_in_the_same_context(&self) {
        cust::init(cust::CudaFlags::empty()).unwrap();
        let buffer = DeviceBuffer::from_slice(&[1u32, 2, 3]).unwrap();
        let mut words = [0; 3];
        buffer.copy_to(&mut words).unwrap();
        assert_eq!(words, [1, 2, 3]);
        let address = buffer.as_device_ptr().as_raw();
        assert_eq!(self.driver.pointer_get_context(address), Ok(self.context));
        drop(buffer);

        let popped = self.driver.ctx_pop_current().unwrap();
        assert_eq!(popped, self.context);
        let error = DeviceBuffer::from_slice(&[1u32]).unwrap_err();
        assert_eq!(error, cust::error::CudaError::InvalidContext);
        // SAFETY: as above `impl Gpu`.
        unsafe { self.driver.ctx_push_current(self.context) }.unwrap();
        self.driver.ctx_synchronize().unwrap();
    }
}
