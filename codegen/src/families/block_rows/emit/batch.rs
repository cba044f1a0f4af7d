//! What a kernel does with a list of problems: where an item's problem lies, and its tensor maps.

use serde::Serialize;

use super::super::plan::BlockRowsPlan;
use crate::hopper::problem_maps::{C, LAST, MAP, fence};

/// How work items lie in memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Item {
    bytes: u32,
    /// What the producer reads of an item, and everybody of the first.
    loads: Vec<Load>,
    /// What the consumers read of those that follow.
    consumer_loads: Vec<Load>,
    /// The index of the item's first block among the block columns.
    first: Vec<String>,
    /// A kernel for a list of problems.
    batch: bool,
}

/// Four words, or one.
#[derive(Clone, Debug, Serialize)]
struct Load {
    width: &'static str,
    registers: &'static str,
    address: &'static str,
}

impl Item {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let tile = Load {
            width: "v4.u32",
            registers: "{ %r_item_c_row, %r_item_c_col, %r_item_a_row, %r_item_blocks }",
            address: "%rd_item",
        };
        if !plan.spec.batch.is_on() {
            return Self {
                bytes: 16,
                loads: vec![tile.clone()],
                consumer_loads: vec![tile],
                first: vec![format!("div.u32 %r_next_first, %r_next_a_row, {}", plan.view.rows)],
                batch: false,
            };
        }
        let problem = Load {
            width: "v4.u32",
            registers: "{ %r_item_problem, %r_item_first, %r_item_whole, %r_item_none }",
            address: "%rd_item + 16",
        };
        let number = Load { width: "u32", registers: "%r_item_problem", address: "%rd_item + 16" };
        Self {
            bytes: 32,
            loads: vec![tile.clone(), problem],
            consumer_loads: vec![tile, number],
            first: ["first", "problem", "whole"].map(|what| format!("mov.u32 %r_next_{what}, %r_item_{what}")).to_vec(),
            batch: true,
        }
    }
}

/// The producer's tensor maps of a new tile. Those of a problem it has not come from are fenced.
pub(super) fn adopt_maps(plan: &BlockRowsPlan) -> Vec<String> {
    if !plan.spec.batch.is_on() {
        return vec![];
    }
    let mut lines = vec![
        "ld.param.u64 %rd_maps, [maps]".to_owned(),
        format!("mad.wide.u32 %rd_map_a, %r_next_problem, {}, %rd_maps", MAP * plan.maps_of_a_problem()),
        format!("add.s64 %rd_map_b, %rd_map_a, {MAP}"),
    ];
    let mut maps = vec!["%rd_map_a", "%rd_map_b"];
    if plan.b.by_block {
        lines.push(format!("add.s64 %rd_map_b_last, %rd_map_a, {}", MAP * LAST));
        lines.push("mov.u32 %r_whole_blocks, %r_next_whole".to_owned());
        maps.push("%rd_map_b_last");
    }
    lines.push("setp.ne.and.u32 %p_t, %r_next_problem, %r_problem, %p_lead".to_owned());
    lines.push("mov.u32 %r_problem, %r_next_problem".to_owned());
    lines.extend(maps.into_iter().map(fence));
    lines
}

/// A consumer's tile: its problem.
pub(super) fn adopt_problem(plan: &BlockRowsPlan) -> Vec<String> {
    match plan.spec.batch.is_on() {
        true => vec!["mov.u32 %r_tile_problem, %r_item_problem".to_owned()],
        false => vec![],
    }
}

/// A consumer's tile is complete: the map through which it is stored.
pub(super) fn adopt_result(plan: &BlockRowsPlan) -> Vec<String> {
    if !plan.spec.batch.is_on() {
        return vec![];
    }
    vec![
        "ld.param.u64 %rd_maps, [maps]".to_owned(),
        format!("add.s64 %rd_maps, %rd_maps, {}", MAP * C),
        format!("mad.wide.u32 %rd_map_c, %r_tile_problem, {}, %rd_maps", MAP * plan.maps_of_a_problem()),
        "setp.ne.and.u32 %p_t, %r_tile_problem, %r_problem, %p_store_lead".to_owned(),
        "mov.u32 %r_problem, %r_tile_problem".to_owned(),
        fence("%rd_map_c"),
    ]
}
