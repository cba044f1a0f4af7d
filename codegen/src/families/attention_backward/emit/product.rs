//! The WGMMAs: two products of the tile's rows and the step's, then what is summed of both.

use serde::Serialize;

use super::super::plan::GradientPlan;
use crate::hopper::wgmma::{modifiers, register_list, register_modifiers, shape};
use crate::hopper::{held, wgmma_k};
use crate::plan::Major;

/// A 16-byte unit, which descriptors count in.
const UNIT: u32 = 16;

/// A product of the tile's rows and the step's: descriptors in units of 16 bytes from those of buffer and stage.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Product {
    shape: String,
    modifiers: String,
    sums: String,
    /// Modifiers of an instruction that reads the tile's rows from registers.
    held_modifiers: String,
    /// The registers with the descriptors of the buffer and of the stage.
    fixed: &'static str,
    passing: &'static str,
    slices: Vec<Slice>,
}

#[derive(Clone, Debug, Serialize)]
struct Slice {
    /// The registers of the tile's rows, where these stay in registers.
    held: String,
    fixed: u32,
    passing: u32,
    scale_d: &'static str,
}

/// A gradient that grows by a product of P or dS, in registers, and the step's rows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Gradient {
    shape: String,
    modifiers: String,
    sums: String,
    /// The descriptor of the first stage as it is read for gradients, without the address of shared memory, and units of 16
    /// bytes from one stage to the next.
    descriptor: String,
    units: u32,
    slices: Vec<GradientSlice>,
}

#[derive(Clone, Debug, Serialize)]
struct GradientSlice {
    fragment: String,
    passing: u32,
}

/// S, and dP.
pub(super) fn products(plan: &GradientPlan) -> [Product; 2] {
    let t = &plan.tiling;
    let depth = wgmma_k(plan.spec.a);
    let product = |number: usize, columns: u32, sum: fn(u32) -> String, registers: [&'static str; 2]| {
        let (fixed, passing) = (plan.operands.fixed[number], plan.operands.passing[number]);
        let slice = |k: u32| Slice {
            held: if k / depth < t.held[number] {
                held::registers(number, k / depth).join(", ")
            } else {
                String::new()
            },
            fixed: fixed.k_offset(k) / UNIT,
            passing: passing.k_offset(k) / UNIT,
            scale_d: if k == 0 { "%p_overwrite" } else { "%p_add" },
        };
        Product {
            shape: shape(t.step, plan.spec.acc, (plan.spec.a, plan.spec.b)),
            modifiers: modifiers(plan.spec.a, (Major::K, Major::K)),
            held_modifiers: register_modifiers(plan.spec.a, Major::K),
            sums: register_list((0..t.step / 2).map(sum)),
            fixed: registers[0],
            passing: registers[1],
            slices: (0..columns).step_by(depth as usize).map(slice).collect(),
        }
    };
    [
        product(0, t.depth, score, ["%rd_fixed_s", "%rd_step_s"]),
        product(1, t.columns, slope, ["%rd_fixed_dp", "%rd_step_dp"]),
    ]
}

/// dQ, or dV and dK.
pub(super) fn gradients(plan: &GradientPlan) -> Vec<Gradient> {
    let t = &plan.tiling;
    let of_scores = gradient(plan, 0, t.depth, [first, slope_pair]);
    if !t.is_of_keys() {
        return vec![of_scores];
    }
    vec![gradient(plan, 1, t.columns, [second, probability_pair]), of_scores]
}

fn gradient(plan: &GradientPlan, number: usize, columns: u32, [sum, fragment]: [fn(u32) -> String; 2]) -> Gradient {
    let depth = wgmma_k(plan.spec.a);
    let transposed = plan.operands.transposed[number];
    let slice = |at: u32| GradientSlice {
        fragment: (0..4).map(|i| fragment(4 * at + i)).collect::<Vec<_>>().join(", "),
        passing: transposed.k_offset(at * depth) / UNIT,
    };
    Gradient {
        shape: shape(columns, plan.spec.acc, (plan.spec.a, plan.spec.b)),
        modifiers: register_modifiers(plan.spec.a, Major::Mn),
        sums: register_list((0..columns / 2).map(sum)),
        descriptor: format!(
            "{:#018x}",
            transposed.descriptor() + u64::from(plan.memory.passing_offsets[number] / UNIT)
        ),
        units: plan.memory.passing_bytes[number] / UNIT,
        slices: (0..plan.tiling.step / depth).map(slice).collect(),
    }
}

/// A register of S, then of P.
pub(super) fn score(i: u32) -> String {
    format!("%f_s{i}")
}

/// A register of dP, then of dS.
pub(super) fn slope(i: u32) -> String {
    format!("%f_dp{i}")
}

/// A register of dQ or dK.
pub(super) fn first(i: u32) -> String {
    format!("%f_d{i}")
}

/// A register of dV.
pub(super) fn second(i: u32) -> String {
    format!("%f_dv{i}")
}

/// A register of two elements of P.
pub(super) fn probability_pair(i: u32) -> String {
    format!("%r_p{i}")
}

/// A register of two elements of dS.
pub(super) fn slope_pair(i: u32) -> String {
    format!("%r_ds{i}")
}
