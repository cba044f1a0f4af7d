//! A consumer with several blocks of C: the products of a stage, one group for each block, which takes part or not.

use super::super::plan::BlockRowsPlan;
use super::consumer::slices;
use super::sums::sums;
use crate::hopper::WGMMA_M;
use crate::hopper::mainloop::{Group, GroupGuard};
use crate::hopper::store::StoreBox;
use crate::hopper::wgmma::{At, Wgmma};
use crate::plan::SharedPairs;

/// The groups of a stage of `width` elements of K, whose labels follow its own.
pub(super) fn groups(plan: &BlockRowsPlan, width: u32, label: &str) -> Vec<Group> {
    let (t, n) = (&plan.tiling, plan.instruction_n());
    let (of_row, of_block) = (plan.spec.acc.registers(t.wg_n / 2), plan.spec.acc.registers(n / 2));
    let block = |row: u32, column: u32| {
        let first = row * of_row + column * of_block;
        let wgmmas = slices(plan, width).map(|(_, at)| {
            let a = plan.a.k_offset(at) + plan.a.mn_offset(row * WGMMA_M);
            let b = plan.b.k_offset(at) + plan.b.mn_offset(column * n);
            Wgmma::new(sums(plan).list(first..first + of_block), At { a, b }, false)
        });
        let guard = GroupGuard {
            row: 1 << row,
            column: 1 << (SharedPairs::COLUMN_BIT + column),
            skip: format!("{}_{row}_{column}", label.replace("$full", "$skip")),
        };
        Group { wgmmas: wgmmas.collect(), promotions: vec![], guard: Some(guard) }
    };
    let columns = t.wg_n / n;
    (0..t.row_groups())
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| block(row, column))
        .collect()
}

/// The store of what is at a row and a column of a consumer's tile, where its blocks are anywhere among C's values.
pub(super) fn store_box(plan: &BlockRowsPlan, offset: u32, (row, column): (u32, u32)) -> StoreBox {
    let (n, of_row) = (plan.instruction_n(), plan.tiling.wg_n / plan.instruction_n());
    let block = row / WGMMA_M * of_row + column / n;
    StoreBox { offset, inner: column % n, outer: 0, row_at: Some(FIRST_ROW + 4 * block) }
}

/// Where a work tile has the first rows of its blocks of C, in bytes.
const FIRST_ROW: u32 = 16;

/// Bytes from the first rows of C of one consumer to those of the next.
pub(super) fn row_bytes(plan: &BlockRowsPlan) -> u32 {
    let blocks = plan.tiling.row_groups() * (plan.tiling.wg_n / plan.instruction_n());
    if plan.has_blocks_of_c() { 4 * blocks } else { 4 }
}
