//! The operands of the family's templates.

mod dense;
mod registers;
mod sums;
mod values;

use serde::Serialize;

use super::plan::SmallBlocksPlan;
use crate::emit::templates;
use crate::{Dtype, KernelSpec, Layout};

/// The instructions of a kernel.
pub(super) fn body(plan: &SmallBlocksPlan) -> String {
    templates::render("small_blocks/body.ptx", &Context::new(plan))
}

/// Everything that the templates name.
#[derive(Serialize)]
struct Context<'p> {
    spec: &'p KernelSpec,
    group: Group,
    /// Values that are read once leave L2 first.
    streams: bool,
    /// Bytes of a block, of one of its rows, and of an element of B and C.
    block_bytes: u32,
    row_bytes: u32,
    dense_bytes: u32,
    /// The block's rows of B are lines of memory, and not its columns.
    rows_are_lines: bool,
    /// A row of C is a line of memory.
    c_is_row_major: bool,
    blocks: Vec<values::Block>,
    /// Blocks that are advanced at once, their bytes, and those of their columns.
    advance: u32,
    advance_bytes: u32,
    advance_columns: u32,
    steps: Vec<dense::Step>,
    edges: Vec<dense::Edge>,
    sums: Vec<sums::Sum>,
    tree: Vec<sums::Level>,
    sum_type: Dtype,
}

/// The threads that serve a block row.
#[derive(Serialize)]
struct Group {
    lanes: u32,
    mask: u32,
    shift: u32,
    slots: u32,
    /// Block rows of a CTA.
    rows: u32,
    /// Some threads have no block.
    has_idle: bool,
}

impl<'p> Context<'p> {
    fn new(plan: &'p SmallBlocksPlan) -> Self {
        let (spec, slots) = (&plan.spec, plan.slots());
        let block_bytes = spec.bm * plan.row_bytes();
        let advance = plan.in_flight() * slots;
        Self {
            spec,
            group: Group {
                lanes: plan.lanes,
                mask: plan.lanes - 1,
                shift: plan.lanes.trailing_zeros(),
                slots,
                rows: plan.groups(),
                has_idle: slots * spec.bm < plan.lanes,
            },
            streams: plan.arch.compute_capability >= (8, 0),
            block_bytes,
            row_bytes: plan.row_bytes(),
            dense_bytes: spec.b.bytes(),
            rows_are_lines: spec.b_layout == Layout::RowMajor,
            c_is_row_major: spec.c_layout == Layout::RowMajor,
            blocks: (0..plan.in_flight()).map(|block| values::Block::new(plan, block)).collect(),
            advance,
            advance_bytes: advance * block_bytes,
            advance_columns: advance * 4,
            steps: dense::steps(plan),
            edges: (0..plan.in_flight()).map(|block| dense::Edge::new(plan, block)).collect(),
            sums: sums::of(plan),
            tree: sums::tree(plan),
            sum_type: spec.acc,
        }
    }
}
