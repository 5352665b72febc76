//! The readers of files that the examples have.

use npy_and_safetensors::tensor_file::data_bytes;
use npy_and_safetensors::{npy as npy_file, safetensors_file};

#[allow(dead_code, reason = "files are opened by the program itself")]
#[path = "softmax_file.rs"]
mod npy_and_safetensors;

#[path = "../../host/examples/attention_weights/model.rs"]
mod model_file;

/// A `.npy`: an error, or a header that what follows has the size of, and that reads back as it is written.
pub fn npy(data: &[u8]) {
    let mut rest = data;
    let Ok(header) = npy_file::read_header(&mut rest, data.len() as u64) else {
        return;
    };
    for bf16 in [false, true] {
        let Ok(dtype) = header.dtype(bf16) else {
            continue;
        };
        let shape = &header.shape;
        assert_eq!(
            Some(rest.len()),
            data_bytes(dtype, shape),
            "{dtype} {shape:?}"
        );
        let written = npy_file::header(dtype, shape);
        let file_bytes = (written.len() + rest.len()) as u64;
        let again =
            npy_file::read_header(&mut &written[..], file_bytes).expect("it was written here");
        assert_eq!(&again.shape, shape);
        assert_eq!(again.dtype(bf16).expect("it was written here"), dtype);
    }
}

/// A `.safetensors`: an error, or a header whose tensor lies in the file, and that reads back as it is written.
pub fn safetensors(data: &[u8]) {
    for name in [None, Some("a")] {
        let Ok(header) = safetensors_file::read_header(&mut &data[..], data.len() as u64, name)
        else {
            continue;
        };
        let (dtype, shape) = (header.dtype, &header.shape);
        let bytes = data_bytes(dtype, shape).expect("the file has as many");
        let end = header
            .data_at
            .checked_add(bytes as u64)
            .expect("an offset in the file");
        assert!(end <= data.len() as u64, "{shape:?} at {}", header.data_at);
        let written = safetensors_file::header(&header.name, &header.metadata, dtype, shape);
        let written = written.expect("what was read can be written");
        let file_bytes = (written.len() + bytes) as u64;
        let again =
            safetensors_file::read_header(&mut &written[..], file_bytes, Some(&header.name));
        let again = again.expect("it was written here");
        assert_eq!(
            (again.dtype, &again.shape, &again.metadata),
            (dtype, shape, &header.metadata)
        );
    }
}

/// The scores of a model: an error, or as many numbers as it says.
pub fn model(data: &[u8]) {
    if let Ok(model) = model_file::Model::read(data) {
        let [sentences, heads, tokens] = model.extents;
        let weights = sentences * heads * tokens * tokens;
        assert!(weights > 0 && !model.scale.to_string().is_empty());
        assert_eq!(
            (model.scores.len(), model.weights.len()),
            (weights, weights)
        );
        assert_eq!(model.keep.len(), sentences * tokens);
    }
}
