//! How a kernel cuts a problem into tiles, and what each of them loads and multiplies.

use std::sync::Arc;

use bsr_codegen::{Plan, Profile, SddmmTiles, SharedColumns, StagePacking, TileScheduler};
use bsr_runtime::schedule::{Costs, Place, record_tile, union_tile};

use super::pairs::{self, PairTiles};
use super::shape::{ColumnLists, RowGroup, Rows, Shape};
use super::tile::{Tile, of_blocks};
use super::view::View;

/// The tiles of a launch: every column of tiles has the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Tiles {
    /// The tiles of one column, in their order.
    pub(super) column: Vec<Tile>,
    /// Columns of tiles, and how many of them are computed together along a row of tiles.
    pub(super) columns: usize,
    pub(super) together: usize,
    /// Columns of tiles of which L2 holds what is read of the dense operand, as the tile scheduler has it.
    pub(super) columns_held: f64,
    /// Rows of blocks that the tiles of a column have.
    pub(super) block_rows: usize,
    /// Bytes of the result that a CTA's tile has.
    pub(super) out: f64,
    /// The same of a full operand of its epilogue.
    pub(super) full: f64,
    /// Bytes that the dense operand's panel of one column of tiles takes, for each block column of the pattern.
    pub(super) panel: f64,
    /// The part of the CTAs of all clusters that have columns to compute.
    pub(super) needed: f64,
    /// The block columns of K that tiles traverse.
    pub(super) column_lists: Arc<ColumnLists>,
    /// Tiles are those of an SDDMM: all of one column, which traverse the dense K together.
    pub(super) sampled: bool,
    /// Of two sparse factors, whose tiles are all of one column, too: what each of them reads.
    pub(super) pairs: Option<PairTiles>,
}

impl Tiles {
    pub(super) fn new(plan: &Plan, profile: &Profile, view: &View, shape: &Shape, clusters: usize) -> Self {
        if plan.spec().op.is_of_pairs() {
            return Self::of_pairs(plan, profile, view, shape, clusters);
        }
        let column_lists = match plan.tile_scheduler() {
            TileScheduler::Sddmm
            | TileScheduler::CtaPerBlock
            | TileScheduler::BlockRows { .. }
            | TileScheduler::SharedPairs(_)
            | TileScheduler::Attention => Arc::default(),
            TileScheduler::StageMetadata(packing) => shape.column_lists(plan, Rows::Neighbours(packing.pack)),
            TileScheduler::SharedColumns(form) => shape.column_lists(plan, Rows::Likest(form.pack)),
            TileScheduler::Static => shape.column_lists(plan, Rows::Neighbours(1)),
        };
        let counts = match plan.tile_scheduler() {
            TileScheduler::Sddmm => plan.sddmm_tiles().map(|form| sddmm(plan, profile, view, shape, &form)),
            TileScheduler::StageMetadata(packing) => Some(swap_ab(plan, profile, view, shape, &packing)),
            TileScheduler::SharedColumns(form) => Some(packed(plan, profile, view, shape, &form)),
            TileScheduler::CtaPerBlock => Some(single_blocks(plan, profile, view, shape)),
            TileScheduler::Static
            | TileScheduler::SharedPairs(_)
            | TileScheduler::BlockRows { .. }
            | TileScheduler::Attention => Some(block_rows(plan, profile, view, shape)),
        };
        let column = counts.unwrap_or_default();
        let sampled = matches!(plan.tile_scheduler(), TileScheduler::Sddmm);
        let width = f64::from(plan.cluster_tile().columns.max(1));
        let columns = if sampled { 1.0 } else { (view.dense_extent / width).ceil() };
        // Of the last column a part is beyond the end: nothing of that is loaded or stored.
        let part = |width: f64| {
            if sampled || columns <= 0.0 {
                1.0
            } else {
                view.dense_extent / ((view.dense_extent / width).ceil() * width)
            }
        };
        // The same of the CTAs: a cluster whose CTAs are not all needed is no faster.
        let (of_cluster, clip) = (part(width), part(f64::from(profile.cta_n.max(1))));
        let beyond = if sampled { 0.0 } else { beyond(profile, view, columns, width) };
        let index = shape.index(plan);
        let cols = index.map_or(0, |index| index.cols);
        let together = match index.filter(|_| !sampled) {
            Some(index) => bsr_runtime::schedule::columns_together(plan, &index, view.dense_extent as usize, clusters),
            None => 1,
        };
        let pack = if matches!(plan.tile_scheduler(), TileScheduler::CtaPerBlock) { 3.0 } else { 1.0 };
        Self {
            column: column
                .into_iter()
                .map(|tile| Tile { dense: tile.dense * clip, beyond: tile.dense * beyond, ..tile })
                .collect(),
            columns: if view.dense_extent > 0.0 { columns as usize } else { 0 },
            together,
            pairs: None,
            columns_held: bsr_runtime::schedule::columns_held(plan, cols),
            block_rows: shape.index(plan).map_or(0, |index| index.row_ptr.len().saturating_sub(1)),
            // A product that is added to C in memory reads and writes it.
            out: f64::from(profile.cta_m) * f64::from(profile.cta_n) * view.bytes[2] * clip * pack,
            full: f64::from(profile.cta_m) * f64::from(profile.cta_n) * full_bytes(plan) * clip,
            panel: view.depth * width * of_cluster * view.bytes[1],
            needed: of_cluster / clip,
            column_lists,
            sampled,
        }
    }

    fn of_pairs(plan: &Plan, profile: &Profile, view: &View, shape: &Shape, clusters: usize) -> Self {
        let Some(pairs) = shape.pairs() else { return Self::default() };
        let columns_held = bsr_runtime::schedule::columns_held(plan, pairs.lines(view));
        let (column, pairs) = pairs::tiles::tiles(plan, profile, view, pairs, clusters);
        let out = f64::from(profile.cta_m) * f64::from(profile.cta_n) * view.bytes[2];
        Self { column, columns: 1, together: 1, columns_held, out, needed: 1.0, pairs: Some(pairs), ..Self::default() }
    }

    /// One of the launch.
    pub(super) fn at(&self, place: Place) -> &Tile {
        &self.column[place.row as usize]
    }

    pub(super) fn count(&self) -> usize {
        self.column.len() * self.columns
    }
}

/// Bytes of an element of a full operand of the epilogue.
fn full_bytes(plan: &Plan) -> f64 {
    let operand = plan.spec().epilogue.and_then(|epilogue| epilogue.program().tile());
    operand.map_or(0.0, |(_, dtype)| f64::from(dtype.bytes()))
}

/// Rows of boxes that lie beyond the last column, for each byte of the dense operand's tiles.
fn beyond(profile: &Profile, view: &View, columns: f64, width: f64) -> f64 {
    let cta_n = f64::from(profile.cta_n.max(1));
    let row = f64::from(profile.copied_rows.1.max(16));
    let boxes = |columns: f64| if view.dense_is_k_major { columns } else { (columns * view.bytes[1] / row).ceil() };
    // Of the CTAs of the last cluster along the columns.
    let ctas = (width / cta_n).max(1.0);
    let columns_of =
        |cta: u32| (view.dense_extent - (columns - 1.0) * width - f64::from(cta) * cta_n).clamp(0.0, cta_n);
    let lost: f64 = (0..ctas as u32).map(|cta| boxes(cta_n) - boxes(columns_of(cta))).sum();
    lost / ctas / boxes(cta_n).max(1.0) / row / columns.max(1.0)
}

/// Row slices of block rows.
fn block_rows(plan: &Plan, profile: &Profile, view: &View, shape: &Shape) -> Vec<Tile> {
    let Some(index) = shape.index(plan) else { return vec![] };
    let form = plan.cluster_tile();
    let slices = |row: usize| {
        let left = index.rows.saturating_sub(row * index.block.0).min(form.block_rows as usize);
        left.div_ceil(form.rows.max(1) as usize)
    };
    let lengths = index.row_ptr.windows(2).map(|ends| (ends[1] - ends[0]) as u32).enumerate();
    lengths
        .flat_map(|(row, blocks)| {
            let tile = Tile {
                cost: form.cost(blocks.into()),
                column_list: row as u32,
                ..of_blocks(profile, view, f64::from(blocks))
            };
            std::iter::repeat_n(tile, slices(row))
        })
        .collect()
}

/// One stored block a tile, which is added to C in memory.
fn single_blocks(plan: &Plan, profile: &Profile, view: &View, shape: &Shape) -> Vec<Tile> {
    let slices = (view.rows / f64::from(profile.cta_m.max(1))).ceil() as usize;
    let stored = shape.index(plan).map_or(0, |index| index.col_idx.len());
    vec![Tile { cost: 1, ..of_blocks(profile, view, 1.0) }; stored * slices]
}

/// Several block rows, each with a consumer, over the union of their columns.
fn packed(plan: &Plan, profile: &Profile, view: &View, shape: &Shape, form: &SharedColumns) -> Vec<Tile> {
    let groups = shape.likest(plan, form.pack);
    let (steps, gathered) = profile.stages_per_block;
    let tile = |(column_list, group): (usize, &RowGroup)| {
        let (union, blocks) = (group.columns.len().max(1) as f64, f64::from(group.blocks));
        let of_row = of_blocks(profile, view, blocks);
        Tile {
            flops: of_row.flops / f64::from(form.pack),
            sparse: of_row.sparse / f64::from(form.pack),
            dense: union * view.depth * f64::from(profile.cta_n) * view.bytes[1],
            beyond: 0.0,
            stages: (union / f64::from(gathered.max(1))).ceil() * f64::from(steps),
            blocks,
            lone: 0.0,
            cost: union_tile(form, union as u64, group.blocks.into()),
            units: union as u32,
            column_list: column_list as u32,
        }
    };
    groups.iter().enumerate().map(tile).collect()
}

/// Several block rows over the union of their columns, in stages that metadata describes.
fn swap_ab(plan: &Plan, profile: &Profile, view: &View, shape: &Shape, packing: &StagePacking) -> Vec<Tile> {
    let groups = shape.neighbours(plan, packing.pack);
    let (unit, cta_n, depth) = (f64::from(packing.rows), f64::from(profile.cta_n), f64::from(profile.held_k));
    let tile = |(column_list, group): (usize, &RowGroup)| {
        let [stages, panels, blocks] = stages_of(group, packing);
        let bytes = panels * f64::from(packing.b_panel_bytes) + blocks * f64::from(packing.block_bytes);
        Tile {
            flops: 2.0 * f64::from(group.blocks) * unit * depth * cta_n,
            sparse: f64::from(group.blocks) * unit * depth * view.bytes[0],
            dense: panels * depth / f64::from(packing.k_slices.max(1)) * cta_n * view.bytes[1],
            beyond: 0.0,
            stages,
            blocks,
            lone: 0.0,
            cost: record_tile(packing, bytes as u64),
            units: stages as u32,
            column_list: column_list as u32,
        }
    };
    let slices = packing.slices.max(1) as usize;
    groups.iter().enumerate().flat_map(|group| std::iter::repeat_n(tile(group), slices)).collect()
}

/// Stages, B panels and K slices of blocks of a tile: a stage takes panels as long as they and their blocks fit.
fn stages_of(group: &RowGroup, packing: &StagePacking) -> [f64; 3] {
    let (mut stages, mut panels, mut blocks) = (0_u32, 0_u32, 0_u32);
    let (mut panels_here, mut blocks_here) = (0, 0);
    for column in &group.columns {
        for _ in 0..packing.k_slices {
            let mut left = u32::from(*column);
            while left > 0 {
                let part = left.min(packing.blocks.max(1));
                if panels_here == packing.b_panels || blocks_here + part > packing.blocks {
                    (stages, panels_here, blocks_here) = (stages + 1, 0, 0);
                }
                (panels_here, blocks_here) = (panels_here + 1, blocks_here + part);
                (panels, blocks, left) = (panels + 1, blocks + part, left - part);
            }
        }
    }
    [f64::from(stages + u32::from(panels_here > 0 || stages == 0)), f64::from(panels), f64::from(blocks)]
}

/// Rows of some block rows by some of their stored blocks, over all of K.
fn sddmm(plan: &Plan, profile: &Profile, view: &View, shape: &Shape, form: &SddmmTiles) -> Vec<Tile> {
    let (cta_m, group_columns) = (f64::from(profile.cta_m), f64::from(form.group_columns));
    let stages = (view.dense_extent / f64::from(form.k_step.max(1))).ceil().max(1.0);
    let tile = |groups: u32| {
        let is_half = form.half.is_some_and(|half| groups <= half);
        let columns = if is_half { form.half.unwrap_or(groups) } else { form.column_groups };
        Tile {
            flops: 2.0 * cta_m * f64::from(columns) * group_columns * view.dense_extent,
            sparse: cta_m * view.dense_extent * view.bytes[0],
            dense: f64::from(groups) * group_columns * view.dense_extent * view.bytes[1],
            beyond: 0.0,
            stages,
            blocks: 0.0,
            lone: 0.0,
            cost: Costs::of_sddmm(is_half).whole(stages as u32),
            units: stages as u32,
            column_list: 0,
        }
    };
    let tiles_of = |group: &RowGroup| {
        let (all, each) = (group.columns.len() as u32 * form.groups_per_block, form.column_groups.max(1));
        let whole = (0..all / each).map(move |_| each);
        whole.chain((all % each > 0).then_some(all % each)).collect::<Vec<u32>>()
    };
    let groups = shape.neighbours(plan, form.pack);
    let slices = form.slices.max(1) as usize;
    groups
        .iter()
        .flat_map(|group| {
            let row: Vec<Tile> = tiles_of(group).into_iter().map(tile).collect();
            std::iter::repeat_n(row, slices).flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::KernelSpec;
    use bsr_runtime::Pattern;

    use super::*;
    use crate::{Facts, Source, TuningProblem, Workload};

    /// Rows beyond the last column for each row of K that a tile loads.
    fn beyond_of(text: &str, n: usize) -> f64 {
        let spec: KernelSpec = text.parse().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let facts = Facts::of(&spec);
        let structure = "random:0.25".parse::<Pattern>().unwrap().structure(1024, 1024, facts.block(), 0).unwrap();
        let workload = Workload { facts, m: 1024, n, k: 1024, source: Source::Given, seed: 0 };
        let problem = TuningProblem::new(workload, &structure);
        let shape = Shape::new(Some(structure));
        let tiles = Tiles::new(&plan, &plan.profile(), &View::new(&spec, &problem), &shape, 132);
        let tile = tiles.column[0];
        tile.beyond / (tile.blocks * f64::from(spec.bk))
    }

    #[test]
    fn boxes_beyond_the_last_column_are_counted() {
        for (text, n, beyond) in [
            // Boxes of 64 columns.
            ("bm = 64, bn = 256, bk = 64", 16, 3.0),
            ("bm = 64, bn = 256, bk = 64", 64, 3.0),
            ("bm = 64, bn = 256, bk = 64", 65, 2.0),
            ("bm = 64, bn = 256, bk = 64", 256, 0.0),
            // Two consumers have a box of 32 columns each.
            ("bm = 64, bn = 64, bk = 64", 16, 1.0),
            // One box, most of which is beyond.
            ("bm = 128, bn = 64, bk = 128", 16, 0.0),
            // The second CTA of the cluster has none but such.
            ("bm = 64, bn = 256, bk = 64, cluster = 2", 16, 3.5),
            // Of two columns of tiles the second one has them.
            ("bm = 64, bn = 256, bk = 64", 320, 1.5),
        ] {
            let found = beyond_of(text, n);
            assert!((found - beyond).abs() < 1e-9, "{text}, {n}: {found}");
        }
    }
}
