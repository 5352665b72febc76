use cuda_std::kernel;

#[kernel]
pub const unsafe fn constant() {}

#[kernel]
pub async unsafe fn asynchronous() {}

#[kernel]
pub unsafe extern "C" fn foreign() {}

fn main() {}
