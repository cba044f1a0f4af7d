//! What the templates of the kernels that list pairs of blocks name.

use serde::Serialize;

use super::pairs::{LENGTHS_AT, LOADS_AT, ORDER_AT, RANKED_AT, SLOTS_AT, TOTALS_AT};
use super::{ListKernel, PairLists};
use crate::TileScheduler;

/// Words of marks that a lane has on their way at the same time. They divide the 32 blocks of A that a warp reads at once.
const AHEAD: u32 = 8;

/// The context of `lists/pair_*.ptx` and `lists/product_mask.ptx`.
#[derive(Serialize)]
pub(super) struct PairContext {
    threads: u32,
    warps: u32,
    numbers: &'static [&'static str],
    ahead: Vec<u32>,
    distances: [u32; 5],
    ranked_at: u32,
    loads_at: u32,
    lengths_at: u32,
    order_at: u32,
    slots_at: u32,
    totals_at: u32,
    side_bits: u32,
    side_bytes: u32,
    most_clusters: u32,
    most_last: u32,
    last_waves: u32,
    outside: u32,
    head_columns: u32,
}

impl PairContext {
    pub(super) fn of(kernel: ListKernel) -> Self {
        let threads = kernel.threads();
        Self {
            threads,
            warps: threads / 32,
            numbers: kernel.numbers(),
            ahead: (0..AHEAD).collect(),
            distances: [1, 2, 4, 8, 16],
            ranked_at: RANKED_AT,
            loads_at: LOADS_AT,
            lengths_at: LENGTHS_AT,
            order_at: ORDER_AT,
            slots_at: SLOTS_AT,
            totals_at: TOTALS_AT,
            side_bits: PairLists::SIDE_BITS,
            side_bytes: 8 << PairLists::SIDE_BITS,
            most_clusters: 1 << PairLists::SIDE_BITS,
            most_last: PairLists::MOST_LAST,
            last_waves: PairLists::LAST_WAVES,
            outside: TileScheduler::OUTSIDE,
            head_columns: TileScheduler::HEAD_COLUMNS,
        }
    }
}
