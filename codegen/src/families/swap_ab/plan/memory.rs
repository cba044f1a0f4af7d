//! Step 5: shared memory: the ring of stages, what is in them, the staging buffers, the barriers.

use serde::Serialize;

use super::{KSlice, Store, Tile};
use crate::hopper::OperandTile;
use crate::hopper::ring::{ALIGN, BARRIER, MOST_STAGES, Ring};
use crate::plan::PlanError;
use crate::plan::SparseTimesDense;
use crate::{Arch, KernelSpec};

/// Bytes of B panels that a stage should hold. Shallow panels are many, and a stage's barriers are better shared by more.
const PANELS: u32 = 32 << 10;
const SHALLOW_PANELS: u32 = 64 << 10;
/// Bytes of a B panel up to which it is shallow.
const SHALLOW: u32 = 8 << 10;
/// Most B panels of a stage.
const MOST_PANELS: u32 = 8;
/// Lanes of the producer warp that load something: one is left for the stage's totals.
const LANES: u32 = 31;
/// B panels in the ring with which latency is hidden.
const ENOUGH_PANELS: u32 = 4;
/// Bytes of a stage's metadata, one word a lane: which block row, which B panel.
const METADATA: u32 = 128;

/// The layout of shared memory, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Memory {
    /// Most B panels of a stage.
    pub(crate) b_panels: u32,
    /// Most blocks of a stage.
    pub(crate) blocks: u32,
    pub(crate) b_panel_bytes: u32,
    pub(crate) block_bytes: u32,
    /// Offset of the blocks within a stage; B panels are at 0.
    pub(crate) blocks_offset: u32,
    pub(crate) ring: Ring,
    pub(crate) staging_offset: u32,
    /// Staging buffers of a consumer.
    pub(crate) buffers: u32,
    pub(crate) metadata_offset: u32,
    /// Barriers of a full operand: one for every staging buffer of every consumer.
    pub(crate) tile_offset: u32,
    pub(crate) total: u32,
}

impl Memory {
    /// Does the ring hide the latency of loads?
    pub(crate) fn is_deep(&self) -> bool {
        self.ring.stages * self.b_panels >= ENOUGH_PANELS
    }
}

/// The map for the B panels per stage that `k_step` requests, or enough to be worth the barriers of a stage, with room for a
/// deep ring.
pub(crate) fn plan(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    tile: &Tile,
    k_slice: &KSlice,
    tiles: (&OperandTile, &OperandTile),
    store: (&Store, bool),
    arch: &Arch,
) -> Result<Memory, PlanError> {
    let wanted = b_panels(spec, view, k_slice, tiles.0.bytes())?;
    let with = |b_panels: u32| lay_out(spec, tile, b_panels, tiles, store, arch);
    let mut best = with(wanted);
    for b_panels in (1..wanted).rev().filter(|_| spec.k_step.is_none()) {
        if best.as_ref().is_ok_and(Memory::is_deep) {
            break;
        }
        let fewer = with(b_panels);
        if fewer.as_ref().is_ok_and(|fewer| best.is_err() || fewer.is_deep()) {
            best = fewer;
        }
    }
    best
}

fn lay_out(
    spec: &KernelSpec,
    tile: &Tile,
    b_panels: u32,
    (dense, sparse): (&OperandTile, &OperandTile),
    (store, has_tile): (&Store, bool),
    arch: &Arch,
) -> Result<Memory, PlanError> {
    let b_panel_bytes = dense.bytes();
    let block_bytes = sparse.bytes();
    // Room for four in ten of the blocks that the B panels could meet.
    let blocks = (b_panels * (2 * tile.pack).div_ceil(5)).min(LANES - b_panels);
    let blocks_offset = b_panels * b_panel_bytes;
    let stage_bytes = (blocks_offset + blocks * block_bytes).next_multiple_of(ALIGN);
    let buffer = tile.roles.consumers * store.bytes.next_multiple_of(ALIGN);
    // A buffer that a full operand comes through has a barrier.
    let barrier = if has_tile { tile.roles.consumers * BARRIER } else { 0 };
    let stages_beside = |buffers: u32| {
        arch.shared_bytes.saturating_sub(buffers * (buffer + barrier)) / (stage_bytes + METADATA + 2 * BARRIER)
    };
    // A second staging buffer, written while TMA reads the first, is worth no stage of the ring. Epilogue
    // subtiles take turns with the two, from one tile to the next as well.
    let wanted = spec.stages.unwrap_or(MOST_STAGES).min(stages_beside(1));
    let alternate = store.subtiles(tile).is_multiple_of(2);
    let buffers = if alternate && stages_beside(2) >= wanted { 2 } else { 1 };
    let (staging, room) = (buffers * buffer, stages_beside(buffers));
    let stages = match spec.stages {
        None => room.min(MOST_STAGES),
        Some(wanted) if (2..=room).contains(&wanted) => wanted,
        Some(wanted) => {
            return Err(PlanError::new(
                "stages",
                format!("{wanted} stages do not fit"),
                format!(
                    "a ring has at least 2; {wanted} x ({stage_bytes} + {METADATA} + 16) B + {staging} B staging = {} B; a CTA has {} B",
                    u64::from(wanted) * u64::from(stage_bytes + METADATA + 16) + u64::from(staging),
                    arch.shared_bytes
                ),
                if room >= 2 { format!("stages = {room}, or fewer") } else { "bn = ?, or k_step = ?".to_owned() },
            ));
        }
    };
    if stages < 2 {
        return Err(PlanError::new(
            if spec.k_step.is_some() { "k_step" } else { "bn" },
            "two stages do not fit shared memory",
            format!(
                "2 x {stage_bytes} B + {staging} B staging + 288 B stage metadata and barriers > {} B",
                arch.shared_bytes
            ),
            "bn = ?, or k_step = ?",
        ));
    }
    let staging_offset = stages * stage_bytes;
    let metadata_offset = staging_offset + staging;
    let ring = Ring {
        stages,
        stage_bytes,
        full_offset: metadata_offset + stages * METADATA,
        // One of a consumer thread, for the word of metadata that it has read.
        empty_arrivals: tile.roles.consumers * arch.warpgroup,
    };
    let tile_offset = ring.end();
    Ok(Memory {
        b_panels,
        blocks,
        b_panel_bytes,
        block_bytes,
        blocks_offset,
        ring,
        staging_offset,
        buffers,
        metadata_offset,
        tile_offset,
        total: tile_offset + buffers * barrier,
    })
}

/// B panels of a stage: as many as `k_step` requests, or enough to be worth its barriers.
fn b_panels(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    k_slice: &KSlice,
    b_panel_bytes: u32,
) -> Result<u32, PlanError> {
    match spec.k_step {
        Some(k) if k > view.depth && k_slice.count > 1 => Err(PlanError::new(
            "k_step",
            format!("a stage of {k} exceeds a slice of a block"),
            format!("blocks {} deep are read in {} slices of K, each with its own stages", view.depth, k_slice.count),
            "drop `k_step`",
        )),
        Some(k) if k > view.depth => {
            let b_panels = k / view.depth;
            if !k.is_multiple_of(view.depth) || b_panels > MOST_PANELS {
                return Err(PlanError::new(
                    "k_step",
                    format!("a stage of {k} is not a whole number of blocks"),
                    format!(
                        "{k} / {} = {:.2}; a stage has up to {MOST_PANELS} block columns",
                        view.depth,
                        f64::from(k) / f64::from(view.depth)
                    ),
                    format!("k_step = {}", view.depth * b_panels.clamp(1, MOST_PANELS)),
                ));
            }
            Ok(b_panels)
        }
        Some(_) => Ok(1),
        None if b_panel_bytes <= SHALLOW => Ok((SHALLOW_PANELS / b_panel_bytes).clamp(1, MOST_PANELS)),
        None => Ok((PANELS / b_panel_bytes).clamp(1, MOST_PANELS)),
    }
}
