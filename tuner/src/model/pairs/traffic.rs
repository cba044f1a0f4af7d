//! What a product of two sparse factors reads from memory.

use super::super::assign::Lists;
use super::super::reuse::{Pieces, fetched_of, follow};
use super::super::tiles::Tiles;
use super::super::view::View;
use super::{PairShape, PairTiles};

/// Bytes of A and of B that come from memory, where L2 has room for `capacity` bytes.
pub(in crate::model) fn fetched(
    tiles: &Tiles,
    pairs: &PairTiles,
    shape: &PairShape,
    lists: &Lists,
    (view, capacity): (&View, f64),
) -> [f64; 2] {
    let met = &pairs.unions.met;
    let slices = [pairs.slices.max(1), 1];
    let mut pieces = [0, 1].map(|of| {
        let bytes = shape.pairs.stored()[of] as f64 * view.bytes[of];
        Pieces::new(met[of].chosen * slices[of], bytes)
    });
    let end = follow(tiles, lists, |of| {
        let (tile, (union, slice)) = (tiles.at(of.place), pairs.of[of.place.row as usize]);
        for (which, pieces) in pieces.iter_mut().enumerate() {
            for (block, at) in pairs.unions.met_by(union as usize, which) {
                if let Some(when) = of.when(*at, tile.stages) {
                    // A slice of rows is a piece of its own of a block of A; of B all slices read the same.
                    let slice = slice as usize % slices[which];
                    pieces.read(*block as usize * slices[which] + slice, when);
                }
            }
        }
    });
    fetched_of(pieces, end, capacity)
}
