//! The operands of the family's templates.

mod dense;
mod fused;
mod registers;
mod sums;
mod together;
mod values;

use serde::Serialize;

use super::plan::SmallBlocksPlan;
use crate::emit::templates;
use crate::{Dtype, IndexWidth, KernelSpec, Layout};

/// The instructions of a kernel.
pub(super) fn body(plan: &SmallBlocksPlan) -> String {
    let template = match (plan.is_transposed(), plan.is_together()) {
        (true, _) => "small_blocks/transposed.ptx",
        (false, true) => "small_blocks/together.ptx",
        (false, false) => "small_blocks/body.ptx",
    };
    templates::render(template, &Context::new(plan))
}

/// Everything that the templates name.
#[derive(Serialize)]
struct Context<'p> {
    spec: &'p KernelSpec,
    /// Rows and columns of a block as it is multiplied.
    rows: u32,
    inner: u32,
    group: Group,
    /// The pointers of block rows have 64 bits.
    wide_rows: bool,
    /// Values that are read once leave L2 first.
    streams: bool,
    /// Bytes of a block, of one of its rows, of a value, and of an element of B and of C.
    block_bytes: u32,
    row_bytes: u32,
    element_bytes: u32,
    dense_bytes: u32,
    out_bytes: u32,
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
    together: Option<together::Together>,
    fused: Option<fused::Fused>,
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
        let block = |number: u32| {
            let guard = registers::guard(plan, number);
            match (plan.is_transposed(), plan.is_together()) {
                (true, _) => values::Block::of_column(spec, slots, number, guard),
                (false, false) => values::Block::new(spec, plan.a_load, slots, number, guard),
                (false, true) => values::Block::new(spec, plan.a_load, slots, number, guard).streamed(),
            }
        };
        Self {
            spec,
            rows: plan.rows(),
            inner: plan.inner(),
            group: Group {
                lanes: plan.lanes,
                mask: plan.lanes - 1,
                shift: plan.lanes.trailing_zeros(),
                slots,
                rows: plan.groups(),
                has_idle: slots * plan.rows() < plan.lanes,
            },
            wide_rows: spec.row_ptr == IndexWidth::I64,
            streams: plan.arch.compute_capability >= (8, 0),
            block_bytes,
            row_bytes: plan.row_bytes(),
            element_bytes: spec.a.bytes(),
            dense_bytes: spec.b.bytes(),
            out_bytes: spec.out.bytes(),
            rows_are_lines: spec.b_layout == Layout::RowMajor,
            c_is_row_major: spec.c_layout == Layout::RowMajor,
            blocks: (0..plan.in_flight()).map(block).collect(),
            advance,
            advance_bytes: advance * block_bytes,
            advance_columns: advance * 4,
            steps: dense::steps(plan),
            edges: (0..plan.in_flight()).map(|block| dense::Edge::new(plan, block)).collect(),
            sums: sums::of(spec),
            tree: sums::tree(slots, plan.lanes, plan.rows()),
            sum_type: spec.acc,
            together: plan.is_together().then(|| together::Together::new(plan, block)),
            fused: fused::Fused::new(spec),
        }
    }
}
