//! The producer's operands: TMA boxes and their coordinates.

use serde::Serialize;

use super::super::plan::SddmmPlan;
use crate::hopper::OperandTile;
use crate::hopper::tma::{Load, Offset, offset};
use crate::plan::Major;

/// Columns of B panels that the producer keeps in registers; those of later panels are read for every stage. It keeps
/// none of panels of many boxes: ptxas would keep a coordinate for each of these, and spills.
fn kept(plan: &SddmmPlan) -> u32 {
    if plan.right.loads.0 <= 2 { 4 } else { 0 }
}

/// The producer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Producer {
    /// Bytes that a stage's full barrier expects.
    bytes: u32,
    /// The same for a tile of half of the B panels, if there are such tiles.
    half_bytes: Option<u32>,
    /// Columns of B panels that are kept in registers: register, byte offset in the work tile.
    kept: Vec<Column>,
    /// Boxes of the left factor, then of each B panel.
    loads: Vec<Loads>,
}

/// Boxes that have a coordinate in common.
#[derive(Clone, Debug, Serialize)]
struct Loads {
    /// Bytes from the work tile's start to the panel's column, where no register keeps it.
    column: Option<u32>,
    boxes: Vec<Load>,
}

#[derive(Clone, Debug, Serialize)]
struct Column {
    register: String,
    offset: u32,
}

impl Producer {
    pub(super) fn new(plan: &SddmmPlan) -> Self {
        let (left, right) = (plan.left.bytes(), plan.right.bytes());
        let column = |panel: u32| Column { register: format!("%r_panel{panel}"), offset: plan.work_tile.column(panel) };
        let mut loads = vec![left_loads(plan)];
        loads.extend((0..plan.tiling.panels).map(|panel| panel_loads(plan, panel)));
        Self {
            bytes: left + right,
            half_bytes: plan.tiling.half().map(|_| left + right / 2),
            kept: (0..plan.tiling.panels.min(kept(plan))).map(column).collect(),
            loads,
        }
    }
}

fn left_loads(plan: &SddmmPlan) -> Loads {
    let tile = &plan.left;
    let load = |index: u32| {
        let mut offsets = vec![];
        let row = offset("%r_row", index * tile.span_elements(), "%r_at_row", &mut offsets);
        let destination = offset("%r_stage_at", index * tile.panel_bytes(), "%r_box_at", &mut offsets);
        load(("%rd_map_a", "%p_lead"), destination, coordinates(tile, &row), offsets)
    };
    Loads { column: None, boxes: (0..tile.loads.0).map(load).collect() }
}

fn panel_loads(plan: &SddmmPlan, panel: u32) -> Loads {
    let (tile, t) = (&plan.right, &plan.tiling);
    let first = plan.memory.right_offset + tile.mn_offset(panel * t.pitch);
    let is_kept = panel < kept(plan);
    let base = if is_kept { format!("%r_panel{panel}") } else { "%r_column".to_owned() };
    let predicate = match t.half() {
        Some(half) if panel >= half => "%p_wide",
        _ => "%p_lead",
    };
    let load = |index: u32| {
        let mut offsets = vec![];
        let column = offset(&base, index * tile.span_elements(), "%r_at_column", &mut offsets);
        let destination = offset("%r_stage_at", first + index * tile.panel_bytes(), "%r_box_at", &mut offsets);
        load(("%rd_map_b", predicate), destination, coordinates(tile, &column), offsets)
    };
    Loads { column: (!is_kept).then(|| plan.work_tile.column(panel)), boxes: (0..tile.loads.0).map(load).collect() }
}

fn load(
    (map, predicate): (&str, &'static str),
    destination: String,
    coordinates: String,
    offsets: Vec<Offset>,
) -> Load {
    Load { offsets, predicate, destination, map: map.to_owned(), rank: 2, coordinates, mask: None, is_reused: false }
}

/// The contiguous dimension first.
fn coordinates(tile: &OperandTile, mn: &str) -> String {
    match tile.major {
        Major::K => format!("%r_k, {mn}"),
        Major::Mn => format!("{mn}, %r_k"),
    }
}
