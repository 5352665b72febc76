//! A program outside the workspace that depends on the library, built as the README says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MAIN: &str = r#"
use warp_softmax::{Device, Softmax};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    let x = device.tensor_from(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    println!("{:?}", Softmax::new().forward(&x)?.to_vec()?);
    Ok(())
}
"#;

/// A package in a folder of its own, outside the workspace, so that nothing of the workspace's settings
/// reaches it; gone when the test ends.
struct Package {
    folder: PathBuf,
}

impl Package {
    fn new() -> Self {
        let folder =
            std::env::temp_dir().join(format!("warp-softmax-downstream-{}", std::process::id()));
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("the tests lie in the workspace");
        let manifest = format!(
            "[package]\nname = \"downstream\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [dependencies]\nwarp-softmax = {{ path = {:?} }}\n\n[workspace]\n",
            workspace.join("host")
        );
        fs::create_dir_all(folder.join("src")).expect("a folder");
        fs::create_dir_all(folder.join("cuda/lib64")).expect("a folder");
        fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
        fs::write(folder.join("src/main.rs"), MAIN).expect("a file");
        // The versions that are here already.
        fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).expect("a file");
        Self { folder }
    }

    /// Runs the program in an environment that has what a user's has: none of the workspace's settings.
    fn run(&self, variables: &[(&str, &str)]) -> Output {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["run", "--quiet", "--offline", "--target-dir"])
            .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("downstream"));
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy();
            let cargos = name.starts_with("CARGO_") && name != "CARGO_HOME";
            if cargos || name.starts_with("WARP_SOFTMAX_") || name == "CUDA_LIBRARY_PATH" {
                cargo.env_remove(&variable);
            }
        }
        cargo
            .env("CUDA_LIBRARY_PATH", self.folder.join("cuda"))
            .envs(variables.iter().copied());
        cargo
            .current_dir(&self.folder)
            .output()
            .expect("cargo runs")
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        // What is left lies in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_program_outside_the_workspace_computes_a_softmax() {
    let package = Package::new();
    let output = package.run(&[]);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stderr}");
    let numbers = stdout.trim().trim_matches(['[', ']']).split(", ");
    let numbers: Vec<f32> = numbers
        .map(|number| number.parse().unwrap_or_else(|_| panic!("{stdout}")))
        .collect();
    let exact = [0.268_941_42f32, 0.731_058_6, 0.268_941_42, 0.731_058_6];
    assert_eq!(numbers.len(), exact.len(), "{stdout}");
    for (number, exact) in numbers.iter().zip(exact) {
        // Four units in the last place, as the contract has it.
        assert!(number.to_bits().abs_diff(exact.to_bits()) <= 4, "{stdout}");
    }

    // On the emulator the same, to the bit; and a device that there is none of is an error that says so.
    let emulated = package.run(&[("WARP_SOFTMAX_DEVICE", "emulator")]);
    assert_eq!(emulated.stdout, output.stdout);
    let refused = package.run(&[("WARP_SOFTMAX_DEVICE", "tpu")]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    for word in ["WARP_SOFTMAX_DEVICE", "tpu", "auto", "cuda", "emulator"] {
        assert!(stderr.contains(word), "`{word}` is not in `{stderr}`");
    }
}
