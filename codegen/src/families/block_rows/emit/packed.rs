//! Several block rows in one CTA tile: what their producer loads, and how consumers know what a stage has for them.

use serde::Serialize;

use super::super::plan::BlockRowsPlan;
use super::{producer, quadrants};
use crate::hopper::tma::Load;
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

/// One stage that the producer fills.
#[derive(Clone, Debug, Serialize)]
struct Step {
    label: String,
    comment: String,
    /// Bytes of one block's part, and of B's.
    a_bytes: u32,
    b_bytes: u32,
    loads: Vec<Load>,
}

impl Packed {
    pub(super) fn new(plan: &BlockRowsPlan) -> Option<Self> {
        let (t, k) = (&plan.tiling, &plan.kloop);
        let member =
            |number: u32| Member { number, bit: 1 << number, c_row_at: 16 + 4 * number, a_row_at: 32 + 4 * number };
        let step = |step: u32| {
            let comment = match k.steps {
                1 => format!("The block's {} of K.", k.last),
                _ => format!("K {} to {} of the block.", step * k.k_step, step * k.k_step + k.width(step) - 1),
            };
            let unloaded = if step + 1 == k.steps { plan.b.unloaded_bytes(k) } else { 0 };
            Step {
                label: format!("$empty_{step}"),
                comment,
                a_bytes: plan.a.bytes() / t.pack,
                b_bytes: plan.b.bytes() - unloaded,
                loads: producer::packed_loads(plan, step),
            }
        };
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
            steps: (0..k.steps).map(step).collect(),
        })
    }
}
