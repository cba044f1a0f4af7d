//! Fragments of a row-major B in TF32, and the places of their sums.

use super::super::plan::{VECTOR_BYTES, WarpPlan, tf32};
use super::operands::{Address, Load, address, register, tuple};

/// Bytes of a fragment's columns: all banks.
const FRAGMENT_BYTES: u32 = tf32::COLUMNS * 4;
/// Instructions that share a fragment.
const INSTRUCTIONS: u32 = 4;
/// Rows of K of one instruction.
const DEPTH: u32 = 8;

/// Vectors of four columns of two rows of K, for four instructions.
pub(super) fn fragments(plan: &WarpPlan, unit: u32, set: u32) -> Vec<Load> {
    let places = (0..plan.tiling.fragments().1).flat_map(|part| [0, 1].map(|half| (part, half)));
    let load = |(part, half): (u32, u32)| Load {
        registers: tuple(&[0, 1, 2, 3].map(|n| register(plan, "b", set, 2 * (INSTRUCTIONS * part + n) + half))),
        address: address(
            &format!("%r_b_at{half}"),
            (DEPTH * unit + DEPTH / 2 * half) * plan.b.pitch + part * FRAGMENT_BYTES,
        ),
    };
    places.map(load).collect()
}

/// A thread's places in rows t and t + 4: the swizzle puts them 4 vectors apart.
pub(super) fn addresses() -> impl Iterator<Item = Address> {
    (0..2).map(|number| Address { x: "b", number, flip: number * 4 * VECTOR_BYTES })
}

/// The pairs of neighbouring sums of fragment `part` of rows and `column` of columns: the numbers of both, and the row and the
/// column of the first from the thread's first.
pub(super) fn pairs(plan: &WarpPlan, part: u32, column: u32) -> Vec<([u32; 2], (u32, u32))> {
    let columns = INSTRUCTIONS * plan.tiling.fragments().1;
    let sum = |instruction: u32, register: u32| (part * columns + INSTRUCTIONS * column + instruction) * 4 + register;
    let mut pairs = vec![];
    for (half, sixteen, pair) in (0..8).map(|i| (i / 4, i / 2 % 2, i % 2)) {
        let sums = [0, 1].map(|next| sum(2 * pair + next, 2 * half + sixteen));
        pairs.push((sums, (8 * half, 16 * sixteen + 2 * pair)));
    }
    pairs
}
