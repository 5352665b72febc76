//! Embeds the kernels' PTX: the committed text if it was made from these very sources, else a fresh build. And the
//! committed cubins, if they were made from that PTX; without them the driver compiles it.

use std::env;
use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cuda_builder::{CudaBuilder, NvptxArch, cubin, ptx};

/// `committed` (the default) or `build`: compile the kernels even if the committed PTX is theirs.
const CHOICE: &str = "WARP_SOFTMAX_PTX";

fn main() -> ExitCode {
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes `ptx.rs`, which declares what [`ptx::embed`] and [`cubin::embed`] say for each architecture.
fn embed() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed={CHOICE}");
    let choice = env::var_os(CHOICE).unwrap_or("committed".into());
    let always_build = match choice.to_str() {
        Some("committed") => false,
        Some("build") => true,
        _ => {
            return Err(format!("{CHOICE} is {choice:?}; it may be `committed` or `build`").into());
        }
    };
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let kernels = here.with_file_name("kernels-gpu");
    // The folder: of a file that is not there cargo would take it for changed each time.
    let committed = here.join("ptx");
    println!("cargo::rerun-if-changed={}", committed.display());
    let mut source = String::new();
    for arch in NvptxArch::ALL {
        let builder = CudaBuilder::new(&kernels).arch(arch);
        for path in builder.watched_paths()? {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        let text = if always_build {
            builder.build()?.text
        } else {
            committed_or_built(&committed.join(format!("softmax.{arch}.ptx")), builder)?
        };
        let file = format!("softmax.{arch}.deflate");
        let embedded = ptx::embed(arch, &file, &text)?;
        fs::write(out_dir.join(&file), &embedded.bytes)?;
        source += &embedded.source;
        let file = format!("softmax.{arch}.cubins");
        let cubins = match fs::read(committed.join(&file)) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            read => Some(read?),
        };
        let embedded = cubin::embed(arch, &file, cubins.as_deref(), &text)?;
        fs::write(out_dir.join(&file), &embedded.bytes)?;
        source += &embedded.source;
    }
    fs::write(out_dir.join("ptx.rs"), source)?;
    Ok(())
}

fn committed_or_built(committed: &Path, builder: CudaBuilder) -> Result<String, Box<dyn Error>> {
    let source_hash = builder.source_hash()?;
    let reason = match fs::read_to_string(committed) {
        Ok(text) if ptx::recorded_hash(&text) == Some(&source_hash) => return Ok(text),
        Ok(_) => "was made from other sources than the kernels here".to_owned(),
        Err(error) => format!("could not be read ({error})"),
    };
    let built = builder.build().map_err(|error| {
        let committed = committed.display();
        format!("{committed} {reason}, and building it anew failed: {error}")
    })?;
    Ok(built.text)
}
