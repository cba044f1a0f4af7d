//! Kernels compiled by the driver ahead of the lab: it keeps machine code on disk, by PTX, GPU and driver, and a lab's process
//! that loads the same PTX finds it there.
//!
//! The driver's linker would hand the machine code out, but compiles relocatable code, in which `setmaxnreg` is ignored and
//! wide tiles spill: what would be timed is not what a program loads.

use std::path::Path;
use std::time::Instant;

use bsr::gpu::{Device, Module};
use bsr::{KernelSpec, Plan};
use bsr_codegen::emit::fingerprint;
use bsr_tuner::sweep::{Compiled, Compiler};

/// Compiles for one GPU, on any number of threads.
pub(in super::super) struct DriverCompiler(Device);

impl DriverCompiler {
    pub(in super::super) fn new(device: Device) -> Self {
        Self(device)
    }
}

impl Compiler for DriverCompiler {
    fn compile(&self, spec: &KernelSpec) -> Result<Compiled, String> {
        let plan = Plan::new(spec).map_err(|errors| errors.to_string())?;
        let ptx = plan.ptx();
        let begun = Instant::now();
        let module = Module::load(&self.0, ptx.text()).map_err(|error| error.to_string())?;
        // The driver has a log of what it compiled, and none of what it had.
        let ms = (!module.log().is_empty()).then(|| begun.elapsed().as_secs_f64() * 1e3);
        let (plan, ptx) = (fingerprint(&plan.to_string()), ptx.fingerprint().to_owned());
        Ok(Compiled { plan, ptx, cubin: None, ms })
    }
}

/// Has the driver keep machine code in this folder, in this process and in those that it starts; up to 4 GiB.
///
/// # Safety
/// No other thread runs yet, and the driver is not loaded.
pub(in super::super) unsafe fn keep_in(folder: &Path) {
    // SAFETY: the caller vouches for it.
    unsafe {
        std::env::set_var("CUDA_CACHE_PATH", folder);
        std::env::set_var("CUDA_CACHE_MAXSIZE", (4_u64 << 30).to_string());
    }
}
