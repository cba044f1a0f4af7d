//! Everything the templates name.

use serde::Serialize;

use super::super::plan::WarpPlan;
use super::epilogue::Epilogue;
use super::fetch::Fetch;
use super::multiply::Multiply;

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    tile: Tile,
    memory: Memory,
    fetch: Fetch,
    multiply: Multiply,
    epilogue: Epilogue,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    cta_m: u32,
    cta_n: u32,
    warps_m: u32,
    warps_n: u32,
    warp_m: u32,
    warp_n: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    stages: u32,
    stage_bytes: u32,
    ring_bytes: u32,
    /// Where the copies begin while the first stage is multiplied: stages before that are filled already.
    filled_bytes: u32,
    /// Stages whose copies may still be in flight when the next stage is due.
    pending: u32,
}

impl Context {
    pub(super) fn new(plan: &WarpPlan) -> Self {
        let (t, m) = (&plan.tiling, &plan.memory);
        Self {
            tile: Tile {
                cta_m: t.cta_m,
                cta_n: t.cta_n,
                warps_m: t.warps.0,
                warps_n: t.warps.1,
                warp_m: t.warp_m,
                warp_n: t.warp_n,
            },
            memory: Memory {
                stages: m.stages,
                stage_bytes: m.stage_bytes,
                ring_bytes: m.stages * m.stage_bytes,
                filled_bytes: (m.stages - 1) * m.stage_bytes,
                pending: m.stages - 2,
            },
            fetch: Fetch::new(plan),
            multiply: Multiply::new(plan),
            epilogue: Epilogue::new(plan),
        }
    }
}
