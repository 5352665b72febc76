//! What the environment decides about a run of the suites.
//!
//! | variable | what | default |
//! |---|---|---|
//! | `WARP_SOFTMAX_CASES` | cases that each property draws | 64 |
//! | `WARP_SOFTMAX_SEED` | what they are drawn from | the clock |
//! | `WARP_SOFTMAX_CHECKS` | `all`: not only drawn cases have an order of their own on the emulator, and all its checks | drawn cases alone |
//! | `WARP_SOFTMAX_ACCURACY_ELEMENTS` | elements that the accuracy table measures | 2,000,000 |
//! | `WARP_SOFTMAX_SOAK_SECONDS` | how long the soak makes calls | 3 |
//! | `WARP_SOFTMAX_FORCED_WAYS` | ways, beside the plan's own, that a case is forced through, each in its turn | all |
//! | `WARP_SOFTMAX_TYPES` | input and output types, such as `f32-f32,f32-bf16`, of cases that run over all pairs of them: so slow runs can be shared out | all |
//! | `WARP_SOFTMAX_COLS` | row lengths, such as `65536-131072`, of cases at both sides of the plan's thresholds: to share them out further | all |
//! | `WARP_SOFTMAX_BACKEND` | `emulator` or `cuda`: run on that alone, as under a sanitizer of the GPU | both |

use std::env::{self, VarError};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use warp_softmax::DType;

use crate::format::PAIRS;

/// Cases that each property draws.
pub fn cases() -> u32 {
    number("WARP_SOFTMAX_CASES").unwrap_or(64)
}

/// Whether the emulator checks cases that are not drawn for all that it can find.
///
/// # Panics
///
/// Where the variable is set to anything but `all`.
pub fn always_checked() -> bool {
    match text("WARP_SOFTMAX_CHECKS").as_deref() {
        None => false,
        Some("all") => true,
        Some(value) => panic!("WARP_SOFTMAX_CHECKS={value}: it may be `all`"),
    }
}

/// Elements that the accuracy table measures, over all its lines.
pub fn accuracy_elements() -> usize {
    number("WARP_SOFTMAX_ACCURACY_ELEMENTS").unwrap_or(2_000_000)
}

/// How long the soak makes calls, in seconds.
pub fn soak_seconds() -> u64 {
    number("WARP_SOFTMAX_SOAK_SECONDS").unwrap_or(3)
}

/// Ways, beside the plan's own, that a case is forced through on each backend.
pub fn forced_ways() -> usize {
    number("WARP_SOFTMAX_FORCED_WAYS").unwrap_or(usize::MAX)
}

/// Whether cases that run over all pairs of types have these of input and output.
///
/// # Panics
///
/// Where the environment names types that there are not.
pub fn runs_types((input, output): (DType, DType)) -> bool {
    let name = format!("{input}-{output}");
    only_types().is_none_or(|only| only.contains(&name))
}

/// Whether there are pairs of types that a run is not for.
///
/// # Panics
///
/// As [`runs_types`].
pub fn has_types_left_out() -> bool {
    only_types().is_some()
}

/// The pairs of types that a run is for, if it is not for all.
fn only_types() -> Option<&'static [String]> {
    static ONLY: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let only = ONLY.get_or_init(|| {
        let list = text("WARP_SOFTMAX_TYPES")?;
        let names: Vec<String> = list.split(',').map(|name| name.trim().into()).collect();
        let all = PAIRS.map(|(input, output)| format!("{input}-{output}"));
        if let Some(name) = names.iter().find(|name| !all.contains(name)) {
            panic!("WARP_SOFTMAX_TYPES: `{name}` is none of {all:?}");
        }
        Some(names)
    });
    only.as_deref()
}

/// Row lengths of cases at both sides of the plan's thresholds.
///
/// # Panics
///
/// Where the environment has no two numbers for them.
pub fn threshold_cols() -> RangeInclusive<usize> {
    let Some(text) = text("WARP_SOFTMAX_COLS") else {
        return 0..=usize::MAX;
    };
    let ends = text.split_once('-').and_then(|(first, last)| {
        let end = |text: &str| text.trim().replace('_', "").parse().ok();
        Some((end(first)?, end(last)?))
    });
    match ends {
        Some((first, last)) => first..=last,
        None => panic!("WARP_SOFTMAX_COLS={text}: it may be like `65536-131072`"),
    }
}

/// Whether cases run on the backend of this name.
///
/// # Panics
///
/// Where the environment names a backend that there is not.
pub fn runs_on(backend: &str) -> bool {
    match text("WARP_SOFTMAX_BACKEND").as_deref() {
        None => true,
        Some(only @ ("emulator" | "cuda")) => only == backend,
        Some(other) => panic!("WARP_SOFTMAX_BACKEND={other} is neither emulator nor cuda"),
    }
}

/// The seed of everything drawn in this process. Said once, so that a failure can be drawn again.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let seed = number("WARP_SOFTMAX_SEED").unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.expect("the clock is past 1970").as_nanos() as u64
        });
        println!("WARP_SOFTMAX_SEED={seed}");
        seed
    })
}

/// The value of a variable, if it is set.
///
/// # Panics
///
/// Where it is set to what is not such a number.
fn number<T: FromStr>(variable: &str) -> Option<T> {
    let text = text(variable)?;
    match text.replace('_', "").parse() {
        Ok(value) => Some(value),
        Err(_) => panic!("{variable}={text} is not a number"),
    }
}

/// The value of a variable, if it is set.
///
/// # Panics
///
/// Where it is set to what is no text.
fn text(variable: &str) -> Option<String> {
    match env::var(variable) {
        Ok(text) => Some(text),
        Err(VarError::NotPresent) => None,
        Err(error) => panic!("{variable}: {error}"),
    }
}
