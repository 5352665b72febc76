//! In which order the emulator runs the threads of a case. Whatever has an order of its own runs under every check.

use cuda_std::emulator::{Checks, checked};
use proptest::prelude::*;

use crate::random::Random;
use crate::settings;

/// An order of clusters and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What it is drawn from.
    pub seed: u64,
}

impl Schedule {
    /// Any order.
    pub fn any() -> impl Strategy<Value = Self> {
        // A smaller seed makes no simpler order.
        any::<u64>().no_shrink().prop_map(|seed| Self { seed })
    }

    /// Calls `f`, whose launches on the emulator are in this order, and checked for all that the emulator can find.
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        let seed = Some(self.seed);
        checked(
            Checks {
                seed,
                ..Checks::ALL
            },
            f,
        )
    }
}

/// Calls `f` as [`Schedule::run`], in an order that follows from `salt`, if the environment asks for it everywhere
/// and no order is set yet. A failure says which.
///
/// # Errors
///
/// That of `f`.
pub fn everywhere<R>(salt: u64, f: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    if !settings::always_checked() || Checks::current().seed.is_some() {
        return f();
    }
    let schedule = Schedule {
        seed: Random::new(settings::seed() ^ salt).bits(),
    };
    schedule
        .run(f)
        .map_err(|what| format!("{schedule:?}: {what}"))
}
