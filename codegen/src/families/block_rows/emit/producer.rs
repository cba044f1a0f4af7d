//! The producer's loads: which TMA boxes fill a stage, from which coordinates.

use serde::Serialize;

use super::super::plan::operand::stored_by_columns;
use super::super::plan::{BlockRowsPlan, SCALE_COLUMNS, Share, packed};
use super::scale::Factors;
use super::stored::{self, ColumnBox};
use crate::hopper::OperandTile;
use crate::hopper::tma::{Load, Offset, constant, offset};
use crate::plan::Major;
use crate::{Layout, Pdl, TileScheduler};

/// The producer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Producer {
    group_comment: String,
    /// Blocks that a stage gathers.
    sub_stages: Vec<SubStage>,
    steps: Vec<Step>,
    /// Adjacent rows of A in a row of a TMA box, as a power of two.
    rows_per_line_shift: u32,
    /// Rows of A's map from a stage's blocks to the next stage's, if they are contiguous.
    advance: Option<u32>,
    /// B's tensor map is by block, with another one for the part of K beyond whole blocks.
    by_block: bool,
    /// A second index tells where the blocks of the sparse factor are: what it is for.
    index: Option<&'static str>,
    /// The sparse factor is read by block columns as stored.
    reads_block_columns: bool,
    /// The dense factor is the stored blocks of a sparse one, each with a block of A: lines of A's map in a block.
    pairs: Option<u32>,
    /// Rows of a block that the second index finds: what a tile keeps of its row is the place within a block.
    slice_of: Option<u32>,
    /// The register of a block's place along the lines of B's map, but for the number of its sub-stage, and the lines of a
    /// block: elements of K, but of blocks stored by columns.
    b_at: &'static str,
    b_lines: u32,
    /// A coordinate outside every matrix: TMA fills with zeros. Another one, along the K of a block.
    outside: u32,
    outside_k: u32,
    factors: Option<Factors>,
    factor_columns: u32,
    /// The L2 policy of the sparse operand, and its reason.
    policy: (&'static str, &'static str),
}

/// Columns of a cluster up to which a kernel is for a dense factor of few columns, under which the sparse operand passes
/// once.
const FEW_COLUMNS: u32 = 64;

/// The priority of the sparse operand's lines in L2 (PTX ISA, `createpolicy`).
fn policy(plan: &BlockRowsPlan) -> (&'static str, &'static str) {
    match plan.tiling.cluster_n() <= FEW_COLUMNS {
        true => ("evict_first", "A is read once for few columns of B: L2 should evict it first."),
        false => ("evict_last", "A is read again for each group of columns: L2 should evict it last."),
    }
}

/// What a second index is for, in a kernel that has one.
fn index_words(plan: &BlockRowsPlan) -> Option<&'static str> {
    let words = match plan.spec.op.is_of_pairs() {
        true => "A pair is a block of B and one of A: a second list, read like that of B's blocks, has A's.",
        false => {
            "Blocks are read transposed, and the blocks of a row are scattered: a second index, read like the columns, has their positions."
        }
    };
    plan.has_block_index().then_some(words)
}

/// One block of a stage.
#[derive(Clone, Debug, Serialize)]
struct SubStage {
    number: u32,
    /// The register of its number among the blocks of the index batch.
    index: &'static str,
    /// Rows of A's map from the stage's first block to this one.
    rows: u32,
}

/// One stage that the producer fills.
#[derive(Clone, Debug, Serialize)]
struct Step {
    label: String,
    comment: String,
    /// Bytes of the stage, and of either operand.
    transaction_bytes: u32,
    a_bytes: u32,
    b_bytes: u32,
    loads: Vec<Load>,
}

impl Producer {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let k = &plan.kloop;
        let (reads_block_columns, index) = (plan.view.reads_block_columns(), index_words(plan));
        let (b_at, b_lines) = stored::lines(plan);
        let sub_stage = |number: u32| SubStage {
            number,
            index: if number == 0 { "%r_j" } else { "%r_t" },
            rows: number * plan.view.rows / plan.a.rows_per_line,
        };
        Self {
            group_comment: match (k.sub_stages, k.steps) {
                (1, 1) => "A block fills one stage.".to_owned(),
                (1, n) => format!("A block fills {n} stages of {} of K (the last {}).", k.k_step, k.last),
                (sub_stages, _) => format!("{sub_stages} blocks of {} of K fill a stage.", k.k_step),
            },
            sub_stages: (0..k.sub_stages).map(sub_stage).collect(),
            steps: (0..k.steps).map(|step| fill(plan, step)).collect(),
            rows_per_line_shift: plan.a.rows_per_line.trailing_zeros(),
            advance: index.is_none().then_some(k.sub_stages * plan.view.rows / plan.a.rows_per_line),
            by_block: plan.b.by_block,
            index,
            reads_block_columns,
            pairs: plan.spec.op.is_of_pairs().then_some(plan.view.rows / plan.a.rows_per_line),
            // The row of a batch's work tile is the place within a block already.
            slice_of: (index.is_some() && !plan.spec.batch.is_on()).then_some(plan.view.rows),
            b_at,
            b_lines,
            outside: TileScheduler::OUTSIDE,
            outside_k: plan.view.depth * plan.a.rows_per_line,
            factors: Factors::new(plan),
            factor_columns: SCALE_COLUMNS,
            policy: policy(plan),
        }
    }
}

fn fill(plan: &BlockRowsPlan, step: u32) -> Step {
    let mut loads = vec![];
    for sub_stage in 0..plan.kloop.sub_stages {
        loads.extend(match plan.a.major {
            Major::K => loads_a(plan, step, sub_stage),
            Major::Mn => loads_a_transposed(plan, step, sub_stage),
        });
        loads.extend(match stored_by_columns(&plan.spec) {
            true => columns_of_b(plan, step, sub_stage),
            false => loads_b(plan, step, sub_stage),
        });
    }
    let k = &plan.kloop;
    let bytes = |tile: &OperandTile| {
        let unloaded = if step + 1 == k.steps { tile.unloaded_bytes(k) } else { 0 };
        k.sub_stages * tile.bytes() - unloaded
    };
    let (a_bytes, b_bytes) = (bytes(&plan.a), bytes(&plan.b));
    Step {
        label: format!("$empty_{step}"),
        comment: match (k.sub_stages, k.steps) {
            (1, 1) => format!("The block's {} of K.", k.last),
            (1, _) => format!("K {} to {} of the block.", step * k.k_step, step * k.k_step + k.width(step) - 1),
            (sub_stages, _) => format!("{sub_stages} blocks side by side."),
        },
        transaction_bytes: a_bytes + b_bytes,
        a_bytes,
        b_bytes,
        loads,
    }
}

/// The loads of a stage of several block rows: B's, then those of each block row that has a block.
pub(super) fn packed_loads(plan: &BlockRowsPlan, step: u32) -> Vec<Load> {
    const LEADS: [&str; packed::MOST as usize] = ["%p_lead0", "%p_lead1", "%p_lead2"];
    let (a, shared) = (&plan.a, plan.tiling.share == Share::A);
    let rows = a.rows / plan.tiling.pack;
    let mut loads = loads_b(plan, step, 0);
    for (member, predicate) in (0..plan.tiling.pack).zip(LEADS) {
        for panel in 0..a.loads.0 {
            let mut offsets = vec![];
            let at = panel * a.panel_bytes() + member * rows * a.span;
            let destination = destination(at, shared, &mut offsets);
            let k = step * plan.kloop.k_step + panel * a.span_elements();
            let inner = constant(k, "%r_inner", &mut offsets);
            let coordinates = format!("{inner}, %r_a_row{member}");
            let a = load("%rd_map_a".to_owned(), 2, (destination, coordinates), shared, plan, offsets);
            loads.push(Load { predicate, ..a });
        }
    }
    loads
}

fn loads_a(plan: &BlockRowsPlan, step: u32, sub_stage: u32) -> Vec<Load> {
    let (a, shared) = (&plan.a, plan.tiling.share == Share::A);
    let row = match (plan.spec.op.is_of_pairs(), sub_stage) {
        (true, _) => format!("%r_a_block{sub_stage}"),
        (false, 0) => "%r_a_row".to_owned(),
        (false, _) => format!("%r_a_row{sub_stage}"),
    };
    (0..a.loads.0)
        .map(|panel| {
            let mut offsets = vec![];
            let destination = destination(sub_stage * a.bytes() + panel * a.panel_bytes(), shared, &mut offsets);
            let k = step * plan.kloop.k_step + panel * a.span_elements();
            let inner = offset(&format!("%r_a_k{sub_stage}"), k, "%r_inner", &mut offsets);
            let coordinates = format!("{inner}, {row}");
            load("%rd_map_a".to_owned(), 2, (destination, coordinates), shared, plan, offsets)
        })
        .collect()
}

/// A block as it is stored: its K extent are lines, and its rows run along them.
fn loads_a_transposed(plan: &BlockRowsPlan, step: u32, sub_stage: u32) -> Vec<Load> {
    let (a, shared) = (&plan.a, plan.tiling.share == Share::A);
    let mut loads = vec![];
    for (panel, part) in grid(a, plan.kloop.width(step)) {
        let mut offsets = vec![];
        let at = sub_stage * a.bytes() + panel * a.panel_bytes() + part * a.box_rows * a.span;
        let destination = destination(at, shared, &mut offsets);
        let row = offset("%r_a_row", panel * a.span_elements(), "%r_inner", &mut offsets);
        let k = constant(step * plan.kloop.k_step + part * a.box_rows, "%r_outer", &mut offsets);
        let coordinates = format!("{row}, {k}, %r_a_block{sub_stage}");
        loads.push(load("%rd_map_a".to_owned(), 3, (destination, coordinates), shared, plan, offsets));
    }
    loads
}

fn loads_b(plan: &BlockRowsPlan, step: u32, sub_stage: u32) -> Vec<Load> {
    let (b, shared) = (&plan.b, plan.tiling.share == Share::B);
    let base = plan.memory.b_offset + sub_stage * b.bytes();
    let k_register = format!("%r_b_k{sub_stage}");
    let k_start = step * plan.kloop.k_step;
    let column = |at, register, offsets: &mut Vec<Offset>| match (plan.spec.op.is_of_pairs(), plan.tiling.cluster) {
        (true, 1) => constant(at, register, offsets),
        (true, _) => offset("%r_b_col_shift", at, register, offsets),
        (false, _) => offset("%r_b_col", at, register, offsets),
    };
    let mut loads = vec![];
    for (panel, part) in grid(b, plan.kloop.width(step)) {
        let mut offsets = vec![];
        let at = base + panel * b.panel_bytes() + part * b.box_rows * b.span;
        let destination = destination(at, shared, &mut offsets);
        let (map, rank, coordinates) = if b.by_block {
            let coordinates = match b.major {
                Major::K => {
                    let inner = constant(k_start + panel * b.span_elements(), "%r_inner", &mut offsets);
                    let outer = column(part * b.box_rows, "%r_outer", &mut offsets);
                    format!("{inner}, %r_b_block{sub_stage}, {outer}")
                }
                Major::Mn => {
                    let inner = column(panel * b.span_elements(), "%r_inner", &mut offsets);
                    let k = constant(k_start + part * b.box_rows, "%r_outer", &mut offsets);
                    format!("{inner}, {k}, %r_b_block{sub_stage}")
                }
            };
            (format!("%rd_map_b{sub_stage}"), 3, coordinates)
        } else {
            let (inner, outer) = match plan.view.dense {
                Layout::RowMajor => (
                    column(panel * b.span_elements(), "%r_inner", &mut offsets),
                    offset(&k_register, k_start + part * b.box_rows, "%r_outer", &mut offsets),
                ),
                Layout::ColMajor => (
                    offset(&k_register, k_start + panel * b.span_elements(), "%r_inner", &mut offsets),
                    column(part * b.box_rows, "%r_outer", &mut offsets),
                ),
            };
            ("%rd_map_b".to_owned(), 2, format!("{inner}, {outer}"))
        };
        loads.push(load(map, rank, (destination, coordinates), shared, plan, offsets));
    }
    loads
}

/// A block of a sparse B that is stored column by column. CTAs that share it have a part of its columns each.
fn columns_of_b(plan: &BlockRowsPlan, step: u32, sub_stage: u32) -> Vec<Load> {
    let (b, shared) = (&plan.b, plan.tiling.share == Share::B);
    let block = format!("{}{sub_stage}", stored::lines(plan).0);
    let load = |part: ColumnBox| {
        let mut offsets = vec![];
        let at = plan.memory.b_offset + sub_stage * b.bytes() + part.at;
        let destination = destination(at, shared, &mut offsets);
        if shared {
            offsets.push(Offset::new("%r_outer", &block, "%r_b_col_shift"));
        }
        let line = if shared { "%r_outer" } else { &block };
        let coordinates = part.coordinates(line, part.column, &mut offsets);
        load("%rd_map_b".to_owned(), 2, (destination, coordinates), shared, plan, offsets)
    };
    stored::boxes(plan, step).map(load).collect()
}

fn grid(tile: &OperandTile, width: u32) -> impl Iterator<Item = (u32, u32)> {
    let (panels, parts) = (tile.loads.0, tile.parts(width));
    (0..panels).flat_map(move |panel| (0..parts).map(move |part| (panel, part)))
}

fn load(
    map: String,
    rank: u32,
    (destination, coordinates): (String, String),
    shared: bool,
    plan: &BlockRowsPlan,
    offsets: Vec<Offset>,
) -> Load {
    let is_sparse = map == "%rd_map_a";
    Load {
        offsets,
        predicate: match (plan.spec.pdl, is_sparse) {
            (Pdl::Early, true) => "%p_lead_a",
            (Pdl::Early, false) => "%p_lead_b",
            _ => "%p_lead",
        },
        destination,
        is_reused: is_sparse,
        map,
        rank,
        coordinates,
        mask: shared.then(|| format!("{:#x}", (1 << plan.tiling.cluster) - 1)),
    }
}

/// Where a box lands: the stage, plus a constant, plus this CTA's part of a shared operand.
fn destination(at: u32, shared: bool, offsets: &mut Vec<Offset>) -> String {
    let base = if shared {
        offsets.push(Offset::new("%r_part_at", "%r_stage_at", "%r_part_shift"));
        "%r_part_at"
    } else {
        "%r_stage_at"
    };
    offset(base, at, "%r_box_at", offsets)
}
