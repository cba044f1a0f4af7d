//! Step 3: the layout of Q, K and V in shared memory.
//!
//! The columns of a head are divided into swizzle panels of the widest span that divides them. Q and K are K-major for the
//! first product. V, keys by columns, is MN-major for the second: WGMMA reads it transposed. A run of keys is a box. O is
//! staged where Q was, in panels of the same span, so that each consumer writes over its own queries alone; where V has
//! other columns than Q, the span is one that divides both.

use super::Tiling;
use crate::KernelSpec;
use crate::hopper::OperandTile;
use crate::plan::Major;

/// Q of a tile, K and V of a step, O of a tile.
pub(crate) fn tiles(spec: &KernelSpec, tiling: &Tiling) -> [OperandTile; 4] {
    let element = spec.a.bytes();
    let (depth, columns) = (tiling.depth * element, tiling.columns * element);
    let span = |lines: [u32; 2]| {
        let divides = |span: &u32| lines.iter().all(|line| line.is_multiple_of(*span));
        [128, 64].into_iter().find(divides).unwrap_or(32)
    };
    let tile = |major, (rows, box_rows), line: u32, span: u32| OperandTile {
        major,
        element,
        span,
        rows,
        panels: line / span,
        box_rows,
        rows_per_line: 1,
        loads: (line / span, 1),
        by_block: false,
    };
    let (staged, of_tile) = (span([depth, columns]), (tiling.rows, tiling.rows));
    let of_step = (tiling.step, tiling.step / tiling.blocks);
    [
        tile(Major::K, of_tile, depth, staged),
        tile(Major::K, of_step, depth, span([depth; 2])),
        tile(Major::Mn, of_step, columns, span([columns; 2])),
        tile(Major::K, of_tile, columns, staged),
    ]
}
