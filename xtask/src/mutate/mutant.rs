//! Which mutant is on: the one whose number is in the environment. Put into a copy of the tree by `cargo xtask mutate`.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::io::Write;

/// No mutant has these numbers.
const UNKNOWN: u32 = u32::MAX;
const RECORDING: u32 = u32::MAX - 1;
const NONE: u32 = u32::MAX - 2;

static ON: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicBool; 1 << 14] = [const { AtomicBool::new(false) }; 1 << 14];

/// Whether the mutant is on; never when compiling.
#[inline(always)]
pub const fn on(mutant: u32) -> bool {
    core::intrinsics::const_eval_select((mutant,), never, is_on)
}

const fn never(_: u32) -> bool {
    false
}

#[inline(always)]
fn is_on(mutant: u32) -> bool {
    match ON.load(Relaxed) {
        special @ RECORDING.. => ask(mutant, special),
        on => on == mutant,
    }
}

#[cold]
#[inline(never)]
fn ask(mutant: u32, special: u32) -> bool {
    if special == UNKNOWN {
        let number = std::env::var("MUTANT").ok().and_then(|text| text.parse().ok());
        let recorded = std::env::var_os("MUTANTS_REACHED").is_some();
        ON.store(number.unwrap_or(if recorded { RECORDING } else { NONE }), Relaxed);
        return is_on(mutant);
    }
    if !REACHED[mutant as usize].swap(true, Relaxed) {
        let path = std::env::var_os("MUTANTS_REACHED").expect("it was set");
        let mut file = std::fs::File::options().append(true).create(true).open(path).expect("a file");
        file.write_all(format!("{mutant}\n").as_bytes()).expect("room in the file");
    }
    false
}
