//! Checks that cost too much to be on in every launch.

use core::cell::Cell;

/// What launches and allocations inside [`checked`] do beyond the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Report two threads that touch the same byte of shared memory, or of global memory that the kernel may
    /// write, with nothing between them that orders one before the other, unless both load.
    ///
    /// | what | orders |
    /// |---|---|
    /// | block barrier | all memory, between the threads of the block |
    /// | warp barrier | all memory, between the lanes of its mask |
    /// | arrival at an mbarrier, then a wait for its phase | all that the arriving thread did or knew before what the waiting one does |
    /// | asynchronous store, then a wait for the phase of its bytes | the same, of the storing thread; the store itself only so |
    /// | wait for copies | the copies, in their own thread |
    /// | cluster barrier | all memory, between the threads of the cluster |
    /// | cluster barrier with a relaxed arrival | nothing but the making of mbarriers |
    /// | shuffles, votes, reductions | nothing |
    ///
    /// What is ordered by way of others is ordered. Between blocks an mbarrier orders shared memory, and loads of
    /// global memory before stores, but no stores to global memory. Accesses through raw pointers are not seen.
    pub races: bool,
    /// Watch the memory that [`allocate`](super::allocate) gives, in every launch from then on: report loads of
    /// bytes that have not been written, and accesses to memory that has been freed.
    pub memory: bool,
    /// Run clusters, and the threads of each, in an order drawn from this seed instead of ascending. A seed
    /// gives the same order whatever the number of workers.
    pub seed: Option<u64>,
}

impl Checks {
    /// Every check, in ascending order.
    pub const ALL: Self = Self {
        races: true,
        memory: true,
        seed: None,
    };

    /// What is checked now, on the calling thread.
    pub fn current() -> Self {
        CHECKS.get()
    }
}

thread_local! {
    static CHECKS: Cell<Checks> = const { Cell::new(Checks { races: false, memory: false, seed: None }) };
}

/// Calls `f`; what it launches and allocates on the calling thread is checked as `checks` says.
///
/// ```
/// use cuda_std::emulator::{Checks, checked};
///
/// let checks = Checks { seed: Some(7), ..Checks::ALL };
/// let answer = checked(checks, || 42); // launches here are checked
/// assert_eq!(answer, 42);
/// ```
pub fn checked<R>(checks: Checks, f: impl FnOnce() -> R) -> R {
    /// Puts back what was, also when `f` panics.
    struct Restore(Checks);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHECKS.set(self.0);
        }
    }
    let _restore = Restore(CHECKS.replace(checks));
    f()
}
