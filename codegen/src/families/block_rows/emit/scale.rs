//! Factors of the sums: of the whole tile at its end, or of every block while it is added.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, SCALE_COLUMNS, Share, Split};
use super::sums::{Partials, sums};
use crate::hopper::mainloop::{Promotion, StageFactors};
use crate::{Dtype, Scale};

/// What is done with a tile's sums before they are converted to C's type.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finish {
    /// Sums of integers that become f32.
    converted: u32,
    /// `none`, `tensor`, `row_col` or `block`.
    scale: &'static str,
    /// Every f32 sum, where one factor goes to all of them.
    sums: Vec<String>,
    /// The sums by row group, under factors for rows and columns.
    row_groups: Vec<RowGroup>,
    columns: Vec<Column>,
    row_permutation: u32,
    rows_per_line: u32,
    /// Where consumers find factors of blocks behind those of the consumers to their left: columns of a consumer.
    factor_columns: Option<u32>,
    group_shift: u32,
}

/// 64 rows: a thread has two of them, 8 apart.
#[derive(Clone, Debug, Serialize)]
struct RowGroup {
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    index: &'static str,
    offset: u32,
    factor: String,
}

/// A column of C of which a thread has an element in every row.
#[derive(Clone, Debug, Serialize)]
struct Column {
    offset: u32,
    bytes: u32,
    products: Vec<Product>,
}

#[derive(Clone, Debug, Serialize)]
struct Product {
    sum: String,
    row: String,
}

impl Finish {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let count = plan.tiling.sums();
        let integers = plan.precision.accumulator == Dtype::I32 && plan.spec.out != Dtype::I32;
        let scale = plan.precision.scale;
        let by_row_and_column = scale == Scale::RowCol;
        Self {
            converted: if integers { count } else { 0 },
            scale: scale.as_str(),
            sums: if scale == Scale::Tensor { (0..count).map(sum).collect() } else { vec![] },
            row_groups: if by_row_and_column { (0..plan.tiling.row_groups()).map(row_group).collect() } else { vec![] },
            columns: if by_row_and_column { columns(plan) } else { vec![] },
            row_permutation: plan.a.row_permutation(),
            rows_per_line: plan.a.rows_per_line,
            factor_columns: factor_columns(plan),
            group_shift: SCALE_COLUMNS.trailing_zeros(),
        }
    }
}

fn sum(i: u32) -> String {
    format!("%f_acc{i}")
}

fn row_group(group: u32) -> RowGroup {
    let row = |half: u32| Row {
        index: if half == 0 { "%r_scale_row0" } else { "%r_scale_row1" },
        offset: 64 * group,
        factor: factor_of_row(group, half),
    };
    RowGroup { rows: vec![row(0), row(1)] }
}

fn factor_of_row(group: u32, half: u32) -> String {
    format!("%f_row{}", 2 * group + half)
}

/// Accumulator 4 t + 2 h + e of a row group is column 8 t + 2 (lane mod 4) + e of row lane / 4 + 8 h.
fn columns(plan: &BlockRowsPlan) -> Vec<Column> {
    let n = plan.tiling.wg_n;
    let column = |t: u32, e: u32| Column {
        offset: 8 * t + e,
        bytes: 4 * (8 * t + e),
        products: (0..plan.tiling.row_groups())
            .flat_map(|group| (0..2).map(move |half| (group, half)))
            .map(|(group, half)| Product {
                sum: sum(group * n / 2 + 4 * t + 2 * half + e),
                row: factor_of_row(group, half),
            })
            .collect(),
    };
    (0..n / 8).flat_map(|t| (0..2).map(move |e| (t, e))).map(|(t, e)| column(t, e)).collect()
}

/// How a row group's partial sums get into the tile's.
pub(super) fn promotions(plan: &BlockRowsPlan, group: u32, partials: &Partials, overwrites: bool) -> Vec<Promotion> {
    let count = plan.tiling.wg_n / 2;
    let promotion = |i: u32| Promotion {
        sum: sums(plan).name(group * count + i),
        partial: partials.name(i),
        factor: plan.precision.scales_blocks().then(|| factor(i / 4 * 8)),
        overwrites,
    };
    (0..count).map(promotion).collect()
}

/// Groups of 128 columns that a consumer's part of the tile touches.
fn groups(plan: &BlockRowsPlan) -> u32 {
    plan.tiling.wg_n.div_ceil(SCALE_COLUMNS)
}

fn factor(column: u32) -> String {
    format!("%f_factor{}", column / SCALE_COLUMNS)
}

/// The consumer's reads of a stage's factors.
pub(super) fn stage_factors(plan: &BlockRowsPlan) -> Option<StageFactors> {
    plan.precision.scales_blocks().then(|| StageFactors {
        bytes: plan.memory.factor_bytes(),
        registers: (0..groups(plan)).map(|group| factor(group * SCALE_COLUMNS)).collect(),
    })
}

/// Columns of a consumer, where consumers find their groups' factors behind those of the consumers to their left.
fn factor_columns(plan: &BlockRowsPlan) -> Option<u32> {
    let shifted = plan.tiling.split == Split::Columns && plan.tiling.cta_n > SCALE_COLUMNS;
    shifted.then_some(plan.tiling.wg_n)
}

/// The producer's part of `scale = block`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Factors {
    /// Columns of a CTA's tile, where the CTAs of a cluster have neighbouring tiles.
    cta_n: Option<u32>,
    /// A group's columns, as a power of two.
    group_shift: u32,
    /// The factors of an index batch, one register a group of columns.
    registers: Vec<String>,
}

impl Factors {
    /// None where blocks have no factors.
    pub(super) fn new(plan: &BlockRowsPlan) -> Option<Self> {
        plan.precision.scales_blocks().then(|| Self {
            cta_n: (plan.tiling.share == Share::A).then_some(plan.tiling.cta_n),
            group_shift: SCALE_COLUMNS.trailing_zeros(),
            registers: (0..plan.memory.factor_groups).map(|group| format!("%f_block_factor{group}")).collect(),
        })
    }
}
