//! The factors: which rows, columns and lines of K a thread copies.

use serde::Serialize;

use super::super::super::plan::{VECTOR_BYTES, WarpPlan};
use super::super::sources::{Source, Sources};

/// One factor.
#[derive(Serialize)]
pub(super) struct Side {
    name: &'static str,
    /// Where it is, its leading dimension, and its extent across K.
    base: Source,
    ld: Source,
    extent: Source,
    /// Its elements along K are neighbours.
    along_k: bool,
    rows_a_pass: u32,
    /// Its rows or columns are gathered from several blocks.
    gathers: bool,
    /// The first one of each copy, from the thread's first one.
    places: Vec<u32>,
}

pub(super) fn sides(plan: &WarpPlan) -> Vec<Side> {
    if plan.a.is_boxed() {
        return vec![];
    }
    let Sources { m, n, lda, ldb, .. } = Sources::of_loads(plan);
    let side = |name, operand: &super::super::super::plan::Operand, ld, extent, gathers| {
        let rows = (0..operand.row_passes()).map(|pass| pass * operand.rows_a_pass);
        let vectors = (0..operand.parts()).map(|part| part * operand.lanes * VECTOR_BYTES / plan.spec.a.bytes());
        Side {
            name,
            base: Source::address(plan, name),
            ld,
            extent,
            along_k: operand.along_k,
            rows_a_pass: operand.rows_a_pass,
            gathers,
            places: if operand.along_k { rows.collect() } else { vectors.collect() },
        }
    };
    vec![side("a", &plan.a, lda, m, false), side("b", &plan.b, ldb, n, true)]
}
