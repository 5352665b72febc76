//! `cargo xtask setup`: what compiling and checking kernels needs beyond plain stable Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_builder::{BuildError, PINNED_RUSTC, Toolchain};

use crate::command;
use crate::{Error, ptxas, workspace};

/// Gets the library sources and ptxas. Tries both before it fails.
pub fn run(tarball: Option<&Path>) -> Result<(), Error> {
    let results = [
        ("library sources", library_sources(tarball)),
        ("ptxas", ptxas()),
    ];
    let mut missing = Vec::new();
    for (name, result) in results {
        match result {
            Ok(state) => println!("{name}: {state}"),
            Err(error) => {
                println!(
                    "{name}: missing\n  {}",
                    error.to_string().replace('\n', "\n  ")
                );
                missing.push(name);
            }
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("setup is not complete: {} missing", missing.join(" and ")).into())
    }
}

fn library_sources(tarball: Option<&Path>) -> Result<String, Error> {
    let toolchain = Toolchain::find(&workspace())?;
    let library = toolchain.library_dir();
    match toolchain.check_library() {
        Ok(()) => return Ok(format!("already in {}", library.display())),
        Err(BuildError::LibrarySources { found: None, .. }) => {}
        // Another release's: they came with something else, which is not ours to overwrite.
        Err(error) => return Err(error.into()),
    }
    match tarball {
        Some(tarball) => unpack(tarball, &library)?,
        None => {
            let component = ["component", "add", "rust-src", "--toolchain", PINNED_RUSTC];
            command::output(Command::new("rustup").args(component)).map_err(|error| {
                format!(
                    "{error}\nWithout a network: `cargo xtask setup --from TARBALL`, a \
                     rust-src-{PINNED_RUSTC} tar.xz with the folder `library`; or unpack that folder \
                     to {} from elsewhere, such as a distribution's package of that release",
                    library.display()
                )
            })?;
        }
    }
    toolchain.check_library()?;
    Ok(format!("put into {}", library.display()))
}

/// Unpacks the library sources from a tarball to `library`.
fn unpack(tarball: &Path, library: &Path) -> Result<(), Error> {
    if !tarball.is_file() {
        return Err(format!("there is no file {}", tarball.display()).into());
    }
    // Beside its place first, so that a failure leaves no half of it there.
    let partial = library.with_extension("partial");
    fs::create_dir_all(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
    let unpacked = unpack_by_way_of(&partial, tarball, library);
    fs::remove_dir_all(&partial)?;
    unpacked
}

fn unpack_by_way_of(partial: &Path, tarball: &Path, library: &Path) -> Result<(), Error> {
    let mut tar = Command::new("tar");
    tar.arg("-xJf").arg(tarball).arg("-C").arg(partial);
    command::output(&mut tar)
        .map_err(|error| format!("{error}\nUnpacking needs the programs `tar` and `xz`"))?;
    // The folder alone, or rust-src as Rust publishes it.
    let published = format!("rust-src-{PINNED_RUSTC}/rust-src/lib/rustlib/src/rust/library");
    let mut places = ["library", &published]
        .map(|place| partial.join(place))
        .into_iter();
    let unpacked = places.find(|place| place.is_dir()).ok_or_else(|| {
        let tarball = tarball.display();
        format!("{tarball} has neither the folder `library` nor `{published}`")
    })?;
    Ok(fs::rename(unpacked, library)?)
}

fn ptxas() -> Result<String, Error> {
    if let Some(path) = ptxas::find() {
        return Ok(format!("already at {}", path.display()));
    }
    let folder = ptxas::download_dir();
    let package = format!("nvidia-cuda-nvcc=={}", ptxas::VERSION);
    let mut pip = Command::new("python3");
    // Without what the compiler itself needs beside it: ptxas stands alone.
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--upgrade",
        "--target",
    ])
    .arg(&folder)
    .arg(&package);
    command::output(&mut pip).map_err(|error| {
        format!(
            "{error}\nptxas comes from the Python package {package}, or with a CUDA toolkit: put it \
             on the PATH, or set CUDA_HOME"
        )
    })?;
    let path: Option<PathBuf> = ptxas::find();
    let path = path.ok_or_else(|| format!("{package} has brought no ptxas"))?;
    Ok(format!("put at {}", path.display()))
}
