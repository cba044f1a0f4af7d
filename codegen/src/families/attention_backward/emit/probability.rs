//! P and dS of a step: a thread holds pairs of neighbouring columns of two rows.
//!
//! Register 4 t + 2 h + e of S is column 8 t + 2 (lane mod 4) + e of row lane / 4 + 8 h. Registers 2 i and 2 i + 1 become
//! register i of an A operand, in the order that WGMMA wants.

use serde::Serialize;

use super::super::plan::GradientPlan;
use super::product::{probability_pair, score, slope, slope_pair};

/// Bytes of an f32.
pub(super) const F32: u32 = 4;

/// The registers of a step.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Probability {
    groups: Vec<Group>,
}

/// 8 columns of the step, of which a thread holds two.
#[derive(Clone, Debug, Serialize)]
struct Group {
    /// The thread's first column behind that of lane 0, the next one, and bytes to them in the values of a step's columns.
    first: u32,
    next: u32,
    bytes: u32,
    elements: Vec<Element>,
    /// Two elements of P and of dS to a register: register, upper, lower.
    packs_p: Vec<[String; 3]>,
    packs_ds: Vec<[String; 3]>,
}

#[derive(Clone, Debug, Serialize)]
struct Element {
    score: String,
    slope: String,
    /// 0 for the first column of the pair, 1 for the second.
    column: u32,
    /// What its exponential is taken to, and what is subtracted of its dP.
    base: String,
    delta: String,
}

impl Probability {
    pub(super) fn new(plan: &GradientPlan) -> Self {
        let is_of_keys = plan.tiling.is_of_keys();
        let group = |number: u32| {
            let element = |register: u32| {
                let (row, column) = (register / 2 % 2, register % 2);
                // Queries are rows of S and columns of S^T.
                let query = if is_of_keys { column } else { row };
                Element {
                    score: score(register),
                    slope: slope(register),
                    column,
                    base: format!("%f_base{query}"),
                    delta: format!("%f_delta{query}"),
                }
            };
            let packs = |to: fn(u32) -> String, from: fn(u32) -> String| {
                let pack = |i: u32| [to(i), from(2 * i + 1), from(2 * i)];
                (2 * number..2 * number + 2).map(pack).collect()
            };
            Group {
                first: 8 * number,
                next: 8 * number + 1,
                bytes: 8 * F32 * number,
                elements: (4 * number..4 * number + 4).map(element).collect(),
                packs_p: packs(probability_pair, score),
                packs_ds: packs(slope_pair, slope),
            }
        };
        Self { groups: (0..plan.tiling.step / 8).map(group).collect() }
    }
}
