//! Finished PTX: its recorded hash, its entries, and what they do not share.
//!
//! A finished module is a header (comments, directives, declarations, functions that are not entries)
//! followed by the entries. So the header and any one entry are a module of their own.

use std::fmt::Write as _;
use std::ops::Range;

use crate::BuildError;
use crate::arch::NvptxArch;

pub(crate) const HASH_COMMENT: &str = "// source-hash: ";

/// A kernel in the text of a finished module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The symbol.
    pub name: &'a str,
    /// Its bytes in the text. Everything before the first entry is the header.
    pub range: Range<usize>,
}

/// The source hash in the header of a finished module.
pub fn recorded_hash(text: &str) -> Option<&str> {
    text.lines()
        .take_while(|line| line.starts_with("//"))
        .find_map(|line| line.strip_prefix(HASH_COMMENT))
}

/// The entries of a finished module, in the order of the text.
///
/// # Errors
///
/// [`BuildError::MalformedPtx`] if an entry has no end or is followed by anything but an entry.
pub fn entries(text: &str) -> Result<Vec<Entry<'_>>, BuildError> {
    let mut entries = Vec::new();
    let mut open: Option<(&str, usize, Body)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if let Some((name, start, mut body)) = open.take() {
            if body.ends_with(line) {
                let range = start..at;
                entries.push(Entry { name, range });
            } else {
                open = Some((name, start, body));
            }
        } else if let Some(name) = entry_name(line) {
            open = Some((name, start, Body::default()));
        } else if !entries.is_empty() && !line.trim().is_empty() {
            let reason = format!("`{}` follows an entry", line.trim());
            return Err(BuildError::MalformedPtx { reason });
        }
    }
    match open {
        None => Ok(entries),
        Some((name, ..)) => Err(BuildError::MalformedPtx {
            reason: format!("the entry `{name}` has no end"),
        }),
    }
}

/// A finished module, or its cubins, as a program holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The pieces, each deflated (RFC 1951) by itself: of PTX, which is then a fifth of its size, the header and every
    /// entry.
    pub bytes: Vec<u8>,
    /// Rust source that includes the bytes and says where in them the pieces are.
    pub source: String,
}

/// Makes what embeds a finished module.
///
/// For sm_80 and `file`, the path of [`Embedded::bytes`] from the generated source, that source declares `SM_80: &[u8]`,
/// the bytes, and `SM_80_ENTRIES: &[(&str, usize, usize)]`: name, start and end of every entry in them.
/// `SM_80[..SM_80_ENTRIES[0].1]` is the header that each entry needs before it.
///
/// # Errors
///
/// As [`entries`].
pub fn embed(arch: NvptxArch, file: &str, text: &str) -> Result<Embedded, BuildError> {
    let entries = entries(text)?;
    let header_end = entries
        .first()
        .map_or(text.len(), |entry| entry.range.start);
    let mut bytes = deflate(&text[..header_end]);
    let mut pieces = Vec::new();
    for Entry { name, range } in entries {
        let start = bytes.len();
        bytes.extend(deflate(&text[range]));
        let range = start..bytes.len();
        pieces.push(Entry { name, range });
    }
    let name = arch.target_cpu().to_uppercase();
    let what = format!("PTX for {arch} and later, deflated: a header, then the entries");
    let source = declare(&name, &what, file, &pieces);
    Ok(Embedded { bytes, source })
}

/// Rust source that includes `file` under a name, and says where in it the entries are.
pub(crate) fn declare(name: &str, what: &str, file: &str, entries: &[Entry<'_>]) -> String {
    let mut source = format!(
        "/// {what}.\n\
         pub static {name}: &[u8] = include_bytes!({file:?});\n\n\
         /// Name, start and end of every entry in [`{name}`].\n\
         pub static {name}_ENTRIES: &[(&str, usize, usize)] = &[\n"
    );
    for Entry { name, range } in entries {
        let _ = writeln!(source, "    ({name:?}, {}, {}),", range.start, range.end);
    }
    source += "];\n\n";
    source
}

fn deflate(text: &str) -> Vec<u8> {
    // Higher levels save a tenth in twice the time, and cargo does not optimise build scripts.
    const LEVEL: u8 = 2;
    miniz_oxide::deflate::compress_to_vec(text.as_bytes(), LEVEL)
}

/// How deep in the braces of a function's body a line stands. Inline assembly opens braces of its own.
#[derive(Default)]
pub(crate) struct Body {
    depth: usize,
}

impl Body {
    /// Goes on by a line; true if it closes the body.
    pub(crate) fn ends_with(&mut self, line: &str) -> bool {
        let before = self.depth + line.matches('{').count();
        self.depth = before.saturating_sub(line.matches('}').count());
        before > 0 && self.depth == 0
    }

    pub(crate) fn is_open(&self) -> bool {
        self.depth > 0
    }
}

/// The symbol that a line declares as an entry.
pub(crate) fn entry_name(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix('.')?.split_once(".entry ")?;
    identifiers(rest).next()
}

/// The identifiers in `text`, in order.
pub(crate) fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%')))
        .filter(|word| word.starts_with(|c: char| !c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
// Made by a test.
// source-hash: 00ff
.version 7.0
.target sm_80
.address_size 64

.visible .entry first(
	.param .u32 first_param_0
)
{
	ret;
}

.visible .entry second()
{
	ret;
}
";

    #[test]
    fn header_and_entries_make_up_the_whole_text() {
        let entries = entries(MODULE).unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["first", "second"]);
        let header = &MODULE[..entries[0].range.start];
        assert!(header.ends_with(".address_size 64\n\n"), "{header}");
        let cut: Vec<_> = entries.iter().map(|e| &MODULE[e.range.clone()]).collect();
        assert_eq!(format!("{header}{}\n{}", cut[0], cut[1]), MODULE);
    }

    #[test]
    fn the_hash_is_read_from_the_header_only() {
        assert_eq!(recorded_hash(MODULE), Some("00ff"));
        assert_eq!(recorded_hash(&MODULE.replace('\n', "\r\n")), Some("00ff"));
        assert_eq!(recorded_hash(".version 7.0\n// source-hash: 00ff\n"), None);
    }

    #[test]
    fn an_entry_without_an_end_and_text_after_an_entry_are_refused() {
        let cut_off = MODULE.strip_suffix("}\n").unwrap();
        let error = entries(cut_off).unwrap_err().to_string();
        assert!(error.contains("`second` has no end"), "{error}");
        let error = entries(&format!("{MODULE}.global .b8 late[4];\n")).unwrap_err();
        assert!(error.to_string().contains("late"), "{error}");
    }

    #[test]
    fn what_is_embedded_comes_back() {
        let embedded = embed(NvptxArch::Compute80, "kernels.sm_80", MODULE).unwrap();
        let line = |name: &str| {
            let start = format!("    ({name:?}, ");
            let mut lines = embedded.source.lines();
            let numbers = lines.find_map(|line| line.strip_prefix(&start)).unwrap();
            let (start, end) = numbers
                .strip_suffix("),")
                .unwrap()
                .split_once(", ")
                .unwrap();
            start.parse::<usize>().unwrap()..end.parse::<usize>().unwrap()
        };
        let (first, second) = (line("first"), line("second"));
        assert_eq!(
            (first.end, second.end),
            (second.start, embedded.bytes.len())
        );
        let inflate = |piece: &[u8]| {
            let text = miniz_oxide::inflate::decompress_to_vec(piece).unwrap();
            String::from_utf8(text).unwrap()
        };
        let [header, first, second] =
            [0..first.start, first, second].map(|range| inflate(&embedded.bytes[range]));
        assert_eq!(format!("{header}{first}\n{second}"), MODULE);
        for line in [
            "pub static SM_80: &[u8] = include_bytes!(\"kernels.sm_80\");",
            "pub static SM_80_ENTRIES: &[(&str, usize, usize)] = &[",
        ] {
            let source = &embedded.source;
            assert!(
                source.lines().any(|found| found == line),
                "no `{line}` in\n{source}"
            );
        }
    }
}
