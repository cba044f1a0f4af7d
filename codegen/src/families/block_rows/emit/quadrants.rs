//! A consumer of one or several blocks of C, each the product of sparse factors: the products of a stage, one group for each
//! block, which takes part or not.

use super::super::plan::BlockRowsPlan;
use super::sums::sums;
use crate::hopper::mainloop::{Group, GroupGuard, Quadrants};
use crate::hopper::store::StoreBox;
use crate::hopper::wgmma::{At, Wgmma};
use crate::hopper::{WGMMA_M, wgmma_k};
use crate::plan::SharedPairs;

/// What holds of all groups of a stage, whose labels follow its own.
pub(super) fn stage(plan: &BlockRowsPlan, reader: (&'static str, &'static str), label: &str) -> Quadrants {
    let [ready, drain, next] = ["$ready", "$drain", "$next"].map(|word| label.replace("$full", word));
    let (rows, columns) = sides(plan);
    let columns = ((1 << columns) - 1) << SharedPairs::COLUMN_BIT;
    Quadrants { reader, rows: (1 << rows) - 1, columns, ready, drain, next }
}

/// Block rows and block columns of a consumer.
fn sides(plan: &BlockRowsPlan) -> (u32, u32) {
    (plan.tiling.wg_m / plan.view.rows, plan.tiling.wg_n / plan.instruction_n())
}

/// The groups of a stage of `width` elements of K: one for each block of C.
pub(super) fn groups(plan: &BlockRowsPlan, width: u32, label: &str) -> Vec<Group> {
    let (n, (rows, columns)) = (plan.instruction_n(), sides(plan));
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let group = |(row, column): (u32, u32)| {
        let slices = (0..width).step_by(wgmma_k(plan.spec.a) as usize);
        let halves = 0..plan.view.rows / WGMMA_M;
        let wgmmas = slices.flat_map(|at| halves.clone().map(move |half| (at, half))).map(|(at, half)| {
            let line = row * plan.view.rows / WGMMA_M + half;
            let of_line = plan.spec.acc.registers(plan.tiling.wg_n / 2);
            let count = plan.spec.acc.registers(n / 2);
            let first = line * of_line + column * count;
            let a = plan.a.k_offset(at) + plan.a.mn_offset(line * WGMMA_M);
            let b = plan.b.k_offset(at) + plan.b.mn_offset(column * n);
            Wgmma::new(sums(plan).list(first..first + count), At { a, b }, false)
        });
        let guard = GroupGuard {
            row: 1_u32 << row,
            column: 1_u32 << (SharedPairs::COLUMN_BIT + column),
            skip: format!("{}_{row}_{column}", label.replace("$full", "$skip")),
        };
        Group { wgmmas: wgmmas.collect(), promotions: vec![], guard: Some(guard) }
    };
    places.map(group).collect()
}

/// The store of what is at a row and a column of a consumer's tile, where its blocks are anywhere among C's values.
pub(super) fn store_box(plan: &BlockRowsPlan, offset: u32, (row, column): (u32, u32)) -> StoreBox {
    let (n, (_, of_row)) = (plan.instruction_n(), sides(plan));
    let block = row / plan.view.rows * of_row + column / n;
    StoreBox { offset, inner: column % n, outer: 0, row_at: Some(FIRST_ROW + 4 * block) }
}

/// Where a work tile has the first rows of its blocks of C, in bytes.
const FIRST_ROW: u32 = 16;

/// Bytes from the first rows of C of one consumer to those of the next.
pub(super) fn row_bytes(plan: &BlockRowsPlan) -> u32 {
    let (rows, columns) = sides(plan);
    if plan.has_blocks_of_c() { 4 * rows * columns } else { 4 }
}
