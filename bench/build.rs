//! Tells the bench which commit it measures.

use std::process::Command;

/// What the measured code is made from.
const SOURCES: [&str; 6] = [
    "bench/src",
    "bench/Cargo.toml",
    "host",
    "kernels-gpu",
    "crates",
    "Cargo.lock",
];

fn main() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={root}/{source}");
    }
    println!("cargo::rerun-if-changed={root}/.git/logs/HEAD");

    let commit = match git(root, &["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) => {
            let changed = git(
                root,
                &[&["status", "--porcelain", "--"], SOURCES.as_slice()].concat(),
            );
            let mark = if changed.is_none_or(|files| files.is_empty()) {
                ""
            } else {
                "+"
            };
            format!("{commit}{mark}")
        }
        None => "unknown".to_owned(),
    };
    println!("cargo::rustc-env=BENCH_COMMIT={commit}");
}

fn git(root: &str, args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(args)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
