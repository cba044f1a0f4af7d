//! Step 3: how Q, K and V lie in shared memory.
//!
//! The columns of a head are divided into swizzle panels of the widest span that divides them. Q and K are K-major for the
//! first product. V, keys by columns, is MN-major for the second: WGMMA reads it transposed. A run of keys is a box.

use super::Tiling;
use crate::KernelSpec;
use crate::hopper::OperandTile;
use crate::plan::Major;

/// Q of a tile, K and V of a step.
pub(crate) fn tiles(spec: &KernelSpec, tiling: &Tiling) -> [OperandTile; 3] {
    let element = spec.a.bytes();
    let line = tiling.columns * element;
    let span = [128, 64].into_iter().find(|span| line.is_multiple_of(*span)).unwrap_or(32);
    let tile = |major, rows, box_rows| OperandTile {
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
    let run = tiling.step / tiling.blocks;
    [tile(Major::K, tiling.rows, tiling.rows), tile(Major::K, tiling.step, run), tile(Major::Mn, tiling.step, run)]
}
