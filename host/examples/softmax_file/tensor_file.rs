//! A tensor in a file of either format.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use warp_softmax::DType;

use super::{npy, safetensors_file};

/// What of a file is meant, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Name of the tensor, where a file has several.
    pub tensor: Option<String>,
    /// Whether 16-bit words of a `.npy` are bf16.
    pub npy_bf16: bool,
}

/// What a file's header says; the file has been checked to be of just that size.
#[derive(Debug)]
pub struct TensorFile {
    /// Type of the elements, little-endian.
    pub dtype: DType,
    /// Extents, outermost first; at least one.
    pub shape: Vec<usize>,
    /// The format, and what it has to keep for the output.
    pub format: Format,
    /// The file, at the tensor's first byte.
    pub data: File,
}

/// A file format.
#[derive(Debug)]
pub enum Format {
    /// NumPy's.
    Npy,
    /// Hugging Face's.
    Safetensors {
        /// The tensor's name.
        name: String,
        /// The file's own notes.
        metadata: Option<HashMap<String, String>>,
    },
}

impl TensorFile {
    /// Opens the tensor of `path` that `selection` means, and reads no more than its header.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read, is no such tensor, or is of another size than its header says.
    pub fn open(path: &Path, selection: &Selection) -> Result<Self> {
        let extension = path
            .extension()
            .map(|extension| extension.to_ascii_lowercase());
        let is_npy = match extension.as_deref().and_then(OsStr::to_str) {
            Some("npy") => true,
            Some("safetensors") => false,
            _ => bail!("is neither a .npy nor a .safetensors file by its name"),
        };
        // Before it is opened: opening a pipe would wait for a writer.
        let about = fs::metadata(path).context("cannot be opened")?;
        ensure!(about.is_file(), "is not a regular file");
        ensure!(about.len() > 0, "is empty: 0 bytes");
        let mut file = File::open(path).context("cannot be opened")?;
        let opened = if is_npy {
            ensure!(
                selection.tensor.is_none(),
                "--tensor is for .safetensors: a .npy holds one array"
            );
            let header = npy::read_header(&mut file, about.len())?;
            Self {
                dtype: header.dtype(selection.npy_bf16)?,
                shape: header.shape,
                format: Format::Npy,
                data: file,
            }
        } else {
            ensure!(
                !selection.npy_bf16,
                "--npy-bf16 is for .npy: .safetensors has a bf16 of its own"
            );
            let name = selection.tensor.as_deref();
            let header = safetensors_file::read_header(&mut file, about.len(), name)?;
            file.seek(SeekFrom::Start(header.data_at))?;
            Self {
                dtype: header.dtype,
                shape: header.shape,
                format: Format::Safetensors {
                    name: header.name,
                    metadata: header.metadata,
                },
                data: file,
            }
        };
        ensure!(
            !opened.shape.is_empty(),
            "holds a single number: softmax needs at least one axis"
        );
        Ok(opened)
    }
}

impl Format {
    /// All that stands before the data in a file of one tensor.
    pub fn header(&self, dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
        match self {
            Self::Npy => Ok(npy::header(dtype, shape)),
            Self::Safetensors { name, metadata } => {
                safetensors_file::header(name, metadata, dtype, shape)
            }
        }
    }
}

/// Bytes of a tensor, if a machine can count them.
pub fn data_bytes(dtype: DType, shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(dtype.size_bytes(), |bytes, &extent| {
        bytes.checked_mul(extent)
    })
}
