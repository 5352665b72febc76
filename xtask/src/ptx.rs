//! `cargo xtask ptx`: the committed PTX.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use cuda_builder::{CudaBuilder, NvptxArch, ptx};

use crate::{Error, workspace};

/// The committed file for an architecture.
pub fn committed_path(arch: NvptxArch) -> PathBuf {
    workspace().join(format!("host/ptx/softmax.{arch}.ptx"))
}

/// Compiles the kernels and writes the committed files.
pub fn refresh() -> Result<(), Error> {
    for arch in NvptxArch::ALL {
        let path = committed_path(arch);
        let old = fs::read_to_string(&path).unwrap_or_default();
        let new = compile(arch)?;
        fs::create_dir_all(path.parent().expect("the path has a folder"))?;
        fs::write(&path, &new)?;
        println!("{}: {}", path.display(), difference(&old, &new)?);
    }
    Ok(())
}

/// Compiles the kernels and compares with the committed files, to the byte.
pub fn check() -> Result<(), Error> {
    let mut differs = false;
    for arch in NvptxArch::ALL {
        let path = committed_path(arch);
        let committed = fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}; `cargo xtask ptx` makes it", path.display()))?;
        let compiled = compile(arch)?;
        differs |= compiled != committed;
        println!("{}: {}", path.display(), difference(&committed, &compiled)?);
    }
    if differs {
        return Err(
            "the committed PTX is not what the sources give: run `cargo xtask ptx` and commit"
                .into(),
        );
    }
    Ok(())
}

fn compile(arch: NvptxArch) -> Result<String, Error> {
    println!("compiling the kernels for {arch}");
    let compiled = CudaBuilder::new(workspace().join("kernels-gpu"))
        .arch(arch)
        .build()?;
    // Nobody sees the warnings of code for the device but here.
    if !compiled.warnings.is_empty() {
        return Err(format!("the device build has warnings:\n{}", compiled.warnings).into());
    }
    Ok(compiled.text)
}

/// What is different in `new`, in a few lines.
fn difference(old: &str, new: &str) -> Result<String, Error> {
    let entries = ptx::entries(new)?.len();
    if old == new {
        return Ok(format!("{entries} entries, unchanged"));
    }
    let (old_parts, new_parts) = (parts(old)?, parts(new)?);
    let names: BTreeSet<_> = old_parts.keys().chain(new_parts.keys()).collect();
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        let kind = match (old_parts.get(name), new_parts.get(name)) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "gone",
            (None, _) => "new",
        };
        kinds.entry(kind).or_default().push(name);
    }
    let mut summary = format!("{entries} entries");
    for (kind, names) in kinds {
        let (shown, more) = names.split_at(names.len().min(6));
        let more = if more.is_empty() { "" } else { ", .." };
        summary += &format!("\n  {} {kind}: {}{more}", names.len(), shown.join(", "));
    }
    if let Some((i, (old, new))) = first_difference(old, new) {
        summary += &format!("\n  first at line {}:\n  - {old}\n  + {new}", i + 1);
    }
    Ok(summary)
}

/// The entries by name, and what is before them.
fn parts(text: &str) -> Result<BTreeMap<&str, &str>, Error> {
    let entries = ptx::entries(text)?;
    let header = entries
        .first()
        .map_or(text.len(), |entry| entry.range.start);
    let mut parts = BTreeMap::from([("the header", &text[..header])]);
    parts.extend(
        entries
            .into_iter()
            .map(|entry| (entry.name, &text[entry.range])),
    );
    Ok(parts)
}

/// The first lines that differ, but for the recorded hash, which differs whenever anything does.
fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    let hashes = [ptx::recorded_hash(old), ptx::recorded_hash(new)];
    let is_hash = |line: &str| hashes.iter().flatten().any(|hash| line.ends_with(hash));
    let mut pairs = old.lines().zip(new.lines()).enumerate();
    pairs.find(|(_, (old, new))| old != new && !is_hash(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(hash: &str, entries: &[(&str, &str)]) -> String {
        let mut text = format!("// Made by a test.\n// source-hash: {hash}\n.version 7.0\n");
        for (name, body) in entries {
            text += &format!("\n.visible .entry {name}()\n{{\n\t{body};\n}}\n");
        }
        text
    }

    #[test]
    fn the_summary_names_changed_new_and_lost_entries_and_the_first_line() {
        let old = module("aa", &[("a", "ret"), ("b", "ret"), ("c", "ret")]);
        let new = module("bb", &[("a", "ret"), ("b", "exit"), ("d", "ret")]);
        let expected = "3 entries\n  2 changed: b, the header\n  1 gone: c\n  1 new: d\n  \
                        first at line 12:\n  - \tret;\n  + \texit;";
        assert_eq!(difference(&old, &new).unwrap(), expected);
    }

    #[test]
    fn equal_modules_are_unchanged_and_a_first_one_is_all_new() {
        let module = module("aa", &[("a", "ret")]);
        assert_eq!(
            difference(&module, &module).unwrap(),
            "1 entries, unchanged"
        );
        let first = difference("", &module).unwrap();
        assert!(first.contains("1 new: a"), "{first}");
    }

    #[test]
    fn a_long_list_is_cut_short() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let new = module("aa", &names.map(|name| (name, "ret")));
        let summary = difference(&module("aa", &[]), &new).unwrap();
        assert!(summary.contains("7 new: a, b, c, d, e, f, .."), "{summary}");
    }
}
