//! Step 3: how tensors lie in shared memory.
//!
//! Rows of the tile are read K-major, as the A operands of S and dP. Rows of a step are B operands of these two products,
//! K-major too, and of the gradients' products, for which the same memory is read MN-major. Gradients are staged in tiles of
//! the size of operands, in panels of one span, so that each consumer writes over its own rows alone.

use super::Tiling;
use crate::KernelSpec;
use crate::hopper::{OperandTile, heads};
use crate::plan::Major;

/// The tiles of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operands {
    /// Rows that stay, of the products S and dP: Q and dO, or K and V.
    pub(crate) fixed: [OperandTile; 2],
    /// Rows of a step, of the products S and dP: K and V, or Q and dO.
    pub(crate) passing: [OperandTile; 2],
    /// The same as they are read for gradients.
    pub(crate) transposed: [OperandTile; 2],
    /// O, of a kernel of dQ: where dQ is staged.
    pub(crate) output: OperandTile,
}

impl Operands {
    pub(crate) fn new(spec: &KernelSpec, tiling: &Tiling) -> Self {
        let lines = [tiling.depth, tiling.columns].map(|columns| columns * spec.a.bytes());
        let staged = heads::span(lines);
        let tile = |major, rows, line, span| heads::tile(spec.a, major, (rows, rows), line, span);
        Self {
            fixed: lines.map(|line| tile(Major::K, tiling.rows, line, staged)),
            passing: lines.map(|line| tile(Major::K, tiling.step, line, heads::span([line]))),
            transposed: lines.map(|line| tile(Major::Mn, tiling.step, line, heads::span([line]))),
            output: tile(Major::K, tiling.rows, lines[1], staged),
        }
    }
}
