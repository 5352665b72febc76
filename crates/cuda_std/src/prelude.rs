//! What a file of kernels imports: `use cuda_std::prelude::*;`.

pub use crate::{kernel, shared, thread, warp};
