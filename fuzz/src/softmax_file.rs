//! Those modules of `examples/softmax_file` that read files.

#[path = "../../host/examples/softmax_file/npy.rs"]
pub mod npy;
#[path = "../../host/examples/softmax_file/safetensors_file.rs"]
pub mod safetensors_file;
#[path = "../../host/examples/softmax_file/tensor_file.rs"]
pub mod tensor_file;
