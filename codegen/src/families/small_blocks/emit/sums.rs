//! The sums of a thread: how those of a row's blocks are added, and where they go.

use serde::Serialize;

use super::super::plan::SmallBlocksPlan;
use super::registers::sum;

/// The sum of a column.
#[derive(Serialize)]
pub(super) struct Sum {
    register: String,
    column: u32,
    /// Bytes from the first column, where a row of C is a line.
    to: u32,
}

/// One level of the tree by which the sums of a row's blocks are added: each from `distance` threads further.
#[derive(Serialize)]
pub(super) struct Level {
    distance: u32,
    /// Blocks that have a partner.
    below: u32,
    /// The last thread of a group, and the bits of a thread's number that say its group (PTX ISA, "shfl.sync").
    clamp: u32,
}

pub(super) fn of(plan: &SmallBlocksPlan) -> Vec<Sum> {
    let of_column = |column: u32| Sum { register: sum(plan, column), column, to: column * plan.spec.out.bytes() };
    (0..plan.spec.bn).map(of_column).collect()
}

/// From the farthest partners to neighbours.
pub(super) fn tree(plan: &SmallBlocksPlan) -> Vec<Level> {
    let (slots, lanes) = (plan.slots(), plan.lanes);
    let clamp = ((32 - lanes) << 8) | 31;
    let level = |away: u32| Level { distance: away * plan.spec.bm, below: slots - away, clamp };
    (0..slots.next_power_of_two().trailing_zeros()).rev().map(|power| level(1 << power)).collect()
}
