//! What a kernel crate's PTX is made from, and its hash.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::BuildError;
use crate::manifest::Manifest;

/// The kernel crate and every crate it reaches through path dependencies.
///
/// A crate counts with its manifest, what that inherits from the workspace, its `build.rs`, and
/// everything under `src` but for what the manifest declares to be host-only:
///
/// ```toml
/// [package.metadata.cuda]
/// host-only = ["src/emulator"]   # never compiled for the device
/// ```
///
/// The declaration is not just believed: after a device build, every file that the compiler read is
/// looked up here.
#[derive(Debug, Default)]
pub struct Sources {
    /// Contents by name, `crate name/path inside it`; line ends are `\n`.
    files: BTreeMap<String, Vec<u8>>,
    /// The same files as they lie on this machine.
    paths: Vec<PathBuf>,
    watched: Vec<PathBuf>,
}

impl Sources {
    /// Reads the crate in `crate_dir` and, in turn, its path dependencies.
    pub fn read(crate_dir: &Path) -> Result<Self, BuildError> {
        let mut sources = Self::default();
        let mut seen = Vec::new();
        let mut waiting = vec![crate_dir.to_owned()];
        while let Some(crate_dir) = waiting.pop() {
            let crate_dir = fs::canonicalize(&crate_dir).map_err(BuildError::io(&crate_dir))?;
            if !seen.contains(&crate_dir) {
                waiting.extend(sources.add_crate(&crate_dir)?);
                seen.push(crate_dir);
            }
        }
        Ok(sources)
    }

    /// Files and folders whose change may change the hash: for `cargo::rerun-if-changed`.
    pub fn watched(&self) -> &[PathBuf] {
        &self.watched
    }

    /// SHA-256 over `settings` and all files, in an order and a form that no machine influences.
    pub fn hash(&self, settings: &[&str]) -> String {
        let mut hasher = Sha256::new();
        // Each piece with its length, so that no two lists of pieces are the same bytes.
        let mut add = |piece: &[u8]| {
            hasher.update((piece.len() as u64).to_le_bytes());
            hasher.update(piece);
        };
        for setting in settings {
            add(setting.as_bytes());
        }
        for (name, content) in &self.files {
            add(name.as_bytes());
            add(content);
        }
        let digest = hasher.finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether the hash covers `file`.
    pub fn covers(&self, file: &Path) -> bool {
        fs::canonicalize(file).is_ok_and(|file| self.paths.contains(&file))
    }

    /// Adds the files of one crate; returns the folders of its path dependencies.
    fn add_crate(&mut self, crate_dir: &Path) -> Result<Vec<PathBuf>, BuildError> {
        let manifest = Manifest::read(crate_dir)?;
        let name = manifest.package_name()?;
        let host_only = manifest.host_only()?;
        for file in ["Cargo.toml", "build.rs"] {
            if crate_dir.join(file).exists() {
                self.watched.push(crate_dir.join(file));
                self.add_file(name, crate_dir, &crate_dir.join(file))?;
            }
        }
        self.watched.push(crate_dir.join("src"));
        let mut folders = vec![crate_dir.join("src")];
        while let Some(folder) = folders.pop() {
            for item in fs::read_dir(&folder).map_err(BuildError::io(&folder))? {
                let path = item.map_err(BuildError::io(&folder))?.path();
                // Hidden files are an editor's or the system's.
                let hidden = path
                    .file_name()
                    .is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
                if hidden || host_only.contains(&path) {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    self.add_file(name, crate_dir, &path)?;
                }
            }
        }
        self.watched
            .push(manifest.workspace_dir().join("Cargo.toml"));
        self.files.insert(
            format!("{name}/inherited"),
            manifest.inherited()?.into_bytes(),
        );
        manifest.path_dependencies()
    }

    fn add_file(&mut self, name: &str, crate_dir: &Path, path: &Path) -> Result<(), BuildError> {
        let content = fs::read(path).map_err(BuildError::io(path))?;
        let inside = path
            .strip_prefix(crate_dir)
            .expect("only files inside the crate are added");
        let inside: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
        self.files.insert(
            format!("{name}/{}", inside.join("/")),
            with_unix_line_ends(content),
        );
        self.paths
            .push(fs::canonicalize(path).map_err(BuildError::io(path))?);
        Ok(())
    }
}

/// Git may have checked the file out with `\r\n`.
fn with_unix_line_ends(content: Vec<u8>) -> Vec<u8> {
    if !content.contains(&b'\r') {
        return content;
    }
    let mut unix = Vec::with_capacity(content.len());
    for (i, &byte) in content.iter().enumerate() {
        if byte != b'\r' || content.get(i + 1) != Some(&b'\n') {
            unix.push(byte);
        }
    }
    unix
}
