//! NumPy's `.npy`: a header that is a Python dictionary, then the elements.
//!
//! The format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};
use warp_softmax::DType;

use super::tensor_file::data_bytes;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longest dictionary that is read; one of [`MAX_DIMS`] dimensions has far less.
const MAX_DICTIONARY_BYTES: usize = 65_535;

/// Most dimensions of a NumPy array.
const MAX_DIMS: usize = 64;

/// A checked header.
#[derive(Debug, PartialEq)]
pub struct Header {
    /// NumPy's name of the element type, `<f4` for instance.
    descr: String,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Bytes of the elements, by the size of the file.
    data_bytes: u64,
}

/// Reads the header, and leaves `file`, of `file_bytes` bytes in all, at the first element.
///
/// # Errors
///
/// Where it is no `.npy` file in C order.
pub fn read_header(file: &mut impl Read, file_bytes: u64) -> Result<Header> {
    let mut start = [0; 8];
    read(file, &mut start)?;
    let (magic, version) = start.split_at(MAGIC.len());
    ensure!(
        magic == MAGIC,
        "is not a .npy file: it does not begin with \\x93NUMPY"
    );
    let (length, length_bytes) = match version {
        [1, _] => {
            let mut length = [0; 2];
            read(file, &mut length)?;
            (u16::from_le_bytes(length).into(), length.len())
        }
        [2 | 3, _] => {
            let mut length = [0; 4];
            read(file, &mut length)?;
            (u32::from_le_bytes(length) as usize, length.len())
        }
        _ => bail!(
            "is .npy of version {}.{}; known are 1, 2 and 3",
            version[0],
            version[1]
        ),
    };
    ensure!(
        length <= MAX_DICTIONARY_BYTES,
        "claims a header of {length} bytes; at most {MAX_DICTIONARY_BYTES} are read"
    );
    let mut dictionary = vec![0; length];
    read(file, &mut dictionary)?;
    let dictionary = str::from_utf8(&dictionary).context("has a header that is not text")?;
    let (descr, fortran_order, shape) = Dictionary::parse(dictionary).with_context(|| {
        format!(
            "has a header that cannot be understood: {}",
            dictionary.trim_end()
        )
    })?;
    ensure!(
        !fortran_order,
        "is in Fortran order, column after column; save numpy.ascontiguousarray(a) instead"
    );
    let header_bytes = (start.len() + length_bytes + length) as u64;
    Ok(Header {
        descr,
        shape,
        data_bytes: file_bytes.saturating_sub(header_bytes),
    })
}

fn read(file: &mut impl Read, buffer: &mut [u8]) -> Result<()> {
    file.read_exact(buffer).context("ends inside its header")
}

impl Header {
    /// The elements' type; `bf16` says that 16-bit words are that.
    ///
    /// # Errors
    ///
    /// Where the type is not one of f32, f16 and bf16, little-endian, or the file's size does not fit it.
    pub fn dtype(&self, bf16: bool) -> Result<DType> {
        let descr = self.descr.as_str();
        let dtype = match (descr, bf16) {
            ("<f4", false) => DType::F32,
            ("<f2", false) => DType::F16,
            ("<u2" | "|V2" | "<V2", true) => DType::BF16,
            ("<u2" | "|V2" | "<V2", false) => {
                bail!("holds 16-bit words ('{descr}'); if they are bf16, say --npy-bf16")
            }
            (_, true) => bail!("holds '{descr}'; --npy-bf16 is for 16-bit words, '<u2' or '|V2'"),
            (">f4" | ">f2", false) => {
                bail!(
                    "is big-endian ('{descr}'); save a.astype('<{}') instead",
                    &descr[1..]
                )
            }
            _ => bail!(
                "holds '{descr}'; allowed are '<f4' (f32), '<f2' (f16) and, with --npy-bf16, bf16"
            ),
        };
        let shape = &self.shape;
        let Some(expected) = data_bytes(dtype, shape) else {
            bail!("claims the shape {shape:?}, more elements than any machine can hold");
        };
        ensure!(
            self.data_bytes == expected as u64,
            "{}: its header says {dtype} {shape:?}, which is {expected} bytes, but {} follow",
            if self.data_bytes < expected as u64 {
                "is truncated"
            } else {
                "is too long"
            },
            self.data_bytes
        );
        Ok(dtype)
    }
}

/// All that stands before the elements of an array in C order, of at most [`MAX_DIMS`] dimensions.
/// bf16 is written as its bits, `<u2`.
pub fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let descr = match dtype {
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::BF16 => "<u2",
    };
    let mut extents = String::new();
    for extent in shape {
        extents += &format!("{extent}, ");
    }
    // Python's tuple of one has a comma at its end; so may have any other.
    let extents = extents.trim_end();
    let mut dictionary =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    // The elements start at a multiple of 64 bytes, after a line's end.
    while !(MAGIC.len() + 4 + dictionary.len() + 1).is_multiple_of(64) {
        dictionary.push(' ');
    }
    dictionary.push('\n');
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend((dictionary.len() as u16).to_le_bytes());
    header.extend(dictionary.bytes());
    header
}

/// What is left to read of a header's dictionary: just the Python that NumPy writes.
struct Dictionary<'a> {
    rest: &'a str,
}

impl Dictionary<'_> {
    /// `(descr, fortran_order, shape)`.
    fn parse(text: &str) -> Result<(String, bool, Vec<usize>)> {
        let mut text = Dictionary { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect("{")?;
        while !text.accept("}") {
            let key = text.string()?;
            text.expect(":")?;
            match key {
                "descr" if text.rest.trim_start().starts_with('[') => {
                    bail!("records are not supported, only plain numbers")
                }
                "descr" => descr = Some(text.string()?.to_owned()),
                "fortran_order" => fortran_order = Some(text.boolean()?),
                "shape" => shape = Some(text.tuple()?),
                _ => bail!("unknown key '{key}'"),
            }
            if !text.accept(",") {
                text.expect("}")?;
                break;
            }
        }
        ensure!(
            text.rest.trim().is_empty(),
            "something follows the dictionary"
        );
        Ok((
            descr.context("no 'descr'")?,
            fortran_order.context("no 'fortran_order'")?,
            shape.context("no 'shape'")?,
        ))
    }

    /// Steps over `token`, if it comes next.
    fn accept(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        ensure!(self.accept(token), "`{token}` is missing");
        Ok(())
    }
}

impl<'a> Dictionary<'a> {
    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.accept("'") {
            '\''
        } else {
            self.expect("\"").context("a string was expected")?;
            '"'
        };
        let (string, rest) = self
            .rest
            .split_once(quote)
            .context("a string does not end")?;
        self.rest = rest;
        Ok(string)
    }

    fn boolean(&mut self) -> Result<bool> {
        if self.accept("True") {
            return Ok(true);
        }
        ensure!(self.accept("False"), "True or False was expected");
        Ok(false)
    }

    fn tuple(&mut self) -> Result<Vec<usize>> {
        let mut extents = Vec::new();
        self.expect("(")?;
        while !self.accept(")") {
            let rest = self.rest.trim_start();
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, rest) = rest.split_at(digits);
            ensure!(
                !number.is_empty(),
                "whole numbers were expected in the shape"
            );
            let extent = number
                .parse()
                .with_context(|| format!("an extent of `{number}`"))?;
            ensure!(extents.len() < MAX_DIMS, "more than {MAX_DIMS} dimensions");
            extents.push(extent);
            self.rest = rest;
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version 1 file with this dictionary, followed by `data_bytes` zeros.
    fn file(dictionary: &str, data_bytes: usize) -> Vec<u8> {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((dictionary.len() as u16).to_le_bytes());
        file.extend(dictionary.bytes());
        file.resize(file.len() + data_bytes, 0);
        file
    }

    fn open(mut bytes: &[u8], bf16: bool) -> Result<(DType, Vec<usize>)> {
        let file_bytes = bytes.len() as u64;
        let header = read_header(&mut bytes, file_bytes)?;
        Ok((header.dtype(bf16)?, header.shape))
    }

    fn error(dictionary: &str, data_bytes: usize) -> String {
        format!(
            "{:#}",
            open(&file(dictionary, data_bytes), false).unwrap_err()
        )
    }

    #[test]
    fn a_header_reads_back_as_it_was_written() {
        for (dtype, bf16) in [
            (DType::F32, false),
            (DType::F16, false),
            (DType::BF16, true),
        ] {
            for shape in [
                &[][..],
                &[0],
                &[7],
                &[2, 3],
                &[1; MAX_DIMS],
                &[3, 0, usize::MAX],
            ] {
                let mut bytes = header(dtype, shape);
                assert_eq!(bytes.len() % 64, 0, "NumPy aligns the elements");
                let Some(data_bytes) = data_bytes(dtype, shape) else {
                    panic!("{shape:?}")
                };
                bytes.resize(bytes.len() + data_bytes, 0);
                assert_eq!(open(&bytes, bf16).unwrap(), (dtype, shape.to_vec()));
            }
        }
    }

    #[test]
    fn headers_of_other_writers_are_understood() {
        let tight = "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}";
        assert_eq!(
            open(&file(tight, 24), false).unwrap(),
            (DType::F32, vec![2, 3])
        );
        let mut version_2 = b"\x93NUMPY\x02\x00".to_vec();
        version_2.extend((tight.len() as u32).to_le_bytes());
        version_2.extend(tight.bytes());
        version_2.resize(version_2.len() + 24, 0);
        assert_eq!(open(&version_2, false).unwrap(), (DType::F32, vec![2, 3]));
        let words = "{'descr': '|V2', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(open(&file(words, 6), true).unwrap(), (DType::BF16, vec![3]));
    }

    #[test]
    fn errors_say_what_was_found_and_what_is_allowed() {
        let with = |descr: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")
        };
        for (dictionary, bytes, expected) in [
            (with("'<f8'", "(2,)"), 16, "holds '<f8'; allowed are '<f4'"),
            (
                with("'>f4'", "(2,)"),
                8,
                "is big-endian ('>f4'); save a.astype('<f4')",
            ),
            (with("'<u2'", "(2,)"), 4, "say --npy-bf16"),
            (with("'|V2'", "(2,)"), 4, "say --npy-bf16"),
            (
                with("[('a', '<f4')]", "(2,)"),
                8,
                "records are not supported",
            ),
            (
                with("'<f4'", "(2, 3)"),
                23,
                "is truncated: its header says f32 [2, 3], which is 24 bytes, but 23 follow",
            ),
            (with("'<f4'", "(2, 3)"), 25, "is too long"),
            (
                with("'<f4'", "(99999999999, 99999999999)"),
                8,
                "more elements than any machine can hold",
            ),
            (
                with("'<f4'", "(99999999999999999999,)"),
                8,
                "an extent of `99999999999999999999`",
            ),
            (
                with("'<f4'", "(-1,)"),
                8,
                "whole numbers were expected in the shape",
            ),
            (
                with("'<f4'", &format!("({})", "1,".repeat(MAX_DIMS + 1))),
                4,
                "more than 64 dimensions",
            ),
            (with("'<f4'", "(2 3)"), 8, "`)` is missing"),
            (
                "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }".into(),
                16,
                "ascontiguousarray",
            ),
            (
                "{'descr': '<f4', 'shape': (2, 2), }".into(),
                16,
                "no 'fortran_order'",
            ),
            ("{'descr': '<f4".into(), 16, "a string does not end"),
            ("".into(), 16, "`{` is missing"),
        ] {
            let error = error(&dictionary, bytes);
            assert!(error.contains(expected), "{dictionary}: {error}");
        }
        let words = file(&with("'<f4'", "(2,)"), 8);
        assert!(
            format!("{:#}", open(&words, true).unwrap_err())
                .contains("--npy-bf16 is for 16-bit words")
        );
    }

    #[test]
    fn a_lying_length_allocates_nothing() {
        let claims = |length: u32| {
            let mut file = b"\x93NUMPY\x02\x00".to_vec();
            file.extend(length.to_le_bytes());
            format!("{:#}", open(&file, false).unwrap_err())
        };
        assert!(claims(u32::MAX).contains("claims a header of 4294967295 bytes"));
        assert!(claims(MAX_DICTIONARY_BYTES as u32).contains("ends inside its header"));
    }

    /// Cut anywhere, or with any byte replaced, a file gives an error or a tensor of just its size.
    #[test]
    fn damaged_headers_do_not_panic() {
        let mut whole = header(DType::F32, &[2, 3]);
        whole.resize(whole.len() + 24, 0);
        for cut in 0..whole.len() {
            assert!(open(&whole[..cut], false).is_err(), "cut to {cut} bytes");
        }
        for at in 0..whole.len() - 24 {
            for byte in 0..=u8::MAX {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                if let Ok((dtype, shape)) = open(&damaged, false) {
                    assert_eq!((dtype, data_bytes(dtype, &shape)), (DType::F32, Some(24)));
                }
            }
        }
    }
}
