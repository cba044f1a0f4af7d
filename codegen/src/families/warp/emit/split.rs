//! How the sums of a part of a tile's K go to the workspace and come from it: a register at a time, those of the threads of a CTA
//! side by side. Vectors of 16 bytes would need groups of registers, of which ptxas finds too few beside a tile's sums.

use serde::Serialize;

use super::super::plan::WarpPlan;
use super::operands::accumulator;
use crate::Dtype;
use crate::hopper::split_k::Workspace;

/// Bytes of a thread's sums that are on their way at once.
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
    /// The type of a register, its bytes, and the instruction that adds one to a sum.
    dtype: &'static str,
    bytes: u32,
    add: &'static str,
    parts: Vec<Part>,
    /// Loads that are on their way together.
    collects: Vec<Vec<Part>>,
}

/// A register of a thread's sums, the one that another CTA's is loaded to, and bytes from the first one of all threads.
#[derive(Serialize)]
struct Part {
    sum: String,
    part: String,
    offset: u32,
}

impl Exchange {
    /// None of a kernel whose tiles have all of K. Word `role` of a work tile says how much of K it is.
    pub(super) fn new(plan: &WarpPlan, count: u32, role: u32) -> Option<Self> {
        let workspace = plan.workspace()?;
        let (dtype, add, bytes) = match plan.spec.acc {
            Dtype::F64 => ("f64", "add.f64", 8),
            Dtype::F16 => ("b32", "add.rn.f16x2", 4),
            Dtype::I32 => ("u32", "add.u32", 4),
            _ => ("f32", "add.f32", 4),
        };
        let threads = plan.crew().consumers * 32;
        let part = |i: u32| {
            let sum = accumulator(plan, i);
            Part { part: sum.replace("acc", "part"), sum, offset: i * bytes * threads }
        };
        let together = COLLECTED / bytes;
        let collect = |first: u32| (first..count.min(first + together)).map(part).collect();
        Some(Self {
            workspace,
            role,
            place: role + 1,
            barrier: if plan.spec.load.has_roles() {
                format!("bar.sync 1, {threads}")
            } else {
                "bar.sync 0".to_owned()
            },
            dtype,
            bytes,
            add,
            parts: (0..count).map(part).collect(),
            collects: (0..count).step_by(together as usize).map(collect).collect(),
        })
    }
}
