//! Hugging Face's `.safetensors`: the length of a JSON header, the header, the tensors.

use std::collections::HashMap;
use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use warp_softmax::DType;

use super::tensor_file::data_bytes;

/// Longest header that the format allows.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Most tensors that an error message names.
const NAMES_SHOWN: usize = 12;

/// What a checked header says of one tensor.
#[derive(Debug)]
pub struct Header {
    /// Type of the elements, little-endian.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// The tensor's name.
    pub name: String,
    /// The file's own notes.
    pub metadata: Option<HashMap<String, String>>,
    /// Bytes of the file before the tensor's first.
    pub data_at: u64,
}

/// Reads the header of a file of `file_bytes` bytes in all, for the tensor called `name`, or the only one.
///
/// # Errors
///
/// Where the file is damaged, has no such tensor, or one of another type than f32, f16 and bf16.
pub fn read_header(file: &mut impl Read, file_bytes: u64, name: Option<&str>) -> Result<Header> {
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .context("ends inside its header")?;
    let header_bytes = u64::from_le_bytes(length);
    let after_length = file_bytes.saturating_sub(length.len() as u64);
    ensure!(
        header_bytes <= MAX_HEADER_BYTES.min(after_length),
        "claims a header of {header_bytes} bytes, and {after_length} follow (at most {MAX_HEADER_BYTES} are allowed): \
         truncated, or not a .safetensors file"
    );
    let mut header = vec![0; header_bytes as usize];
    file.read_exact(&mut header)?;
    // Checks that every tensor's bytes agree with its shape and type, and that they adjoin.
    let header: Metadata =
        serde_json::from_slice(&header).context("has a header that cannot be understood")?;
    let (said, found) = (header.data_len() as u64, after_length - header_bytes);
    ensure!(
        said == found,
        "{}: its header says {said} bytes of tensors, but {found} follow",
        if found < said {
            "is truncated"
        } else {
            "is too long"
        }
    );

    let name = select(&header, name)?;
    let info = header
        .info(&name)
        .context("has a header without that tensor")?;
    let dtype = match info.dtype {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        other => bail!("tensor `{name}` is {other}; allowed are F32, F16 and BF16"),
    };
    Ok(Header {
        dtype,
        shape: info.shape.clone(),
        name,
        metadata: header.metadata().clone(),
        data_at: length.len() as u64 + header_bytes + info.data_offsets.0 as u64,
    })
}

/// The name of the tensor that is meant.
fn select(header: &Metadata, name: Option<&str>) -> Result<String> {
    let names = header.offset_keys();
    let list = || {
        let more = names.len().saturating_sub(NAMES_SHOWN);
        let shown = names[..names.len() - more].join(", ");
        if more == 0 {
            shown
        } else {
            format!("{shown} and {more} more")
        }
    };
    match (name, names.as_slice()) {
        (_, []) => bail!("holds no tensor"),
        (None, [only]) => Ok(only.clone()),
        (None, _) => bail!(
            "holds several tensors; choose with --tensor NAME: {}",
            list()
        ),
        (Some(name), _) if names.iter().any(|other| other == name) => Ok(name.to_owned()),
        (Some(name), _) => bail!("holds no tensor `{name}`; it has {}", list()),
    }
}

/// All that stands before the data of a file with one tensor.
///
/// # Errors
///
/// Where the tensor has more bytes than can be counted.
pub fn header(
    name: &str,
    metadata: &Option<HashMap<String, String>>,
    dtype: DType,
    shape: &[usize],
) -> Result<Vec<u8>> {
    let info = TensorInfo {
        dtype: match dtype {
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
        },
        shape: shape.to_vec(),
        data_offsets: (
            0,
            data_bytes(dtype, shape).context("the result has too many elements")?,
        ),
    };
    let metadata = Metadata::new(metadata.clone(), vec![(name.to_owned(), info)])?;
    let mut json = serde_json::to_vec(&metadata)?;
    // The format's writers align the data to 8 bytes, with spaces.
    json.resize(json.len().next_multiple_of(8), b' ');
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.extend(json);
    Ok(header)
}
