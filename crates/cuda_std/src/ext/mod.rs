//! What rust-cuda lacks.
//!
//! | item | what |
//! |---|---|
//! | [`Global`], [`Shared`] | memory by address and width; the emulator checks every access |
//! | [`warp`] | integer reductions, a shuffle of two floats |
//! | [`math`] | f32 operations of stated bits, opaque values |
//! | [`convert`] | f16 and bf16 as bits |
//! | [`async_copy`] | copies to shared memory that run by themselves |
//! | [`cluster`], [`mbarrier`] | blocks that reach one another's shared memory (sm_90) |
//! | [`programmatic`] | kernels that begin before the one ahead has ended (sm_90) |

pub mod async_copy;
pub mod cluster;
pub mod convert;
mod global;
pub mod math;
pub mod mbarrier;
pub mod programmatic;
mod shared;
pub mod warp;
mod word;

pub use global::Global;
pub use shared::Shared;
pub use word::{U32x2, U32x4, Word};
