//! Kernels of a GPU: the PTX that comes with the crate, and cubins of it, loaded one entry at a time.
//!
//! The driver compiles an entry of PTX in about 0.07 s, so what a program does not use is never compiled. A cubin is
//! machine code already: a GPU that it was made for gets that, and the PTX where its driver will not have it.

use std::env;
use std::ffi::{CStr, CString, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_driver::{CUfunction, CUmodule, CuError, Driver, FunctionAttribute, ModuleLoadError};
use kernels_gpu::entries::REGISTRY;
use miniz_oxide::inflate::decompress_to_vec;

use super::cuda;
use crate::Error;
use crate::plan::KernelId;

/// The PTX and the cubins, and where their entries are.
mod embedded {
    include!(concat!(env!("OUT_DIR"), "/ptx.rs"));
}

/// Names an older architecture than the GPU's.
const ARCH_VARIABLE: &str = "WARP_SOFTMAX_ARCH";
/// Names a [`Code`].
const CODE_VARIABLE: &str = "WARP_SOFTMAX_CODE";

/// PTX for one architecture and all later ones.
#[derive(Debug)]
pub(super) struct Ptx {
    name: &'static str,
    /// Compute capability, major and minor.
    needed: (u32, u32),
    /// A header before the entries.
    text: Entries,
    /// Of the entries; none where nobody has assembled them.
    cubins: Entries,
}

/// Pieces that are deflated each by itself.
#[derive(Debug)]
struct Entries {
    deflated: &'static [u8],
    /// Name, start and end of every entry.
    index: &'static [(&'static str, usize, usize)],
}

impl Entries {
    fn get(&self, name: &str) -> Option<Vec<u8>> {
        let &(_, start, end) = self.index.iter().find(|entry| entry.0 == name)?;
        Some(self.inflate(start..end))
    }

    fn inflate(&self, range: Range<usize>) -> Vec<u8> {
        decompress_to_vec(&self.deflated[range]).expect("it was deflated when it was made")
    }
}

/// Newest first.
static PTX: [Ptx; 2] = [
    Ptx {
        name: "sm_90",
        needed: (9, 0),
        text: Entries {
            deflated: embedded::SM_90,
            index: embedded::SM_90_ENTRIES,
        },
        cubins: Entries {
            deflated: embedded::SM_90_CUBINS,
            index: embedded::SM_90_CUBINS_ENTRIES,
        },
    },
    Ptx {
        name: "sm_80",
        needed: (8, 0),
        text: Entries {
            deflated: embedded::SM_80,
            index: embedded::SM_80_ENTRIES,
        },
        cubins: Entries {
            deflated: embedded::SM_80_CUBINS,
            index: embedded::SM_80_CUBINS_ENTRIES,
        },
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
        let header_end = self.text.index.first()?.1;
        let entry = self.text.get(name)?;
        Some([self.text.inflate(0..header_end), entry].concat())
    }
}

/// What kernels are loaded from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Code {
    /// A cubin if there is one; PTX if not, and where the driver will not have it.
    Cubin,
    /// PTX alone.
    Ptx,
}

impl Code {
    /// What suits a GPU that runs `ptx`, or PTX where the environment variable `WARP_SOFTMAX_CODE` says so.
    pub(super) fn choose(ptx: &Ptx, capability: (u32, u32)) -> Result<Self, Error> {
        let named = env::var_os(CODE_VARIABLE).map(|value| value.to_string_lossy().into_owned());
        Self::choose_named(ptx, capability, named)
    }

    fn choose_named(
        ptx: &Ptx,
        capability: (u32, u32),
        named: Option<String>,
    ) -> Result<Self, Error> {
        match named.as_deref() {
            // Machine code runs on later capabilities of its major number alone, PTX on all.
            None | Some("cubin") if ptx.needed.0 == capability.0 => Ok(Self::Cubin),
            None | Some("cubin" | "ptx") => Ok(Self::Ptx),
            Some(value) => Err(Error::Environment {
                variable: CODE_VARIABLE,
                value: value.into(),
                allowed: "it may be cubin or ptx",
            }),
        }
    }
}

/// The kernels that were loaded into a context so far. They stay loaded as long as the process
/// lives.
pub(super) struct Kernels {
    ptx: &'static Ptx,
    code: Code,
    /// By [`KernelId::index`]; null: not loaded.
    functions: Box<[AtomicPtr<c_void>]>,
    /// How many of them the driver has compiled.
    compiled: AtomicUsize,
    /// Held while one is loaded, so that none is loaded twice.
    loading: Mutex<()>,
}

impl Kernels {
    pub(super) fn new(ptx: &'static Ptx, code: Code) -> Self {
        Self {
            ptx,
            code,
            functions: (0..REGISTRY.len())
                .map(|_| AtomicPtr::new(ptr::null_mut()))
                .collect(),
            compiled: AtomicUsize::new(0),
            loading: Mutex::new(()),
        }
    }

    /// Whether they may begin before the kernel ahead of them has ended.
    pub(super) fn have_programmatic_launch(&self) -> bool {
        self.ptx.has_programmatic_launch()
    }

    /// How many of the kernels the driver has compiled: those that were not loaded from a cubin.
    pub(super) fn compiled(&self) -> usize {
        self.compiled.load(Ordering::Relaxed)
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
        let entry = CString::new(name).map_err(|error| failed(error.into()))?;
        let cubin = match self.code {
            Code::Cubin => self.ptx.cubins.get(name),
            Code::Ptx => None,
        };
        let from_cubin = cubin.map(|cubin| {
            // SAFETY: a cubin, as ptxas wrote it.
            let module = unsafe { driver.module_load_cubin(&cubin) };
            self.set_up(driver, module, &entry, max_shared_bytes)
        });
        let loaded = match from_cubin {
            Some(Ok(function)) => Ok(function),
            Some(Err(refused)) if !ptx_may_do(refused.error) => Err(refused),
            _ => {
                let text = self.ptx.cut(name).ok_or_else(|| {
                    let arch = self.ptx.name;
                    failed(
                        format!(
                            "the PTX for {arch} that this crate was built with has no such entry"
                        )
                        .into(),
                    )
                })?;
                let image = CString::new(text).map_err(|error| failed(error.into()))?;
                // SAFETY: PTX, as the kernels' build wrote it.
                let module = unsafe { driver.module_load_data(&image) };
                let loaded = self.set_up(driver, module, &entry, max_shared_bytes);
                self.compiled
                    .fetch_add(loaded.is_ok().into(), Ordering::Relaxed);
                loaded
            }
        };
        let function = loaded.map_err(|refused| {
            // Then the kernel is not to blame.
            match cuda::failed("cuModuleLoadDataEx")(refused.error) {
                lost @ Error::ContextLost { .. } => lost,
                _ => failed(refused.into()),
            }
        })?;
        self.functions[kernel.index()].store(function.cast(), Ordering::Release);
        Ok(function)
    }

    /// The kernel of a module that was just loaded, allowed all that it may ask for. Nothing is left of a module that has
    /// none.
    fn set_up(
        &self,
        driver: &'static Driver,
        module: Result<CUmodule, ModuleLoadError>,
        entry: &CStr,
        max_shared_bytes: u32,
    ) -> Result<CUfunction, ModuleLoadError> {
        let module = module?;
        let set_up = || -> Result<CUfunction, CuError> {
            // SAFETY: the module was just loaded, and so its kernel.
            unsafe {
                let function = driver.module_get_function(module, entry)?;
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
        set_up().map_err(|error| {
            // SAFETY: nobody else knows the module. That it may fail to unload changes nothing.
            let _ = unsafe { driver.module_unload(module) };
            let log = String::new();
            ModuleLoadError { error, log }
        })
    }
}

/// Whether PTX may load where a cubin has failed with `error`: a driver that is older than the cubin's ptxas, or was told
/// to compile, refuses it with any of several. What remains are failures that have nothing to do with either.
fn ptx_may_do(error: CuError) -> bool {
    error != CuError::OUT_OF_MEMORY && !error.is_sticky() && !error.is_context_destroyed()
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
            let entries: BTreeSet<_> = ptx.text.index.iter().map(|entry| entry.0).collect();
            assert_eq!(entries, kernels, "{}", ptx.name);
        }
    }

    #[test]
    fn a_cut_is_the_header_and_one_entry() {
        for ptx in &PTX {
            for &(name, ..) in ptx.text.index {
                let text = String::from_utf8(ptx.cut(name).unwrap()).unwrap();
                assert_eq!(text.matches(".entry ").count(), 1, "{name}");
                assert!(text.contains(&format!(".entry {name}(")));
                assert_eq!(text.matches(".version").count(), 1);
                assert!(text.contains(&format!(".target {}", ptx.name)));
            }
            assert!(ptx.cut("softmax").is_none());
        }
    }

    /// The names in an ELF file's table of symbols that are functions which others may call.
    fn global_functions(elf: &[u8]) -> Vec<String> {
        let number = |at: usize, bytes: usize| {
            let mut wide = [0; 8];
            wide[..bytes].copy_from_slice(&elf[at..at + bytes]);
            u64::from_le_bytes(wide) as usize
        };
        assert!(
            elf.starts_with(b"\x7fELF\x02\x01"),
            "64 bits, little-endian"
        );
        let (headers, size, count) = (number(40, 8), number(58, 2), number(60, 2));
        let header = |section: usize| headers + size * section;
        let offset = |section: usize| number(header(section) + 24, 8);
        const SYMTAB: usize = 2;
        let symtab = (0..count)
            .find(|&section| number(header(section) + 4, 4) == SYMTAB)
            .unwrap();
        let names = offset(number(header(symtab) + 40, 4));
        let symbols = offset(symtab)..offset(symtab) + number(header(symtab) + 32, 8);
        // Bound above, type below: GLOBAL, FUNC.
        let globals = symbols.step_by(24).filter(|&at| elf[at + 4] == 0x12);
        globals
            .map(|at| {
                let name = &elf[names + number(at, 4)..];
                let name = name.split(|&byte| byte == 0).next().unwrap();
                String::from_utf8(name.to_vec()).unwrap()
            })
            .collect()
    }

    #[test]
    fn every_entry_has_a_cubin_of_its_own_where_any_has() {
        for Ptx { text, cubins, .. } in &PTX {
            let names = |entries: &Entries| -> BTreeSet<_> {
                entries.index.iter().map(|entry| entry.0).collect()
            };
            if cubins.index.is_empty() {
                continue;
            }
            assert_eq!(names(cubins), names(text));
            for name in names(cubins) {
                let cubin = cubins.get(name).unwrap();
                assert_eq!(global_functions(&cubin), [name]);
            }
        }
    }

    #[test]
    fn cubins_are_for_their_own_major_capability() {
        let choose = |ptx: &Ptx, capability, named: Option<&str>| {
            Code::choose_named(ptx, capability, named.map(Into::into)).unwrap()
        };
        let [sm_90, sm_80] = &PTX;
        assert_eq!(choose(sm_90, (9, 0), None), Code::Cubin);
        assert_eq!(choose(sm_90, (9, 1), None), Code::Cubin);
        assert_eq!(choose(sm_90, (10, 0), None), Code::Ptx);
        assert_eq!(choose(sm_80, (9, 0), None), Code::Ptx);
        assert_eq!(choose(sm_90, (9, 0), Some("cubin")), Code::Cubin);
        assert_eq!(choose(sm_90, (12, 0), Some("cubin")), Code::Ptx);
        assert_eq!(choose(sm_90, (9, 0), Some("ptx")), Code::Ptx);
        assert!(matches!(
            Code::choose_named(sm_80, (8, 0), Some("sass".into())),
            Err(Error::Environment { .. })
        ));
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
