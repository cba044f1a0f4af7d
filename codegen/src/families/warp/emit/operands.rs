//! Operands of instructions, as text, and loads of fragments.

use serde::Serialize;

use super::super::plan::WarpPlan;
use crate::Dtype;

/// `base + by`, the address of a load or a store.
pub(super) fn address(base: &str, by: u32) -> String {
    if by == 0 { base.to_owned() } else { format!("{base} + {by}") }
}

/// `{ %f_acc0, %f_acc1 }`: the registers that one instruction takes together.
pub(super) fn tuple(registers: &[String]) -> String {
    format!("{{ {} }}", registers.join(", "))
}

/// A register of accumulators: integers, or pairs of f16, where they are no floats.
pub(super) fn accumulator(plan: &WarpPlan, i: u32) -> String {
    match plan.spec.acc {
        Dtype::F32 => format!("%f_acc{i}"),
        Dtype::F64 => format!("%d_acc{i}"),
        _ => format!("%r_acc{i}"),
    }
}

/// Register `n` of a set of fragments.
pub(super) fn register(plan: &WarpPlan, x: &str, set: u32, n: u32) -> String {
    let class = if plan.doubles() { "d" } else { "r" };
    format!("%{class}_{x}{set}_{n}")
}

/// Fragments to load, and the address registers that are set before.
#[derive(Default, Serialize)]
pub(super) struct Fragments {
    pub(super) addresses: Vec<Address>,
    pub(super) a: Vec<Load>,
    pub(super) b: Vec<Load>,
    /// Those of f64, of both operands.
    pub(super) doubles: Vec<Load>,
    /// Those of a row-major B in TF32.
    pub(super) words: Vec<Load>,
}

/// `%r_a_at1`, a place in the stage that is read.
#[derive(Serialize)]
pub(super) struct Address {
    pub(super) x: &'static str,
    pub(super) number: u32,
    /// Bits in which it differs from address 0; 0 where it is made of a lane's own place.
    pub(super) flip: u32,
}

#[derive(Serialize)]
pub(super) struct Load {
    pub(super) registers: String,
    pub(super) address: String,
}
