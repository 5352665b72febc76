use cuda_std::kernel;

#[kernel]
pub unsafe fn returns(_x: *const f32) -> f32 {
    0.0
}

fn main() {}
