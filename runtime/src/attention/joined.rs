//! The steps of a kernel that joins neighbouring blocks of keys.

use bsr_codegen::AttentionTiles;

use super::Mask;
use super::steps::TileSteps;

/// The steps of the tile of one pattern that begins with query `row`: each begins with the first block that no step before it has.
pub(super) fn of_tile(tiles: &AttentionTiles, mask: &Mask, pattern: usize, row: usize) -> TileSteps {
    let consumers = (1 << tiles.consumers) - 1;
    let (all, mut blocks) = ((1 << tiles.joined()) - 1, mask.lists()[pattern].row(row / mask.block().0).peekable());
    let mut of_tile = TileSteps::default();
    while let Some((first, partial)) = blocks.next() {
        let (mut stored, mut scored) = (1_u32, u32::from(partial));
        while let Some((column, partial)) = blocks.next_if(|(column, _)| *column < first + tiles.joined()) {
            stored |= 1 << (column - first);
            scored |= u32::from(partial) << (column - first);
        }
        let looks = if stored == all && scored == 0 { 0 } else { consumers };
        let word = first | (consumers * AttentionTiles::STORED) | (looks * AttentionTiles::PARTIAL);
        of_tile.words.extend([word, stored | (scored << AttentionTiles::MOST_JOINED)]);
        of_tile.counts.iter_mut().take(tiles.consumers as usize).for_each(|count| *count += 1);
    }
    of_tile
}
