use cuda_std::kernel;

#[kernel]
pub unsafe fn owned(_x: *const f32, _values: Vec<f32>) {}

#[derive(Clone)]
pub struct Options;

#[kernel]
pub unsafe fn not_copy(_options: Options) {}

fn main() {}
