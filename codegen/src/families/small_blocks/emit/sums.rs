//! The sums of a thread: how those of a row's blocks are added, and where they go.

use serde::Serialize;

use super::registers::{narrow_sum, sum};
use crate::KernelSpec;

/// The sum of a column.
#[derive(Serialize)]
pub(super) struct Sum {
    register: String,
    /// What is stored of it.
    stored: String,
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

pub(super) fn of(spec: &KernelSpec) -> Vec<Sum> {
    let of_column = |column: u32| Sum {
        register: sum(spec, column),
        stored: narrow_sum(spec, column),
        column,
        to: column * spec.out.bytes(),
    };
    (0..spec.bn).map(of_column).collect()
}

/// From the farthest partners to neighbours, in a group of `lanes` threads that has `slots` blocks of `side` threads each.
pub(super) fn tree(slots: u32, lanes: u32, side: u32) -> Vec<Level> {
    let clamp = ((32 - lanes) << 8) | 31;
    let level = |away: u32| Level { distance: away * side, below: slots - away, clamp };
    (0..slots.next_power_of_two().trailing_zeros()).rev().map(|power| level(1 << power)).collect()
}
