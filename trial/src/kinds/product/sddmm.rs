//! What tiles of an SDDMM whose K is shared must have; none of another kernel.

use bsr_codegen::Plan;

use super::split::Width;

/// Whether tiles of half the width share K, too.
pub(super) fn has_halves(plan: &Plan) -> bool {
    plan.sddmm_tiles().is_some_and(|form| form.half.is_some())
}

/// Block rows of a tile, blocks of each row, and K of a stage.
pub(super) fn extents(plan: &Plan, width: Width) -> Option<(usize, usize, usize)> {
    let form = plan.sddmm_tiles()?;
    let groups = match (width, form.half) {
        (Width::Half, Some(half)) => half,
        _ => form.column_groups,
    };
    let blocks = (groups / form.groups_per_block).max(1);
    Some((form.pack as usize, blocks as usize, form.k_step as usize))
}

/// Words of a work tile, and which of them say how many parts are added and whether the tile is of half the width.
pub(super) fn tile_words(plan: &Plan) -> Option<(usize, usize, Option<usize>)> {
    Some((plan.sddmm_tiles()?.tile_words as usize, 6, Some(3)))
}
