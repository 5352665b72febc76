//! What can go wrong between a kernel crate and its PTX.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::arch::PINNED_RUSTC;

/// Why there is no PTX.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A file or folder could not be read or written.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A `Cargo.toml` could not be understood.
    Manifest {
        /// The `Cargo.toml`.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// `cargo` or `rustc` could not be started.
    ToolMissing {
        /// The program as it was called.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `rustc` is not the release that compiles device code.
    WrongCompiler {
        /// The release that was found.
        found: String,
    },
    /// The sources of `core` are not installed, or are another release's.
    LibrarySources {
        /// The folder that was looked at.
        looked_at: PathBuf,
        /// The release found there; `None` where there are no sources.
        found: Option<String>,
    },
    /// The device build failed.
    Compile {
        /// The kernel crate.
        crate_dir: PathBuf,
        /// What cargo and rustc printed.
        output: String,
    },
    /// The device build succeeded and left no assembly.
    NoAssembly {
        /// Where it was expected.
        expected: PathBuf,
        /// The target folder of the device build.
        target_dir: PathBuf,
    },
    /// The compiler read a file that [`CudaBuilder::source_hash`](crate::CudaBuilder::source_hash) does not cover.
    Unhashed {
        /// The file.
        file: PathBuf,
    },
    /// A function that kernels call is not in the module.
    ExternalFunction {
        /// The function's name, demangled.
        function: String,
        /// The entries and functions that call it.
        callers: Vec<String>,
    },
    /// A kernel keeps data in local memory, which is far slower than registers.
    LocalMemory {
        /// The entries and functions that do.
        functions: Vec<String>,
    },
    /// Launch bounds that cannot be written into the PTX.
    LaunchBounds {
        /// The comment that asks for them.
        comment: String,
        /// Why they cannot be.
        reason: &'static str,
    },
    /// PTX that does not have the shape the compiler gives it.
    MalformedPtx {
        /// What is missing.
        reason: String,
    },
    /// A file of cubins that is not as it was written.
    MalformedCubins {
        /// What is wrong with it.
        reason: String,
    },
}

impl BuildError {
    pub(crate) fn io(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            path: path.as_ref().to_owned(),
            source,
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Manifest { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::ToolMissing { program, source } => write!(
                f,
                "`{}` could not be started ({source}): compiling device code needs cargo and rustc \
                 {PINNED_RUSTC} on the PATH",
                program.display()
            ),
            Self::WrongCompiler { found } => write!(
                f,
                "device code is compiled by rustc {PINNED_RUSTC} and no other release; `rustc` here \
                 is {found}. Get it with `rustup toolchain install {PINNED_RUSTC}` and build with \
                 `cargo +{PINNED_RUSTC} ...`"
            ),
            Self::LibrarySources { looked_at, found } => {
                match found {
                    None => write!(f, "no Rust library sources in {}", looked_at.display())?,
                    Some(found) => write!(
                        f,
                        "the Rust library sources in {} are those of {found}, not of {PINNED_RUSTC}",
                        looked_at.display()
                    )?,
                }
                write!(
                    f,
                    ". Compiling device code needs them. Get them with `rustup component add \
                     rust-src --toolchain {PINNED_RUSTC}`, or with `cargo xtask setup` in this \
                     workspace (`cargo xtask setup --from TARBALL` without a network)"
                )
            }
            Self::Compile { crate_dir, output } => {
                write!(
                    f,
                    "{} does not compile for the device:\n{output}",
                    crate_dir.display()
                )
            }
            Self::NoAssembly {
                expected,
                target_dir,
            } => write!(
                f,
                "the device build succeeded without writing {}: remove {} and build again",
                expected.display(),
                target_dir.display()
            ),
            Self::Unhashed { file } => write!(
                f,
                "the compiler read {}, which the source hash does not cover: keep what kernels are \
                 made from under `src` and out of `host-only` in `[package.metadata.cuda]`",
                file.display()
            ),
            Self::ExternalFunction { function, callers } => write!(
                f,
                "`{function}` is called by {} and is not part of the module, so the PTX cannot be \
                 loaded: a function of another crate was not inlined (mark it `#[inline(always)]`), \
                 or code that can panic brought in a panic function",
                list(callers)
            ),
            Self::LocalMemory { functions } => write!(
                f,
                "local memory is used by {}: an array is indexed by a value that is not known when \
                 compiling, a loop over it was not unrolled, or the address of a local escapes",
                list(functions)
            ),
            Self::LaunchBounds { comment, reason } => write!(f, "`{comment}`: {reason}"),
            Self::MalformedPtx { reason } => write!(f, "unexpected PTX: {reason}"),
            Self::MalformedCubins { reason } => write!(f, "a damaged file of cubins: {reason}"),
        }
    }
}

/// `a`, `b` and `c`; long lists are cut short.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::ToolMissing { source, .. } => Some(source),
            _ => None,
        }
    }
}
