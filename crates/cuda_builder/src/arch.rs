//! Target architectures and everything that is passed to the compiler for one of them.

use std::fmt;

/// The only release of rustc that compiles device code.
///
/// The device build uses unstable features and PTX is compared to the byte, so any other release, older or newer, is
/// refused. Builds that use committed PTX need no particular release.
pub const PINNED_RUSTC: &str = "1.95.0";

/// A compute capability that PTX is made for. PTX also runs on every later capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvptxArch {
    /// sm_80 (Ampere) and later.
    Compute80,
    /// sm_90 (Hopper) and later: clusters, `st.async`, `mbarrier` transactions.
    Compute90,
}

impl NvptxArch {
    /// All of them, earliest first.
    pub const ALL: [Self; 2] = [Self::Compute80, Self::Compute90];

    /// rustc's name for it, `sm_80`.
    pub const fn target_cpu(self) -> &'static str {
        match self {
            Self::Compute80 => "sm_80",
            Self::Compute90 => "sm_90",
        }
    }

    /// The flags that every crate of the device build is compiled with, `core` included.
    pub(crate) fn rustc_flags(self) -> Vec<&'static str> {
        let mut flags = match self {
            Self::Compute80 => vec!["-Ctarget-cpu=sm_80"],
            // The version LLVM writes for sm_90 on its own, 7.8, is too old for clusters and `st.async`.
            Self::Compute90 => vec!["-Ctarget-cpu=sm_90", "-Ctarget-feature=+ptx81"],
        };
        flags.extend([
            // Rust's inliner may copy a barrier or a shuffle into both arms of a later branch; then the warp hangs.
            "-Zinline-mir=no",
            // Arrays indexed in a loop live in registers only if the loop is unrolled completely.
            "-Cllvm-args=-unroll-threshold=200000",
            "-Cllvm-args=-unroll-full-max-count=64",
        ]);
        flags
    }
}

impl fmt::Display for NvptxArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.target_cpu())
    }
}

/// The `device` profile, complete, so that the PTX depends on no profile of the workspace or of the user's cargo
/// configuration.
pub(crate) const PROFILE: [&str; 8] = [
    "profile.device.inherits='release'",
    "profile.device.opt-level=3",
    "profile.device.codegen-units=1",
    "profile.device.lto='off'",
    "profile.device.panic='abort'",
    // No line tables: they would carry this machine's paths into the PTX.
    "profile.device.debug=false",
    "profile.device.debug-assertions=false",
    "profile.device.overflow-checks=false",
];
