//! The producer's loads: which TMA boxes fill a stage, from which coordinates.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, SCALE_COLUMNS, Share};
use super::batch;
use super::scale::Factors;
use crate::Layout;
use crate::hopper::OperandTile;
use crate::plan::Major;

/// A coordinate outside every matrix (2^30; the runtime keeps M, N and K below it): TMA fills with zeros.
const OUTSIDE: u32 = 1 << 30;

/// The producer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Producer {
    group_comment: String,
    adopt: Vec<String>,
    slots: Vec<Slot>,
    steps: Vec<Step>,
    /// From a stage's blocks to the next stage's.
    advance: Vec<String>,
    slot_count: u32,
    /// B's tensor map is by block, with another one for the part of K beyond whole blocks, which is a parameter.
    map_b_last: bool,
    /// Block columns of the stored matrix are walked: a second index tells where their blocks are.
    walks_columns: bool,
    factors: Option<Factors>,
    factor_columns: u32,
}

/// One block of a stage: the instructions that find its coordinates.
#[derive(Clone, Debug, Serialize)]
struct Slot {
    lines: Vec<String>,
}

/// One stage that the producer fills.
#[derive(Clone, Debug, Serialize)]
struct Step {
    label: String,
    comment: String,
    transaction_bytes: u32,
    loads: Vec<Load>,
}

/// One TMA load.
#[derive(Clone, Debug, Serialize)]
struct Load {
    setup: Vec<String>,
    destination: String,
    map: String,
    rank: &'static str,
    coordinates: String,
    multicast: &'static str,
    mask: &'static str,
    hint: &'static str,
    policy: &'static str,
}

impl Producer {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let k = &plan.kloop;
        Self {
            group_comment: match (k.slots, k.steps) {
                (1, 1) => "A block fills one stage.".to_owned(),
                (1, n) => format!("A block fills {n} stages of {} of K (the last {}).", k.k_step, k.last),
                (slots, _) => format!("{slots} blocks of {} of K fill a stage.", k.k_step),
            },
            adopt: adopt(plan),
            slots: (0..k.slots).map(|slot| find(plan, slot)).collect(),
            steps: (0..k.steps).map(|step| fill(plan, step)).collect(),
            advance: advance(plan),
            slot_count: k.slots,
            map_b_last: plan.b.by_block && !plan.spec.batch.is_on(),
            walks_columns: plan.view.walks_columns(),
            factors: Factors::new(plan),
            factor_columns: SCALE_COLUMNS,
        }
    }
}

/// The coordinates of a new tile: A's row, B's column, each moved to this CTA's part where a cluster shares.
fn adopt(plan: &BlockRowsPlan) -> Vec<String> {
    // The row of a batch's item is the place within a block already.
    let by_columns = plan.view.walks_columns() && !plan.spec.batch.is_on();
    let mut lines = if by_columns { adopt_slice(plan) } else { adopt_unfolded(plan) };
    if plan.a.fold > 1 {
        lines.push(format!("shr.u32 %r_a_row, %r_a_row, {}", plan.a.fold.trailing_zeros()));
    }
    lines.extend(Factors::new(plan).map(|factors| factors.adopt).unwrap_or_default());
    lines.extend(batch::adopt_maps(plan));
    lines
}

/// Blocks that are read transposed lie anywhere: what a tile keeps of its row is the place within a block.
fn adopt_slice(plan: &BlockRowsPlan) -> Vec<String> {
    let mut lines = vec![
        format!("mul.lo.u32 %r_t, %r_next_first, {}", plan.view.rows),
        "sub.u32 %r_a_row, %r_next_a_row, %r_t".to_owned(),
    ];
    if plan.tiling.share == Share::Nothing {
        lines.push("mov.u32 %r_b_col, %r_next_c_col".to_owned());
    } else {
        lines.push("add.u32 %r_a_row, %r_a_row, %r_a_row_shift".to_owned());
        lines.push("add.u32 %r_b_col, %r_next_c_col, %r_b_col_shift".to_owned());
    }
    lines
}

/// The row of the next blocks, where they lie one below another.
fn advance(plan: &BlockRowsPlan) -> Vec<String> {
    match plan.view.walks_columns() {
        true => vec![],
        false => vec![format!("add.u32 %r_a_row, %r_a_row, {}", plan.kloop.slots * plan.view.rows / plan.a.fold)],
    }
}

fn adopt_unfolded(plan: &BlockRowsPlan) -> Vec<String> {
    if plan.tiling.share == Share::Nothing {
        vec!["mov.u32 %r_a_row, %r_next_a_row".to_owned(), "mov.u32 %r_b_col, %r_next_c_col".to_owned()]
    } else {
        vec![
            "add.u32 %r_a_row, %r_next_a_row, %r_a_row_shift".to_owned(),
            "add.u32 %r_b_col, %r_next_c_col, %r_b_col_shift".to_owned(),
        ]
    }
}

/// Per CTA of a cluster: how far its part of each operand lies from the first CTA's.
pub(super) fn rank_shifts(plan: &BlockRowsPlan) -> Vec<String> {
    let (t, a, b) = (&plan.tiling, &plan.a, &plan.b);
    let line = |register: &str, factor: u32| format!("mul.lo.u32 {register}, %r_rank, {factor}");
    match t.share {
        Share::Nothing => vec![],
        Share::B => {
            let part = t.cta_n / t.cluster;
            vec![
                line("%r_a_row_shift", t.cta_m),
                line("%r_b_col_shift", part),
                line("%r_part_shift", b.mn_offset(part)),
                line("%r_out_shift", t.cta_m),
            ]
        }
        Share::A => {
            let part = t.cta_m / t.cluster;
            vec![
                line("%r_a_row_shift", part),
                line("%r_b_col_shift", t.cta_n),
                line("%r_part_shift", a.mn_offset(part)),
                line("%r_out_shift", t.cta_n),
            ]
        }
    }
}

fn find(plan: &BlockRowsPlan, slot: u32) -> Slot {
    let mut lines = vec![];
    let index = if slot == 0 {
        "%r_j".to_owned()
    } else {
        lines.push(format!("add.u32 %r_t, %r_j, {slot}"));
        "%r_t".to_owned()
    };
    lines.push(format!("setp.lt.u32 %p_t, {index}, %r_chunk"));
    if plan.view.walks_columns() {
        lines.push(format!("shfl.sync.idx.b32 %r_a_block{slot}, %r_stored, {index}, 31, 0xffffffff"));
        lines.push(format!("selp.u32 %r_a_block{slot}, %r_a_block{slot}, {OUTSIDE}, %p_t"));
    }
    lines.push(format!("shfl.sync.idx.b32 %r_t, %r_cols, {index}, 31, 0xffffffff"));
    if plan.b.by_block {
        // Beyond the last whole block of K, another map begins at its own block 0.
        lines.push(format!("selp.u32 %r_b_block{slot}, %r_t, {OUTSIDE}, %p_t"));
        lines.push(format!("setp.eq.u32 %p_last, %r_b_block{slot}, %r_whole_blocks"));
        lines.push(format!("selp.u64 %rd_map_b{slot}, %rd_map_b_last, %rd_map_b, %p_last"));
        lines.push(format!("selp.u32 %r_b_block{slot}, 0, %r_b_block{slot}, %p_last"));
    } else {
        lines.push(format!("mul.lo.u32 %r_t, %r_t, {}", plan.view.depth));
        lines.push(format!("selp.u32 %r_b_k{slot}, %r_t, {OUTSIDE}, %p_t"));
    }
    if plan.view.walks_columns() {
        return Slot { lines };
    }
    lines.push(format!("selp.u32 %r_a_k{slot}, 0, {}, %p_t", plan.view.depth * plan.a.fold));
    if slot > 0 {
        lines.push(format!("add.u32 %r_a_row{slot}, %r_a_row, {}", slot * plan.view.rows / plan.a.fold));
    }
    Slot { lines }
}

fn fill(plan: &BlockRowsPlan, step: u32) -> Step {
    let mut loads = vec![];
    for slot in 0..plan.kloop.slots {
        loads.extend(match plan.a.major {
            Major::K => loads_a(plan, step, slot),
            Major::Mn => loads_a_transposed(plan, step, slot),
        });
        loads.extend(loads_b(plan, step, slot));
    }
    let k = &plan.kloop;
    Step {
        label: format!("$empty_{step}"),
        comment: match (k.slots, k.steps) {
            (1, 1) => format!("The block's {} of K.", k.last),
            (1, _) => format!("K {} to {} of the block.", step * k.k_step, step * k.k_step + k.width(step) - 1),
            (slots, _) => format!("{slots} blocks side by side."),
        },
        transaction_bytes: if step + 1 == k.steps {
            plan.memory.last_transaction_bytes
        } else {
            plan.memory.transaction_bytes
        },
        loads,
    }
}

fn loads_a(plan: &BlockRowsPlan, step: u32, slot: u32) -> Vec<Load> {
    let (a, shared) = (&plan.a, plan.tiling.share == Share::A);
    let row = if slot == 0 { "%r_a_row".to_owned() } else { format!("%r_a_row{slot}") };
    (0..a.loads.0)
        .map(|panel| {
            let mut setup = vec![];
            let destination = destination(slot * a.bytes() + panel * a.panel_bytes(), shared, &mut setup);
            let k = step * plan.kloop.k_step + panel * a.span_elements();
            let inner = offset(&format!("%r_a_k{slot}"), k, "%r_inner", &mut setup);
            let coordinates = format!("{inner}, {row}");
            load("%rd_map_a".to_owned(), "2d", (destination, coordinates), shared, plan, setup)
        })
        .collect()
}

/// A block as it lies: its K extent are lines, its rows run along them.
fn loads_a_transposed(plan: &BlockRowsPlan, step: u32, slot: u32) -> Vec<Load> {
    let (a, shared) = (&plan.a, plan.tiling.share == Share::A);
    let mut loads = vec![];
    for (panel, part) in grid(a, plan.kloop.width(step)) {
        let mut setup = vec![];
        let at = slot * a.bytes() + panel * a.panel_bytes() + part * a.box_rows * a.span;
        let destination = destination(at, shared, &mut setup);
        let row = offset("%r_a_row", panel * a.span_elements(), "%r_inner", &mut setup);
        let k = constant(step * plan.kloop.k_step + part * a.box_rows, "%r_outer", &mut setup);
        let coordinates = format!("{row}, {k}, %r_a_block{slot}");
        loads.push(load("%rd_map_a".to_owned(), "3d", (destination, coordinates), shared, plan, setup));
    }
    loads
}

fn loads_b(plan: &BlockRowsPlan, step: u32, slot: u32) -> Vec<Load> {
    let (b, shared) = (&plan.b, plan.tiling.share == Share::B);
    let base = plan.memory.b_offset + slot * b.bytes();
    let k_register = format!("%r_b_k{slot}");
    let k_start = step * plan.kloop.k_step;
    let mut loads = vec![];
    for (panel, part) in grid(b, plan.kloop.width(step)) {
        let mut setup = vec![];
        let at = base + panel * b.panel_bytes() + part * b.box_rows * b.span;
        let destination = destination(at, shared, &mut setup);
        let (map, rank, coordinates) = if b.by_block {
            let coordinates = match b.major {
                Major::K => {
                    let inner = constant(k_start + panel * b.span_elements(), "%r_inner", &mut setup);
                    let outer = offset("%r_b_col", part * b.box_rows, "%r_outer", &mut setup);
                    format!("{inner}, %r_b_block{slot}, {outer}")
                }
                Major::Mn => {
                    let inner = offset("%r_b_col", panel * b.span_elements(), "%r_inner", &mut setup);
                    let k = constant(k_start + part * b.box_rows, "%r_outer", &mut setup);
                    format!("{inner}, {k}, %r_b_block{slot}")
                }
            };
            (format!("%rd_map_b{slot}"), "3d", coordinates)
        } else {
            let (inner, outer) = match plan.view.dense {
                Layout::RowMajor => (
                    offset("%r_b_col", panel * b.span_elements(), "%r_inner", &mut setup),
                    offset(&k_register, k_start + part * b.box_rows, "%r_outer", &mut setup),
                ),
                Layout::ColMajor => (
                    offset(&k_register, k_start + panel * b.span_elements(), "%r_inner", &mut setup),
                    offset("%r_b_col", part * b.box_rows, "%r_outer", &mut setup),
                ),
            };
            ("%rd_map_b".to_owned(), "2d", format!("{inner}, {outer}"))
        };
        loads.push(load(map, rank, (destination, coordinates), shared, plan, setup));
    }
    loads
}

fn grid(tile: &OperandTile, width: u32) -> impl Iterator<Item = (u32, u32)> {
    let (panels, parts) = (tile.loads.0, tile.parts(width));
    (0..panels).flat_map(move |panel| (0..parts).map(move |part| (panel, part)))
}

fn load(
    map: String,
    rank: &'static str,
    (destination, coordinates): (String, String),
    shared: bool,
    plan: &BlockRowsPlan,
    setup: Vec<String>,
) -> Load {
    let mask = match (shared, plan.tiling.cluster) {
        (true, 2) => ", 0x3",
        (true, 4) => ", 0xf",
        (true, 8) => ", 0xff",
        _ => "",
    };
    let multicast = if shared { ".multicast::cluster" } else { "" };
    let (hint, policy) = if map == "%rd_map_a" { (".L2::cache_hint", ", %rd_reused") } else { ("", "") };
    Load { setup, destination, map, rank, coordinates, multicast, mask, hint, policy }
}

/// Where a box lands: the stage, plus a constant, plus this CTA's part of a shared operand.
fn destination(at: u32, shared: bool, setup: &mut Vec<String>) -> String {
    let base = if shared {
        setup.push("add.u32 %r_part_at, %r_stage_at, %r_part_shift".to_owned());
        "%r_part_at"
    } else {
        "%r_stage_at"
    };
    offset(base, at, "%r_box_at", setup)
}

/// The register that holds `base` + `by`, and the addition that makes it.
fn offset(base: &str, by: u32, target: &str, setup: &mut Vec<String>) -> String {
    if by == 0 {
        return base.to_owned();
    }
    setup.push(format!("add.u32 {target}, {base}, {by}"));
    target.to_owned()
}

/// The register that holds a constant coordinate.
fn constant(value: u32, target: &str, setup: &mut Vec<String>) -> String {
    setup.push(format!("mov.u32 {target}, {value}"));
    target.to_owned()
}
