//! Where and when a run is made.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use warp_softmax::Device;

use crate::record::{Clocks, Environment};

/// The commit that this program was built from; `+` if sources had changed since.
pub const COMMIT: &str = env!("BENCH_COMMIT");

/// What there is to say about a run on `device`.
pub fn describe(device: &Device, command: &[String]) -> Environment {
    let nvidia_smi = |field| {
        if device.is_cuda() {
            ask_nvidia_smi(field)?.pop()
        } else {
            None
        }
    };
    Environment {
        device: device.name().to_owned(),
        driver: nvidia_smi("driver_version"),
        clocks: None,
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        commit: COMMIT.to_owned(),
        // Files by name: where they lay says nothing elsewhere.
        command: command.iter().map(|word| file_name(word)).collect(),
        software: format!("warp-softmax {}", env!("CARGO_PKG_VERSION")),
    }
}

fn file_name(word: &str) -> String {
    let name = Path::new(word).file_name().and_then(|name| name.to_str());
    name.unwrap_or(word).to_owned()
}

/// The GPU's clocks at this moment; none where `nvidia-smi` does not answer.
pub fn clocks(device: &Device) -> Option<Clocks> {
    if !device.is_cuda() {
        return None;
    }
    let answer = ask_nvidia_smi("clocks.sm,clocks.max.sm,clocks.mem,power.draw,temperature.gpu")?;
    let numbers: Vec<f64> = answer
        .iter()
        .map(|text| text.parse().ok())
        .collect::<Option<_>>()?;
    let &[sm_mhz, max_sm_mhz, memory_mhz, power_w, temperature_c] = numbers.as_slice() else {
        return None;
    };
    Some(Clocks {
        sm_mhz,
        max_sm_mhz,
        memory_mhz,
        power_w,
        temperature_c,
    })
}

/// Fields of the first GPU that is visible to `nvidia-smi`.
fn ask_nvidia_smi(fields: &str) -> Option<Vec<String>> {
    let output = Command::new("nvidia-smi")
        .arg(format!("--query-gpu={fields}"))
        .arg("--format=csv,noheader,nounits")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?;
    Some(
        line.split(',')
            .map(|field| field.trim().to_owned())
            .collect(),
    )
}
