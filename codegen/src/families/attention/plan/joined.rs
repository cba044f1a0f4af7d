//! Steps of more than two blocks of keys, which follow each other: a mask of small blocks, such as a narrow window, has as many keys
//! in a step as one of large ones, and computes fewer pairs that do not count.
//!
//! A step begins at any block. Blocks of it that are not stored are masked, so that any mask can be listed.

use super::Tiling;
use crate::KernelSpec;
use crate::plan::AttentionTiles;
use crate::spec::Scale;

/// Keys of the longest step: N of the first product's WGMMA.
const LONGEST: u32 = 256;

/// Neighbouring blocks that a step of so many keys has: more than two.
///
/// Keys in pages have an order of their own, and blocks with factors have steps of their own.
pub(super) fn blocks(spec: &KernelSpec, step: u32) -> Option<u32> {
    let joined = step / spec.bk.max(1);
    let fits =
        step.is_multiple_of(spec.bk.max(1)) && step <= LONGEST && (3..=AttentionTiles::MOST_JOINED).contains(&joined);
    (fits && spec.page.is_none() && spec.scale != Scale::Block).then_some(joined)
}

/// Whether all consumers of a tile compute the blocks of one row, where a step joins blocks.
pub(super) fn fits(spec: &KernelSpec, tiling: &Tiling) -> bool {
    tiling.uniform || blocks(spec, tiling.step).is_none()
}

/// Words of a step.
pub(super) fn words(spec: &KernelSpec, tiling: &Tiling) -> u32 {
    if blocks(spec, tiling.step).is_some() { 2 } else { tiling.blocks }
}
