//! A kernel workspace of its own for each test.

use std::fs;
use std::path::{Path, PathBuf};

use cuda_builder::CudaBuilder;

/// A copy of `tests/fixture` that a test may change.
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
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture"),
            &dir,
        );
        Self { dir }
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
