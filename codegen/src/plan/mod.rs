//! Every number that a kernel needs, decided in one place and in one order.
//!
//! [`Plan::new`] reads like a recipe; each step has its own file and reports every reason why a spec cannot be
//! planned, with the arithmetic and a remedy.

mod block;
mod display;
mod epilogue;
mod error;
mod kloop;
mod launch;
mod memory;
mod operand;
mod roles;
mod tiling;

pub use error::{PlanError, PlanErrors};
pub use launch::{ClusterTile, LaunchShape, Operand, Problem, TensorMap};

pub(crate) use block::WGMMA_K;
pub(crate) use epilogue::Epilogue;
pub(crate) use kloop::KLoop;
pub(crate) use memory::Memory;
pub(crate) use operand::{Major, OperandTile};
pub(crate) use tiling::{Share, Split, Tiling};

use crate::{Arch, KernelSpec};

/// A legal kernel: the spec, and every number that its PTX and its launch need.
///
/// `Display` prints the numbers with their arithmetic, so that a person can check them by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) tiling: Tiling,
    pub(crate) kloop: KLoop,
    pub(crate) a: OperandTile,
    pub(crate) b: OperandTile,
    pub(crate) epilogue: Epilogue,
    pub(crate) memory: Memory,
}

impl Plan {
    /// Plans `spec` for `arch`.
    ///
    /// # Errors
    ///
    /// Every reason why the spec cannot be planned, not only the first: sizes that WGMMA or TMA cannot take,
    /// accumulators that do not fit the register file, stages that do not fit shared memory, a cluster that
    /// cannot share its operand.
    pub fn new(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        block::check(spec, &mut errors);
        errors.check()?;

        let mut errors = PlanErrors::default();
        let tiling = tiling::form_cluster(spec, tiling::choose(spec, arch)?, arch, &mut errors);
        errors.check()?;

        let deep = Pipeline::new(spec, &tiling, kloop::DEEP, arch);
        let pipeline = match deep {
            Ok(deep) if deep.memory.stages >= ENOUGH_STAGES || !Pipeline::is_free(spec) => deep,
            Err(errors) if !Pipeline::is_free(spec) => return Err(errors),
            _ => Pipeline::new(spec, &tiling, kloop::SHALLOW, arch)?,
        };
        let Pipeline { kloop, a, b, epilogue, memory } = pipeline;
        Ok(Self { spec: *spec, arch: *arch, tiling, kloop, a, b, epilogue, memory })
    }

    /// What was asked.
    pub fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    /// What it was planned for.
    pub fn arch(&self) -> &Arch {
        &self.arch
    }
}

/// Stages below which loads no longer hide behind WGMMA: a shallower stage is better than fewer of them.
const ENOUGH_STAGES: u32 = 4;

/// Steps 4 to 7 of the recipe: everything that depends on how much of K a stage holds.
struct Pipeline {
    kloop: KLoop,
    a: OperandTile,
    b: OperandTile,
    epilogue: Epilogue,
    memory: Memory,
}

impl Pipeline {
    fn new(spec: &KernelSpec, tiling: &Tiling, depth: u32, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        let kloop = kloop::plan(spec, depth, &mut errors);
        let a = operand::plan_a(spec, tiling, &kloop, &mut errors);
        let b = operand::plan_b(spec, tiling, &kloop, arch, &mut errors);
        let mut epilogue = Epilogue::new(spec, tiling);
        let memory = memory::plan(spec, tiling, &kloop, (&a, &b), &mut epilogue, arch, &mut errors);
        errors.check()?;
        Ok(Self { kloop, a, b, epilogue, memory })
    }

    /// Is the depth of a stage the plan's to choose?
    fn is_free(spec: &KernelSpec) -> bool {
        spec.k_step.is_none() && spec.stages.is_none()
    }
}
