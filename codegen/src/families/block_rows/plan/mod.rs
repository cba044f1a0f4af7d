//! The recipe of a plan, one step a file.

mod block;
mod epilogue;
mod fused;
mod kloop;
mod launch;
mod layout;
mod memory;
pub(crate) mod operand;
pub(crate) mod packed;
mod pairs;
mod precision;
mod quadrants;
mod tiling;

pub(crate) use epilogue::Epilogue;
pub(crate) use fused::Fused;
pub(crate) use memory::Memory;
pub(crate) use precision::{Precision, SCALE_COLUMNS};
pub(crate) use tiling::{Share, Split, Tiling};

use tiling::FULL;

use crate::hopper::{OperandTile, wgmma_k};
use crate::plan::KLoop;
use crate::plan::SparseTimesDense;
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockRowsPlan {
    pub(crate) spec: KernelSpec,
    /// The product as sparse x dense: what A, B and C are in every other field.
    pub(crate) view: SparseTimesDense,
    pub(crate) arch: Arch,
    pub(crate) precision: Precision,
    pub(crate) tiling: Tiling,
    pub(crate) kloop: KLoop,
    pub(crate) a: OperandTile,
    pub(crate) b: OperandTile,
    pub(crate) epilogue: Epilogue,
    /// The requirements of the spec's epilogue.
    pub(crate) fused: Option<Fused>,
    pub(crate) memory: Memory,
}

impl BlockRowsPlan {
    pub(crate) fn new(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        let view = SparseTimesDense::new(spec);
        block::check(spec, &view, &mut errors);
        pairs::check(spec, &mut errors);
        let precision = Precision::new(spec, &mut errors);
        errors.check()?;

        let mut errors = PlanErrors::default();
        let tiling =
            tiling::form_cluster(spec, &view, tiling::choose(spec, &view, &precision, arch)?, arch, &mut errors);
        pairs::check_cluster(spec, &tiling, &mut errors);
        let fused = Fused::new(spec, &view, &tiling, &mut errors);
        errors.check()?;

        let has_tile = fused.is_some_and(|fused| fused.tile.is_some());
        let choices = Choices { view: &view, precision: &precision, tiling: &tiling, has_tile };
        let deep = Pipeline::new(spec, &choices, kloop::DEEP, arch);
        let pipeline = match deep {
            Ok(deep) if deep.memory.ring.stages >= ENOUGH_STAGES || !Pipeline::is_free(spec) => deep,
            Err(errors) if !Pipeline::is_free(spec) => return Err(errors),
            _ => Pipeline::new(spec, &choices, kloop::SHALLOW, arch)?,
        };
        let Pipeline { kloop, a, b, epilogue, memory } = pipeline;
        Ok(Self { spec: *spec, view, arch: *arch, precision, tiling, kloop, a, b, epilogue, fused, memory })
    }
}

impl BlockRowsPlan {
    /// Registers of one consumer thread's copy of a tile, where its store is overlapped: two 16-bit values in each.
    pub(crate) fn copied_registers(&self) -> u32 {
        self.tiling.sums() * self.spec.out.bytes() / 4
    }

    /// Registers of one consumer thread's accumulators.
    pub(crate) fn accumulators(&self) -> u32 {
        self.tiling.accumulators(self.spec.acc)
    }
}

/// Divided K takes four registers of a consumer, which gathered blocks do not always leave, nor stages of two depths that
/// some consumers skip: ptxas 13.0 would spill.
fn check_split(spec: &KernelSpec, tiling: &Tiling, kloop: &KLoop, errors: &mut PlanErrors) {
    let accumulators = tiling.accumulators(spec.acc);
    let is_short = kloop.padded(wgmma_k(spec.a)) && kloop.sub_stages > 1 && accumulators >= FULL;
    let is_tight = kloop.sub_stages > 1 && accumulators > FULL;
    let is_full = accumulators >= FULL || tiling.roles.consumers == 3;
    let is_uneven = tiling.pack > 1 && !kloop.uniform() && is_full;
    if spec.split.is_on() && (is_short || is_tight || is_uneven) {
        let stages = match is_uneven {
            true => format!("the stages of a block are {} and {} deep", kloop.k_step, kloop.last),
            false => format!("a stage gathers {} blocks", kloop.sub_stages),
        };
        errors.push(PlanError::new(
            "split",
            format!("split = {} leaves too few registers for a kernel in which {stages}", spec.split),
            format!(
                "a consumer has {} registers: beside {accumulators} accumulators too few are left for such stages and for the role of a tile",
                tiling.roles.consumer_registers
            ),
            format!("bn = {}, or drop `split`", (spec.bn / 2).max(16)),
        ));
    }
}

/// Stages below which loads no longer hide behind WGMMA: a shallower stage is better than fewer of them.
const ENOUGH_STAGES: u32 = 4;

/// What the first steps decided, for those that depend on the depth of a stage.
struct Choices<'c> {
    view: &'c SparseTimesDense,
    precision: &'c Precision,
    tiling: &'c Tiling,
    /// Does the spec's epilogue read a full operand?
    has_tile: bool,
}

/// Steps 4 to 7 of the recipe: everything that depends on how much of K a stage holds.
struct Pipeline {
    kloop: KLoop,
    a: OperandTile,
    b: OperandTile,
    epilogue: Epilogue,
    memory: Memory,
}

impl Pipeline {
    fn new(spec: &KernelSpec, choices: &Choices<'_>, depth_bytes: u32, arch: &Arch) -> Result<Self, PlanErrors> {
        let Choices { view, precision, tiling, has_tile } = *choices;
        let mut errors = PlanErrors::default();
        let kloop = kloop::plan(spec, view, tiling, depth_bytes, &mut errors);
        let a = operand::plan_a(spec, view, tiling, &kloop, arch, &mut errors);
        let b = operand::plan_b(spec, view, tiling, &kloop, arch, &mut errors);
        let mut epilogue = Epilogue::new(spec, view, precision, tiling, has_tile);
        let memory = memory::plan(spec, precision, tiling, &kloop, (&a, &b), &mut epilogue, arch, &mut errors);
        check_split(spec, tiling, &kloop, &mut errors);
        pairs::check_stages(spec, tiling, &kloop, &mut errors);
        errors.check()?;
        Ok(Self { kloop, a, b, epilogue, memory })
    }

    /// Is the depth of a stage the plan's to choose?
    fn is_free(spec: &KernelSpec) -> bool {
        spec.k_step.is_none() && spec.stages.is_none()
    }
}
