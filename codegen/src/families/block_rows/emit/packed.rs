//! Several block rows in one CTA tile: what their producer loads, and how consumers know what a stage has for them.

use serde::Serialize;

use super::super::plan::BlockRowsPlan;
use super::step::Step;
use super::{producer, quadrants};
use crate::plan::SharedColumns;

/// The part of the context that such kernels have beside the others.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Packed {
    /// Bits of a union's word that say which block rows have a block.
    mask_bits: u32,
    mask: u32,
    /// Offset of the stages' masks in shared memory.
    mask_offset: u32,
    /// Elements of K in a block, and rows of A's map.
    depth: u32,
    map_rows: u32,
    /// Adjacent rows of A in a row of a TMA box, as a power of two.
    rows_per_line_shift: u32,
    members: Vec<Member>,
    /// The first sum of each consumer, for one without a block.
    sums: Vec<String>,
    zero: &'static str,
    /// A consumer has so many block rows, each with several blocks of C: its sums are zero when a tile begins.
    quadrants: Option<u32>,
    /// Each block of C has a row of its own, and a consumer's are so many bytes from the next one's.
    has_blocks_of_c: bool,
    row_bytes: u32,
    steps: Vec<Step>,
}

/// One of the block rows.
#[derive(Clone, Debug, Serialize)]
struct Member {
    number: u32,
    bit: u32,
    /// The offsets of its first row of C, and of A, in a work tile.
    c_row_at: u32,
    a_row_at: u32,
}

impl Packed {
    pub(super) fn new(plan: &BlockRowsPlan) -> Option<Self> {
        let t = &plan.tiling;
        let member =
            |number: u32| Member { number, bit: 1 << number, c_row_at: 16 + 4 * number, a_row_at: 32 + 4 * number };
        let sums = super::sums::sums(plan);
        (t.pack > 1).then(|| Self {
            mask_bits: SharedColumns::MASK_BITS,
            mask: (1 << SharedColumns::MASK_BITS) - 1,
            mask_offset: plan.memory.mask_offset,
            depth: plan.view.depth,
            map_rows: plan.view.rows / plan.a.rows_per_line,
            rows_per_line_shift: plan.a.rows_per_line.trailing_zeros(),
            members: (0..t.pack).map(member).collect(),
            sums: (0..plan.accumulators()).map(|i| sums.name(i)).collect(),
            has_blocks_of_c: plan.has_blocks_of_c(),
            row_bytes: quadrants::row_bytes(plan),
            quadrants: plan.has_quadrants().then(|| t.wg_m / plan.view.rows),
            zero: if sums.is_f32() { "mov.f32" } else { "mov.u32" },
            steps: Step::all(plan, 1, |step| producer::packed_loads(plan, step)),
        })
    }
}
