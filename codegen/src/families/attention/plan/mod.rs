//! Every number of a kernel, one step a file.

mod check;
mod fp8;
mod joined;
mod launch;
mod list;
mod memory;
mod operand;
mod slices;
mod tiling;
mod workspace;

pub(crate) use memory::Memory;
pub(crate) use slices::Slices;
pub(crate) use tiling::Tiling;
pub(crate) use workspace::Workspace;

use crate::epilogue::Program;
use crate::hopper::OperandTile;
use crate::plan::PlanErrors;
use crate::spec::Scale;
use crate::{Arch, KernelSpec};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttentionPlan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) tiling: Tiling,
    pub(crate) queries: OperandTile,
    pub(crate) keys: OperandTile,
    pub(crate) values: OperandTile,
    /// How O is staged: where Q was.
    pub(crate) output: OperandTile,
    pub(crate) memory: Memory,
    /// Of a kernel whose tiles can be divided.
    pub(crate) workspace: Option<Workspace>,
}

impl AttentionPlan {
    pub(crate) fn new(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        check::check(spec, &mut errors);
        errors.check()?;
        // The largest step whose rings fit; asking for more stages does not make it smaller.
        let least = KernelSpec { stages: None, ..*spec };
        let candidates = Tiling::candidates(spec, arch)?;
        let fits = |tiling: &&Tiling| Memory::new(&least, &operand::tiles(spec, tiling), tiling, arch).is_ok();
        let tiling = *candidates.iter().find(fits).unwrap_or(&candidates[candidates.len() - 1]);
        let tiles = operand::tiles(spec, &tiling);
        let memory = Memory::new(spec, &tiles, &tiling, arch)?;
        let [queries, keys, values, output] = tiles;
        let workspace = spec.split.is_on().then(|| Workspace::new(&tiling, arch));
        Ok(Self { spec: *spec, arch: *arch, tiling, queries, keys, values, output, memory, workspace })
    }

    /// Q, K and V have 8 bits.
    pub(crate) fn is_fp8(&self) -> bool {
        self.spec.a.is_fp8()
    }

    /// Q, K and V have factors that a tile has one each of.
    pub(crate) fn has_factors(&self) -> bool {
        self.spec.scale == Scale::Tensor
    }

    /// Q, K and V have factors of blocks.
    pub(crate) fn has_block_factors(&self) -> bool {
        self.spec.scale == Scale::Block
    }

    /// What the CTAs of a cluster pass to each other, of a kernel with clusters.
    pub(crate) fn slices(&self) -> Option<Slices> {
        Slices::new(&self.spec, &self.tiling, &self.queries, &self.arch)
    }

    /// The PTX that the instructions and the parameters need, where that is newer than the architecture's.
    pub(crate) fn ptx_version(&self) -> Option<&'static str> {
        self.slices().map(|_| slices::PTX_VERSION).or(self.spec.work_list.map(|_| list::PTX_VERSION))
    }

    /// The producer cuts off the last page of V behind the last key. That of 8-bit operands is finite there.
    pub(crate) fn cuts_pages(&self) -> bool {
        self.spec.page.is_some() && !self.is_fp8()
    }

    /// The score of a pair in partial blocks, where it is not `s * scale`.
    pub(crate) fn score(&self) -> Option<&'static Program> {
        self.spec.score.map(|score| score.program())
    }
}
