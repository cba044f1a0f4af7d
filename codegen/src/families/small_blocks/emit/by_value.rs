//! The operands of the template of `vector = 1`: a thread has one value of a block.

use serde::Serialize;

use super::super::plan::{SmallBlocksPlan, WARP};
use super::registers::{class, narrow_sum, sum, zero};
use super::{fused, sums, values};
use crate::{Dtype, KernelSpec, Layout};

/// Everything that the template names.
#[derive(Serialize)]
pub(super) struct Context<'p> {
    spec: &'p KernelSpec,
    warp: Warp,
    /// Values that are read once leave L2 first.
    streams: bool,
    /// Bytes of a block, of a value, and of an element of B and of C.
    block_bytes: u32,
    element_bytes: u32,
    dense_bytes: u32,
    out_bytes: u32,
    /// A row of B, and of C, is a line of memory.
    rows_are_lines: bool,
    c_is_row_major: bool,
    blocks: Vec<Block>,
    sum: Sum,
    zero: &'static str,
    sum_type: Dtype,
    /// Over the slots, then over a block's columns.
    tree: Vec<Level>,
    fused: Option<fused::Fused>,
}

/// The threads that serve block rows.
#[derive(Serialize)]
struct Warp {
    /// Warps of a CTA, and block rows of each.
    count: u32,
    rows: u32,
    /// Values of a block, blocks side by side, and blocks of a round.
    values: u32,
    slots: u32,
    chunk: u32,
    has_idle: bool,
}

/// A block in flight.
#[derive(Serialize)]
struct Block {
    #[serde(flatten)]
    values: values::Block,
    /// The thread's value as it is multiplied.
    value: String,
    /// The element of B as it is loaded, and as it is multiplied.
    element: String,
    element_zero: &'static str,
    factor: String,
}

/// The sum of a thread, and what is stored of it.
#[derive(Serialize)]
struct Sum {
    register: String,
    stored: String,
}

/// One level of the tree of sums, and the number of a thread that it compares.
#[derive(Serialize)]
struct Level {
    which: &'static str,
    #[serde(flatten)]
    level: sums::Level,
}

impl<'p> Context<'p> {
    pub(super) fn new(plan: &'p SmallBlocksPlan) -> Self {
        let (spec, slots, values) = (&plan.spec, plan.slots(), plan.threads_of_block());
        let block = |number: u32| {
            let element = format!("%{}_b{number}", class(spec.b));
            Block {
                values: values::Block::of_value(spec, slots, number),
                value: super::registers::value(spec, number, 0),
                factor: if spec.b == spec.acc { element.clone() } else { format!("%d_wide{number}") },
                element,
                element_zero: zero(spec.b),
            }
        };
        let level = |which: &'static str| move |level: sums::Level| Level { which, level };
        let over_slots = sums::tree(slots, WARP, values).into_iter().map(level("%r_slot"));
        let over_columns = sums::tree(spec.bk, WARP, 1).into_iter().map(level("%r_in_column"));
        Self {
            spec,
            warp: Warp {
                count: plan.threads() / WARP,
                rows: plan.rows_of_warp(),
                values,
                slots,
                chunk: plan.in_flight() * slots,
                has_idle: slots * values < WARP,
            },
            streams: plan.streams(),
            block_bytes: spec.bm * plan.row_bytes(),
            element_bytes: spec.a.bytes(),
            dense_bytes: spec.b.bytes(),
            out_bytes: spec.out.bytes(),
            rows_are_lines: spec.b_layout == Layout::RowMajor,
            c_is_row_major: spec.c_layout == Layout::RowMajor,
            blocks: (0..plan.in_flight()).map(block).collect(),
            sum: Sum { register: sum(spec, 0), stored: narrow_sum(spec, 0) },
            zero: zero(spec.acc),
            sum_type: spec.acc,
            tree: over_slots.chain(over_columns).collect(),
            fused: fused::Fused::new(spec),
        }
    }
}
