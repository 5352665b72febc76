//! A shared object that uses `cust`: what it exports must be its own function and nothing of the
//! driver's. `tests/plugin.rs` looks.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod plugin {
    use cuda_driver as _;

    /// Whether `cust` can be initialised here; if not, the error's number.
    #[unsafe(no_mangle)]
    extern "C" fn plugin_init() -> u32 {
        match cust::init(cust::CudaFlags::empty()) {
            Ok(()) => 0,
            Err(error) => error as u32,
        }
    }
}
