//! Step 3: the layout of both factors in a stage.
//!
//! A K-major factor has rows along M or N and 128 bytes of K in a row; B panels are contiguous, which the swizzle
//! allows since it repeats every 8 rows. An MN-major factor has swizzle panels: rows along K, and a span of M or N
//! in a row. A B panel is one or several of these, so that the B panels of a tile are one operand of one WGMMA wherever
//! in memory they are from.

use super::sides::{Side, Sides};
use super::tiling::{Tiling, span_columns};
use crate::hopper::{OperandTile, WGMMA_M};
use crate::plan::Major;

/// Bytes of K in a stage, and of the widest swizzle span.
pub(crate) const SPAN: u32 = 128;

/// The factor whose rows are those of the blocks: `cta_m` rows.
pub(crate) fn left(sides: &Sides, tiling: &Tiling) -> OperandTile {
    match sides.left.major {
        Major::K => along_k(&sides.left, tiling.cta_m, tiling.cta_m),
        Major::Mn => along_mn(&sides.left, tiling.cta_m, WGMMA_M, tiling.cta_m / WGMMA_M),
    }
}

/// The factor whose columns are those of the blocks: B panels of `pitch` columns, each loaded by itself.
pub(crate) fn right(sides: &Sides, tiling: &Tiling) -> OperandTile {
    let (columns, pitch) = (tiling.cta_n(), tiling.pitch);
    match sides.right.major {
        Major::K => along_k(&sides.right, columns, pitch),
        Major::Mn => {
            let panel = span_columns(pitch, sides.right.dtype.bytes());
            along_mn(&sides.right, columns, panel, pitch / panel)
        }
    }
}

/// `extent` rows or columns, of which a box loads some.
fn along_k(side: &Side, extent: u32, box_rows: u32) -> OperandTile {
    OperandTile {
        major: Major::K,
        element: side.dtype.bytes(),
        span: SPAN,
        rows: extent,
        panels: 1,
        box_rows,
        rows_per_line: 1,
        loads: (1, 1),
        by_block: false,
    }
}

/// `extent` rows or columns in swizzle panels of `panel`, of which a load takes `boxes`.
fn along_mn(side: &Side, extent: u32, panel: u32, boxes: u32) -> OperandTile {
    let element = side.dtype.bytes();
    let depth = SPAN / element;
    OperandTile {
        major: Major::Mn,
        element,
        span: panel * element,
        rows: depth,
        panels: extent / panel,
        box_rows: depth,
        rows_per_line: 1,
        loads: (boxes, 1),
        by_block: false,
    }
}
