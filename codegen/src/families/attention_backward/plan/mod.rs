//! Every number of a kernel, one step a file.

mod check;
mod launch;
mod memory;
mod operand;
mod tiling;

pub(crate) use memory::Memory;
pub(crate) use operand::Operands;
pub(crate) use tiling::{Tiling, program};

use crate::plan::PlanErrors;
use crate::{Arch, KernelSpec};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GradientPlan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) tiling: Tiling,
    pub(crate) operands: Operands,
    pub(crate) memory: Memory,
}

impl GradientPlan {
    pub(crate) fn new(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        check::check(spec, &mut errors);
        errors.check()?;
        // The largest step whose ring fits; asking for more stages does not make it smaller.
        let least = KernelSpec { stages: None, ..*spec };
        let candidates = Tiling::candidates(spec, arch)?;
        let fits = |tiling: &&Tiling| Memory::new(&least, &Operands::new(spec, tiling), tiling, arch).is_ok();
        let tiling = *candidates.iter().find(fits).unwrap_or(&candidates[candidates.len() - 1]);
        let operands = Operands::new(spec, &tiling);
        let memory = Memory::new(spec, &operands, &tiling, arch)?;
        Ok(Self { spec: *spec, arch: *arch, tiling, operands, memory })
    }
}
