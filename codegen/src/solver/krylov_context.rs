//! What the templates of GMRES's kernels name.

use serde::Serialize;

use super::kernels::{Method, SolverKernel};
use super::krylov::{Krylov, Small};
use super::render::{Preconditions, SUM_BYTES, SolverModule, Total, WARP, WARPS, sums};
use super::state::{HISTORY, LINE_BYTES, Numbers};
use crate::Dtype;

/// Columns that a thread has on their way at the same time.
const BATCH: u32 = 8;

/// The context of the templates in `solver/gmres`.
#[derive(Serialize)]
pub(super) struct KrylovContext {
    dtype: String,
    is_f64: bool,
    class: &'static str,
    bytes: u32,
    zero: &'static str,
    /// Where the line of the state is.
    line: u32,
    status: Numbers,
    history_mask: u32,
    restart: u32,
    small: Small,
    threads: u32,
    rows_of_warp: u32,
    rows_of_cta: u32,
    has_idle: bool,
    batch: Vec<u32>,
    /// Bytes of shared memory for one number of each column, in whole batches.
    columns: u32,
    /// Where coefficients are in shared memory; then each warp has sums of all columns.
    coefficients: u32,
    slots: u32,
    /// How many sums these are, and where those of all warps but the first begin, from that one on.
    slot_count: u32,
    slots_after: Vec<u32>,
    /// Where the kernel of rotations has the column, cosines and sines in shared memory.
    rotations: [u32; 3],
    /// The one sum of a CTA, and where those of all warps but the first are, from that one on.
    square: Total,
    warps: Vec<u32>,
    preconditions: Preconditions,
    /// The square of the type's rounding unit.
    negligible: String,
}

impl KrylovContext {
    pub(super) fn new(module: SolverModule, krylov: &Krylov) -> Self {
        let (method, dtype) = (module.method(), module.dtype());
        let is_f64 = dtype == Dtype::F64;
        let class = if is_f64 { "d" } else { "f" };
        let epsilon = if is_f64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let rows_of_warp = if krylov.preconditions { module.rows_of_warp() } else { WARP };
        let (columns, restart) = (Self::columns(method), method.iterations_of_cycle());
        Self {
            dtype: dtype.to_string(),
            is_f64,
            class,
            bytes: dtype.bytes(),
            zero: if is_f64 { "0d0000000000000000" } else { "0f00000000" },
            line: LINE_BYTES * method.lines() as u32,
            status: Numbers::ALL,
            history_mask: HISTORY - 1,
            restart,
            small: Small::new(method),
            threads: SolverKernel::THREADS,
            rows_of_warp,
            rows_of_cta: WARPS * rows_of_warp,
            has_idle: rows_of_warp < WARP,
            batch: (0..BATCH).collect(),
            columns,
            coefficients: SUM_BYTES,
            slots: SUM_BYTES + columns,
            slot_count: WARPS * columns / 8,
            slots_after: (1..WARPS).map(|warp| warp * columns).collect(),
            rotations: [0, 1, 2].map(|at| SUM_BYTES + at * columns),
            square: sums(["rr"].into_iter(), 0).remove(0),
            warps: (1..WARPS).map(|warp| 8 * warp).collect(),
            preconditions: Preconditions::new(module, format!("%{class}_v"), format!("%{class}_z")),
            negligible: format!("0d{:016x}", (epsilon * epsilon).to_bits()),
        }
    }

    /// Of every kernel.
    pub(super) fn shared_bytes(method: Method) -> u32 {
        SUM_BYTES + (1 + WARPS) * Self::columns(method)
    }

    fn columns(method: Method) -> u32 {
        8 * method.iterations_of_cycle().next_multiple_of(BATCH)
    }
}
