//! Where a thread's elements lie when they are the CTA's threads apart.

use serde::Serialize;

use super::super::plan::ScalarPlan;

/// The thread's place in the grid of threads, and the numbers that its loads and stores are made of.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Place {
    block_m: u32,
    block_k: u32,
    cta_m: u32,
    cta_n: u32,
    threads: u32,
    grid_m: u32,
    grid_n: u32,
    grid_n_mask: u32,
    grid_n_shift: u32,
    thread_m: u32,
    thread_n: u32,
    /// Bytes of an element of A or B, of a row of A, of an element of C.
    bytes: u32,
    line_bytes: u32,
    out_bytes: u32,
    accumulators: Vec<String>,
}

impl Place {
    pub(super) fn new(plan: &ScalarPlan) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        Self {
            block_m: s.bm,
            block_k: s.bk,
            cta_m: t.cta_m,
            cta_n: t.cta_n,
            threads: t.threads(),
            grid_m: t.grid_m(),
            grid_n: t.grid_n(),
            grid_n_mask: t.grid_n() - 1,
            grid_n_shift: t.grid_n().trailing_zeros(),
            thread_m: t.thread_m,
            thread_n: t.thread_n,
            bytes: s.a.bytes(),
            line_bytes: s.bk * s.a.bytes(),
            out_bytes: s.out.bytes(),
            accumulators: (0..t.accumulators()).map(|i| format!("%f_acc{i}")).collect(),
        }
    }
}

/// Accumulator of row `i` and column `j` of a thread.
pub(super) fn accumulator(plan: &ScalarPlan, i: u32, j: u32) -> String {
    format!("%f_acc{}", i * plan.tile.thread_n + j)
}

/// `base` + `by`: its register, and the addition that makes it where there is something to add.
pub(super) fn offset(base: &str, by: u32) -> (Option<String>, String) {
    match by {
        0 => (None, base.to_owned()),
        by => (Some(format!("add.u32 %r_t, {base}, {by}")), "%r_t".to_owned()),
    }
}
