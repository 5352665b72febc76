use cuda_std::kernel;

struct Softmax;

impl Softmax {
    #[kernel]
    pub unsafe fn method(&self, _x: *const f32) {}
}

fn main() {}
