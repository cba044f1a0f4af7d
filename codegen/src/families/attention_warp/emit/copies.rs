//! Copies of rows of heads between memory and shared memory.

use serde::Serialize;

use super::super::plan::{Lines, VECTOR_BYTES};

/// Rows in shared memory, and the copies of a thread.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Copied {
    /// The tensor, as its parameters and registers are called.
    name: &'static str,
    /// Its rows as they are read: first row, bytes from one to the next, swizzle.
    pub(super) stage_offset: u32,
    pitch: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    /// Threads of a row and the bits of their number, and rows that all threads copy at once.
    lane_mask: u32,
    lane_shift: u32,
    rows_a_pass: u32,
    /// Rows of the last pass, where not every thread has one.
    rest: u32,
    passes: Vec<Pass>,
    /// Bytes from a thread's first vector of a row to its others.
    groups: Vec<u32>,
}

#[derive(Clone, Debug, Serialize)]
struct Pass {
    /// Rows below the thread's first, and the bytes of that many in shared memory.
    row: u32,
    offset: u32,
    /// Address bits in which the place differs.
    flip: u32,
    /// Not every thread has a row of it.
    is_partial: bool,
    is_last: bool,
}

impl Copied {
    pub(super) fn new(name: &'static str, lines: &Lines, stage_offset: u32) -> Self {
        let count = lines.passes().count();
        let pass = |(number, pass): (usize, super::super::plan::Pass)| Pass {
            row: pass.row,
            offset: pass.row * lines.pitch(),
            flip: pass.flip,
            is_partial: number + 1 == count && lines.rest().is_some(),
            is_last: number + 1 == count,
        };
        Self {
            name,
            stage_offset,
            pitch: lines.pitch(),
            swizzle_shift: lines.shift(),
            swizzle_mask: lines.group - 1,
            lane_mask: lines.group - 1,
            lane_shift: lines.group.ilog2(),
            rows_a_pass: lines.rows_a_pass,
            rest: lines.rest().unwrap_or_default(),
            passes: lines.passes().enumerate().map(pass).collect(),
            groups: lines.groups().collect(),
        }
    }
}

/// Where a matrix is that begins with an even vector: the register of its place in a group, and bytes from there.
pub(super) fn place(name: &str, lines: &Lines, row: u32, vector: u32) -> String {
    let bytes = row * lines.pitch() + vector / lines.group * lines.group * VECTOR_BYTES;
    let register = format!("%r_{name}_at{}", vector % lines.group / 2);
    if bytes == 0 { register } else { format!("{register} + {bytes}") }
}

/// Address registers of the even vectors of a group, by number, and the bits in which each differs from the first.
pub(super) fn flips(lines: &Lines) -> Vec<u32> {
    (0..lines.group / 2).map(|number| 2 * number * VECTOR_BYTES).collect()
}
