//! Factors of the sums: of the whole tile at its end, or of every block while it is added.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, SCALE_COLUMNS, Share, Split};
use super::consumer::{Partials, accumulator};
use crate::{Dtype, Scale};

/// What is done with a tile's sums before they are converted to C's type.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finish {
    /// s32 sums become f32.
    conversions: Vec<String>,
    /// `none`, `tensor`, `row_col` or `block`.
    scale: &'static str,
    /// Every f32 sum, where one factor goes to all of them.
    sums: Vec<String>,
    /// The sums by row group, under factors for rows and columns.
    row_groups: Vec<RowGroup>,
    columns: Vec<Column>,
    row_permutation: u32,
    row_fold: u32,
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
        let count = plan.tiling.accumulators();
        let integers = plan.precision.accumulator == Dtype::I32 && plan.spec.out != Dtype::I32;
        let scale = plan.precision.scale;
        let by_row_and_column = scale == Scale::RowCol;
        Self {
            conversions: if integers { (0..count).map(convert).collect() } else { vec![] },
            scale: scale.as_str(),
            sums: if scale == Scale::Tensor { (0..count).map(sum).collect() } else { vec![] },
            row_groups: if by_row_and_column { (0..plan.tiling.row_groups()).map(row_group).collect() } else { vec![] },
            columns: if by_row_and_column { columns(plan) } else { vec![] },
            row_permutation: plan.a.row_permutation(),
            row_fold: plan.a.fold,
        }
    }
}

fn convert(i: u32) -> String {
    format!("cvt.rn.f32.s32 {}, %r_acc{i}", sum(i))
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
pub(super) fn promotions(plan: &BlockRowsPlan, group: u32, partials: &Partials, overwrites: bool) -> Vec<String> {
    let count = plan.tiling.wg_n / 2;
    (0..count)
        .map(|i| {
            let (tile, part) = (accumulator(plan, group * count + i), partials.name(plan, i));
            let column = i / 4 * 8;
            match (plan.precision.scales_blocks(), overwrites) {
                (false, true) => format!("mov.f32 {tile}, {part}"),
                (false, false) => format!("add.f32 {tile}, {tile}, {part}"),
                (true, true) => format!("mul.f32 {tile}, {part}, {}", factor(column)),
                (true, false) => format!("fma.rn.f32 {tile}, {part}, {}, {tile}", factor(column)),
            }
        })
        .collect()
}

/// Groups of 128 columns that a consumer's part of the tile touches.
fn groups(plan: &BlockRowsPlan) -> u32 {
    plan.tiling.wg_n.div_ceil(SCALE_COLUMNS)
}

fn factor(column: u32) -> String {
    format!("%f_factor{}", column / SCALE_COLUMNS)
}

/// The consumer's reads of a stage's factors.
pub(super) fn read_factors(plan: &BlockRowsPlan) -> Vec<String> {
    if !plan.precision.scales_blocks() {
        return vec![];
    }
    let bytes = plan.memory.factor_bytes();
    let mut lines = vec![format!("mad.lo.u32 %r_t, %r_stage, {bytes}, %r_factors")];
    for group in 0..groups(plan) {
        lines.push(format!("ld.shared.f32 {}, [%r_t + {}]", factor(group * SCALE_COLUMNS), 4 * group));
    }
    lines
}

/// Where a consumer finds its groups' factors: behind those of the consumers to its left.
pub(super) fn factor_shift(plan: &BlockRowsPlan) -> Vec<String> {
    match plan.tiling.split {
        Split::Columns if plan.tiling.cta_n > SCALE_COLUMNS => vec![
            format!("mul.lo.u32 %r_t, %r_consumer, {}", plan.tiling.wg_n),
            format!("shr.u32 %r_t, %r_t, {}", SCALE_COLUMNS.trailing_zeros()),
            "mad.lo.u32 %r_factors, %r_t, 4, %r_factors".to_owned(),
        ],
        _ => vec![],
    }
}

/// The producer's part of `scale = block`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Factors {
    /// The first group of columns of a new tile.
    pub(super) adopt: Vec<String>,
    /// Loads of a chunk's factors, one group of columns each.
    loads: Vec<FactorLoad>,
    /// From the lanes that hold them to the stage.
    stores: Vec<FactorStore>,
}

#[derive(Clone, Debug, Serialize)]
struct FactorLoad {
    group: u32,
    register: String,
}

#[derive(Clone, Debug, Serialize)]
struct FactorStore {
    register: String,
    offset: u32,
}

impl Factors {
    /// None where blocks have no factors.
    pub(super) fn new(plan: &BlockRowsPlan) -> Option<Self> {
        if !plan.precision.scales_blocks() {
            return None;
        }
        let groups = plan.memory.factor_groups;
        let register = |group: u32| format!("%f_chunk{group}");
        let mut adopt = match plan.tiling.share {
            Share::A => vec![format!("mad.lo.u32 %r_group_at, %r_rank, {}, %r_next_c_col", plan.tiling.cta_n)],
            Share::Nothing | Share::B => vec!["mov.u32 %r_group_at, %r_next_c_col".to_owned()],
        };
        adopt.push(format!("shr.u32 %r_group_at, %r_group_at, {}", SCALE_COLUMNS.trailing_zeros()));
        Some(Self {
            adopt,
            loads: (0..groups).map(|group| FactorLoad { group, register: register(group) }).collect(),
            stores: (0..groups).map(|group| FactorStore { register: register(group), offset: 4 * group }).collect(),
        })
    }
}
