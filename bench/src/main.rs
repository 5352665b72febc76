//! The program `bench`.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn main() -> std::process::ExitCode {
    benches::main()
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn main() -> std::process::ExitCode {
    eprintln!(
        "error: benches measure a GPU, which is looked for on Linux alone, on x86-64 and aarch64"
    );
    std::process::ExitCode::FAILURE
}
