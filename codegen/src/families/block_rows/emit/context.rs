//! Everything the templates name.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, Share, Tiling};
use super::consumer::Consumer;
use super::fused::{Emitter, Fused};
use super::packed::Packed;
use super::pairs::Pairs;
use super::producer::Producer;
use super::scale::Finish;
use super::staging::StagingContext;
use super::{store, sums, work_tile};
use crate::Pdl;
use crate::hopper::mainloop::Mainloop;
use crate::hopper::ring::RingContext;
use crate::hopper::split_k::{Exchange, Workspace};
use crate::hopper::{Roles, store::Store};

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    tile: Tile,
    roles: Roles,
    ring: RingContext,
    memory: Memory,
    cluster: Cluster,
    producer: Producer,
    /// Several block rows share the CTA tile.
    packed: Option<Packed>,
    /// Blocks of a product of two sparse factors share the CTA tile.
    pairs: Option<Pairs>,
    consumer: Consumer,
    mainloop: Mainloop<store::Subtile>,
    work_tile: work_tile::WorkTile,
    /// The kernel is for a list of problems: its tensor maps are in global memory.
    batch: Option<work_tile::Batch>,
    /// C is written by threads, not by TMA.
    permuted: bool,
    /// Clusters share the K of a tile: the workspace, and the exchange of partials.
    workspace: Option<Workspace>,
    exchange: Option<Exchange>,
    finish: Finish,
    /// The spec's epilogue.
    fused: Option<Fused>,
    staging: StagingContext,
    store: Store,
    subtiles: Vec<store::Subtile>,
    /// The epilogue is overlapped: registers of a packed copy of the tile, and what is packed when it ends.
    overlapped: bool,
    packed_registers: Vec<String>,
    packs: Vec<crate::hopper::store::Pack>,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    #[serde(flatten)]
    tiling: Tiling,
    accumulators: u32,
    dtype: String,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    b_offset: u32,
    transaction_bytes: u32,
    staging_offset: u32,
    factor_offset: u32,
    factor_bytes: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Cluster {
    size: u32,
    index: &'static str,
    count: &'static str,
    share: &'static str,
    /// Where this CTA's part of each operand, and of the stage, and of C begins: a register and what it counts a rank.
    shifts: Vec<(&'static str, u32)>,
    /// Tiles of a cluster are adjacent along rows or columns of C.
    along: &'static str,
    /// Bits of the rank.
    mask: u32,
}

impl Context {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let (t, m, e) = (&plan.tiling, &plan.memory, &plan.epilogue);
        let operand = e.has_tile.then_some((m.tile_offset, t.roles.consumers));
        let subtiles = store::subtiles(plan);
        Self {
            tile: Tile { tiling: *t, accumulators: plan.accumulators(), dtype: plan.spec.out.to_string() },
            roles: t.roles,
            // Two warps fill a stage of a kernel that reads the sparse operand early.
            ring: m.ring.context(if plan.spec.pdl == Pdl::Early { 2 } else { 1 }, operand),
            memory: Memory {
                b_offset: m.b_offset,
                transaction_bytes: m.transaction_bytes,
                staging_offset: m.staging_offset,
                factor_offset: m.factor_offset,
                factor_bytes: m.factor_bytes(),
            },
            cluster: cluster(plan),
            producer: Producer::new(plan),
            packed: Packed::new(plan),
            pairs: Pairs::new(plan),
            consumer: Consumer::new(plan),
            mainloop: super::consumer::mainloop(plan, &subtiles),
            work_tile: work_tile::WorkTile::new(plan),
            batch: work_tile::Batch::new(plan),
            permuted: plan.spec.permute.is_on(),
            workspace: plan.workspace(),
            exchange: sums::exchange(plan),
            finish: Finish::new(plan),
            fused: Emitter::new(plan).map(|emitter| emitter.context()),
            staging: StagingContext::new(plan),
            store: store::context(plan),
            overlapped: e.overlapped,
            packed_registers: store::packed_registers(plan),
            packs: store::packs_of_tile(plan),
            subtiles,
        }
    }
}

pub(crate) fn directives(plan: &BlockRowsPlan) -> Vec<String> {
    let mut lines = vec![];
    if plan.tiling.cluster > 1 {
        lines.push(".explicitcluster".to_owned());
        lines.push(format!(".reqnctapercluster {}, 1, 1", plan.tiling.cluster));
    }
    lines.extend(plan.tiling.roles.directives());
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
        shifts: shifts(plan),
        along: match t.share {
            Share::Nothing => "",
            Share::B => "%r_tile_row",
            Share::A => "%r_tile_col",
        },
        mask: t.cluster - 1,
    }
}

/// Per CTA of a cluster: the offset of its part of each operand from the first CTA's.
fn shifts(plan: &BlockRowsPlan) -> Vec<(&'static str, u32)> {
    let (t, a, b) = (&plan.tiling, &plan.a, &plan.b);
    let (a_row, b_col, part, out) = match t.share {
        Share::Nothing => return vec![],
        Share::B => {
            let part = t.cta_n / t.cluster;
            (t.cta_m, part, b.mn_offset(part), t.cta_m)
        }
        Share::A => {
            let part = t.cta_m / t.pack / t.cluster;
            (part, t.cta_n, a.mn_offset(part), t.cta_n)
        }
    };
    vec![("%r_a_row_shift", a_row), ("%r_b_col_shift", b_col), ("%r_part_shift", part), ("%r_out_shift", out)]
}
