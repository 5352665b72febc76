//! Checks that cost too much to be on in every launch.

use core::cell::Cell;

/// What launches inside [`checked`] do beyond the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Report two threads of a block that touch the same byte of shared memory with nothing between them
    /// that orders one before the other, if at least one stores.
    ///
    /// Block barriers and warp barriers order. A wait at an mbarrier counts as ordered after all that any
    /// thread did before the phase was complete, which may hide a race. Shuffles, votes and reductions do not
    /// order memory. Accesses through raw pointers, and asynchronous stores from peers, are not seen.
    pub races: bool,
    /// Run clusters, and the threads of each, in an order drawn from this seed instead of ascending. A seed
    /// gives the same order whatever the number of workers.
    pub seed: Option<u64>,
}

thread_local! {
    static CHECKS: Cell<Checks> = const { Cell::new(Checks { races: false, seed: None }) };
}

/// Calls `f`; what it launches from the calling thread is checked as `checks` says.
///
/// ```
/// use cuda_std::emulator::{Checks, checked};
///
/// let checks = Checks { races: true, seed: Some(7) };
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

/// What the launch that begins now has to check.
pub(super) fn current() -> Checks {
    CHECKS.get()
}
