//! Everything the templates name.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, Share};
use super::batch::Item;
use super::consumer::Consumer;
use super::producer::Producer;
use super::{epilogue, producer};

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    tile: Tile,
    roles: Roles,
    memory: Memory,
    cluster: Cluster,
    producer: Producer,
    consumer: Consumer,
    item: Item,
    epilogue: epilogue::Context,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    cta_m: u32,
    cta_n: u32,
    wg_m: u32,
    wg_n: u32,
    accumulators: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Roles {
    consumers: u32,
    producer_registers: u32,
    consumer_registers: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    stages: u32,
    stage_bytes: u32,
    stage_units: u32,
    b_offset: u32,
    transaction_bytes: u32,
    staging_offset: u32,
    full_offset: u32,
    empty_offset: u32,
    empty_arrivals: u32,
    factor_offset: u32,
    factor_bytes: u32,
    barriers: Vec<u32>,
    /// Barriers of the epilogue's full operand, from the first full barrier on.
    tile_barriers: Vec<u32>,
}

#[derive(Clone, Debug, Serialize)]
struct Cluster {
    size: u32,
    index: &'static str,
    count: &'static str,
    share: &'static str,
    shifts: Vec<String>,
    sync: Vec<&'static str>,
    leave: Vec<&'static str>,
}

const CLUSTER_SYNC: [&str; 2] = ["barrier.cluster.arrive.release.aligned", "barrier.cluster.wait.acquire.aligned"];

impl Context {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let (t, m) = (&plan.tiling, &plan.memory);
        let epilogue = epilogue::Context::new(plan);
        Self {
            tile: Tile { cta_m: t.cta_m, cta_n: t.cta_n, wg_m: t.wg_m, wg_n: t.wg_n, accumulators: t.accumulators() },
            roles: Roles {
                consumers: t.roles.consumers,
                producer_registers: t.roles.producer_registers,
                consumer_registers: t.roles.consumer_registers,
            },
            memory: Memory {
                stages: m.stages,
                stage_bytes: m.stage_bytes,
                stage_units: m.stage_bytes / 16,
                b_offset: m.b_offset,
                transaction_bytes: m.transaction_bytes,
                staging_offset: m.staging_offset,
                full_offset: m.full_offset,
                empty_offset: m.empty_offset,
                empty_arrivals: m.empty_arrivals,
                factor_offset: m.factor_offset,
                factor_bytes: m.factor_bytes(),
                barriers: (0..m.stages).map(|stage| stage * 8).collect(),
                tile_barriers: tile_barriers(plan),
            },
            cluster: cluster(plan),
            producer: Producer::new(plan),
            consumer: Consumer::new(plan, &epilogue.passes),
            item: Item::new(plan),
            epilogue,
        }
    }
}

fn tile_barriers(plan: &BlockRowsPlan) -> Vec<u32> {
    let count = if plan.epilogue.has_tile { plan.tiling.roles.consumers } else { 0 };
    (0..count).map(|consumer| plan.memory.tile_offset - plan.memory.full_offset + 8 * consumer).collect()
}

pub(crate) fn directives(plan: &BlockRowsPlan) -> Vec<String> {
    let mut lines = vec![];
    if plan.tiling.cluster > 1 {
        lines.push(".explicitcluster".to_owned());
        lines.push(format!(".reqnctapercluster {}, 1, 1", plan.tiling.cluster));
    }
    lines.push(format!(".maxntid {}, 1, 1", plan.tiling.roles.threads));
    lines.push(".minnctapersm 1".to_owned());
    lines
}

fn cluster(plan: &BlockRowsPlan) -> Cluster {
    let t = &plan.tiling;
    let many = t.cluster > 1;
    Cluster {
        size: t.cluster,
        index: if many { "%clusterid.x" } else { "%ctaid.x" },
        count: if many { "%nclusterid.x" } else { "%nctaid.x" },
        share: t.share.words(),
        shifts: producer::rank_shifts(plan),
        sync: if many { CLUSTER_SYNC.to_vec() } else { vec!["bar.sync 0"] },
        leave: if many { CLUSTER_SYNC.to_vec() } else { vec![] },
    }
}

/// Moves a tile's first row or column to this CTA's part of the cluster's tile.
pub(super) fn output_shifts(plan: &BlockRowsPlan) -> Vec<String> {
    match plan.tiling.share {
        Share::Nothing => vec![],
        Share::B => vec!["add.u32 %r_tile_row, %r_tile_row, %r_out_shift".to_owned()],
        Share::A => vec!["add.u32 %r_tile_col, %r_tile_col, %r_out_shift".to_owned()],
    }
}
