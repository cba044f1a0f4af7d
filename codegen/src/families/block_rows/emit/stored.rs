//! The stored blocks of a sparse B: the lines in which its tensor map has them, one block below another, and the loads of
//! blocks whose lines are columns.

use super::super::plan::BlockRowsPlan;
use super::super::plan::operand::stored_by_columns;
use crate::hopper::tma::{Offset, constant, offset};

/// What the first line of a block in the map is called, and how many a block has: rows, or columns of a block that is stored
/// column by column.
pub(super) fn lines(plan: &BlockRowsPlan) -> (&'static str, u32) {
    match stored_by_columns(&plan.spec) {
        true => ("%r_b_line", plan.spec.bn),
        false => ("%r_b_k", plan.view.depth),
    }
}

/// One box of columns of a block.
pub(super) struct ColumnBox {
    /// Where it lies in B's tile, in bytes.
    pub(super) at: u32,
    /// The column of the tile with which it begins.
    pub(super) column: u32,
    /// The element of K, of the block's, with which it begins.
    k: u32,
}

/// The boxes of a stage.
pub(super) fn boxes(plan: &BlockRowsPlan, step: u32) -> impl Iterator<Item = ColumnBox> + use<'_> {
    let b = &plan.b;
    let (panels, parts) = b.loads;
    (0..panels).flat_map(move |panel| (0..parts).map(move |part| (panel, part))).map(move |(panel, part)| ColumnBox {
        at: panel * b.panel_bytes() + part * b.box_rows * b.span,
        column: part * b.box_rows,
        k: step * plan.kloop.k_step + panel * b.span_elements(),
    })
}

impl ColumnBox {
    /// Its coordinates in a block whose first line a register has, of which `within` columns are before the box.
    pub(super) fn coordinates(&self, line: &str, within: u32, offsets: &mut Vec<Offset>) -> String {
        let inner = constant(self.k, "%r_inner", offsets);
        let outer = offset(line, within, "%r_outer", offsets);
        format!("{inner}, {outer}")
    }
}
