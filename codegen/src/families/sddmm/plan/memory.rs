//! Step 5: shared memory: the ring of stages, the staging buffers of C, the work tiles, the barriers.

use super::epilogue::Epilogue;
use super::tiling::Tiling;
use super::work_tile::WorkTile;
use crate::hopper::OperandTile;
use crate::hopper::ring::{ALIGN, BARRIER, MOST_STAGES, Ring};
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec};

/// Work tiles in shared memory beside one for every stage: that of the tile that is stored, and the one that is written.
const SPARE_WORK_TILES: u32 = 2;
/// The work tile that the producer reads itself is after the others.
const OWN_WORK_TILE: u32 = 1;

/// The layout of shared memory, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) ring: Ring,
    /// Offset of the right factor within a stage; the left one is at 0.
    pub(crate) right_offset: u32,
    pub(crate) staging_offset: u32,
    pub(crate) work_tiles_offset: u32,
    /// Work tiles in shared memory for the consumers. The producer is at most `stages` tiles ahead of a consumer, which
    /// looks back one tile; its own work tile is after them.
    pub(crate) work_tiles: u32,
    /// The barriers of the epilogue's full operand, one a consumer where there is one.
    pub(crate) tile_offset: u32,
    pub(crate) total: u32,
}

/// Places for so many work tiles of the consumers, and for the producer's own.
fn places(work_tiles: u32) -> u32 {
    work_tiles + OWN_WORK_TILE
}

impl Memory {
    /// Places for work tiles.
    pub(crate) fn places(&self) -> u32 {
        places(self.work_tiles)
    }
}

pub(crate) fn plan(
    spec: &KernelSpec,
    tiling: &Tiling,
    (left, right): (&OperandTile, &OperandTile),
    work_tile: &WorkTile,
    epilogue: &mut Epilogue,
    arch: &Arch,
    errors: &mut PlanErrors,
) -> Memory {
    let payload = left.bytes() + right.bytes();
    let stage_bytes = payload.next_multiple_of(ALIGN);
    let consumers = tiling.roles.consumers;
    let unit = consumers * epilogue.unit_bytes();
    let tile_barriers = if epilogue.has_tile { consumers * BARRIER } else { 0 };
    let room = |staged: u32| {
        let fixed = staged * unit + places(SPARE_WORK_TILES) * work_tile.bytes() + tile_barriers;
        arch.shared_bytes.saturating_sub(fixed) / (stage_bytes + work_tile.bytes() + 2 * BARRIER)
    };
    let sizes = epilogue.sizes();
    let smallest = sizes[sizes.len() - 1];
    let most = room(smallest);
    let stages = spec.stages.unwrap_or(most.min(MOST_STAGES));
    if stages < 2 || stages > most {
        errors.push(PlanError::new(
            if spec.stages.is_some() { "stages" } else { "bn" },
            format!("{} stages do not fit shared memory", stages.max(2)),
            format!(
                "a ring has at least 2 stages of {stage_bytes} B, beside {} B of staging and work tiles of {} B; a CTA has {} B: room for {most}",
                smallest * unit,
                work_tile.bytes(),
                arch.shared_bytes
            ),
            if most >= 2 { format!("stages = {most}, or fewer") } else { "bn = ?".to_owned() },
        ));
    }
    let stages = stages.clamp(2, most.max(2));
    epilogue.staged = sizes.iter().copied().find(|size| room(*size) >= stages).unwrap_or(smallest);
    let staging_offset = stages * stage_bytes;
    let work_tiles_offset = staging_offset + consumers * epilogue.staging_bytes();
    let work_tiles = stages + SPARE_WORK_TILES;
    let ring = Ring {
        stages,
        stage_bytes,
        full_offset: work_tiles_offset + places(work_tiles) * work_tile.bytes(),
        // One of a consumer warp.
        empty_arrivals: consumers * (arch.warpgroup / 32),
    };
    let tile_offset = ring.end();
    Memory {
        ring,
        right_offset: left.bytes(),
        staging_offset,
        work_tiles_offset,
        work_tiles,
        tile_offset,
        total: tile_offset + tile_barriers,
    }
}
