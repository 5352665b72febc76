//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use warp_softmax::{DType, Device};

use super::tensor_file::Selection;

/// What `--help` prints.
pub const HELP: &str = "\
Softmax along the last axis of a tensor in a file.

Usage: cargo run --release --example softmax_file -- [OPTIONS] INPUT OUTPUT

Arguments:
  INPUT   A .npy or .safetensors file of f32, f16 or bf16
  OUTPUT  Written in the format of INPUT, and only once it is complete; replaced if it exists

Options:
      --tensor NAME    Which tensor of a .safetensors file that has several
      --scale FACTOR   Multiply the input by FACTOR first [default: 1]
      --out-dtype T    f32, f16 or bf16 [default: the input's]
      --device DEVICE  auto, cuda, cuda:N or emulator [default: auto]
      --block-mib N    Read N MiB at a time, or one row if that is more [default: 32]
      --npy-bf16       Take the 16-bit words of a .npy ('<u2' or '|V2') for bf16
  -h, --help           Show this help

NumPy has no bf16: a .npy with bf16 is written as '<u2', the words' bits, and read only with
--npy-bf16. In Python: numpy.load(FILE).view(ml_dtypes.bfloat16).
";

/// Enough to keep a GPU busy.
const DEFAULT_BLOCK_MIB: usize = 32;

const MAX_BLOCK_MIB: usize = 65_536;

/// A command line that asks for work.
#[derive(Debug)]
pub struct Arguments {
    /// Where the tensor is.
    pub input: PathBuf,
    /// Where the result goes.
    pub output: PathBuf,
    /// What of the input is meant, and how.
    pub selection: Selection,
    /// Factor on the input.
    pub scale: f32,
    /// The result's type, if not the input's.
    pub out_dtype: Option<DType>,
    /// Where to compute.
    pub device: DeviceChoice,
    /// Bytes to read at a time.
    pub block_bytes: usize,
}

/// A device, not opened yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceChoice {
    /// A GPU if there is one, else the emulator.
    Auto,
    /// The GPU of this number.
    Cuda(usize),
    /// The emulator.
    Emulator,
}

impl DeviceChoice {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "cuda" => Some(Self::Cuda(0)),
            "emulator" => Some(Self::Emulator),
            _ => Some(Self::Cuda(name.strip_prefix("cuda:")?.parse().ok()?)),
        }
    }

    /// The device itself.
    ///
    /// # Errors
    ///
    /// Where there is no such device.
    pub fn open(self) -> Result<Device, warp_softmax::Error> {
        match self {
            Self::Auto => Device::auto(),
            Self::Cuda(ordinal) => Device::cuda(ordinal),
            Self::Emulator => Ok(Device::emulator()),
        }
    }
}

impl Arguments {
    /// Reads a command line; `None` asks for help.
    ///
    /// # Errors
    ///
    /// Says what is wrong with which argument, and what is allowed.
    pub fn parse(command_line: lexopt::Parser) -> Result<Option<Self>> {
        Self::read(command_line).map_err(|error| anyhow!("{error:#} (see --help)"))
    }

    fn read(mut command_line: lexopt::Parser) -> Result<Option<Self>> {
        use lexopt::prelude::*;
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut selection = Selection::default();
        let (mut scale, mut out_dtype, mut device) = (1.0, None, DeviceChoice::Auto);
        let mut block_bytes = DEFAULT_BLOCK_MIB << 20;
        while let Some(argument) = command_line.next()? {
            match argument {
                Short('h') | Long("help") => return Ok(None),
                Long("tensor") => selection.tensor = Some(command_line.value()?.string()?),
                Long("npy-bf16") => selection.npy_bf16 = true,
                Long("scale") => {
                    let given = command_line.value()?;
                    let factor: Option<f32> = given.to_str().and_then(|text| text.parse().ok());
                    scale = factor
                        .filter(|factor| factor.is_finite())
                        .with_context(|| {
                            format!("--scale {}: not a finite number", given.display())
                        })?;
                }
                Long("out-dtype") => {
                    let allowed = "f32, f16 or bf16";
                    out_dtype = Some(choice(
                        &command_line.value()?,
                        "--out-dtype",
                        allowed,
                        dtype,
                    )?);
                }
                Long("device") => {
                    let allowed = "auto, cuda, cuda:N or emulator";
                    device = choice(
                        &command_line.value()?,
                        "--device",
                        allowed,
                        DeviceChoice::parse,
                    )?;
                }
                Long("block-mib") => {
                    let given = command_line.value()?;
                    let allowed = format!("from 1 to {MAX_BLOCK_MIB}");
                    block_bytes = choice(&given, "--block-mib", &allowed, |text| {
                        let mib: usize = text.parse().ok()?;
                        (1..=MAX_BLOCK_MIB).contains(&mib).then_some(mib << 20)
                    })?;
                }
                Value(path) if paths.len() < 2 => paths.push(path.into()),
                other => return Err(other.unexpected().into()),
            }
        }
        let [input, output]: [PathBuf; 2] = paths.try_into().map_err(|paths: Vec<_>| {
            anyhow!("{} paths given; INPUT and OUTPUT are needed", paths.len())
        })?;
        let formats =
            [&input, &output].map(|path| path.extension().map(|e| e.to_ascii_lowercase()));
        ensure!(
            formats[0] == formats[1],
            "{} and {} differ in their format: formats are not converted",
            input.display(),
            output.display()
        );
        Ok(Some(Self {
            input,
            output,
            selection,
            scale,
            out_dtype,
            device,
            block_bytes,
        }))
    }
}

/// The value `given` to `option`, one of those `allowed`.
fn choice<T>(
    given: &OsString,
    option: &str,
    allowed: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T> {
    match given.to_str().and_then(parse) {
        Some(value) => Ok(value),
        None => bail!(
            "{option} {}: it must be {allowed}",
            Path::new(given).display()
        ),
    }
}

fn dtype(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|dtype| dtype.name() == name)
}
