//! The nested cargo that compiles device code, also from within a build script.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::BuildError;
use crate::arch::{NvptxArch, PROFILE};

const TARGET: &str = "nvptx64-nvidia-cuda";

/// Compiles the library in `crate_dir` to `assembly`; returns what the compiler printed.
pub fn compile(
    crate_dir: &Path,
    arch: NvptxArch,
    target_dir: &Path,
    assembly: &Path,
) -> Result<String, BuildError> {
    // Inside a build script, the cargo that runs it.
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(&program);
    cargo
        .current_dir(crate_dir)
        .args(["rustc", "--quiet", "--lib", "--profile", "device"])
        .args(PROFILE.iter().flat_map(|setting| ["--config", setting]))
        .args(["-Zbuild-std=core", "--target", TARGET])
        // Whether a crate is up to date is told by its content. Times mislead where checkouts share a
        // target folder, and PTX of other sources would carry the hash of these.
        .arg("-Zchecksum-freshness")
        .arg("--target-dir")
        .arg(target_dir)
        .arg("--")
        .arg(concat("--emit=asm=", assembly));
    set_environment(&mut cargo, arch, target_dir);

    let output = cargo.output().map_err(|source| BuildError::ToolMissing {
        program: program.into(),
        source,
    })?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(without_expected_warning(&printed))
    } else {
        Err(BuildError::Compile {
            crate_dir: crate_dir.to_owned(),
            output: printed,
        })
    }
}

/// The PTX version is asked for on purpose, and there is no way to allow this one warning.
fn without_expected_warning(printed: &str) -> String {
    const EXPECTED: &str = "warning: unstable feature specified for `-Ctarget-feature`: `ptx";
    let messages = printed.split("\n\n").map(str::trim);
    let messages = messages.filter(|text| !text.is_empty() && !text.starts_with(EXPECTED));
    messages.collect::<Vec<_>>().join("\n\n")
}

/// Keeps what an outer cargo and the user's configuration say about compilers from the nested cargo.
fn set_environment(cargo: &mut Command, arch: NvptxArch, target_dir: &Path) {
    // Features and target of the package whose build script calls.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_FEATURE_") || text.starts_with("CARGO_CFG_") {
            cargo.env_remove(&name);
        }
    }
    cargo
        // This form of the flags wins over all others.
        .env("CARGO_ENCODED_RUSTFLAGS", arch.rustc_flags().join("\u{1f}"))
        .env_remove("RUSTFLAGS")
        .env("RUSTC", "rustc")
        // Empty means none, even where the configuration names one. Clippy is a wrapper too.
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        .env("CARGO_BUILD_BUILD_DIR", target_dir)
        .env("CARGO_TERM_COLOR", "never")
        // Unstable features of a stable compiler, for this build alone.
        .env("RUSTC_BOOTSTRAP", "1");
}

/// The files that the compiler read for the library and its path dependencies, in the last build.
pub fn files_read(target_dir: &Path, library: &str) -> Result<Vec<PathBuf>, BuildError> {
    let path = target_dir.join(format!("{TARGET}/device/lib{library}.d"));
    let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
    let files = parse_dep_info(&text);
    if files.is_empty() {
        let source = io::Error::new(io::ErrorKind::InvalidData, "it names no source file");
        return Err(BuildError::Io { path, source });
    }
    Ok(files)
}

/// The files in `output: file file ..`, where spaces in names are written `\ `.
fn parse_dep_info(text: &str) -> Vec<PathBuf> {
    let line = text.lines().next().unwrap_or_default();
    let files = line.split_once(": ").map_or("", |(_, files)| files);
    let unspaced = files.replace("\\ ", "\0");
    let files = unspaced.split_whitespace();
    files.map(|file| file.replace('\0', " ").into()).collect()
}

/// The target folder of the cargo that runs this program, or that of the workspace in `workspace_dir`.
pub fn outer_target_dir(workspace_dir: &Path) -> PathBuf {
    // A build script only knows a folder deep inside; cargo marks the top one.
    if let Some(out_dir) = env::var_os("OUT_DIR").map(PathBuf::from) {
        let top = out_dir
            .ancestors()
            .find(|dir| dir.join("CACHEDIR.TAG").is_file());
        return top.unwrap_or(&out_dir).to_owned();
    }
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => workspace_dir.join(dir),
        None => workspace_dir.join("target"),
    }
}

fn concat(prefix: &str, path: &Path) -> OsString {
    let mut text = OsString::from(prefix);
    text.push(path);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_expected_warning_is_dropped() {
        let expected = "warning: unstable feature specified for `-Ctarget-feature`: `ptx81`\n  |\n  \
                        = note: this feature is not stably supported\n\n";
        assert_eq!(without_expected_warning(expected), "");
        let other = "warning: unused variable: `x`\n --> src/lib.rs:1:1\n\n";
        let printed = format!("{expected}{other}{expected}");
        assert_eq!(without_expected_warning(&printed), other.trim());
    }

    #[test]
    fn dep_info_may_hold_spaces_in_names() {
        let text = "/t/libk.rlib: /a/src/lib.rs /with\\ space/src/lib.rs\n/t/other: /b\n";
        let files = ["/a/src/lib.rs", "/with space/src/lib.rs"].map(PathBuf::from);
        assert_eq!(parse_dep_info(text), files);
        assert!(parse_dep_info("").is_empty());
    }
}
