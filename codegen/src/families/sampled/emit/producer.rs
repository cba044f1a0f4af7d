//! The producer's operands: TMA boxes and their coordinates.

use serde::Serialize;

use super::super::plan::{SampledPlan, Tile};
use crate::plan::Major;

/// Columns of slots that the producer keeps in registers; those of later slots are read for every stage. It keeps none of
/// slots of many boxes: ptxas would keep a coordinate for each of these, and spills.
fn kept(plan: &SampledPlan) -> u32 {
    if plan.right.boxes <= 2 { 4 } else { 0 }
}

/// The producer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Producer {
    /// Bytes that a stage's full barrier expects.
    bytes: u32,
    /// The same for a tile of half of the slots, if there are such tiles.
    half_bytes: Option<u32>,
    /// Columns of slots that are kept in registers: register, byte offset in the item.
    kept: Vec<Column>,
    loads: Vec<Load>,
}

#[derive(Clone, Debug, Serialize)]
struct Column {
    register: String,
    offset: u32,
}

/// One TMA box and the instructions that make its coordinates.
#[derive(Clone, Debug, Serialize)]
struct Load {
    setup: Vec<String>,
    predicate: &'static str,
    map: &'static str,
    destination: String,
    coordinates: String,
}

impl Producer {
    pub(super) fn new(plan: &SampledPlan) -> Self {
        let (left, right) = (plan.left.bytes(), plan.right.bytes());
        let column = |slot: u32| Column { register: format!("%r_slot{slot}"), offset: plan.item.column(slot) };
        let mut loads = left_loads(plan);
        for slot in 0..plan.tiling.slots {
            loads.extend(slot_loads(plan, slot));
        }
        Self {
            bytes: left + right,
            half_bytes: plan.tiling.half().map(|_| left + right / 2),
            kept: (0..plan.tiling.slots.min(kept(plan))).map(column).collect(),
            loads,
        }
    }
}

fn left_loads(plan: &SampledPlan) -> Vec<Load> {
    let tile = &plan.left;
    let load = |index: u32| {
        let mut setup = vec![];
        let row = offset("%r_row", index * tile.load.0, "%r_at_row", &mut setup);
        let destination = offset("%r_stage_at", index * tile.panel_bytes(), "%r_box_at", &mut setup);
        let coordinates = coordinates(tile, &row);
        Load { setup, predicate: "%p_lead", map: "%rd_map_a", destination, coordinates }
    };
    (0..tile.boxes).map(load).collect()
}

fn slot_loads(plan: &SampledPlan, slot: u32) -> Vec<Load> {
    let (tile, t) = (&plan.right, &plan.tiling);
    let first = plan.memory.right_offset + tile.mn_offset(slot * t.pitch);
    let load = |index: u32| {
        let mut setup = vec![];
        let base = if slot < kept(plan) {
            format!("%r_slot{slot}")
        } else {
            if index == 0 {
                setup.push(format!("ld.shared.u32 %r_column, [%r_items_end + {}]", plan.item.column(slot)));
            }
            "%r_column".to_owned()
        };
        let column = offset(&base, index * tile.load.0, "%r_at_column", &mut setup);
        let destination = offset("%r_stage_at", first + index * tile.panel_bytes(), "%r_box_at", &mut setup);
        let predicate = match t.half() {
            Some(half) if slot >= half => "%p_wide",
            _ => "%p_lead",
        };
        Load { setup, predicate, map: "%rd_map_b", destination, coordinates: coordinates(tile, &column) }
    };
    (0..tile.boxes).map(load).collect()
}

/// The contiguous dimension first.
fn coordinates(tile: &Tile, mn: &str) -> String {
    match tile.major {
        Major::K => format!("%r_k, {mn}"),
        Major::Mn => format!("{mn}, %r_k"),
    }
}

/// The register that holds `base` + `by`, and the addition that makes it.
fn offset(base: &str, by: u32, target: &str, setup: &mut Vec<String>) -> String {
    if by == 0 {
        return base.to_owned();
    }
    setup.push(format!("add.u32 {target}, {base}, {by}"));
    target.to_owned()
}
