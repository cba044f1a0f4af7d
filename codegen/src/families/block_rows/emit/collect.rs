//! Second results of kernels that compute C^T: rows of C are columns of their tiles.
//!
//! A pair of columns is collected when its elements are done: over the rows that a thread has, by shuffles over the eight
//! lanes that have other rows of these columns, then in memory over warps and tiles.

use crate::epilogue::{Lines, Reduction};
use crate::hopper::fused::red;

/// The registers in which a pair of columns is collected.
const TOTALS: [&str; 2] = ["%f_total0", "%f_total1"];

/// Before the elements of a pair.
pub(super) fn start(reduction: Reduction) -> Vec<String> {
    let start = format!("0f{:08X}", reduction.start().to_bits());
    TOTALS.map(|total| format!("mov.f32 {total}, {start}")).to_vec()
}

/// After an element: of row `64 * group` behind `index`, if C^T has it.
pub(super) fn element(lines: &Lines, (index, group): (&str, u32), column: u32) -> Vec<String> {
    let mut made = vec![];
    if column == 0 {
        made.push(format!("add.u32 %r_t, {index}, {}", 64 * group));
        made.push("setp.lt.u32 %p_exists, %r_t, %r_m".to_owned());
    }
    let collect = lines.collect(TOTALS[column as usize], "%f_collected");
    made.extend(collect.map(|collect| format!("@%p_exists {collect}")));
    made
}

/// After the elements of a pair whose first column is `%r_fused_col + offset`. `%p_any` and `%p_both` say which of
/// the columns exist.
pub(super) fn finish(lines: &Lines, reduction: Reduction, offset: u32) -> Vec<String> {
    let mut made = vec![];
    for (column, total) in (0..).zip(TOTALS) {
        for lanes in [4, 8, 16] {
            made.push(format!("shfl.sync.bfly.b32 %f_other, {total}, {lanes}, 31, 0xffffffff"));
            made.extend(lines.collect(total, "%f_other"));
        }
        made.push(format!("setp.lt.and.u32 %p_t, %r_lane, 4, {}", ["%p_any", "%p_both"][column as usize]));
        made.extend(red(reduction, total, &format!("%rd_second + {}", 4 * (offset + column))));
    }
    made
}
