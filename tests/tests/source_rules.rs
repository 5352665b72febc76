//! Rules about the sources that no compiler checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests lie in the workspace")
}

/// Every Rust file below a folder of the workspace: its path from there, and its text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut folders = vec![workspace().join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path: PathBuf = entry.expect("a folder's entry").path();
            let hidden = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !hidden && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let name = path
                    .strip_prefix(workspace())
                    .expect("a path in the workspace");
                // On Windows too.
                let name = name.to_string_lossy().replace('\\', "/");
                files.push((name, text));
            }
        }
    }
    assert!(!files.is_empty(), "no sources in {folder}");
    files
}

/// Lines of code, numbered from 1; comments are not code.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn inline_assembly_stands_in_cuda_std_and_cuda_driver_only() {
    // In two pieces, or this file would break the rule.
    let word = concat!("as", "m!");
    let allowed = [
        "crates/cuda_std/src",
        "crates/cuda_std/macros",
        "crates/cuda_driver/src",
    ];
    let mut seen = 0;
    for (path, text) in sources(".") {
        for (line, _) in code(&text).filter(|(_, line)| line.contains(word)) {
            seen += 1;
            assert!(
                allowed.iter().any(|folder| path.starts_with(folder)),
                "{path}:{line}: inline assembly"
            );
        }
    }
    assert!(seen > 0, "the rule has nothing to look at");
}

#[test]
fn kernels_touch_memory_only_through_checked_addresses() {
    let forbidden = [
        "shared_array",
        "dynamic_shared_mem",
        "from_raw_parts",
        "read_unaligned",
        "write_unaligned",
        "read_volatile",
        "write_volatile",
        "ptr::",
        ".add(",
        ".offset(",
        ".as_ptr(",
        ".as_mut_ptr(",
        "as *const",
        "as *mut",
        "transmute",
    ];
    for (path, text) in sources("kernels-gpu/src") {
        for (line, code) in code(&text) {
            for word in forbidden {
                assert!(!code.contains(word), "{path}:{line}: `{word}`");
            }
            // Parameters of entry points are the one place for pointers.
            let pointer = code.contains("*const ") || code.contains("*mut ");
            assert!(
                !pointer || path.ends_with("entries.rs"),
                "{path}:{line}: a raw pointer"
            );
        }
    }
}

#[test]
fn every_unsafe_block_of_the_kernels_says_why_it_is_safe() {
    let mut blocks = 0;
    for (path, text) in sources("kernels-gpu/src") {
        let lines: Vec<&str> = text.lines().collect();
        for (number, _) in code(&text).filter(|(_, line)| line.contains("unsafe {")) {
            blocks += 1;
            // The comment stands above the statement, which may have begun some lines before.
            let above = &lines[number.saturating_sub(7)..number - 1];
            assert!(
                above
                    .iter()
                    .any(|line| line.trim_start().starts_with("// SAFETY: ")),
                "{path}:{number}"
            );
        }
    }
    assert!(blocks > 20, "only {blocks} unsafe blocks found");
}

#[test]
fn kernels_are_the_same_code_on_device_and_host() {
    for (path, text) in sources("kernels-gpu/src") {
        for (line, code) in code(&text).filter(|(_, line)| line.contains("cfg")) {
            // The crate's attribute; the registry, and which entries an architecture has.
            let allowed = match &path[..] {
                "kernels-gpu/src/lib.rs" => code == "#![cfg_attr(",
                "kernels-gpu/src/entries.rs" => code.contains("#[cfg("),
                _ => code.trim() == "#[cfg(test)]",
            };
            assert!(allowed, "{path}:{line}: {code}");
        }
    }
}

/// The driver is touched in one folder of the host crate.
#[test]
fn the_driver_is_called_in_the_device_module_only() {
    for (path, text) in sources("host/src") {
        for (line, code) in code(&text) {
            let driver = ["cust::", "cuda_driver::", "use cust", "use cuda_driver"]
                .iter()
                .any(|word| code.contains(word));
            assert!(
                !driver || path.starts_with("host/src/device"),
                "{path}:{line}: {code}"
            );
        }
    }
}

/// The names in backticks in a table's cell.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn security_md_names_every_file_with_unsafe_code() {
    // In two pieces, or this test would be what it looks for.
    let word = concat!("un", "safe");
    let is_word = |text: &&str| *text == word;
    let words = |line: &str| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(is_word).count()
    };
    let with_unsafe: BTreeSet<String> = sources(".")
        .into_iter()
        .filter(|(_, text)| code(text).any(|(_, line)| words(line) > 0))
        .map(|(path, _)| path)
        .collect();
    assert!(with_unsafe.len() > 50, "only {} files", with_unsafe.len());

    let page = fs::read_to_string(workspace().join("SECURITY.md")).expect("SECURITY.md");
    let (_, table) = page
        .split_once("| folder | files |")
        .expect("the table of files");
    let mut named = BTreeSet::new();
    for row in table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
    {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let &[_, folder, files, _, tests, _] = &cells[..] else {
            panic!("{row}");
        };
        let folder = names(folder).next().expect("a folder");
        for file in names(files) {
            assert!(named.insert(format!("{folder}/{file}")), "twice: {file}");
        }
        for test in names(tests) {
            assert!(workspace().join(test).is_file(), "there is no {test}");
        }
    }
    let missing: Vec<_> = with_unsafe.difference(&named).collect();
    assert!(missing.is_empty(), "not in SECURITY.md: {missing:?}");
    let stale: Vec<_> = named.difference(&with_unsafe).collect();
    assert!(stale.is_empty(), "SECURITY.md is stale: {stale:?}");
}
