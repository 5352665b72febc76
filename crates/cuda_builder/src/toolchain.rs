//! The compiler and the library sources, found and checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::BuildError;
use crate::arch::PINNED_RUSTC;

/// A toolchain that can compile device code.
#[derive(Clone, Debug)]
pub struct Toolchain {
    sysroot: PathBuf,
}

impl Toolchain {
    /// The `rustc` that cargo would use in `dir`.
    ///
    /// # Errors
    ///
    /// [`BuildError::ToolMissing`] and [`BuildError::WrongCompiler`].
    pub fn find(dir: &Path) -> Result<Self, BuildError> {
        let found = rustc(dir, &["--version"])?;
        // `rustc 1.95.0 (59807616e 2026-04-14)`
        let release = found.split_whitespace().nth(1).unwrap_or(&found);
        if release != PINNED_RUSTC {
            return Err(BuildError::WrongCompiler {
                found: release.to_owned(),
            });
        }
        let sysroot = rustc(dir, &["--print", "sysroot"])?.into();
        Ok(Self { sysroot })
    }

    /// Where this toolchain keeps the sources of `core`, whether or not they are there.
    pub fn library_dir(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust/library")
    }

    /// Whether the library sources are there and those of [`PINNED_RUSTC`].
    ///
    /// # Errors
    ///
    /// [`BuildError::LibrarySources`] and [`BuildError::Io`].
    pub fn check_library(&self) -> Result<(), BuildError> {
        let looked_at = self.library_dir();
        let found = library_release(&looked_at)?;
        if found.as_deref() == Some(PINNED_RUSTC) {
            return Ok(());
        }
        Err(BuildError::LibrarySources { looked_at, found })
    }
}

/// What `rustc` prints, run in `dir` because a `rust-toolchain.toml` there may choose it.
fn rustc(dir: &Path, arguments: &[&str]) -> Result<String, BuildError> {
    let output = Command::new("rustc")
        .args(arguments)
        .current_dir(dir)
        .output();
    let output = output.map_err(|source| BuildError::ToolMissing {
        program: "rustc".into(),
        source,
    })?;
    let text = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if output.status.success() {
        Ok(text)
    } else {
        // rustup's proxy: the toolchain that was asked for is not installed.
        Err(BuildError::WrongCompiler {
            found: format!("not usable ({text})"),
        })
    }
}

/// The release whose library sources lie in `library`; `None` if there are none.
///
/// The sources carry no version number. But whatever a release stabilises says so in its attribute,
/// so the latest `since` in `core` is the release.
fn library_release(library: &Path) -> Result<Option<String>, BuildError> {
    let core = library.join("core/src");
    if !core.is_dir() || !library.join("Cargo.lock").is_file() {
        return Ok(None);
    }
    let mut latest = None;
    let mut folders = vec![core];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).map_err(BuildError::io(&folder))? {
            let path = item.map_err(BuildError::io(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).map_err(BuildError::io(&path))?;
                latest = latest.max(latest_stabilisation(&text));
            }
        }
    }
    let release = latest.map(|[major, minor, patch]| format!("{major}.{minor}.{patch}"));
    Ok(release.or_else(|| Some("an unknown release".into())))
}

/// The highest version in a `#[stable(.., since = "..")]` or `#[rustc_const_stable(.., since = "..")]`.
fn latest_stabilisation(text: &str) -> Option<[u32; 3]> {
    text.lines()
        .filter_map(|line| {
            let (_, attribute) = line.split_once("stable(feature")?;
            let (_, since) = attribute.split_once("since = \"")?;
            let (version, _) = since.split_once('"')?;
            let mut parts = version.split('.').map(|part| part.parse().ok());
            Some([parts.next()??, parts.next()??, parts.next()??])
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_stabilisation_is_the_highest_version_and_not_the_last_line() {
        let text = "\
            #[stable(feature = \"a\", since = \"1.95.0\")]\n\
            #[rustc_const_stable(feature = \"b\", since = \"1.100.0\")]\n\
            #[stable(feature = \"c\", since = \"1.9.0\")]\n\
            #[deprecated(since = \"3.0.0\")]\n\
            #[stable(feature = \"d\", since = \"CURRENT_RUSTC_VERSION\")]\n";
        assert_eq!(latest_stabilisation(text), Some([1, 100, 0]));
        assert_eq!(latest_stabilisation("fn main() {}"), None);
    }

    #[test]
    fn a_folder_without_the_library_has_no_release() {
        let nowhere = std::env::temp_dir().join("there-is-no-library-here");
        assert_eq!(library_release(&nowhere).unwrap(), None);
    }
}
