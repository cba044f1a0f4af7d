//! Kernels compiled by the driver ahead of the backend. The driver keeps machine code on disk, by PTX, GPU and driver version,
//! and a backend's process that loads the same PTX finds it there.
//!
//! The driver's linker would hand the machine code out, but compiles relocatable code, in which `setmaxnreg` is ignored and
//! wide tiles spill: what would be timed is not what a program loads.

use std::path::Path;
use std::time::Instant;

use bsr::gpu::{Device, LoadOptions, Module};
use bsr_trial::Planned;

use super::Failure;

/// Has the driver compile a kernel and keep it: the milliseconds, unless it had it.
///
/// # Errors
/// The driver's, with its log.
pub(super) fn compile(device: &Device, planned: &Planned) -> Result<Option<f64>, Failure> {
    let begun = Instant::now();
    let module = Module::load_with(device, planned.ptx.text(), LoadOptions::of(planned.spec()))?;
    // The driver has a log of what it compiled, and none of what it had.
    Ok((!module.log().is_empty()).then(|| begun.elapsed().as_secs_f64() * 1e3))
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
