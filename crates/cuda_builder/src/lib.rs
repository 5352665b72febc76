//! Builds a Rust kernel crate to PTX with rustc's own `nvptx64-nvidia-cuda` target.
//!
//! The names are those of rust-cuda's `cuda_builder`; the compiler behind them is not. It is called as
//! a nested cargo, and needs rustc [`PINNED_RUSTC`] with its library sources: no nightly, no linker, no
//! CUDA toolkit.
//!
//! ```no_run
//! use cuda_builder::{CudaBuilder, NvptxArch};
//!
//! let ptx = CudaBuilder::new("kernels").arch(NvptxArch::Compute90).copy_to("kernels.ptx").build()?;
//! for entry in cuda_builder::ptx::entries(&ptx.text)? {
//!     println!("{}: {} bytes", entry.name, entry.range.len());
//! }
//! # Ok::<(), cuda_builder::BuildError>(())
//! ```
//!
//! PTX is meant to be committed, so that those who do not change kernels need none of this. Its header
//! records [`CudaBuilder::source_hash`], which covers everything the PTX was made from; a build script
//! compares the two and embeds the text, or builds it anew.

mod arch;
mod cargo;
pub mod cubin;
mod error;
mod finish;
mod manifest;
pub mod ptx;
mod sources;
mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};

pub use arch::{NvptxArch, PINNED_RUSTC};
pub use error::BuildError;
use manifest::Manifest;
use sources::Sources;
pub use toolchain::Toolchain;

/// A kernel crate and what to make of it.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    crate_dir: PathBuf,
    arch: NvptxArch,
    copy_to: Option<PathBuf>,
    target_dir: Option<PathBuf>,
}

/// What a build made.
#[derive(Clone, Debug)]
pub struct CompiledPtx {
    /// The finished module.
    pub text: String,
    /// The hash that is recorded in it.
    pub source_hash: String,
    /// What the compiler printed; empty if it had nothing to say.
    pub warnings: String,
}

impl CudaBuilder {
    /// A builder for the kernel crate in `crate_dir`, for sm_80 unless said otherwise.
    pub fn new(crate_dir: impl AsRef<Path>) -> Self {
        Self {
            crate_dir: crate_dir.as_ref().to_owned(),
            arch: NvptxArch::Compute80,
            copy_to: None,
            target_dir: None,
        }
    }

    /// The capability to build for.
    pub fn arch(mut self, arch: NvptxArch) -> Self {
        self.arch = arch;
        self
    }

    /// Where [`build`](Self::build) writes the PTX, beside returning it.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.copy_to = Some(path.as_ref().to_owned());
        self
    }

    /// The nested cargo's target folder.
    ///
    /// Unless set, it is `cuda-builder` inside the target folder of the build that calls this, or inside
    /// the one of the kernel crate's workspace. It must not be that folder itself: cargo holds a lock on
    /// it while it runs a build script, and the nested cargo would wait for the lock.
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().to_owned());
        self
    }

    /// SHA-256, in hexadecimal, over everything that the PTX is made from.
    ///
    /// That is the kernel crate and its path dependencies (`src`, `Cargo.toml`, what it inherits from
    /// the workspace, `build.rs`), the compiler's flags, the release [`PINNED_RUSTC`], and the form of
    /// the text. Paths of this machine, line ends and the compiler installed here do not matter.
    ///
    /// A crate of a registry counts with the requirement in the manifest, not with the version that
    /// `Cargo.lock` chose.
    ///
    /// # Errors
    ///
    /// [`BuildError::Io`] and [`BuildError::Manifest`].
    pub fn source_hash(&self) -> Result<String, BuildError> {
        Ok(self.hash(&Sources::read(&self.crate_dir)?))
    }

    /// Files and folders that decide [`source_hash`](Self::source_hash): for `cargo::rerun-if-changed`.
    ///
    /// # Errors
    ///
    /// As [`source_hash`](Self::source_hash).
    pub fn watched_paths(&self) -> Result<Vec<PathBuf>, BuildError> {
        Ok(Sources::read(&self.crate_dir)?.watched().to_owned())
    }

    /// Compiles the crate and finishes its PTX.
    ///
    /// The first build compiles `core` too and takes some 20 s.
    ///
    /// # Errors
    ///
    /// Any [`BuildError`].
    pub fn build(self) -> Result<CompiledPtx, BuildError> {
        let manifest = Manifest::read(&absolute(&self.crate_dir)?)?;
        Toolchain::find(&self.crate_dir)?.check_library()?;
        let sources = Sources::read(&self.crate_dir)?;
        let source_hash = self.hash(&sources);
        let library = manifest.library_name()?;
        let target_dir = match &self.target_dir {
            Some(dir) => absolute(dir)?,
            None => cargo::outer_target_dir(manifest.workspace_dir()).join("cuda-builder"),
        };

        // Named by the hash, so that it can only be the assembly of these sources, whatever cargo finds
        // up to date.
        let assembly = target_dir.join(format!("{library}-{source_hash}.s"));
        let warnings = cargo::compile(&self.crate_dir, self.arch, &target_dir, &assembly)?;
        if !assembly.exists() {
            let expected = assembly;
            return Err(BuildError::NoAssembly {
                expected,
                target_dir,
            });
        }
        for file in cargo::files_read(&target_dir, &library)? {
            if !sources.covers(&file) {
                return Err(BuildError::Unhashed { file });
            }
        }

        let text = fs::read_to_string(&assembly).map_err(BuildError::io(&assembly))?;
        let text = finish::finish(&text, &library, self.arch, &source_hash)?;
        if let Some(path) = &self.copy_to {
            fs::write(path, &text).map_err(BuildError::io(path))?;
        }
        Ok(CompiledPtx {
            text,
            source_hash,
            warnings,
        })
    }

    fn hash(&self, sources: &Sources) -> String {
        let mut settings = vec![PINNED_RUSTC, finish::FORMAT];
        settings.extend(self.arch.rustc_flags());
        settings.extend(arch::PROFILE);
        sources.hash(&settings)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, BuildError> {
    std::path::absolute(path).map_err(BuildError::io(path))
}
