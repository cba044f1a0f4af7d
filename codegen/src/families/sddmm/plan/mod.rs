//! The recipe of a plan, one step a file.

mod block;
mod epilogue;
mod fused;
mod launch;
mod memory;
mod operand;
mod sides;
mod tiling;
mod work_tile;

pub(crate) use epilogue::Epilogue;
pub(crate) use fused::{Fused, ROWS};
pub(crate) use memory::Memory;
pub(crate) use sides::Sides;
pub(crate) use tiling::{Split, Tiling, WG_M};
pub(crate) use work_tile::WorkTile;

use crate::hopper::OperandTile;
use crate::plan::PlanErrors;
use crate::{Arch, KernelSpec};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SddmmPlan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) sides: Sides,
    pub(crate) tiling: Tiling,
    pub(crate) left: OperandTile,
    pub(crate) right: OperandTile,
    pub(crate) epilogue: Epilogue,
    /// The epilogue of the spec.
    pub(crate) fused: Option<Fused>,
    pub(crate) work_tile: WorkTile,
    pub(crate) memory: Memory,
}

impl SddmmPlan {
    pub(crate) fn new(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        block::check(spec, &mut errors);
        errors.check()?;

        let sides = Sides::new(spec);
        let mut errors = PlanErrors::default();
        let tiling = tiling::choose(spec, &sides, arch, &mut errors);
        errors.check()?;

        let left = operand::left(&sides, &tiling);
        let right = operand::right(&sides, &tiling);
        let work_tile = WorkTile::new(&tiling);
        let mut errors = PlanErrors::default();
        let fused = Fused::new(spec, &tiling, &mut errors);
        let mut epilogue = Epilogue::new(spec, &tiling, fused.is_some_and(|fused| fused.tile.is_some()));
        let memory = memory::plan(spec, &tiling, (&left, &right), &work_tile, &mut epilogue, arch, &mut errors);
        errors.check()?;
        Ok(Self { spec: *spec, arch: *arch, sides, tiling, left, right, epilogue, fused, work_tile, memory })
    }

    /// Elements of K in a stage: one swizzle span.
    pub(crate) fn k_step(&self) -> u32 {
        operand::SPAN / self.spec.a.bytes()
    }
}
