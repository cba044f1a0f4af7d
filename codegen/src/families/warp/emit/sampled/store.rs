//! From accumulators to stored blocks: a warp stages one subtile after the other and stores it in whole 16-byte vectors.

use serde::Serialize;

use super::super::super::plan::VECTOR_BYTES;
use super::super::super::plan::groups::Groups;
use super::super::super::plan::sampled::SampledPlan;
use super::super::epilogue::{Read, reads};
use super::super::operands::address;

/// Where a lane's vectors go.
#[derive(Serialize)]
pub(super) struct Store {
    /// The word of a work tile with the first group's place in its block.
    stores: u32,
    /// Elements of a block and of its rows.
    block: u32,
    row: u32,
    /// Vectors of a line that a lane has.
    parts: Vec<Part>,
    /// The vectors of each subtile.
    subtiles: Vec<Vec<Vector>>,
}

#[derive(Serialize)]
struct Part {
    number: u32,
    /// Elements from the lane's first vector.
    elements: u32,
}

#[derive(Serialize)]
struct Vector {
    part: u32,
    /// Rows, and elements of a block, from the lane's first.
    line: u32,
    from: u32,
    reads: Vec<Read>,
    to: String,
}

impl Store {
    pub(super) fn new(plan: &SampledPlan, groups: Groups) -> Self {
        let (spec, e) = (&plan.0.spec, &plan.0.epilogue);
        let per_vector = VECTOR_BYTES / spec.out.bytes();
        let elements = |part: u32| part * e.lanes * per_vector;
        let vector = |subtile: u32, pass: u32, part: u32| {
            let line = subtile * e.lines + pass * e.lines_a_pass;
            Vector {
                part,
                line,
                from: line * spec.bk,
                reads: reads(&plan.0, pass * e.lines_a_pass * e.pitch + elements(part) * e.staged.bytes()),
                to: address(&format!("%rd_c{part}"), line * spec.bk * spec.out.bytes()),
            }
        };
        let passes = |subtile: u32| {
            let of_pass = |pass: u32| (0..e.parts).map(move |part| (pass, part));
            (0..e.lines / e.lines_a_pass).flat_map(of_pass).map(|(pass, part)| vector(subtile, pass, part)).collect()
        };
        Self {
            stores: groups.stores(),
            block: spec.bm * spec.bk,
            row: spec.bk,
            parts: (0..e.parts).map(|number| Part { number, elements: elements(number) }).collect(),
            subtiles: (0..e.subtiles).map(passes).collect(),
        }
    }
}
