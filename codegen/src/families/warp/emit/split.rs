//! How the sums of a part of a tile's K go to the workspace and come from it: 16 bytes a thread at a time, those of
//! neighbouring threads side by side.

use serde::Serialize;

use super::super::plan::{VECTOR_BYTES, WarpPlan};
use super::operands::{accumulator, tuple};
use crate::Dtype;
use crate::hopper::split_k::Workspace;

/// Bytes of a thread's sums that are on their way at once: more would take registers that a tile needs.
const COLLECTED: u32 = 64;

/// The exchange of a kernel that divides K.
#[derive(Serialize)]
pub(super) struct Exchange {
    workspace: Workspace,
    /// The word of a work tile that says how much of K it is, and that of its place.
    role: u32,
    place: u32,
    /// What the warps that multiply wait at.
    barrier: String,
    /// The vector that is moved at once, and the instruction that adds one register to a sum.
    vector: &'static str,
    add: &'static str,
    parts: Vec<Part>,
    collects: Vec<Collect>,
}

/// 16 bytes of a thread's sums.
#[derive(Serialize)]
struct Part {
    offset: u32,
    registers: String,
}

/// Loads that are on their way together, and what is done with them.
#[derive(Serialize)]
struct Collect {
    loads: Vec<Part>,
    sums: Vec<Sum>,
}

#[derive(Serialize)]
struct Sum {
    sum: String,
    part: String,
}

impl Exchange {
    /// None of a kernel whose tiles have all of K.
    pub(super) fn new(plan: &WarpPlan, count: u32) -> Option<Self> {
        let workspace = plan.workspace()?;
        let (vector, add, bytes) = match plan.spec.acc {
            Dtype::F64 => ("v2.f64", "add.f64", 8),
            Dtype::F16 => ("v4.b32", "add.rn.f16x2", 4),
            Dtype::I32 => ("v4.u32", "add.u32", 4),
            _ => ("v4.f32", "add.f32", 4),
        };
        let (threads, of_vector) = (plan.crew().consumers * 32, VECTOR_BYTES / bytes);
        let vectors = |first: u32, names: Vec<String>| -> Vec<Part> {
            let part = |(i, registers): (u32, &[String])| Part {
                offset: (first / of_vector + i) * VECTOR_BYTES * threads,
                registers: tuple(registers),
            };
            (0..).zip(names.chunks(of_vector as usize)).map(part).collect()
        };
        let received = |i: u32| accumulator(plan, i).replace("acc", "part");
        let collect = |first: u32| {
            let size = (COLLECTED / bytes).min(count - first);
            let sum = |i: u32| Sum { sum: accumulator(plan, first + i), part: received(i) };
            Collect { loads: vectors(first, (0..size).map(received).collect()), sums: (0..size).map(sum).collect() }
        };
        Some(Self {
            workspace,
            role: plan.role_word(),
            place: plan.role_word() + 1,
            barrier: if plan.spec.load.has_roles() {
                format!("bar.sync 1, {threads}")
            } else {
                "bar.sync 0".to_owned()
            },
            vector,
            add,
            parts: vectors(0, (0..count).map(|i| accumulator(plan, i)).collect()),
            collects: (0..count).step_by((COLLECTED / bytes) as usize).map(collect).collect(),
        })
    }
}
