//! What is fuzzed: each function takes any bytes, and panics if the library, or an example's reader of files, does
//! what it must not.
//!
//! The tests of the package `warp-softmax` run them over `corpus/` as well, so a fault that was found once is found
//! without a fuzzer.

mod files;
mod views;

pub use files::{model, npy, safetensors};
pub use views::views;

/// Takes any bytes; panics where something is wrong.
pub type Target = fn(&[u8]);

/// All of them, by the name of their folder in `corpus/`.
pub const TARGETS: [(&str, Target); 4] = [
    ("views", views),
    ("npy", npy),
    ("safetensors", safetensors),
    ("model", model),
];
