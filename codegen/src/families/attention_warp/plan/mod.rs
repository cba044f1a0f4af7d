//! Every number of a kernel, one step a file.

mod check;
mod launch;
mod lines;
mod memory;
mod tiling;

pub(crate) use lines::{Lines, Pass, VECTOR_BYTES};
pub(crate) use memory::Memory;
pub(crate) use tiling::{KEYS, Tiling, UNIT, WARP_ROWS};

use crate::epilogue::Program;
use crate::plan::PlanErrors;
use crate::{Arch, KernelSpec};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttentionWarpPlan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) tiling: Tiling,
    pub(crate) memory: Memory,
    /// K and V of a step, which all threads copy.
    pub(crate) keys: Lines,
    pub(crate) values: Lines,
    /// Q and O of a warp, which it copies by itself.
    pub(crate) queries: Lines,
    pub(crate) output: Lines,
}

impl AttentionWarpPlan {
    pub(crate) fn new(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        check::check(spec, &mut errors);
        errors.check()?;
        let (tiling, memory) = memory::choose(spec, arch)?;
        let lines = |rows, columns, threads| Lines::new(rows, columns * spec.a.bytes(), threads);
        Ok(Self {
            spec: *spec,
            arch: *arch,
            tiling,
            memory,
            keys: lines(tiling.step, tiling.depth, tiling.threads()),
            values: lines(tiling.step, tiling.columns, tiling.threads()),
            queries: lines(WARP_ROWS, tiling.depth, tiling::WARP),
            output: lines(WARP_ROWS, tiling.columns, tiling::WARP),
        })
    }

    /// The score of a pair in partial blocks, where it is not `s * scale`.
    pub(crate) fn score(&self) -> Option<&'static Program> {
        self.spec.score.map(|score| score.program())
    }
}
