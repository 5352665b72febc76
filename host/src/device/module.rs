//! Kernels of a GPU: the PTX that comes with the crate, loaded one entry at a time.
//!
//! The driver compiles an entry in about 0.07 s, so what a program does not use is never compiled.

use std::env;
use std::ffi::{CString, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_driver::{CUfunction, CuError, Driver, FunctionAttribute};
use kernels_gpu::entries::REGISTRY;
use miniz_oxide::inflate::decompress_to_vec;

use super::cuda;
use crate::Error;
use crate::plan::KernelId;

/// The PTX, and where its entries are.
mod embedded {
    include!(concat!(env!("OUT_DIR"), "/ptx.rs"));
}

/// Names an older architecture than the GPU's.
const ARCH_VARIABLE: &str = "WARP_SOFTMAX_ARCH";

/// PTX for one architecture and all later ones.
#[derive(Debug)]
pub(super) struct Ptx {
    name: &'static str,
    /// Compute capability, major and minor.
    needed: (u32, u32),
    /// A header, then the entries, each deflated by itself.
    deflated: &'static [u8],
    /// Name, start and end of every entry, in the deflated bytes.
    entries: &'static [(&'static str, usize, usize)],
}

/// Newest first.
static PTX: [Ptx; 2] = [
    Ptx {
        name: "sm_90",
        needed: (9, 0),
        deflated: embedded::SM_90,
        entries: embedded::SM_90_ENTRIES,
    },
    Ptx {
        name: "sm_80",
        needed: (8, 0),
        deflated: embedded::SM_80,
        entries: embedded::SM_80_ENTRIES,
    },
];

impl Ptx {
    /// The newest that the GPU `gpu`, of a compute capability, can run, or the one that the
    /// environment variable `WARP_SOFTMAX_ARCH` names.
    pub(super) fn choose(gpu: &str, capability: (u32, u32)) -> Result<&'static Self, Error> {
        let named = env::var_os(ARCH_VARIABLE).map(|value| value.to_string_lossy().into_owned());
        Self::choose_named(gpu, capability, named)
    }

    fn choose_named(
        gpu: &str,
        capability: (u32, u32),
        named: Option<String>,
    ) -> Result<&'static Self, Error> {
        let ptx = match named {
            None => PTX
                .iter()
                .find(|ptx| ptx.needed <= capability)
                .unwrap_or(&PTX[PTX.len() - 1]),
            Some(value) => PTX
                .iter()
                .find(|ptx| ptx.name == value)
                .ok_or(Error::Environment {
                    variable: ARCH_VARIABLE,
                    value,
                    allowed: "it may be sm_80 or sm_90",
                })?,
        };
        if ptx.needed > capability {
            return Err(Error::GpuTooOld {
                name: gpu.into(),
                found: capability,
                needed: ptx.needed,
            });
        }
        Ok(ptx)
    }

    /// Whether kernels that run in clusters are among the entries.
    pub(super) fn has_clusters(&self) -> bool {
        self.needed >= (9, 0)
    }

    /// Whether the entries wait for the kernel ahead of them themselves.
    fn has_programmatic_launch(&self) -> bool {
        self.needed >= (9, 0)
    }

    /// A module of the entry `name` alone.
    fn cut(&self, name: &str) -> Option<Vec<u8>> {
        let header_end = self.entries.first()?.1;
        let &(_, start, end) = self.entries.iter().find(|entry| entry.0 == name)?;
        Some([self.inflate(0..header_end), self.inflate(start..end)].concat())
    }

    /// A piece of the text.
    fn inflate(&self, range: Range<usize>) -> Vec<u8> {
        decompress_to_vec(&self.deflated[range]).expect("the build script has deflated it")
    }
}

/// The kernels that were loaded into a context so far. They stay loaded as long as the process
/// lives.
pub(super) struct Kernels {
    ptx: &'static Ptx,
    /// By [`KernelId::index`]; null: not loaded.
    functions: Box<[AtomicPtr<c_void>]>,
    /// Held while one is loaded, so that none is loaded twice.
    loading: Mutex<()>,
}

impl Kernels {
    pub(super) fn new(ptx: &'static Ptx) -> Self {
        Self {
            ptx,
            functions: (0..REGISTRY.len())
                .map(|_| AtomicPtr::new(ptr::null_mut()))
                .collect(),
            loading: Mutex::new(()),
        }
    }

    /// Whether they may begin before the kernel ahead of them has ended.
    pub(super) fn have_programmatic_launch(&self) -> bool {
        self.ptx.has_programmatic_launch()
    }

    /// The kernel, if it is loaded.
    pub(super) fn get(&self, kernel: KernelId) -> Option<CUfunction> {
        let function = self.functions[kernel.index()].load(Ordering::Acquire);
        (!function.is_null()).then_some(function.cast())
    }

    /// Loads a kernel into the context that is current, unless it is loaded already. It may then
    /// ask for `max_shared_bytes` of shared memory, all in all.
    ///
    /// The current context is always the same.
    pub(super) fn load(
        &self,
        driver: &'static Driver,
        kernel: KernelId,
        max_shared_bytes: u32,
    ) -> Result<CUfunction, Error> {
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = self.get(kernel) {
            return Ok(function);
        }
        let name = kernel.describe().name;
        let failed = |source| Error::Load {
            kernel: name,
            source,
        };
        let text = self.ptx.cut(name).ok_or_else(|| {
            let arch = self.ptx.name;
            failed(
                format!("the PTX for {arch} that this crate was built with has no such entry")
                    .into(),
            )
        })?;
        let image = CString::new(text).map_err(|error| failed(error.into()))?;
        let entry = CString::new(name).map_err(|error| failed(error.into()))?;
        // SAFETY: PTX, as the kernels' build wrote it.
        let module = unsafe { driver.module_load_data(&image) }.map_err(|refused| {
            // Then the kernel is not to blame.
            match cuda::failed("cuModuleLoadDataEx")(refused.error) {
                lost @ Error::ContextLost { .. } => lost,
                _ => failed(refused.into()),
            }
        })?;
        let set_up = || -> Result<CUfunction, CuError> {
            // SAFETY: the module was just loaded, and so its kernel.
            unsafe {
                let function = driver.module_get_function(module, &entry)?;
                let own =
                    driver.func_get_attribute(FunctionAttribute::SHARED_SIZE_BYTES, function)?;
                let most = max_shared_bytes as i32 - own;
                driver.func_set_attribute(
                    function,
                    FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    most,
                )?;
                if self.ptx.has_clusters() {
                    let allowed = FunctionAttribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
                    driver.func_set_attribute(function, allowed, 1)?;
                }
                Ok(function)
            }
        };
        match set_up() {
            Ok(function) => {
                self.functions[kernel.index()].store(function.cast(), Ordering::Release);
                Ok(function)
            }
            Err(error) => {
                // SAFETY: nobody else knows the module. That it may fail to unload changes nothing.
                let _ = unsafe { driver.module_unload(module) };
                Err(failed(error.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kernel_is_in_the_ptx() {
        for ptx in &PTX {
            let kernels: BTreeSet<_> = REGISTRY
                .iter()
                .map(|kernel| kernel.name)
                .filter(|name| ptx.has_clusters() || !name.contains("_split_"))
                .collect();
            let entries: BTreeSet<_> = ptx.entries.iter().map(|entry| entry.0).collect();
            assert_eq!(entries, kernels, "{}", ptx.name);
        }
    }

    #[test]
    fn a_cut_is_the_header_and_one_entry() {
        for ptx in &PTX {
            for &(name, ..) in ptx.entries {
                let text = String::from_utf8(ptx.cut(name).unwrap()).unwrap();
                assert_eq!(text.matches(".entry ").count(), 1, "{name}");
                assert!(text.contains(&format!(".entry {name}(")));
                assert_eq!(text.matches(".version").count(), 1);
                assert!(text.contains(&format!(".target {}", ptx.name)));
            }
            assert!(ptx.cut("softmax").is_none());
        }
    }

    #[test]
    fn the_newest_ptx_that_runs_is_taken() {
        let choose = |capability, named: Option<&str>| {
            Ptx::choose_named("GPU", capability, named.map(Into::into))
        };
        let name = |capability, named| choose(capability, named).unwrap().name;
        assert_eq!(name((8, 0), None), "sm_80");
        assert_eq!(name((8, 9), None), "sm_80");
        assert_eq!(name((9, 0), None), "sm_90");
        assert_eq!(name((12, 0), None), "sm_90");
        assert_eq!(name((9, 0), Some("sm_80")), "sm_80");
        let needed = |capability, named| match choose(capability, named) {
            Err(Error::GpuTooOld { needed, .. }) => needed,
            other => panic!("{other:?}"),
        };
        assert_eq!(needed((7, 5), None), (8, 0));
        assert_eq!(needed((8, 9), Some("sm_90")), (9, 0));
        assert!(matches!(
            choose((9, 0), Some("sm_70")),
            Err(Error::Environment { .. })
        ));
    }
}
