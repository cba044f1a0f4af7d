//! The store of a tile: packing, staging writes, the blocks that TMA stores.

use serde::Serialize;

use super::super::plan::SddmmPlan;
use super::fused::{ColumnBatch, Emitter};
use super::staging::{writes_16, writes_32};
use crate::hopper::store::{Pack, Store, Write, convert, packed};

/// What the names of the accumulators of a tile of all B panels begin with.
pub(super) const WHOLE: &str = "acc";

/// One filling of the staging buffer.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Subtile {
    number: u32,
    /// Units of the tile that it stores.
    pub(super) units: u32,
    packs: Vec<Pack>,
    writes: Vec<Write>,
    blocks: Vec<BlockStore>,
    /// Where the epilogue reads a full operand: what is done in place of `packs` and `writes`.
    column_batches: Vec<ColumnBatch>,
    /// Bytes of the full operand.
    operand_bytes: u32,
}

/// One block's part of a unit.
#[derive(Clone, Debug, Serialize)]
struct BlockStore {
    /// Bytes from the start of staging.
    offset: u32,
    /// Bytes from a consumer's part of a work tile to the column within the block, and to the block.
    column_at: u32,
    block_at: u32,
    /// First column of the unit within its panel.
    column: u32,
}

/// What the subtiles of a store have in common.
pub(super) fn context(plan: &SddmmPlan) -> Store {
    Store {
        convert: convert(plan.spec.out),
        subtiles: plan.epilogue.subtiles(),
        lead: "%p_store_lead",
        pending: 0,
        map: "%rd_map_c",
        inner: "%r_store_col",
        outer: "%r_out_row",
    }
}

/// The registers of a tile whose store is overlapped.
pub(super) fn packed_registers(plan: &SddmmPlan) -> Vec<String> {
    let count = if plan.epilogue.overlapped { plan.tiling.accumulators() / 2 } else { 0 };
    (0..count).map(packed).collect()
}

/// What is packed at the end of a tile with so many accumulators, under an overlapped epilogue. The spec's epilogue packs
/// what it is done with.
pub(super) fn packs(plan: &SddmmPlan, stem: &'static str, accumulators: u32) -> Vec<Pack> {
    let is_packed = plan.epilogue.overlapped && plan.fused.is_none();
    (0..accumulators / 2).filter(|_| is_packed).map(|i| Pack::new(stem, i)).collect()
}

/// The elements of a tile's first `units` units, where they are all computed before it is stored.
pub(super) fn column_batches(plan: &SddmmPlan, stem: &'static str, units: u32) -> Vec<ColumnBatch> {
    let emitter = Emitter::new(plan).filter(|_| !plan.epilogue.has_tile);
    emitter.iter().flat_map(|emitter| (0..units).flat_map(|unit| emitter.column_batches(stem, unit, 0))).collect()
}

/// The subtiles of a whole tile.
pub(super) fn whole(plan: &SddmmPlan) -> Vec<Subtile> {
    subtiles(plan, WHOLE, plan.epilogue.units)
}

/// The subtiles of a tile's first `units` units.
pub(super) fn subtiles(plan: &SddmmPlan, stem: &'static str, units: u32) -> Vec<Subtile> {
    let (e, t) = (&plan.epilogue, &plan.tiling);
    let wide = plan.spec.out.bytes() == 4;
    let emitter = Emitter::new(plan);
    let units: Vec<u32> = (0..units).collect();
    let mut subtiles = vec![];
    for (number, staged) in units.chunks(e.staged as usize).enumerate() {
        let mut subtile = Subtile { number: number as u32 + 1, units: staged.len() as u32, ..Subtile::default() };
        for (place, unit) in staged.iter().enumerate() {
            let at = place as u32 * e.unit_bytes();
            let (panel, column) = (unit / e.units_per_panel, unit % e.units_per_panel * e.unit);
            // 64 rows are 4 accumulators a thread for every 8 columns.
            let first = (panel * t.pitch + column) / 2;
            if e.has_tile {
                subtile
                    .column_batches
                    .extend(emitter.iter().flat_map(|emitter| emitter.column_batches(stem, *unit, at)));
                subtile.operand_bytes += t.pack * e.box_rows * e.line;
            } else if wide {
                subtile.writes.extend(writes_32(plan, stem, first, at));
            } else {
                if !e.overlapped {
                    subtile.packs.extend((first / 2..(first + e.unit / 2) / 2).map(|i| Pack::new(stem, i)));
                }
                subtile.writes.extend(writes_16(e, first / 2, at));
            }
            let of_panel = plan.work_tile.stores(panel) - plan.work_tile.stores(0);
            subtile.blocks.extend((0..t.pack).map(|packed| BlockStore {
                offset: at + packed * e.box_rows * e.line,
                column_at: of_panel,
                block_at: of_panel + 4 * (1 + packed),
                column,
            }));
        }
        subtiles.push(subtile);
    }
    subtiles
}
