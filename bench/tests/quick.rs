//! Every bench, once and tiny, on the emulator: through the program itself, as a user starts it.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of the test's own that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("warp-softmax-bench-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(arguments)
        .env("WARP_SOFTMAX_DEVICE", "emulator")
        .output()
        .unwrap()
}

/// Runs a bench and returns its record.
fn quick(bench_name: &str, options: &[&str]) -> Value {
    let folder = Folder::new(bench_name);
    let json = folder.join("record.json");
    let all = [
        &[bench_name, "--quick", "--json", json.to_str().unwrap()],
        options,
    ]
    .concat();
    let output = bench(&all);
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("emulator") && text.contains("nothing is timed"),
        "{text}"
    );
    serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap()
}

/// Each cell was checked, and none claims a time.
fn assert_checked(record: &Value, bench_name: &str, number: usize) {
    let cells = record["cells"].as_array().unwrap();
    assert_eq!(cells.len(), number, "{record}");
    for cell in cells {
        assert_eq!(cell["bench"], bench_name);
        assert_eq!(cell["implementation"], "warp-softmax");
        assert!(cell["timing"].is_null(), "{cell}");
        assert!(
            cell["kernel"].as_str().unwrap().starts_with("softmax_"),
            "{cell}"
        );
        let elements = cell["rows"].as_u64().unwrap() * cell["cols"].as_u64().unwrap();
        let accuracy = &cell["accuracy"];
        assert_eq!(accuracy["elements_scanned"].as_u64().unwrap(), elements);
        assert!(accuracy["rows_compared"].as_u64().unwrap() > 0);
        assert!(
            accuracy["max_error_ulp"].as_f64().unwrap() <= accuracy["limit_ulp"].as_f64().unwrap()
        );
    }
    assert_eq!(record["failures"], Value::Array(vec![]));
    assert_eq!(record["schema"], 1);
}

#[test]
fn throughput() {
    assert_checked(&quick("throughput", &[]), "throughput", 3 * 19);
}

#[test]
fn latency() {
    // A single element first, then two numbers of rows by two of columns.
    assert_checked(
        &quick("latency", &["--dtype", "f32,bf16", "--cols", "33,4096"]),
        "latency",
        2 * 5,
    );
}

#[test]
fn masked() {
    let record = quick("masked", &[]);
    assert_eq!(record["failures"], Value::Array(vec![]), "{record}");
    let cells = record["masked"].as_array().unwrap();
    assert_eq!(cells.len(), 3 * 3 * 8);
    for cell in cells {
        assert!(
            cell["timing"].is_null() && cell["kernel"].as_str().unwrap().starts_with("attention_")
        );
        let accuracy = &cell["accuracy"];
        assert!(
            accuracy["max_error_ulp"].as_f64().unwrap() <= accuracy["limit_ulp"].as_f64().unwrap()
        );
    }
}

#[test]
fn scaling() {
    let record = quick("scaling", &["--dtype", "f32"]);
    assert_checked(&record, "scaling", 4);
    assert_eq!(record["scaling"], Value::Array(vec![]));
}

#[test]
fn startup() {
    let record = quick("startup", &["--dtype", "f16", "--cols", "1000"]);
    assert_eq!(record["failures"], Value::Array(vec![]));
    assert_eq!(record["startup"], Value::Array(vec![]));
}

#[test]
fn a_forced_way_is_taken() {
    let record = quick(
        "throughput",
        &[
            "--dtype",
            "f32",
            "--cols",
            "100",
            "--way",
            "stream",
            "--reproducible",
        ],
    );
    assert!(
        record["cells"][0]["kernel"]
            .as_str()
            .unwrap()
            .contains("stream"),
        "{record}"
    );
}

#[test]
fn a_cell_that_fails_is_named_and_the_rest_goes_on() {
    let folder = Folder::new("fails");
    let json = folder.join("record.json");
    let options = [
        "throughput",
        "--quick",
        "--dtype",
        "f32",
        "--cols",
        "100000,100",
        "--way",
        "warp",
        "--json",
    ];
    let output = bench(&[options.as_slice(), &[json.to_str().unwrap()]].concat());
    assert!(!output.status.success());
    let record: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(record["cells"].as_array().unwrap().len(), 1);
    assert_eq!(record["failures"][0]["cell"], "throughput f32 1 x 100000");
    assert!(
        record["failures"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("warp"),
        "{record}"
    );
}

#[test]
fn without_a_gpu_only_quick_runs_are_made() {
    let output = bench(&["throughput"]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("throughput needs a GPU") && error.contains("--quick"),
        "{error}"
    );
}

#[test]
fn exchanged_files_hold_inputs_and_results() {
    let folder = Folder::new("exchange");
    let output = bench(&["exchange", folder.0.to_str().unwrap(), "--quick"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 3 * 12 * 3);

    let [x, y] = read_f32(&folder.join("f32-16x33-bell.safetensors"));
    assert_eq!(y.len(), 16 * 33);
    for (x, y) in x.chunks(33).zip(y.chunks(33)) {
        let sum: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
        for (x, y) in x.iter().zip(y) {
            let exact = f64::from(*x).exp() / sum;
            assert!(
                (f64::from(*y) - exact).abs() <= 1e-6 * exact,
                "{x}: {y} instead of {exact}"
            );
        }
    }
}

/// `x` and `y` of a file, by a reading of the format that is not the writer's.
fn read_f32(path: &Path) -> [Vec<f32>; 2] {
    let file = fs::read(path).unwrap();
    let (length, rest) = file.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: Value = serde_json::from_slice(header).unwrap();
    ["x", "y"].map(|name| {
        let tensor = &header[name];
        assert_eq!(tensor["dtype"], "F32");
        let [first, last] =
            [0, 1].map(|index| tensor["data_offsets"][index].as_u64().unwrap() as usize);
        data[first..last]
            .chunks(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect()
    })
}
