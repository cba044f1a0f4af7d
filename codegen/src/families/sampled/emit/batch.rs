//! What a kernel does with a list of sampled products: an item names its problem, whose tensor maps lie in memory.

use super::super::plan::{Item, SampledPlan};
use crate::hopper::problem_maps::{C, MAP, fence};

/// Maps of a problem: the left factor's, the right one's, C's.
const MAPS: u32 = 3;

/// The producer's tensor maps of a new tile. Those of a problem it has not come from are fenced.
pub(super) fn adopt_factors(plan: &SampledPlan) -> Vec<String> {
    if !plan.spec.batch.is_on() {
        return vec![];
    }
    let mut lines = adopt("%rd_map_a", "%r_items_end", 0, "%p_lead");
    lines.insert(lines.len() - 1, format!("add.s64 %rd_map_b, %rd_map_a, {MAP}"));
    lines.push(fence("%rd_map_b"));
    lines
}

/// A consumer's tile is complete: the map through which it is stored.
pub(super) fn adopt_result(plan: &SampledPlan) -> Vec<String> {
    if plan.spec.batch.is_on() { adopt("%rd_map_c", "%r_item", C, "%p_store_lead") } else { vec![] }
}

/// Map number `number` of the problem of the item at `item`, for the thread that issues copies.
fn adopt(map: &str, item: &str, number: u32, issues: &str) -> Vec<String> {
    vec![
        format!("ld.shared.u32 %r_next_problem, [{item} + {}]", Item::PROBLEM),
        "ld.param.u64 %rd_maps, [maps]".to_owned(),
        format!("add.s64 %rd_maps, %rd_maps, {}", MAP * number),
        format!("mad.wide.u32 {map}, %r_next_problem, {}, %rd_maps", MAP * MAPS),
        format!("setp.ne.and.u32 %p_t, %r_next_problem, %r_problem, {issues}"),
        "mov.u32 %r_problem, %r_next_problem".to_owned(),
        fence(map),
    ]
}
