//! Step 7: shared memory: the ring of stages, the staging buffers of C, the barriers.

use super::epilogue::Epilogue;
use super::precision::{Precision, SCALE_COLUMNS};
use super::tiling::Tiling;
use crate::hopper::OperandTile;
use crate::hopper::ring::{ALIGN, BARRIER, MOST_STAGES, Ring};
use crate::plan::KLoop;
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec};

/// Bytes of one factor.
const FACTOR: u32 = 4;
/// Bytes of the mask of one stage.
const MASK: u32 = 4;

/// The layout of shared memory, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) ring: Ring,
    /// Offset of B's sub-stages within a stage (A's sub-stages are at 0).
    pub(crate) b_offset: u32,
    /// Bytes that TMA delivers to a full stage: what its full barrier expects.
    pub(crate) transaction_bytes: u32,
    /// The same for the last stage of a block, of which fewer rows of B are loaded.
    pub(crate) last_transaction_bytes: u32,
    pub(crate) staging_offset: u32,
    /// Offset of the barriers of the epilogue's full operand, one a consumer where there is one.
    pub(crate) tile_offset: u32,
    /// Offset of the factors of the blocks in the ring, f32: one a group for every stage, which holds one such block.
    pub(crate) factor_offset: u32,
    /// Groups of columns of a tile that have a factor each under `scale = block`; 0 otherwise.
    pub(crate) factor_groups: u32,
    /// Offset of the masks of a packed tile's stages, u32: which of its block rows have a block there.
    pub(crate) mask_offset: u32,
    pub(crate) total: u32,
}

impl Memory {
    /// Bytes of the factors of one stage.
    pub(crate) fn factor_bytes(&self) -> u32 {
        FACTOR * self.factor_groups
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn plan(
    spec: &KernelSpec,
    precision: &Precision,
    tiling: &Tiling,
    kloop: &KLoop,
    tiles: (&OperandTile, &OperandTile),
    epilogue: &mut Epilogue,
    arch: &Arch,
    errors: &mut PlanErrors,
) -> Memory {
    let (a, b) = tiles;
    let payload = kloop.sub_stages * (a.bytes() + b.bytes());
    let stage_bytes = payload.next_multiple_of(ALIGN);
    let consumers = tiling.roles.consumers;
    let factor_groups = if precision.scales_blocks() { tiling.cta_n.div_ceil(SCALE_COLUMNS) } else { 0 };
    let factor_bytes = FACTOR * factor_groups;
    let mask_bytes = if tiling.pack > 1 { MASK } else { 0 };
    let tile_barriers = if epilogue.has_tile { consumers * BARRIER } else { 0 };
    let room = |staged: u32| {
        let staging = consumers * staged * epilogue.region_bytes + tile_barriers;
        arch.shared_bytes.saturating_sub(staging) / (stage_bytes + factor_bytes + mask_bytes + 2 * BARRIER)
    };
    let sizes: Vec<u32> = epilogue.sizes().collect();
    let smallest = sizes[sizes.len() - 1];
    let stages = match spec.stages {
        Some(wanted) => {
            if wanted < 2 || wanted > room(smallest) {
                errors.push(bad_stages(
                    wanted,
                    room(smallest),
                    stage_bytes,
                    consumers * smallest * epilogue.region_bytes,
                    arch,
                ));
            }
            wanted
        }
        None => {
            if room(smallest) < 2 {
                errors.push(too_large(spec, stage_bytes, consumers * smallest * epilogue.region_bytes, arch));
            }
            room(smallest).min(MOST_STAGES)
        }
    };
    // The ring comes first; staging takes what is left, since its subtiles hide under the next tile's stages.
    let staged = sizes.iter().copied().find(|size| room(*size) >= stages).unwrap_or(smallest);
    epilogue.staged = staged;
    let staging_offset = stages.saturating_mul(stage_bytes);
    let ring = Ring {
        stages,
        stage_bytes,
        full_offset: staging_offset.saturating_add(consumers * epilogue.staging_bytes()),
        // One of a consumer warp of every CTA in the cluster.
        empty_arrivals: consumers * (arch.warpgroup / 32) * tiling.cluster,
    };
    let tile_offset = ring.end();
    let factor_offset = tile_offset.saturating_add(tile_barriers);
    let mask_offset = factor_offset.saturating_add(stages.saturating_mul(factor_bytes));
    Memory {
        ring,
        b_offset: kloop.sub_stages * a.bytes(),
        transaction_bytes: payload,
        last_transaction_bytes: payload - a.unloaded_bytes(kloop) - b.unloaded_bytes(kloop),
        staging_offset,
        tile_offset,
        factor_offset,
        factor_groups,
        mask_offset,
        total: mask_offset.saturating_add(stages.saturating_mul(mask_bytes)),
    }
}

fn bad_stages(wanted: u32, most: u32, stage_bytes: u32, staging: u32, arch: &Arch) -> PlanError {
    let (fact, arithmetic) = if wanted < 2 {
        (
            format!("a ring of {wanted} stage(s) cannot overlap loads with WGMMA"),
            "one stage is filled while another is multiplied: at least 2".to_owned(),
        )
    } else {
        (
            format!("{wanted} stages do not fit shared memory"),
            format!(
                "{wanted} x {stage_bytes} B + {staging} B staging + {} B barriers = {} B; a CTA has {} B",
                u64::from(wanted) * 16,
                u64::from(wanted) * u64::from(stage_bytes + 16) + u64::from(staging),
                arch.shared_bytes
            ),
        )
    };
    PlanError::new(
        "stages",
        fact,
        arithmetic,
        if most >= 2 { format!("stages = {most}, or fewer") } else { "bn = ?, or k_step = ?".to_owned() },
    )
}

fn too_large(spec: &KernelSpec, stage_bytes: u32, staging: u32, arch: &Arch) -> PlanError {
    PlanError::new(
        if spec.k_step.is_some() { "k_step" } else { "bn" },
        "two stages do not fit shared memory",
        format!("2 x {stage_bytes} B + {staging} B staging + 32 B barriers > {} B", arch.shared_bytes),
        "bn = ?, or k_step = ?",
    )
}
