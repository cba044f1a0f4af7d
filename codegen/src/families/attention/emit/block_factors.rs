//! Factors of blocks of Q, K and V: each row of a tile has one of its own, each step one of K and one of V.
//!
//! With q, k and v of a row and a step, and a reference m of the row, the kernel computes P = 2^(q k scale S + log2 v - m): V's factor is
//! a term of the exponent, so that the range of e4m3 is that of the products with V, whatever the factors are, and costs nothing for
//! a pair. The sum of a step, which is of exponentials without it, is that of P divided by v.

use serde::Serialize;

use super::super::plan::AttentionPlan;
use crate::plan::AttentionTiles;

/// By what products of the thread's rows are multiplied before a score reads them.
pub(super) const PRODUCTS: [&str; 2] = ["%f_of_products0", "%f_of_products1"];

/// What the templates of block factors name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BlockFactors {
    /// Queries of a block, and steps of a block of keys.
    queries: u32,
    steps: u32,
    /// Bits of the number of a step.
    number: u32,
    rows: [Row; 2],
}

/// One of a thread's rows.
#[derive(Clone, Debug, Serialize)]
struct Row {
    number: u32,
    /// Rows from the thread's first one.
    offset: u32,
    products: &'static str,
}

impl BlockFactors {
    pub(super) fn new(plan: &AttentionPlan) -> Option<Self> {
        let row = |number: u32| Row { number, offset: 8 * number, products: PRODUCTS[number as usize] };
        plan.has_block_factors().then(|| Self {
            queries: plan.spec.bm,
            steps: plan.spec.bk / plan.tiling.step,
            number: AttentionTiles::NUMBER,
            rows: [0, 1].map(row),
        })
    }
}
