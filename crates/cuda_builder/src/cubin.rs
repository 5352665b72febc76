//! Cubins: the entries of a finished module as machine code, which a GPU of the architecture runs without the driver's
//! compiler.
//!
//! A file of them, as it is committed beside the PTX, has a text and what that says:
//!
//! ```text
//! // Made by .. Do not edit.
//! // ptxas 13.0.88, sm_90
//! // source-hash: 00ff          the PTX's
//! softmax 1234                  an entry, and so many bytes: its cubin, deflated (RFC 1951)
//! log_softmax 567
//!                               an empty line; then the bytes, entry by entry
//! ```

use std::str;

use crate::BuildError;
use crate::arch::NvptxArch;
use crate::ptx::{self, Embedded, Entry, HASH_COMMENT};

/// A file of the cubins that `ptxas`, a release of it, made of a finished module's entries.
///
/// # Panics
///
/// Where the module has no hash.
pub fn file(arch: NvptxArch, ptx: &str, ptxas: &str, cubins: &[(&str, Vec<u8>)]) -> Vec<u8> {
    // The smallest: it is done once.
    const LEVEL: u8 = 10;
    let source_hash = ptx::recorded_hash(ptx).expect("a finished module has a hash");
    let mut text = format!(
        "// Made by ptxas from the PTX beside it. Do not edit.\n\
         // ptxas {ptxas}, {arch}\n\
         {HASH_COMMENT}{source_hash}\n"
    );
    let mut bytes = Vec::new();
    for (name, cubin) in cubins {
        let deflated = miniz_oxide::deflate::compress_to_vec(cubin, LEVEL);
        text += &format!("{name} {}\n", deflated.len());
        bytes.extend(deflated);
    }
    text.push('\n');
    [text.into_bytes(), bytes].concat()
}

/// Makes what embeds a committed file, or nothing where there is none, or one of another module than `ptx`.
///
/// For sm_90 and `file`, the path of [`Embedded::bytes`] from the generated source, that source declares
/// `SM_90_CUBINS: &[u8]`, the bytes, and `SM_90_CUBINS_ENTRIES: &[(&str, usize, usize)]`: name, start and end of every
/// entry's cubin in them.
///
/// # Errors
///
/// [`BuildError::MalformedCubins`] where the file is damaged.
pub fn embed(
    arch: NvptxArch,
    file: &str,
    committed: Option<&[u8]>,
    ptx: &str,
) -> Result<Embedded, BuildError> {
    let (mut entries, mut bytes) = (Vec::new(), &[][..]);
    if let Some(committed) = committed {
        let (text, rest) = split(committed)?;
        if ptx::recorded_hash(text) == ptx::recorded_hash(ptx) {
            (entries, bytes) = (read(text, rest)?, rest);
        }
    }
    let name = format!("{}_CUBINS", arch.target_cpu().to_uppercase());
    let what = format!("Cubins for {arch}, each deflated");
    Ok(Embedded {
        bytes: bytes.to_owned(),
        source: ptx::declare(&name, &what, file, &entries),
    })
}

/// The text of a file, and the bytes.
fn split(file: &[u8]) -> Result<(&str, &[u8]), BuildError> {
    let end = file.windows(2).position(|pair| pair == b"\n\n");
    let end = end.ok_or_else(|| malformed("there is no empty line"))?;
    let text = str::from_utf8(&file[..=end]).map_err(|_| malformed("its head is no text"))?;
    Ok((text, &file[end + 2..]))
}

/// The entries that a file's text names, and where in the bytes their cubins are.
fn read<'a>(text: &'a str, bytes: &[u8]) -> Result<Vec<Entry<'a>>, BuildError> {
    let mut entries = Vec::new();
    let mut end = 0_usize;
    for line in text.lines().filter(|line| !line.starts_with("//")) {
        let (name, size) = line
            .split_once(' ')
            .and_then(|(name, size)| Some((name, size.parse::<usize>().ok()?)))
            .ok_or_else(|| malformed(format!("`{line}` is no name and number")))?;
        let start = end;
        end = start.saturating_add(size);
        let range = start..end;
        entries.push(Entry { name, range });
    }
    if end != bytes.len() {
        return Err(malformed(format!(
            "{end} bytes of cubins are {}",
            bytes.len()
        )));
    }
    Ok(entries)
}

fn malformed(reason: impl Into<String>) -> BuildError {
    BuildError::MalformedCubins {
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "// source-hash: 00ff\n.version 8.1\n";

    fn committed() -> Vec<u8> {
        // As it is in machine code, an empty line may be anywhere in the bytes.
        let cubins = [("first", b"1\n\n".repeat(20)), ("second", vec![2; 99])];
        file(NvptxArch::Compute90, PTX, "13.0.88", &cubins)
    }

    fn embedded(committed: Option<&[u8]>, ptx: &str) -> Result<Embedded, BuildError> {
        embed(NvptxArch::Compute90, "softmax.cubins", committed, ptx)
    }

    #[test]
    fn what_a_file_holds_comes_back() {
        let file = committed();
        let text = String::from_utf8_lossy(&file);
        let lines: Vec<_> = text.lines().take(3).collect();
        assert_eq!(
            lines[1..],
            ["// ptxas 13.0.88, sm_90", "// source-hash: 00ff"]
        );
        let Embedded { bytes, source } = embedded(Some(&file), PTX).unwrap();
        let ends: Vec<usize> = ["first", "second"]
            .iter()
            .map(|name| {
                let start = format!("    ({name:?}, ");
                let line = source.lines().find_map(|line| line.strip_prefix(&start));
                let (_, end) = line.unwrap().split_once(", ").unwrap();
                end.strip_suffix("),").unwrap().parse().unwrap()
            })
            .collect();
        assert_eq!(ends[1], bytes.len());
        let inflate = |piece: &[u8]| miniz_oxide::inflate::decompress_to_vec(piece).unwrap();
        assert_eq!(inflate(&bytes[..ends[0]]), b"1\n\n".repeat(20));
        assert_eq!(inflate(&bytes[ends[0]..]), [2; 99]);
        for line in [
            "pub static SM_90_CUBINS: &[u8] = include_bytes!(\"softmax.cubins\");",
            "pub static SM_90_CUBINS_ENTRIES: &[(&str, usize, usize)] = &[",
        ] {
            assert!(source.lines().any(|found| found == line), "{source}");
        }
    }

    #[test]
    fn cubins_of_other_ptx_are_left_out_and_so_are_none() {
        let none = embedded(None, PTX).unwrap();
        assert!(none.bytes.is_empty());
        assert!(!none.source.contains("first"), "{}", none.source);
        let other = PTX.replace("00ff", "00fe");
        assert_eq!(embedded(Some(&committed()), &other).unwrap(), none);
        assert_ne!(embedded(Some(&committed()), PTX).unwrap(), none);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let whole = committed();
        let refused = |damaged: &[u8]| embedded(Some(damaged), PTX).unwrap_err().to_string();
        assert!(refused(&whole[..whole.len() - 1]).contains("bytes of cubins"));
        assert!(refused(&[&whole[..], b"\0"].concat()).contains("bytes of cubins"));
        assert!(refused(b"").contains("no empty line"));
        let text = String::from_utf8_lossy(&whole).into_owned();
        assert!(refused(text.replacen("first ", "first", 1).as_bytes()).contains("`first"));
    }
}
