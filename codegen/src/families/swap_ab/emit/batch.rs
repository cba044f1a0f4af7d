//! What a kernel does with a list of problems: each item has a problem, and so has each record that is on its way, since
//! producers are records ahead of the item that they load for.

use serde::Serialize;

use super::super::plan::SwapAbPlan;
use crate::hopper::problem_maps::{C, LAST, MAP, fence};

/// The context of a kernel with `batch = on`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Batch {
    /// The second half of an item: `{problem, whole blocks of K, 0, 0}`.
    item: &'static str,
    by_block: bool,
    /// The maps of a record's problem, for the warp that loads slabs and for the one that loads blocks.
    slabs: Vec<String>,
    blocks: Vec<String>,
    /// The map through which a complete tile is stored.
    result: Vec<String>,
}

impl Batch {
    /// None of a kernel for one product a launch.
    pub(super) fn new(plan: &SwapAbPlan) -> Option<Self> {
        let by_block = plan.k_slice.by_block;
        let dense = [("%rd_map_dense", 1), ("%rd_map_last", LAST)];
        plan.spec.batch.is_on().then(|| Self {
            item: "{ %r_item_problem, %r_item_whole }",
            by_block,
            slabs: adopt(plan, &dense[..if by_block { 2 } else { 1 }], ("%r_record_problem", "%p_lead")),
            blocks: adopt(plan, &[("%rd_map_sparse", 0)], ("%r_record_problem", "%p_lead")),
            result: adopt(plan, &[("%rd_map_out", C)], ("%r_tile_problem", "%p_store")),
        })
    }
}

/// Registers take the maps, by their places, of the problem that `of` is the number of. The thread that issues copies
/// fences those of another problem than the last one.
fn adopt(plan: &SwapAbPlan, maps: &[(&str, u32)], (of, issues): (&str, &str)) -> Vec<String> {
    let mut lines =
        vec!["ld.param.u64 %rd_maps, [maps]".to_owned(), format!("setp.ne.and.u32 %p_t, {of}, %r_problem, {issues}")];
    lines.push(format!("mov.u32 %r_problem, {of}"));
    lines.push(format!("mad.wide.u32 %rd_maps, {of}, {}, %rd_maps", MAP * plan.maps_of_a_problem()));
    lines.extend(maps.iter().map(|(register, place)| format!("add.s64 {register}, %rd_maps, {}", MAP * place)));
    lines.extend(maps.iter().map(|(register, _)| fence(register)));
    lines
}
