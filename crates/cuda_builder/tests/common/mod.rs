//! A kernel workspace of its own for each test.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::CudaBuilder;

/// A copy of `tests/fixture` that a test may change, with the `cuda_std` of this workspace.
pub struct Fixture {
    dir: PathBuf,
}

impl Fixture {
    /// `name` must differ between tests: they run at the same time.
    pub fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("fixtures")
            .join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).unwrap();
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy(&here.join("tests/fixture"), &dir);
        // What `cuda_std` needs from a registry, in the versions that are there for the workspace's own
        // build; cargo strikes out the rest.
        fs::copy(here.join("../../Cargo.lock"), dir.join("Cargo.lock")).unwrap();
        let fixture = Self { dir };
        fixture.edit("Cargo.toml", "<cuda_std>", cuda_std().to_str().unwrap());
        fixture
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.join(inside)
    }

    /// Writes a file and returns the fixture, so that changes can follow one another.
    pub fn write(&self, inside: &str, content: &str) -> &Self {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Replaces `from`, which must be there, by `to`.
    pub fn edit(&self, inside: &str, from: &str, to: &str) -> &Self {
        let text = fs::read_to_string(self.path(inside)).unwrap();
        assert!(text.contains(from), "no `{from}` in {inside}");
        self.write(inside, &text.replace(from, to))
    }

    /// A builder for the kernels, in the target folder of all device builds: `core` is compiled once.
    pub fn builder(&self) -> CudaBuilder {
        let target_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("cuda-builder");
        CudaBuilder::new(self.path("kernels")).target_dir(target_dir)
    }
}

/// The folder of the workspace's `cuda_std`, which all fixtures share.
pub fn cuda_std() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("cuda_std")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        if item.file_type().unwrap().is_dir() {
            copy(&item.path(), &to.join(item.file_name()));
        } else {
            fs::copy(item.path(), to.join(item.file_name())).unwrap();
        }
    }
}
