//! Global memory of the emulator's own. Inside [`checked`](super::checked) it may be watched: which of its bytes
//! have been written, and whether it has been freed.

use super::history::{GRANULE_BYTES, bytes_in_granule};
use super::{Buffer, Checks};
use core::alloc::Layout;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::alloc;
use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// As the driver aligns its allocations.
const ALIGNMENT: usize = 256;
/// Freed memory that is kept for a while, so that its addresses are not taken by something else.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// Memory that is watched.
pub(super) struct Watched {
    address: u64,
    bytes: u64,
    /// For each 16 bytes, bit i is set if byte i has been written.
    written: Box<[AtomicU16]>,
    freed: AtomicBool,
    pub(super) made_at: &'static Location<'static>,
}

impl Watched {
    /// Whether the byte at `address` is its.
    pub(super) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.bytes
    }

    pub(super) fn is_freed(&self) -> bool {
        self.freed.load(Ordering::Relaxed)
    }

    /// Whether all of `bytes` bytes at `address`, which share 16, have been written.
    pub(super) fn is_written(&self, address: u64, bytes: u32) -> bool {
        let bits = bytes_in_granule(address, bytes);
        self.granule(address).load(Ordering::Relaxed) & bits == bits
    }

    /// The `bytes` bytes at `address`, which share 16, are written.
    pub(super) fn set_written(&self, address: u64, bytes: u32) {
        let bits = bytes_in_granule(address, bytes);
        self.granule(address).fetch_or(bits, Ordering::Relaxed);
    }

    fn granule(&self, address: u64) -> &AtomicU16 {
        &self.written[((address - self.address) / GRANULE_BYTES) as usize]
    }
}

#[derive(Default)]
struct Heap {
    /// By address.
    watched: BTreeMap<u64, Arc<Watched>>,
    /// The freed ones among them, the first freed first.
    freed: VecDeque<Arc<Watched>>,
    freed_bytes: usize,
}

static HEAP: Mutex<Heap> = Mutex::new(Heap {
    watched: BTreeMap::new(),
    freed: VecDeque::new(),
    freed_bytes: 0,
});
/// How many are watched: nearly always none, and then nobody needs the lock.
static WATCHED: AtomicUsize = AtomicUsize::new(0);

fn heap() -> Option<MutexGuard<'static, Heap>> {
    if WATCHED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    Some(HEAP.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Global memory of `bytes` bytes, at least one, at a multiple of 256; nothing where there is none. It holds zeros.
///
/// Inside [`checked`](super::checked) with [`Checks::memory`] it is watched, and counts as not written. Faults then
/// say that it was made at `made_at`.
pub fn allocate(bytes: usize, made_at: &'static Location<'static>) -> Option<u64> {
    let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()?;
    // SAFETY: at least one byte.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        return None;
    }
    let address = memory.expose_provenance() as u64;
    if Checks::current().memory {
        let granules = layout.size().div_ceil(GRANULE_BYTES as usize);
        let watched = Watched {
            address,
            bytes: layout.size() as u64,
            written: (0..granules).map(|_| AtomicU16::new(0)).collect(),
            freed: AtomicBool::new(false),
            made_at,
        };
        let mut heap = HEAP.lock().unwrap_or_else(PoisonError::into_inner);
        heap.watched.insert(address, Arc::new(watched));
        WATCHED.store(heap.watched.len(), Ordering::Relaxed);
    }
    Some(address)
}

/// Frees memory. Where it is watched, it is kept for a while, and a kernel that touches it is at fault.
///
/// # Safety
///
/// `address` came from [`allocate`] with the same `bytes`, is freed once, and nothing but a kernel that is to be
/// caught uses it afterwards.
pub unsafe fn free(address: u64, bytes: usize) {
    let Some(mut heap) = heap() else {
        // SAFETY: the caller's.
        return unsafe { give_back(address, bytes) };
    };
    let Some(watched) = heap.watched.get(&address).cloned() else {
        // SAFETY: the caller's.
        return unsafe { give_back(address, bytes) };
    };
    watched.freed.store(true, Ordering::Relaxed);
    heap.freed_bytes += watched.bytes as usize;
    heap.freed.push_back(watched);
    while heap.freed_bytes > MOST_KEPT_BYTES {
        let Some(oldest) = heap.freed.pop_front() else {
            break;
        };
        heap.freed_bytes -= oldest.bytes as usize;
        heap.watched.remove(&oldest.address);
        // SAFETY: `allocate` made it with as many bytes, and it is in neither list any more.
        unsafe { give_back(oldest.address, oldest.bytes as usize) };
    }
    WATCHED.store(heap.watched.len(), Ordering::Relaxed);
}

/// # Safety
///
/// `address` came from [`allocate`] with the same `bytes`, and nothing uses it afterwards.
unsafe fn give_back(address: u64, bytes: usize) {
    let memory = ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the caller's; the layout was accepted then.
    unsafe {
        let layout = Layout::from_size_align_unchecked(bytes.max(1), ALIGNMENT);
        alloc::dealloc(memory, layout);
    }
}

/// Lets `bytes` bytes from `address` on count as written: the host has written them.
pub fn set_written(address: u64, bytes: usize) {
    let Some(heap) = heap() else { return };
    let Some((_, watched)) = heap.watched.range(..=address).next_back() else {
        return;
    };
    let end = (watched.address + watched.bytes).min(address.saturating_add(bytes as u64));
    let mut at = address;
    while at < end {
        let in_granule = (GRANULE_BYTES - at % GRANULE_BYTES).min(end - at);
        watched.set_written(at, in_granule as u32);
        at += in_granule;
    }
}

/// What of `buffers` is watched.
pub(super) fn watched(buffers: &[Buffer]) -> Vec<Arc<Watched>> {
    let Some(heap) = heap() else {
        return Vec::new();
    };
    let touches = |watched: &&Arc<Watched>| {
        buffers.iter().any(|buffer| {
            let end = buffer.address.saturating_add(buffer.bytes);
            buffer.address < watched.address + watched.bytes && watched.address < end
        })
    };
    heap.watched.values().filter(touches).cloned().collect()
}
