//! Step 3: the layout of Q, K and V in shared memory.
//!
//! The columns of a head are divided into swizzle panels of the widest span that divides them. Q and K are K-major for the
//! first product. V, keys by columns, is MN-major for the second: WGMMA reads it transposed. V of 8-bit operands, columns by keys, is K-major. A run of keys is a box, or what it has of a page. O is
//! staged where Q was, in panels of the same span, so that each consumer writes over its own queries alone; where V has
//! other columns than Q, the span is one that divides both. In a cluster a CTA stores a part of O's columns, and loads V with its columns
//! rotated by parts: panels are of one part.

use super::Tiling;
use crate::KernelSpec;
use crate::hopper::{OperandTile, heads};
use crate::plan::Major;

/// Q of a tile, K and V of a step, O of a tile.
pub(crate) fn tiles(spec: &KernelSpec, tiling: &Tiling) -> [OperandTile; 4] {
    let element = spec.a.bytes();
    let (depth, columns) = (tiling.depth * element, tiling.columns * element);
    let parts = spec.cluster.unwrap_or(1);
    let (part, output) = (columns / parts, tiling.columns * spec.out.bytes() / parts);
    let tile = |major, rows, line: u32, span: u32| heads::tile(spec.a, major, rows, line, span);
    let (staged, of_tile) = (heads::span([depth, output]), (tiling.rows, tiling.rows));
    let run = tiling.step / tiling.blocks;
    let of_step = (tiling.step, run.min(spec.page.unwrap_or(u32::MAX)));
    let values = match spec.a.is_fp8() {
        true => {
            tile(Major::K, (tiling.columns, tiling.columns), tiling.step * element, heads::span([of_step.1 * element]))
        }
        false => tile(Major::Mn, of_step, columns, heads::span([part])),
    };
    [
        tile(Major::K, of_tile, depth, staged),
        tile(Major::K, of_step, depth, heads::span([depth])),
        values,
        heads::tile(spec.out, Major::K, of_tile, output, staged),
    ]
}
