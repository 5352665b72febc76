use cuda_std::kernel;

#[kernel]
pub unsafe fn generic_type<T>(_x: *const T) {}

#[kernel]
pub unsafe fn generic_const<const N: usize>() {}

#[kernel]
pub unsafe fn generic_lifetime<'a>(_x: &'a f32) {}

fn main() {}
