//! The spec's epilogue on WGMMA's accumulators: which elements a thread has, and where its vectors' elements are.
//!
//! Accumulator 4 t + 2 h + e of a row group is column 8 t + 2 (lane mod 4) + e of row lane / 4 + 8 h. So a thread holds
//! values of two rows a row group, and of two columns at a time.

use serde::Serialize;

use super::super::plan::BlockRowsPlan;
use super::collect;
use super::staging::Staging;
use super::store::{has_half_sums, pair_of_c};
use super::sums::sums;
use crate::epilogue::{At, Held, InputKind, Lines, Reduction};
use crate::hopper::SECOND;
use crate::hopper::fused::{self, COLUMN_BATCH, FullOperand, Load, Pair, Vector, elements, red, unpack};
use crate::hopper::store::Pack;
use crate::{Dtype, Layout};

/// The context of the `fused_*` templates.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fused {
    text: String,
    /// Values that are the same for all of C.
    uniform: Vec<String>,
    /// Vectors by rows.
    row_vectors: Vec<Vector>,
    early_rows: bool,
    rows: Vec<Row>,
    /// From the elements of a row's vectors to what the epilogue needs of the row.
    row_values: Vec<String>,
    row_permutation: u32,
    rows_per_line: u32,
    /// Vectors by columns.
    column_vectors: Vec<Vector>,
    /// Is the number of columns used?
    by_columns: bool,
    /// A pair of columns after the other, in batches of columns, where the whole tile is done at once.
    column_batches: Vec<ColumnBatch>,
    totals: Vec<Total>,
    /// The second result is one of the tile's columns.
    collects_columns: bool,
    second: &'static str,
    /// Where sums of rows are collected, and not greatest values.
    is_sum: bool,
    operand: Option<FullOperand>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    index: &'static str,
    offset: u32,
    /// The register of the row, from which its elements are loaded.
    register: &'static str,
    loads: Vec<Load>,
}

/// Columns that are done together.
#[derive(Clone, Debug, Serialize)]
struct ColumnBatch {
    /// The first of them, from the consumer's first column on.
    offset: u32,
    pairs: Vec<Pair>,
}

#[derive(Clone, Debug, Serialize)]
struct Total {
    register: String,
    start: String,
    index: &'static str,
    offset: u32,
    collect: String,
    red: Vec<String>,
}

/// A part of a subtile: elements of the full operand are read, used, and C's written in their place.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OperandPart {
    reads: Vec<String>,
    pairs: Vec<Pair>,
}

/// Registers of one pair of rows of a row group.
const INDEX: [&str; 2] = ["%r_fused_row0", "%r_fused_row1"];

/// Makes the lines for one plan.
pub(super) struct Emitter<'p> {
    plan: &'p BlockRowsPlan,
    lines: Lines,
}

impl<'p> Emitter<'p> {
    /// None of a plan without an epilogue of its spec's.
    pub(super) fn new(plan: &'p BlockRowsPlan) -> Option<Self> {
        let held = Held { rows: 2 * plan.tiling.row_groups(), columns: 2 };
        plan.fused.as_ref().map(|fused| Self { plan, lines: Lines::new(fused.program, held) })
    }

    pub(super) fn context(&self) -> Fused {
        let fused = self.fused();
        let program = fused.program;
        let row_vectors = fused::vectors(program, |kind| matches!(kind, InputKind::Rows(_)));
        let column_vectors = fused::vectors(program, |kind| matches!(kind, InputKind::Cols(_)));
        let groups = self.plan.tiling.row_groups();
        Fused {
            text: program.text().to_owned(),
            uniform: self.lines.uniform(),
            early_rows: fused.early_rows,
            rows: if row_vectors.is_empty() { vec![] } else { rows(groups).map(|row| self.row(row)).collect() },
            row_values: rows(groups).flat_map(|row| self.row_values(row)).collect(),
            row_vectors,
            row_permutation: self.plan.a.row_permutation(),
            rows_per_line: self.plan.a.rows_per_line,
            by_columns: !column_vectors.is_empty() || program.reduction().is_some(),
            column_vectors,
            column_batches: if fused.tile.is_none() { self.whole_tile() } else { vec![] },
            totals: rows(groups).filter(|_| !self.plan.view.transposed).filter_map(|row| self.total(row)).collect(),
            collects_columns: self.collects_columns().is_some(),
            second: SECOND,
            is_sum: program.reduction() == Some(Reduction::Sum),
            operand: fused.tile.map(|(input, _)| {
                let operand = FullOperand::new(program, input, self.plan.memory.tile_offset);
                match self.plan.view.out {
                    Layout::RowMajor => FullOperand { inner: "%r_tile_col", outer: "%r_tile_row", ..operand },
                    Layout::ColMajor => FullOperand { inner: "%r_tile_row", outer: "%r_tile_col", ..operand },
                }
            }),
        }
    }

    fn fused(&self) -> &super::super::plan::Fused {
        self.plan.fused.as_ref().expect("an emitter is made of a plan with an epilogue")
    }

    fn row(&self, (group, half): (u32, u32)) -> Row {
        let loads = fused::row_loads(&self.lines, self.fused().program, 2 * group + half);
        Row { index: INDEX[half as usize], offset: 64 * group, register: "%r_t", loads }
    }

    fn row_values(&self, (group, half): (u32, u32)) -> Vec<String> {
        fused::row_values(&self.lines, self.fused().program, 2 * group + half)
    }

    fn total(&self, (group, half): (u32, u32)) -> Option<Total> {
        let (register, start) = self.lines.total(2 * group + half)?;
        let collect = self.lines.collect(&register, "%f_other")?;
        let red = red(self.fused().program.reduction()?, &register, "%rd_t");
        Some(Total { start, index: INDEX[half as usize], offset: 64 * group, collect, red, register })
    }

    /// All accumulators, a pair of columns after the other.
    fn whole_tile(&self) -> Vec<ColumnBatch> {
        let n = self.plan.tiling.wg_n;
        let groups: Vec<u32> = (0..self.plan.tiling.row_groups()).collect();
        let overlapped = self.plan.epilogue.overlapped;
        let pair = |t: u32| {
            let mut pair = self.pair(8 * t, &groups, &|group| group * n / 2 + 4 * t, &|_, _| String::new());
            if overlapped && !has_half_sums(self.plan) {
                let packs = |group: &u32| [0, 1].map(|half| Pack::new("acc", group * n / 4 + 2 * t + half));
                pair.packs.extend(groups.iter().flat_map(packs));
            }
            pair
        };
        let pairs: Vec<u32> = (0..n / 8).collect();
        let column_batches = pairs.chunks((COLUMN_BATCH / (4 * self.plan.tiling.row_groups())).max(1) as usize);
        column_batches
            .map(|pairs| ColumnBatch { offset: 8 * pairs[0], pairs: pairs.iter().map(|t| pair(*t)).collect() })
            .collect()
    }

    /// The elements of some row groups in columns `offset` and the next; `first` is a group's first accumulator there,
    /// `tile` the register of the full operand's element.
    fn pair(&self, offset: u32, groups: &[u32], first: &dyn Fn(u32) -> u32, tile: &dyn Fn(u32, u32) -> String) -> Pair {
        let program = self.fused().program;
        let mut pair = fused::pair(&self.lines, program, offset, program.reduction().is_some());
        let columns = self.collects_columns();
        pair.elements.extend(columns.into_iter().flat_map(collect::start));
        let halves = |group: u32, half: u32| (first(group) / 2 + half, ["%f_sum_low", "%f_sum_high"]);
        let is_half = has_half_sums(self.plan);
        for (&group, half, column) in elements(groups) {
            let (number, of_pair) = halves(group, half);
            let acc = if is_half {
                of_pair[column as usize].to_owned()
            } else {
                format!("%f_acc{}", first(group) + 2 * half + column)
            };
            if is_half && column == 0 {
                pair.elements.extend(unpack(Dtype::F16, &sums(self.plan).name(number), of_pair));
            }
            let tile = tile(half, column);
            let row = 2 * group + half;
            pair.elements.extend(self.lines.element(&At { acc: &acc, row, column, tile: &tile }));
            if columns.is_some() {
                pair.elements.extend(collect::element(&self.lines, (INDEX[half as usize], group), column));
            } else if let Some((total, _)) = self.lines.total(row)
                && let Some(collect) = self.lines.collect(&total, "%f_collected")
            {
                pair.elements.push(format!("@{} {collect}", ["%p_any", "%p_both"][column as usize]));
            }
            if is_half && column == 1 {
                let [low, high] = of_pair;
                pair.elements.push(format!("cvt.rn.f16x2.f32 {}, {high}, {low}", pair_of_c(self.plan, number)));
            }
        }
        pair.elements.extend(columns.into_iter().flat_map(|reduction| collect::finish(&self.lines, reduction, offset)));
        pair
    }

    /// How rows of C are collected where they are columns of the tile.
    fn collects_columns(&self) -> Option<Reduction> {
        self.fused().program.reduction().filter(|_| self.plan.view.transposed)
    }

    /// The parts of one region in a subtile: 64 rows of `region_n` columns, staged from byte `at` on.
    pub(super) fn parts(&self, staging: Staging, (group, region): (u32, u32), at: u32) -> Vec<(OperandPart, u32)> {
        let Some((_, dtype)) = self.fused().tile else { return vec![] };
        let e = &self.plan.epilogue;
        let first = (group * self.plan.tiling.wg_n + region * e.region_n) / 2;
        let pair = |t: u32, tile: &dyn Fn(u32, u32) -> String| {
            self.pair(region * e.region_n + 8 * t, &[group], &|_| first + 4 * t, tile)
        };
        let tile = |i: u32| format!("%f_tile{i}");
        if staging.is_16_bit() {
            let part = |q: u32| {
                let registers: Vec<String> = (0..4).map(|j| format!("%r_tile{j}")).collect();
                let address = staging.address_16(e, q, at);
                let mut reads = vec![format!("{} {{ {} }}, [{address}]", staging.read(), registers.join(", "))];
                for (j, register) in (0..).zip(&registers) {
                    reads.extend(unpack(dtype, register, [&tile(2 * j), &tile(2 * j + 1)]));
                }
                let pairs = [0, 1].map(|s| pair(2 * q + s, &|half, column| tile(4 * s + 2 * half + column)));
                (OperandPart { reads, pairs: pairs.to_vec() }, q)
            };
            return (0..e.region_n / 16).map(part).collect();
        }
        let part = |t: u32| {
            let reads = match staging.row_major() {
                true => [0, 1]
                    .map(|half| {
                        let to = format!("{{ {}, {} }}", tile(2 * half), tile(2 * half + 1));
                        format!("{} {to}, [{}]", staging.read(), staging.address_32_row(e, (t, half), at))
                    })
                    .to_vec(),
                false => elements(&[()])
                    .map(|(_, half, column)| {
                        let address = staging.address_32_col(e, (t, half, column), at);
                        format!("{} {}, [{address}]", staging.read(), tile(2 * half + column))
                    })
                    .collect(),
            };
            (OperandPart { reads, pairs: vec![pair(t, &|half, column| tile(2 * half + column))] }, t)
        };
        (0..e.region_n / 8).map(part).collect()
    }
}

/// Row groups and halves of them, in the order of the rows that are held.
fn rows(groups: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..groups).flat_map(|group| [0, 1].map(|half| (group, half)))
}
