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
        check_release(&print("rustc", &["--version"], dir)?)?;
        let sysroot = print("rustc", &["--print", "sysroot"], dir)?.into();
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

/// What `program` prints, run in `dir` because a `rust-toolchain.toml` there may choose the compiler.
fn print(program: &str, arguments: &[&str], dir: &Path) -> Result<String, BuildError> {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(dir).output();
    let output = output.map_err(|source| BuildError::ToolMissing {
        program: program.into(),
        source,
    })?;
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    // rustup's word that the toolchain asked for is not installed.
    Err(BuildError::WrongCompiler {
        found: format!("not usable ({})", text(&output.stderr)),
    })
}

/// Whether this is [`PINNED_RUSTC`], from what it says of itself: `rustc 1.95.0 (59807616e 2026-04-14)`.
fn check_release(version: &str) -> Result<(), BuildError> {
    let found = version.split_whitespace().nth(1).unwrap_or(version);
    if found == PINNED_RUSTC {
        return Ok(());
    }
    Err(BuildError::WrongCompiler {
        found: found.to_owned(),
    })
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
    fn any_other_release_is_refused_with_the_command_that_gets_the_right_one() {
        check_release("rustc 1.95.0 (59807616e 2026-04-14)").unwrap();
        for other in ["1.95.1", "1.96.0", "1.95.0-nightly", "1.95.0-beta.3"] {
            let error = check_release(&format!("rustc {other} (59807616e 2026-04-14)"));
            let text = error.unwrap_err().to_string();
            assert!(
                text.contains(&format!("`rustc` here is {other}.")),
                "{text}"
            );
            assert!(text.contains("rustup toolchain install 1.95.0"), "{text}");
        }
    }

    #[test]
    fn a_compiler_that_is_not_there_and_one_that_fails_are_told_apart() {
        let here = Path::new(".");
        let text = print("no-such-rustc", &[], here).unwrap_err().to_string();
        assert!(
            text.starts_with("`no-such-rustc` could not be started"),
            "{text}"
        );
        let text = print("rustc", &["--no-such-option"], here)
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("not usable (error: Unrecognized option"),
            "{text}"
        );
    }

    #[test]
    fn absent_and_older_library_sources_are_refused_with_the_place_and_the_commands() {
        let sysroot = std::env::temp_dir().join(format!("cuda-builder-{}", std::process::id()));
        let toolchain = Toolchain {
            sysroot: sysroot.clone(),
        };
        let library = toolchain.library_dir();
        let refused = || toolchain.check_library().unwrap_err().to_string();
        let absent = refused();
        let place = library.display();
        assert!(
            absent.starts_with(&format!("no Rust library sources in {place}.")),
            "{absent}"
        );
        for command in [
            "`rustup component add rust-src --toolchain 1.95.0`",
            "`cargo xtask setup`",
            "`cargo xtask setup --from TARBALL`",
        ] {
            assert!(absent.contains(command), "{absent}");
        }

        fs::create_dir_all(library.join("core/src/num")).unwrap();
        fs::write(library.join("Cargo.lock"), "").unwrap();
        let write = |file: &str, since: &str| {
            let text = format!("#[stable(feature = \"a\", since = \"{since}\")]\n");
            fs::write(library.join("core/src").join(file), text).unwrap();
        };
        write("lib.rs", "1.0.0");
        write("num/mod.rs", "1.94.0");
        let older = refused();
        assert!(
            older.contains("are those of 1.94.0, not of 1.95.0"),
            "{older}"
        );
        write("num/mod.rs", "1.95.0");
        toolchain.check_library().unwrap();
        fs::remove_dir_all(sysroot).unwrap();
    }
}
