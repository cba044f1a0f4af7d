//! Elements in registers, and what is done with them in every kernel of the family.

use serde::Serialize;

use super::super::plan::ScalarPlan;
use crate::Dtype;

/// The register that an element is loaded to, and the f32 register that it is widened to.
#[derive(Serialize)]
pub(super) struct Element {
    narrow: String,
    wide: String,
}

/// A multiply-add in f32.
#[derive(Serialize)]
pub(super) struct Product {
    sum: String,
    a: String,
    b: String,
}

/// A value in shared memory and the register that it is read to.
#[derive(Serialize)]
pub(super) struct Read {
    pub(super) register: String,
    pub(super) from: u32,
}

/// A thread's elements in one row of C.
#[derive(Serialize)]
pub(super) struct Row {
    /// Rows below the thread's first.
    pub(super) below: u32,
    pub(super) elements: Vec<Stored>,
}

#[derive(Serialize)]
pub(super) struct Stored {
    /// Columns right of the thread's first.
    right: u32,
    sum: String,
    to: u32,
}

/// The predicate that guards copies of A or B in a round in which some threads have none.
pub(super) const A_LAST: &str = "@%p_a_last ";
pub(super) const B_LAST: &str = "@%p_b_last ";

impl Element {
    pub(super) fn new(dtype: Dtype, name: &str, i: u32) -> Self {
        let wide = format!("%f_{name}{i}");
        let narrow = if dtype == Dtype::F32 { wide.clone() } else { format!("%h_{name}{i}") };
        Self { narrow, wide }
    }
}

impl Stored {
    /// Row `i` and column `j` of a thread, `right` columns from its first.
    pub(super) fn new(plan: &ScalarPlan, (i, j): (u32, u32), right: u32) -> Self {
        Self { right, sum: sum_at(plan, i, j), to: right * plan.spec.out.bytes() }
    }
}

/// An accumulator.
pub(super) fn sum(number: u32) -> String {
    format!("%f_acc{number}")
}

/// The accumulator of row `i` and column `j` of a thread.
pub(super) fn sum_at(plan: &ScalarPlan, i: u32, j: u32) -> String {
    sum(i * plan.tile.thread_n + j)
}

/// One k: every row times every column.
pub(super) fn products(plan: &ScalarPlan) -> Vec<Product> {
    let product =
        |(i, j): (u32, u32)| Product { sum: sum_at(plan, i, j), a: format!("%f_a{i}"), b: format!("%f_b{j}") };
    (0..plan.tile.thread_m).flat_map(|i| (0..plan.tile.thread_n).map(move |j| (i, j))).map(product).collect()
}
