//! A file that appears whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// A file being written beside the place it is meant for. Dropped before [`NewFile::finish`], it leaves nothing.
pub struct NewFile {
    file: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl NewFile {
    /// Begins a file that is to be `target`.
    ///
    /// # Errors
    ///
    /// Where nothing can be written there.
    pub fn create(target: &Path) -> Result<Self> {
        let cannot = || format!("cannot write {}", target.display());
        // A link stays one: what it leads to is replaced.
        let place = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if let Ok(about) = fs::metadata(&place) {
            ensure!(
                about.is_file(),
                "cannot write {}: it is not a regular file",
                target.display()
            );
        }
        let name = place.file_name().with_context(cannot)?;
        // Not hidden: should the process be killed, someone has to find it.
        let mut temporary = name.to_owned();
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = place.with_file_name(temporary);
        let file = File::create_new(&temporary).with_context(cannot)?;
        Ok(Self {
            file: BufWriter::new(file),
            temporary,
            target: place,
            finished: false,
        })
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    ///
    /// Where the disk fails; the place is then as it was.
    pub fn finish(mut self) -> Result<()> {
        let cannot = || format!("cannot write {}", self.target.display());
        self.file.flush().with_context(cannot)?;
        self.file.get_ref().sync_all().with_context(cannot)?;
        fs::rename(&self.temporary, &self.target).with_context(cannot)?;
        self.finished = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing more can be done about a file that cannot even be removed.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
