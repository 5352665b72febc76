//! `cargo xtask cubin`: the committed cubins, which spare those who have such a GPU the driver's compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use cuda_builder::{NvptxArch, cubin, ptx};

use crate::ptx::committed_path as committed_ptx;
use crate::{Error, Outcome, command, ptxas, workspace};

/// The architecture that kernels are assembled for: that of the GPUs that they are measured on.
const ARCH: NvptxArch = NvptxArch::Compute90;

fn committed_path() -> PathBuf {
    committed_ptx(ARCH).with_extension("cubins")
}

/// Assembles the committed PTX and writes the committed file.
pub fn refresh() -> Result<(), Error> {
    let path = committed_path();
    let assembled = assemble(&the_ptxas()?)?;
    fs::write(&path, &assembled)?;
    println!("{}: {} bytes", path.display(), assembled.len());
    Ok(())
}

/// Assembles the committed PTX and compares with the committed file, to the byte; no more than says so where there is
/// no ptxas that could have made it.
pub fn check() -> Result<Outcome, Error> {
    let program = match the_ptxas() {
        Ok(program) => program,
        Err(error) => return Ok(Outcome::Skipped(error.to_string())),
    };
    let path = committed_path();
    let committed = fs::read(&path)
        .map_err(|error| format!("{}: {error}; `cargo xtask cubin` makes it", path.display()))?;
    if assemble(&program)? != committed {
        let path = path.display();
        return Err(format!(
            "{path} is not what ptxas makes of the committed PTX: run `cargo xtask cubin` and commit"
        )
        .into());
    }
    println!("{}: as assembled", path.display());
    Ok(Outcome::Passed)
}

/// The release that makes the committed cubins: another one's are other bytes.
fn the_ptxas() -> Result<PathBuf, Error> {
    let program = ptxas::find().ok_or_else(|| {
        format!(
            "there is no ptxas {}; `cargo xtask setup` gets it",
            ptxas::VERSION
        )
    })?;
    let output = command::output(Command::new(&program).arg("--version"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let found = release(&printed).unwrap_or("unknown");
    if found == ptxas::VERSION {
        return Ok(program);
    }
    Err(format!(
        "{} is release {found}, and cubins are made by {}",
        program.display(),
        ptxas::VERSION
    )
    .into())
}

/// The release in what `ptxas --version` prints.
fn release(printed: &str) -> Option<&str> {
    // `Cuda compilation tools, release 13.0, V13.0.88`
    let (_, rest) = printed.split_once(", release ")?;
    let (_, release) = rest.lines().next()?.split_once(", V")?;
    Some(release)
}

/// What the committed file has to be.
fn assemble(program: &Path) -> Result<Vec<u8>, Error> {
    let path = committed_ptx(ARCH);
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; `cargo xtask ptx` makes it", path.display()))?;
    let entries = ptx::entries(&text)?;
    println!("assembling {} entries for {ARCH}", entries.len());
    let header = entries
        .first()
        .map_or("", |entry| &text[..entry.range.start]);
    let folder = workspace().join("target/cubins");
    fs::create_dir_all(&folder)?;
    let waiting = Mutex::new(entries.iter());
    let cubins = Mutex::new(Vec::new());
    let worker = || -> Result<(), String> {
        loop {
            // A statement of its own: the lock is not held while the entry is assembled.
            let next = waiting.lock().unwrap().next();
            let Some(entry) = next else { return Ok(()) };
            let module = format!("{header}{}", &text[entry.range.clone()]);
            let cubin = assemble_entry(program, &folder, entry.name, &module)
                .map_err(|error| error.to_string())?;
            cubins.lock().unwrap().push((entry.name, cubin));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    fs::remove_dir_all(&folder)?;
    let mut cubins = cubins.into_inner().unwrap();
    cubins.sort_unstable_by_key(|&(name, _)| name);
    Ok(cubin::file(ARCH, &text, ptxas::VERSION, &cubins))
}

/// The cubin of a module of one entry, as the library cuts it out too.
fn assemble_entry(
    program: &Path,
    folder: &Path,
    name: &str,
    module: &str,
) -> Result<Vec<u8>, Error> {
    let (from, to) = (format!("{name}.ptx"), format!("{name}.cubin"));
    fs::write(folder.join(&from), module)?;
    // Run in the folder: a cubin tells nothing of where it was made.
    let mut ptxas = Command::new(program);
    ptxas
        .arg(format!("--gpu-name={ARCH}"))
        .args(["--output-file", &to, &from])
        .current_dir(folder);
    command::output(&mut ptxas)?;
    Ok(fs::read(folder.join(&to))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_the_whole_number() {
        let printed = "\
ptxas: NVIDIA (R) Ptx optimizing assembler
Copyright (c) 2005-2025 NVIDIA Corporation
Built on Wed_Aug_20_01:55:12_PM_PDT_2025
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
";
        assert_eq!(release(printed), Some("13.0.88"));
        assert_eq!(release("something else"), None);
    }
}
