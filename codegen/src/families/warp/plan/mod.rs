//! How a plan is made, one step a file.

mod block;
mod boxes;
mod crew;
pub(crate) mod doubles;
mod epilogue;
pub(crate) mod fused;
pub(crate) mod groups;
mod kloop;
mod layouts;
mod load;
mod maps;
mod memory;
mod operand;
pub(crate) mod sampled;
pub(crate) mod seen;
mod share;
pub(crate) mod tf32;
mod tiling;
mod units;

pub(crate) use crew::{Crew, Moved};
pub(crate) use epilogue::Epilogue;
pub(crate) use memory::Memory;
pub(crate) use operand::{Operand, Pass};
pub(crate) use tiling::Tiling;
pub(crate) use units::{VECTOR_BYTES, fragment_registers, k_unit, multiply_instruction};

use crate::plan::{KLoop, PlanErrors};
use crate::{Arch, KernelSpec, Mma};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WarpPlan {
    /// As [`seen`] has it.
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) tiling: Tiling,
    pub(crate) kloop: KLoop,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    pub(crate) epilogue: Epilogue,
    pub(crate) memory: Memory,
}

impl WarpPlan {
    pub(crate) fn new(asked: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let spec = &seen::of(asked);
        let mut errors = PlanErrors::default();
        block::check(asked, spec, arch, &mut errors);
        load::check(spec, arch, &mut errors);
        load::check_depth(spec, &mut errors);
        fused::check(spec, arch, &mut errors);
        errors.check()?;
        Self::cheapest(&if doubles::takes(spec) { doubles::with_shape(spec, arch) } else { *spec }, arch)
    }

    fn cheapest(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        // The cheapest tile whose stages fit shared memory; where none does, why the cheapest of all does not.
        let mut why = None;
        for tiling in tiling::choices(spec, arch)? {
            match Self::on(tiling, spec, arch) {
                Ok(plan) => return Ok(plan),
                Err(errors) => why = why.or(Some(errors)),
            }
        }
        Err(why.unwrap_or_default())
    }

    fn on(tiling: Tiling, spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let epilogue = Epilogue::new(spec, &tiling);
        let pipeline = memory::plan(spec, &tiling, &epilogue, arch)?;
        let memory::Pipeline { kloop, a, b, memory } = pipeline;
        Ok(Self { spec: *spec, arch: *arch, tiling, kloop, a, b, epilogue, memory })
    }

    /// What its warps do.
    pub(crate) fn crew(&self) -> Crew {
        self.tiling.crew(&self.spec, self.memory.resident, &self.arch)
    }

    /// Multiplies with fragments whose registers only the hardware knows.
    pub(crate) fn opaque(&self) -> bool {
        self.spec.mma == Mma::Wmma
    }

    /// Multiplies f64.
    pub(crate) fn doubles(&self) -> bool {
        doubles::takes(&self.spec)
    }

    /// Reads fragments of a row-major B in words.
    pub(crate) fn words(&self) -> bool {
        tf32::reads_rows(&self.spec)
    }

    /// Tiles of A are lines of K: blocks are read by block columns, which an index lists.
    pub(crate) fn lines(&self) -> bool {
        seen::is_along_m(&self.spec)
    }

    /// Loads of fragments, each of an instruction's worth of K, in one stage, all sub-stages together.
    pub(crate) fn units(&self, step: u32) -> u32 {
        let loads = if self.doubles() { doubles::DEPTH / doubles::loaded_k(&self.spec) } else { 1 };
        self.kloop.sub_stages * self.kloop.width(step).div_ceil(k_unit(&self.spec)) * loads
    }

    /// The vector of row `r` of an operand that comes first is number `(r >> shift) & (group - 1)`.
    pub(crate) fn swizzle_shift(&self, operand: &Operand) -> u32 {
        if self.doubles() && !operand.along_k { 2 } else { 3 - operand.group.trailing_zeros() }
    }
}
