//! `cargo xtask ptxas`: what each kernel uses once it is assembled. No GPU is needed.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_builder::{NvptxArch, ptx};

use crate::ptx::committed_path;
use crate::{Error, command, workspace};

/// The release of `nvidia-cuda-nvcc` that `cargo xtask setup` gets.
pub const VERSION: &str = "13.0.88";

/// Which PTX is assembled for which GPU: each for its own, and the later one for those that came after.
const ASSEMBLED: [(NvptxArch, &str); 4] = [
    (NvptxArch::Compute80, "sm_80"),
    (NvptxArch::Compute90, "sm_90"),
    (NvptxArch::Compute90, "sm_100"),
    (NvptxArch::Compute90, "sm_120"),
];

/// Where `cargo xtask setup` puts the package.
pub fn download_dir() -> PathBuf {
    workspace().join("target/ptxas")
}

/// The downloaded ptxas, or the one on the PATH, or a toolkit's.
pub fn find() -> Option<PathBuf> {
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(env::var_os);
    let mut folders = vec![download_dir().join("nvidia/cu13/bin")];
    folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    folders.extend(toolkits.map(|toolkit| Path::new(&toolkit).join("bin")));
    folders.push("/usr/local/cuda/bin".into());
    let mut programs = folders.into_iter().map(|folder| folder.join("ptxas"));
    programs.find(|program| program.is_file())
}

/// Assembles the committed PTX, prints a table for each GPU, and fails if a kernel uses local memory.
pub fn run() -> Result<(), Error> {
    let program = find().ok_or(
        "there is no ptxas in target/ptxas, on the PATH, in CUDA_HOME or in CUDA_PATH: \
         `cargo xtask setup` gets it",
    )?;
    let mut spilling = Vec::new();
    for (arch, gpu) in ASSEMBLED {
        let path = committed_path(arch);
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}; `cargo xtask ptx` makes it", path.display()))?;
        let usage = assemble(&program, &path, gpu)?;
        println!("{} assembled for {gpu}\n", path.display());
        print!("{}", table(&usage));
        println!();
        for entry in ptx::entries(&text)? {
            if usage
                .get(entry.name)
                .is_none_or(|usage| usage.registers.is_none())
            {
                return Err(format!("ptxas says nothing of `{}` for {gpu}", entry.name).into());
            }
        }
        let uses_local = usage.iter().filter(|(_, usage)| usage.local_bytes() > 0);
        spilling.extend(uses_local.map(|(name, _)| format!("{name} ({gpu})")));
    }
    if spilling.is_empty() {
        return Ok(());
    }
    Err(format!(
        "kernels that spill or use local memory: {}",
        spilling.join(", ")
    )
    .into())
}

/// What one function uses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    /// Of entries only: a function is counted with the entries that call it.
    registers: Option<u32>,
    shared_bytes: u32,
    stack_bytes: u32,
    spill_store_bytes: u32,
    spill_load_bytes: u32,
}

impl Usage {
    fn local_bytes(&self) -> u32 {
        self.stack_bytes + self.spill_store_bytes + self.spill_load_bytes
    }
}

fn assemble(program: &Path, path: &Path, gpu: &str) -> Result<BTreeMap<String, Usage>, Error> {
    let mut ptxas = Command::new(program);
    // All cores; the result is thrown away.
    ptxas.args([
        "--verbose",
        "--split-compile=0",
        "--output-file",
        "/dev/null",
    ]);
    ptxas.arg(format!("--gpu-name={gpu}")).arg(path);
    let output = command::output(&mut ptxas)?;
    Ok(parse(&String::from_utf8_lossy(&output.stderr)))
}

/// Reads what `ptxas --verbose` prints, by function.
fn parse(printed: &str) -> BTreeMap<String, Usage> {
    let mut usage: BTreeMap<String, Usage> = BTreeMap::new();
    let (mut entry, mut function) = ("", "");
    for line in printed.lines() {
        let line = line
            .trim_start_matches("ptxas info")
            .trim_start_matches([' ', ':']);
        if let Some(rest) = line.strip_prefix("Compiling entry function '") {
            entry = rest.split('\'').next().unwrap_or_default();
        } else if let Some(name) = line.strip_prefix("Function properties for ") {
            function = name.trim();
        } else if line.contains("bytes stack frame") {
            let usage = usage.entry(function.to_owned()).or_default();
            usage.stack_bytes = number_before(line, "bytes stack frame").unwrap_or(0);
            usage.spill_store_bytes = number_before(line, "bytes spill stores").unwrap_or(0);
            usage.spill_load_bytes = number_before(line, "bytes spill loads").unwrap_or(0);
        } else if line.starts_with("Used ") {
            let usage = usage.entry(entry.to_owned()).or_default();
            usage.registers = number_before(line, "registers");
            usage.shared_bytes = number_before(line, "bytes smem").unwrap_or(0);
        }
    }
    usage
}

/// The number that stands before `what`.
fn number_before(line: &str, what: &str) -> Option<u32> {
    let (before, _) = line.split_once(what)?;
    before.trim_end().rsplit(' ').next()?.parse().ok()
}

fn table(usage: &BTreeMap<String, Usage>) -> String {
    let width = usage.keys().map(String::len).max().unwrap_or(0);
    let row = |name: &str, columns: [&str; 5]| {
        let columns = columns.map(|column| format!("{column:>12}")).concat();
        format!("{name:width$}{columns}\n")
    };
    let heading = [
        "registers",
        "shared B",
        "stack B",
        "spill st. B",
        "spill ld. B",
    ];
    let mut text = row("entry", heading);
    for (name, usage) in usage {
        let registers = usage
            .registers
            .map_or("-".to_owned(), |count| count.to_string());
        let bytes = [
            usage.shared_bytes,
            usage.stack_bytes,
            usage.spill_store_bytes,
            usage.spill_load_bytes,
        ];
        let [shared, stack, stores, loads] = bytes.map(|bytes| bytes.to_string());
        text += &row(name, [&registers, &shared, &stack, &stores, &loads]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
ptxas info    : 24 bytes gmem, 16 bytes cmem[4]
ptxas info    : Compiling entry function 'softmax' for 'sm_80'
ptxas info    : Function properties for softmax
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 132 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 3.226 ms
ptxas info    : Function properties for helper
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'log_softmax' for 'sm_80'
ptxas info    : Function properties for log_softmax
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers, 364 bytes cmem[0]
";

    #[test]
    fn each_function_gets_its_own_numbers() {
        let usage = parse(PRINTED);
        assert_eq!(
            usage.keys().collect::<Vec<_>>(),
            ["helper", "log_softmax", "softmax"]
        );
        let softmax = Usage {
            registers: Some(40),
            shared_bytes: 132,
            stack_bytes: 16,
            spill_store_bytes: 8,
            spill_load_bytes: 4,
        };
        assert_eq!(usage["softmax"], softmax);
        assert_eq!(usage["softmax"].local_bytes(), 28);
        assert_eq!(usage["log_softmax"].registers, Some(8));
        assert_eq!(usage["log_softmax"].shared_bytes, 0);
        assert_eq!(usage["helper"], Usage::default());
    }

    #[test]
    fn the_table_has_a_row_for_each_function_and_aligned_columns() {
        let table = table(&parse(PRINTED));
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(
            lines.iter().all(|line| line.len() == lines[0].len()),
            "{table}"
        );
        let words: Vec<_> = lines[3].split_whitespace().collect();
        assert_eq!(words, ["softmax", "40", "132", "16", "8", "4"]);
    }
}
