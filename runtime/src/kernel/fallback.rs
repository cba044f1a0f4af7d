//! Kernels for GPUs that do not run the one that was asked for.

use bsr_codegen::{KernelSpec, Plan, target_runs_on};

use crate::error::KernelError;
use crate::gpu::Device;
use crate::launcher::Launcher;

/// A kernel of another instruction that computes the same product, for GPUs that do not run [the first](super::Kernel::SPEC):
/// one of those that `fallback = on` embeds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Fallback {
    /// Its spec, which names the architecture.
    pub spec: KernelSpec,
    /// Its PTX, made at compile time.
    pub ptx: &'static str,
    /// Its name in the PTX.
    pub entry: &'static str,
    plan: fn() -> &'static Plan,
}

#[doc(hidden)]
impl Fallback {
    /// What the attribute compiled.
    #[doc(hidden)]
    pub const fn new(spec: KernelSpec, ptx: &'static str, entry: &'static str, plan: fn() -> &'static Plan) -> Self {
        Self { spec, ptx, entry, plan }
    }

    /// Its plan.
    pub fn plan(&self) -> &'static Plan {
        (self.plan)()
    }

    /// Loads it, whether or not there is a better one for the device.
    ///
    /// # Errors
    /// As [`Launcher::load`].
    pub fn load(&self, device: &Device) -> Result<Launcher, KernelError> {
        Launcher::load(device, self.plan(), self.ptx, self.entry)
    }

    /// The first of several that a GPU of this compute capability runs, whose CTAs have so many bytes of shared memory.
    pub fn of_gpu(all: &[Self], capability: (u32, u32), shared_bytes: u32) -> Option<&Self> {
        all.iter().find(|fallback| {
            let plan = fallback.plan();
            target_runs_on(plan.arch().target, capability) == Some(true) && plan.shared_bytes() <= shared_bytes
        })
    }
}
