//! Step 3: the layout of Q, K and V in shared memory.
//!
//! The columns of a head are divided into swizzle panels of the widest span that divides them. Q and K are K-major for the
//! first product. V, keys by columns, is MN-major for the second: WGMMA reads it transposed. A run of keys is a box, or what it has of a page. O is
//! staged where Q was, in panels of the same span, so that each consumer writes over its own queries alone; where V has
//! other columns than Q, the span is one that divides both.

use super::Tiling;
use crate::KernelSpec;
use crate::hopper::{OperandTile, heads};
use crate::plan::Major;

/// Q of a tile, K and V of a step, O of a tile.
pub(crate) fn tiles(spec: &KernelSpec, tiling: &Tiling) -> [OperandTile; 4] {
    let element = spec.a.bytes();
    let (depth, columns) = (tiling.depth * element, tiling.columns * element);
    let tile = |major, rows, line: u32, span: u32| heads::tile(spec.a, major, rows, line, span);
    let (staged, of_tile) = (heads::span([depth, columns]), (tiling.rows, tiling.rows));
    let of_step = (tiling.step, (tiling.step / tiling.blocks).min(spec.page.unwrap_or(u32::MAX)));
    [
        tile(Major::K, of_tile, depth, staged),
        tile(Major::K, of_step, depth, heads::span([depth])),
        tile(Major::Mn, of_step, columns, heads::span([columns])),
        tile(Major::K, of_tile, columns, staged),
    ]
}
