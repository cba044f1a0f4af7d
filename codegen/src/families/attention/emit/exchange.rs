//! How the sums of a part of a tile's keys go to the workspace and come from it.

use serde::Serialize;

use super::super::plan::{AttentionPlan, Workspace};
use crate::hopper::split_k::{Part, parts};
use crate::plan::AttentionTiles;
use crate::scores::softmax::out;

/// Registers of O that are collected at once: enough loads in flight to hide most of their latency.
const COLLECTED: u32 = 32;
/// Registers before those of O: maxima and sums of two rows.
const FIRST: u32 = 4;

/// What the template of the exchange names.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Exchange {
    consumers: u32,
    sums_bytes: u32,
    place_bytes: u32,
    places_bytes: u32,
    /// The place of a tile that is stored.
    whole: u32,
    /// Registers of O, four at a time.
    parts: Vec<Part>,
    collects: Vec<Collect>,
}

/// Loads that are on their way together, and what is added to what.
#[derive(Clone, Debug, Serialize)]
struct Collect {
    loads: Vec<Part>,
    sums: Vec<Sum>,
}

#[derive(Clone, Debug, Serialize)]
struct Sum {
    sum: String,
    part: String,
    /// Which of the thread's rows it belongs to.
    row: u32,
}

impl Exchange {
    pub(super) fn new(plan: &AttentionPlan, workspace: &Workspace) -> Self {
        let (count, threads) = (plan.tiling.columns / 2, plan.arch.warpgroup);
        let part = |i: u32| format!("%f_other{i}");
        let collect = |first: u32| {
            let size = COLLECTED.min(count - first);
            let sum = |i: u32| Sum { sum: out(first + i), part: part(i), row: (first + i) / 2 % 2 };
            Collect {
                loads: parts(threads, FIRST + first, (0..size).map(part).collect()),
                sums: (0..size).map(sum).collect(),
            }
        };
        Self {
            consumers: plan.tiling.roles.consumers,
            sums_bytes: workspace.sums_bytes,
            place_bytes: workspace.place_bytes,
            places_bytes: workspace.places_bytes,
            whole: AttentionTiles::WHOLE,
            parts: parts(threads, FIRST, (0..count).map(out).collect()),
            collects: (0..count).step_by(COLLECTED as usize).map(collect).collect(),
        }
    }
}
