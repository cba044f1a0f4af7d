//! What no problem of an attention executes.

use bsr_codegen::Plan;

use super::reason::{Reason, goes_to};

pub(super) const REASONS: &[Reason] = &[
    (
        |at, _, plan| goes_to(at, "$kept_first") && !empties(plan),
        "the first step of a tile has a key that counts, and moves the reference of its exponentials",
    ),
    (
        |_, before, plan| {
            let skips = before.is_some_and(|before| goes_to(before, "$found") || goes_to(before, "$skipped"));
            skips && tile_of_one_row(plan)
        },
        "the queries of a tile lie in one row of blocks: no step is another consumer's",
    ),
    (
        |at, _, plan| {
            let without_key =
                goes_to(at, "$next_part") || at.text.starts_with("@!%p_t") && goes_to(at, "$part_written");
            without_key && tile_of_one_row(plan) && !empties(plan)
        },
        "every part of a tile has a key that counts",
    ),
];

/// Whether the queries of every tile of an attention lie in one row of blocks.
fn tile_of_one_row(plan: &Plan) -> bool {
    plan.attention_tiles().is_some_and(|tiles| tiles.block.0.is_multiple_of(tiles.rows))
}

/// Whether the score of an attention can leave a step without a key that counts.
fn empties(plan: &Plan) -> bool {
    plan.spec().score.is_some_and(|score| score.to_string().contains("inf"))
}
