use cuda_std::kernel;

#[kernel]
pub struct NotAFunction;

fn main() {}
