//! The WGMMAs of both products.

use serde::Serialize;

use super::super::plan::AttentionPlan;
use crate::hopper::wgmma::{modifiers, register_list, register_modifiers, shape};
use crate::hopper::{held, wgmma_k};
use crate::plan::Major;
use crate::scores::softmax::{out, probability, sum};

/// S = Q K^T of a step: descriptors in units of 16 bytes from those of the stage.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scores {
    shape: String,
    modifiers: String,
    /// Modifiers of an instruction that reads Q from registers.
    held_modifiers: String,
    sums: String,
    slices: Vec<ScoreSlice>,
}

#[derive(Clone, Debug, Serialize)]
struct ScoreSlice {
    /// Registers of Q, or nothing.
    held: String,
    query: u32,
    key: u32,
    scale_d: &'static str,
}

/// O += P V of a step.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Output {
    shape: String,
    modifiers: String,
    sums: String,
    registers: Vec<String>,
    slices: Vec<OutputSlice>,
}

#[derive(Clone, Debug, Serialize)]
struct OutputSlice {
    fragment: String,
    value: u32,
}

/// The operand of which slices are held.
pub(super) const QUERIES: usize = 0;
/// A 16-byte unit, which descriptors count in.
const UNIT: u32 = 16;

pub(super) fn scores(plan: &AttentionPlan) -> Scores {
    let t = &plan.tiling;
    let depth = wgmma_k(plan.spec.a);
    let slice = |k: u32| ScoreSlice {
        held: if k / depth < t.held { held::registers(QUERIES, k / depth).join(", ") } else { String::new() },
        query: plan.queries.k_offset(k) / UNIT,
        key: plan.keys.k_offset(k) / UNIT,
        scale_d: if k == 0 { "%p_overwrite" } else { "%p_add" },
    };
    Scores {
        shape: shape(t.step, plan.spec.acc, (plan.spec.a, plan.spec.b)),
        modifiers: modifiers(plan.spec.a, (Major::K, Major::K)),
        held_modifiers: register_modifiers(plan.spec.a, Major::K),
        sums: register_list((0..t.step / 2).map(sum)),
        slices: (0..t.depth).step_by(depth as usize).map(slice).collect(),
    }
}

pub(super) fn output(plan: &AttentionPlan) -> Output {
    let t = &plan.tiling;
    let depth = wgmma_k(plan.spec.a);
    let slice = |number: u32| OutputSlice {
        fragment: (0..4).map(|i| probability(4 * number + i)).collect::<Vec<_>>().join(", "),
        value: plan.values.k_offset(number * depth) / UNIT,
    };
    Output {
        shape: shape(t.columns, plan.spec.acc, (plan.spec.a, plan.spec.b)),
        modifiers: register_modifiers(plan.spec.a, plan.values.major),
        sums: register_list((0..t.columns / 2).map(out)),
        registers: (0..t.columns / 2).map(out).collect(),
        slices: (0..t.step / depth).map(slice).collect(),
    }
}
