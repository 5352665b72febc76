use cuda_std::kernel;

#[kernel]
pub fn safe(_x: *const f32) {}

fn main() {}
