//! A kernel: its plan, and the text that is run as the plan says.

use bsr_codegen::emit::fingerprint;
use bsr_codegen::probes::Probes;
use bsr_codegen::{KernelSpec, Plan, Ptx};
use bsr_runtime::gpu::Device;
use bsr_runtime::{KernelError, Launcher, attention};

use crate::Failure;

/// A spec, its plan and its PTX.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan, by which the kernel is launched.
    pub plan: Plan,
    /// The text of the kernel.
    pub ptx: Ptx,
    /// What ptxas made of the PTX, where that is launched and not what the driver makes of it.
    pub cubin: Option<Vec<u8>>,
    /// The file that the PTX is from, where it is not the plan's own.
    pub file: Option<String>,
}

impl From<Plan> for Planned {
    fn from(plan: Plan) -> Self {
        Self { ptx: plan.ptx(), plan, cubin: None, file: None }
    }
}

impl Planned {
    /// The kernel of a product or of an SDDMM on a device.
    ///
    /// # Errors
    /// Those of loading it.
    pub fn launcher(&self, device: &Device) -> Result<Launcher, Failure> {
        let loaded: Result<Launcher, KernelError> = match &self.cubin {
            Some(cubin) => Launcher::load_cubin(device, &self.plan, cubin, self.ptx.entry()),
            None => Launcher::load(device, &self.plan, self.ptx.text(), self.ptx.entry()),
        };
        Ok(loaded?)
    }

    /// The kernel of an attention on a device.
    ///
    /// # Errors
    /// Those of loading it.
    pub fn attention(&self, device: &Device) -> Result<attention::Launcher, Failure> {
        Ok(match &self.cubin {
            Some(cubin) => attention::Launcher::load_cubin(device, &self.plan, cubin, self.ptx.entry())?,
            None => attention::Launcher::load_text(device, &self.plan, self.ptx.text(), self.ptx.entry())?,
        })
    }

    /// The spec.
    pub fn spec(&self) -> &KernelSpec {
        self.plan.spec()
    }

    /// The same kernel with probes.
    ///
    /// # Errors
    /// Bad input: a kernel that has no roles, or rings that are too large.
    pub fn probed(&self, probes: Probes) -> Result<Self, Failure> {
        let plan = self.plan.probed(probes).map_err(Failure::bad_input)?;
        Ok(plan.into())
    }

    /// Rows and columns of a sparsity block.
    pub fn block(&self) -> (usize, usize) {
        (self.spec().bm as usize, self.spec().bk as usize)
    }

    /// Digest of the plan: of its table, which holds every number.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.plan.to_string())
    }

    /// The kernel in a few words: its name, the fingerprint of its PTX, and the file that it is from.
    pub fn words(&self) -> String {
        let file = self.file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default();
        format!("{}, PTX {}{file}", self.ptx.entry(), self.ptx.fingerprint())
    }

    /// The name of the text, in front of a position in it.
    pub fn origin(&self) -> &str {
        self.file.as_deref().unwrap_or("the emitted PTX")
    }
}
