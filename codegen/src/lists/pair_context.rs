//! What the templates of the kernels that list pairs of blocks name.

use serde::Serialize;

use super::pairs::{KEYS_AT_ONCE, SIDE_BYTES, SORTED_AT, TOTALS_AT};
use super::{ListKernel, PairLists};
use crate::TileScheduler;

/// Words of marks that a lane has on their way at the same time. They divide the 32 blocks of A that a warp reads at once.
const AHEAD: u32 = 8;

/// The context of `lists/pair_*.ptx` and `lists/product_mask.ptx`.
#[derive(Serialize)]
pub(super) struct PairContext {
    threads: u32,
    warps: u32,
    pointers: &'static [&'static str],
    numbers: &'static [&'static str],
    ahead: Vec<u32>,
    distances: [u32; 5],
    sorted_at: u32,
    totals_at: u32,
    side_bytes: u32,
    sorted_bytes: u32,
    keys_at_once: u32,
    fours: Vec<u32>,
    cluster_bits: u32,
    most_last: u32,
    last_bits: u32,
    last_costs: u32,
    last_waves: u32,
    span: u32,
    share_bits: u32,
    middle: u32,
    most_sum: u32,
    outside: u32,
    head_columns: u32,
}

impl PairContext {
    pub(super) fn of(kernel: ListKernel) -> Self {
        let threads = kernel.threads();
        Self {
            threads,
            warps: threads / 32,
            pointers: kernel.pointers(),
            numbers: kernel.numbers(),
            ahead: (0..AHEAD).collect(),
            distances: [1, 2, 4, 8, 16],
            sorted_at: SORTED_AT,
            totals_at: TOTALS_AT,
            side_bytes: SIDE_BYTES,
            sorted_bytes: 8 << PairLists::CLUSTER_BITS,
            keys_at_once: KEYS_AT_ONCE,
            fours: (0..KEYS_AT_ONCE / 4).collect(),
            cluster_bits: PairLists::CLUSTER_BITS,
            most_last: PairLists::MOST_LAST,
            last_bits: PairLists::LAST_BITS,
            last_costs: (1 << (32 - PairLists::LAST_BITS)) - 1,
            last_waves: PairLists::LAST_WAVES,
            span: PairLists::SPAN,
            share_bits: PairLists::SHARE_BITS,
            middle: 1 << (31 - PairLists::CLUSTER_BITS),
            most_sum: (1 << (32 - PairLists::CLUSTER_BITS)) - 1,
            outside: TileScheduler::OUTSIDE,
            head_columns: TileScheduler::HEAD_COLUMNS,
        }
    }
}
