//! Kernels compiled by the driver ahead of the lab, and kept on disk.

use std::path::PathBuf;

use bsr::gpu::{CubinCache, Device};
use bsr::{KernelSpec, Plan};
use bsr_codegen::emit::fingerprint;
use bsr_tuner::sweep::{Compiled, Compiler};

/// Compiles for one GPU, on any number of threads.
pub(in super::super) struct DriverCompiler {
    device: Device,
    cache: CubinCache,
}

impl DriverCompiler {
    /// Keeps machine code in this folder.
    pub(in super::super) fn new(device: Device, folder: PathBuf) -> Self {
        Self { device, cache: CubinCache::new(folder) }
    }
}

impl Compiler for DriverCompiler {
    fn compile(&self, spec: &KernelSpec) -> Result<Compiled, String> {
        let plan = Plan::new(spec).map_err(|errors| errors.to_string())?;
        self.device.check_target(plan.arch().target).map_err(|error| error.to_string())?;
        let ptx = plan.ptx();
        let cubin = self.cache.get(&self.device, &ptx).map_err(|error| error.to_string())?;
        Ok(Compiled {
            plan: fingerprint(&plan.to_string()),
            ptx: ptx.fingerprint().to_owned(),
            cubin: Some(cubin.path),
            ms: cubin.compiled.map(|time| time.as_secs_f64() * 1e3),
        })
    }
}

/// The folder for machine code where none is named: `$XDG_CACHE_HOME/bsr`, or else `~/.cache/bsr`, or else a temporary one.
pub(in super::super) fn default_folder() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("bsr")
}
