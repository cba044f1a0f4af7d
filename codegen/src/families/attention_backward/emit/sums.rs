//! Gradients of the score's parameters: what each row of the tile adds to them.

use serde::Serialize;

use super::super::plan::GradientPlan;

/// What is summed, and where it goes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sums {
    /// The ends of the names of registers with the numbers of a thread's rows, and the register with the head.
    row: &'static str,
    head: &'static str,
    /// Registers of each parameter: of a thread's first row and of its second.
    parameters: Vec<[String; 2]>,
}

impl Sums {
    pub(super) fn new(plan: &GradientPlan) -> Option<Self> {
        let t = &plan.tiling;
        let (row, head) = if t.is_of_keys() { ("key", "%r_sum_head") } else { ("query", "%r_own_head") };
        let parameters = (0..t.sums).map(|number| [0, 1].map(|row| sum(number, row))).collect();
        (t.sums > 0).then_some(Self { row, head, parameters })
    }
}

/// The register with the sum of a parameter over a row.
pub(super) fn sum(number: u32, row: u32) -> String {
    format!("%f_sum{}", 2 * number + row)
}
