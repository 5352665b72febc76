//! Inputs and our results as files, for `peers.py --check`.

use std::fs;
use std::path::Path;

use serde_json::json;
use warp_softmax::Device;

use crate::Failed;
use crate::args::Settings;
use crate::number::{Number, for_dtype};
use crate::run::Run;
use crate::source::Random;

/// One element, short rows, both sides of where the way of covering a row may change, vocabularies.
const SHAPES: [(usize, usize); 12] = [
    (1, 1),
    (3, 7),
    (17, 32),
    (16, 33),
    (9, 1000),
    (8, 1001),
    (5, 1024),
    (3, 1025),
    (4, 4096),
    (2, 32_768),
    (2, 50_257),
    (1, 131_072),
];

/// What stands in the rows.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// Within (-8, 8).
    Bell,
    /// Within (-96, 96): most results are subnormal or 0.
    Wide,
    /// As `Bell`, every seventh element -inf.
    Masked,
}

impl Content {
    const ALL: [Self; 3] = [Self::Bell, Self::Wide, Self::Masked];

    fn name(self) -> &'static str {
        match self {
            Self::Bell => "bell",
            Self::Wide => "wide",
            Self::Masked => "masked",
        }
    }

    fn element(self, index: usize, random: &mut Random) -> f32 {
        let x = random.sum_of_uniforms();
        match self {
            Self::Bell => x,
            Self::Wide => 12.0 * x,
            Self::Masked if index % 7 == 3 => f32::NEG_INFINITY,
            Self::Masked => x,
        }
    }
}

/// Writes a file for each type, shape and content, with the tensors `x` and `y`.
///
/// # Errors
///
/// Where it cannot start, or something failed on the way.
pub fn run(folder: &Path, settings: &Settings) -> Result<(), Failed> {
    fs::create_dir_all(folder)
        .map_err(|error| Failed::new(format!("{}: {error}", folder.display())))?;
    let mut run = Run::new(
        "exchange",
        settings,
        settings.dtypes.len() * SHAPES.len() * Content::ALL.len(),
    )?;
    let mut files = 0;
    for &dtype in &settings.dtypes {
        for shape in SHAPES {
            for content in Content::ALL {
                let name = format!(
                    "{dtype}-{}x{}-{}.safetensors",
                    shape.0,
                    shape.1,
                    content.name()
                );
                let device = run.device.clone();
                let written = run.step(&name, || {
                    let bytes = for_dtype!(dtype, case(&device, settings, shape, content))?;
                    let path = folder.join(&name);
                    fs::write(&path, bytes)
                        .map_err(|error| Failed::new(format!("{}: {error}", path.display())))
                })?;
                files += usize::from(written.is_some());
            }
        }
    }
    println!("{files} files in {}", folder.display());
    run.finish()
}

/// One file's bytes.
fn case<T: Number>(
    device: &Device,
    settings: &Settings,
    (rows, cols): (usize, usize),
    content: Content,
) -> Result<Vec<u8>, Failed> {
    let mut random = Random(cols as u64);
    let x: Vec<T> = (0..rows * cols)
        .map(|index| T::round(content.element(index, &mut random)))
        .collect();
    let y = settings
        .softmax()
        .forward(&device.tensor_from(&x, [rows, cols])?)?
        .to_vec()?;
    Ok(safetensors(&[("x", &x), ("y", &y)], [rows, cols]))
}

/// Tensors of one shape in the safetensors format: the header's length, the header, the elements.
fn safetensors<T: Number>(tensors: &[(&str, &[T])], shape: [usize; 2]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, elements) in tensors {
        let first = data.len();
        for element in *elements {
            // Little-endian, as the format wants it.
            data.extend_from_slice(&element.bits().to_le_bytes()[..size_of::<T>()]);
        }
        let dtype = T::DTYPE.name().to_uppercase();
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": [first, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let mut header = serde_json::Value::Object(header).to_string();
    // So that the elements are aligned.
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn a_file_is_header_and_elements() {
        let (x, y) = (
            [f16::from_f32(1.0), f16::from_f32(-2.0)],
            [f16::from_f32(0.5), f16::ZERO],
        );
        let file = safetensors(&[("x", &x), ("y", &y)], [1, 2]);
        let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        assert_eq!(length % 8, 0);
        let header: serde_json::Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
        assert_eq!(
            header["x"],
            json!({ "dtype": "F16", "shape": [1, 2], "data_offsets": [0, 4] })
        );
        assert_eq!(header["y"]["data_offsets"], json!([4, 8]));
        assert_eq!(
            file[8 + length..],
            [0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38, 0x00, 0x00]
        );
    }
}
