//! In which order the emulator runs the threads of a case, and what it looks for meanwhile.

use cuda_std::emulator::{Checks, checked};
use proptest::prelude::*;

use crate::settings;

/// Of drawn cases, one in so many runs under every check.
const CHECKED_ONE_IN: u8 = 4;

/// How the emulator runs a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What the order of clusters and threads is drawn from.
    pub seed: u64,
    /// Whether races are looked for, and loads of what nobody has written to global memory.
    pub checked: bool,
}

impl Schedule {
    /// Any order; checked at times, or always if the environment says so.
    pub fn any() -> impl Strategy<Value = Self> {
        // A simpler seed is no simpler order.
        let seed = any::<u64>().no_shrink();
        (seed, 0..CHECKED_ONE_IN).prop_map(|(seed, one_in)| Self {
            seed,
            checked: one_in == 0 || settings::always_checked(),
        })
    }

    /// Calls `f`, whose launches on the emulator this decides about.
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        let checks = if self.checked {
            Checks::ALL
        } else {
            Checks::default()
        };
        let seed = Some(self.seed);
        checked(Checks { seed, ..checks }, f)
    }
}
