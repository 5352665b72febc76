use cuda_std::kernel;

#[kernel(max_threads = 0)]
pub unsafe fn no_threads() {}

#[kernel(max_threads = 1025)]
pub unsafe fn too_many_threads() {}

#[kernel(max_threads = 32, min_blocks = 0)]
pub unsafe fn no_blocks() {}

#[kernel(min_blocks = 2)]
pub unsafe fn blocks_alone() {}

#[kernel(threads = 32)]
pub unsafe fn unknown() {}

#[kernel(max_threads = 32, max_threads = 64)]
pub unsafe fn twice() {}

fn main() {}
