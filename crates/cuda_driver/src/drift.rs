//! Holds the lists of symbols and statuses against `cust_raw`'s source, so that they cannot drift.
//!
//! `CUDA_DRIVER_REGENERATE=1 cargo test -p warp-softmax-cuda-driver drift` writes them anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, env::consts::ARCH, fs};

/// Functions that need a Rust function although their arguments fit in registers.
const TYPED_ANYWAY: [&str; 5] = [
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuInit",
];

#[test]
fn symbols_are_those_that_cust_raw_declares() {
    let bindings = bindings();
    let functions = functions(&bindings);
    assert_eq!(functions.len(), bindings.matches("pub fn cu").count());

    let typed = |f: &Function| TYPED_ANYWAY.contains(&f.name) || f.passes_on_the_stack(&bindings);
    let list = |of_kind: bool| -> String {
        let names: BTreeSet<_> = functions
            .iter()
            .filter(|f| typed(f) == of_kind)
            .map(|f| f.name)
            .collect();
        names
            .iter()
            .map(|name| format!("        {name}\n"))
            .collect()
    };
    expect_file(
        "src/forward/symbols.rs",
        &format!(
            "// The functions that `cust_raw` declares. Generated: see `drift.rs`.\n\n\
             forward! {{\n    in_registers {{\n{}    }}\n    typed {{\n{}    }}\n}}\n",
            list(false),
            list(true)
        ),
    );
}

#[test]
fn codes_are_those_that_cust_raw_knows() {
    let bindings = bindings();
    let (_, rest) = bindings.split_once("pub enum cudaError_enum {").unwrap();
    let (variants, _) = rest.split_once('}').unwrap();
    let list: String = variants
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').split_once(" = "))
        .map(|(name, code)| format!("    ({code}, c\"{name}\"),\n"))
        .collect();
    expect_file(
        "src/codes/list.rs",
        &format!(
            "// The statuses that `cust_raw`'s enum has. Generated: see `drift.rs`.\n\n\
             use std::ffi::CStr;\n\n\
             /// Number and name, in order.\n\
             pub(super) const CODES: &[(i32, &CStr)] = &[\n{list}];\n"
        ),
    );
}

/// A declaration in `cust_raw`.
struct Function<'a> {
    name: &'a str,
    argument_types: Vec<&'a str>,
}

impl Function<'_> {
    /// Whether an argument does not fit in the registers for arguments: six on x86-64, eight on
    /// aarch64, floats counted in although they have registers of their own.
    fn passes_on_the_stack(&self, bindings: &str) -> bool {
        self.argument_types.len() > 6 || self.argument_types.iter().any(|t| is_struct(t, bindings))
    }
}

/// Whether an argument type is a struct passed by value.
fn is_struct(name: &str, bindings: &str) -> bool {
    let alias = format!("pub type {name} = ");
    match bindings.split_once(&alias) {
        Some((_, target)) => is_struct(target.split(';').next().unwrap(), bindings),
        None => bindings.contains(&format!("pub struct {name} {{")),
    }
}

fn functions(bindings: &str) -> Vec<Function<'_>> {
    bindings
        .split("    pub fn ")
        .skip(1)
        .map(|text| {
            let (name, rest) = text.split_once('(').unwrap();
            let (arguments, _) = rest.split_once("-> CUresult;").unwrap();
            let arguments = arguments.trim_end().trim_end_matches(')');
            let argument_types = arguments
                .split(',')
                .filter_map(|argument| argument.split_once(": "))
                .map(|(_, argument_type)| argument_type.trim())
                .collect();
            Function {
                name,
                argument_types,
            }
        })
        .collect()
}

fn bindings() -> String {
    fs::read_to_string(cust_raw_folder().join("src/cuda.rs")).unwrap()
}

/// Where Cargo has the source of the `cust_raw` that this build uses.
fn cust_raw_folder() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--quiet"])
        // Without it, cargo would want the packages of every platform.
        .arg(format!("--filter-platform={ARCH}-unknown-linux-gnu"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {output:?}");
    let metadata = String::from_utf8(output.stdout).unwrap();
    let mut folders = metadata
        .split("\"manifest_path\":\"")
        .filter_map(|text| Path::new(text.split('"').next()?).parent())
        .filter(|folder| {
            folder
                .file_name()
                .is_some_and(|f| f.to_string_lossy().starts_with("cust_raw"))
        });
    let folder = folders
        .next()
        .expect("cust_raw is a dependency of the tests");
    assert_eq!(folders.next(), None, "one version of cust_raw");
    folder.to_owned()
}

/// Compares a checked-in file with what it should be, or writes it.
fn expect_file(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("CUDA_DRIVER_REGENERATE").is_some() {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "{} is not what cust_raw's source gives; see the top of src/drift.rs",
        path.display()
    );
}
