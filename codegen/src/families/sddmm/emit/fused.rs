//! The spec's epilogue on the sums of a gathered tile: which elements of the stored matrix a thread has.
//!
//! A B panel's columns are where its block is, so columns' vectors are addressed panel by panel. What a tile has beyond a
//! block is not stored; what a block has beyond the matrix is stored as zero, whatever the epilogue makes of it: batches of columns of
//! elements that may be there end in instructions that whole tiles branch over.

use serde::Serialize;

use super::super::plan::{Fused as PlannedFused, ROWS, SddmmPlan, Split, WG_M};
use super::staging::{vector_address, writes_16, writes_32};
use crate::TileScheduler;
use crate::epilogue::{At, Held, InputKind, Lines, Reduction};
use crate::hopper::SECOND;
use crate::hopper::fused::{self, FullOperand, Kept, Load, Pair, Vector, elements, red, unpack};
use crate::hopper::store::{Pack, Write};

/// Columns of a batch of columns: 16 accumulators.
const COLUMN_BATCH: u32 = 32;

/// The context of the `fused_*` templates.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fused {
    text: String,
    /// Values that are the same for all of C.
    uniform: Vec<String>,
    row_vectors: Vec<Vector>,
    rows: Vec<Row>,
    row_values: Vec<String>,
    totals: Vec<Total>,
    second: &'static str,
    /// Where sums of rows are collected, and not greatest values.
    is_sum: bool,
    operand: Option<FullOperand>,
    /// Rows of a tile that are rows of its blocks.
    row_bound: u32,
    /// Bytes from a work tile's start to the first B panel's column, and from one consumer's B panels to the next one's.
    columns_at: u32,
    columns_stride: u32,
    /// Rows of a block, where a tile has several block rows and it matters which of them have a block: their number.
    packed: Option<u32>,
    block_rows: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    register: String,
    loads: Vec<Load>,
}

#[derive(Clone, Debug, Serialize)]
struct Total {
    row: u32,
    register: String,
    start: String,
    collect: String,
    red: Vec<String>,
}

/// Elements that are computed together: up to 32 columns of one unit.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ColumnBatch {
    /// Where the B panel's columns are, at a panel's first batch of columns.
    panel: Option<Panel>,
    /// Elements of the full operand, and what makes f32 of them.
    reads: Vec<Read>,
    values: Vec<String>,
    pairs: Vec<Pair>,
    /// Where elements go on that need no zeros.
    inside: String,
    zeros: Vec<Zeros>,
    packs: Vec<Pack>,
    /// C in the place of the full operand.
    writes: Vec<Write>,
}

/// Where a B panel's columns are, and how many of them there are within the matrix and the block.
#[derive(Clone, Debug, Serialize)]
struct Panel {
    /// Bytes to its column, and to what its stores need.
    column_at: u32,
    stores_at: u32,
    block_columns: u32,
    vectors: Vec<Vector>,
    /// Rows whose own block it depends on whether they collect.
    rows: Vec<u32>,
    outside: u32,
}

/// A read of the staging buffer.
#[derive(Clone, Debug, Serialize)]
struct Read {
    instruction: String,
    registers: String,
    address: String,
}

/// Two columns whose elements beyond the matrix become zero.
#[derive(Clone, Debug, Serialize)]
struct Zeros {
    first: u32,
    second: u32,
    elements: Vec<Zero>,
}

#[derive(Clone, Debug, Serialize)]
struct Zero {
    register: String,
    column: &'static str,
    row: u32,
}

/// The conditions that the first and the second of two columns exist.
const COLUMNS: [&str; 2] = ["%p_any", "%p_both"];

/// Makes the lines for one plan.
pub(super) struct Emitter<'p> {
    plan: &'p SddmmPlan,
    fused: &'p PlannedFused,
    lines: Lines,
}

impl<'p> Emitter<'p> {
    /// None of a plan without an epilogue of its spec's.
    pub(super) fn new(plan: &'p SddmmPlan) -> Option<Self> {
        let lines = |fused: &PlannedFused| Lines::new(fused.program, Held { rows: ROWS, columns: 2 });
        plan.fused.as_ref().map(|fused| Self { plan, fused, lines: lines(fused) })
    }

    pub(super) fn context(&self) -> Fused {
        let (program, plan) = (self.fused.program, self.plan);
        let row_vectors = fused::vectors(program, |kind| matches!(kind, InputKind::Rows(_)));
        let row =
            |row| Row { register: format!("%r_fused_row{row}"), loads: fused::row_loads(&self.lines, program, row) };
        let stride = if plan.tiling.split == Split::Panels { 4 * plan.tiling.wg_panels() } else { 0 };
        Fused {
            text: program.text().to_owned(),
            uniform: self.lines.uniform(),
            rows: if row_vectors.is_empty() { vec![] } else { (0..ROWS).map(row).collect() },
            row_vectors,
            row_values: (0..ROWS).flat_map(|row| fused::row_values(&self.lines, program, row)).collect(),
            totals: (0..ROWS).filter_map(|row| self.total(row)).collect(),
            second: SECOND,
            is_sum: program.reduction() == Some(Reduction::Sum),
            operand: self.fused.tile.map(|(input, _)| FullOperand {
                clears: plan.tiling.pack * plan.epilogue.box_rows < WG_M,
                ..FullOperand::new(program, input, plan.memory.tile_offset)
            }),
            row_bound: plan.tiling.pack * plan.spec.bm,
            columns_at: plan.work_tile.column(0),
            columns_stride: stride,
            packed: self.by_row().then_some(plan.tiling.pack),
            block_rows: plan.spec.bm,
        }
    }

    /// Which rows collect depends on the block.
    fn by_row(&self) -> bool {
        self.plan.tiling.pack > 1 && self.fused.program.reduction().is_some()
    }

    fn total(&self, row: u32) -> Option<Total> {
        let (register, start) = self.lines.total(row)?;
        let collect = self.lines.collect(&register, "%f_other")?;
        let red = red(self.fused.program.reduction()?, &register, "%rd_t");
        Some(Total { row, register, start, collect, red })
    }

    /// The batches of columns of a tile's unit `unit`, the full operand staged from byte `at` on where there is one.
    pub(super) fn column_batches(&self, stem: &'static str, unit: u32, at: u32) -> Vec<ColumnBatch> {
        let (e, t) = (&self.plan.epilogue, &self.plan.tiling);
        let (panel, column) = (unit / e.units_per_panel, unit % e.units_per_panel * e.unit);
        let first = (panel * t.pitch + column) / 2;
        let column_batch = |from: u32| {
            let columns = COLUMN_BATCH.min(e.unit - from);
            let first = first + from / 2;
            let pairs = 0..columns / 8;
            let (reads, values) = self.reads(from / 8..(from + columns) / 8, at);
            let pair = |pair: u32| self.pair(stem, column + from + 8 * pair, first + 4 * pair, 4 * pair);
            ColumnBatch {
                panel: (column + from == 0).then(|| self.panel(panel)),
                reads,
                values,
                pairs: pairs.clone().map(pair).collect(),
                inside: format!("$inside_{stem}_{first}"),
                zeros: Self::zeros(stem, column + from, first, pairs),
                packs: match e.overlapped || e.has_tile && self.is_16_bit() {
                    true => (first / 2..(first + columns / 2) / 2).map(|i| Pack::new(stem, i)).collect(),
                    false => vec![],
                },
                writes: self.writes(stem, (first - from / 2, from, columns), at),
            }
        };
        (0..e.unit).step_by(COLUMN_BATCH as usize).map(column_batch).collect()
    }

    fn is_16_bit(&self) -> bool {
        self.plan.spec.out.bytes() == 2
    }

    fn panel(&self, panel: u32) -> Panel {
        Panel {
            column_at: 4 * panel,
            stores_at: self.plan.work_tile.stores(panel) - self.plan.work_tile.stores(0),
            block_columns: self.plan.spec.bk,
            vectors: fused::vectors(self.fused.program, |kind| matches!(kind, InputKind::Cols(_))),
            rows: if self.by_row() { (0..ROWS).collect() } else { vec![] },
            outside: TileScheduler::OUTSIDE,
        }
    }

    /// The elements of two neighbouring columns, the first of them column `offset` of its panel, from accumulator `first`
    /// and element `tile` of the full operand's batch of columns on.
    fn pair(&self, stem: &'static str, offset: u32, first: u32, tile: u32) -> Pair {
        let program = self.fused.program;
        let (collects, by_row) = (program.reduction().is_some(), self.by_row());
        let mut pair = fused::pair(&self.lines, program, offset, collects && !by_row);
        let kept = |row: u32, column: u32| match by_row {
            true => format!("{}{row}", COLUMNS[column as usize]),
            false => COLUMNS[column as usize].to_owned(),
        };
        if by_row {
            pair.kept.extend(elements(&[()]).map(|(_, row, column)| Kept {
                predicate: kept(row, column),
                limit: format!("%r_fused_kept{row}"),
                column: offset + column,
            }));
        }
        for (_, row, column) in elements(&[()]) {
            let at = 2 * row + column;
            let (acc, tile) = (format!("%f_{stem}{}", first + at), format!("%f_tile{}", tile + at));
            pair.elements.extend(self.lines.element(&At { acc: &acc, row, column, tile: &tile }));
            if let Some((total, _)) = self.lines.total(row)
                && let Some(collect) = self.lines.collect(&total, "%f_collected")
            {
                pair.elements.push(format!("@{} {collect}", kept(row, column)));
            }
        }
        pair
    }

    /// Elements beyond the matrix become zero, in groups of 8 columns from `offset` and from accumulator `first` on.
    fn zeros(stem: &'static str, offset: u32, first: u32, eights: std::ops::Range<u32>) -> Vec<Zeros> {
        let zeros = |eight: u32| {
            let (offset, first) = (offset + 8 * eight, first + 4 * eight);
            let zero = |(_, row, column): (&(), u32, u32)| Zero {
                register: format!("%f_{stem}{}", first + 2 * row + column),
                column: COLUMNS[column as usize],
                row,
            };
            Zeros { first: offset, second: offset + 1, elements: elements(&[()]).map(zero).collect() }
        };
        eights.map(zeros).collect()
    }

    /// The full operand's elements in groups of 8 columns of a unit, and what makes f32 of 16-bit ones.
    fn reads(&self, eights: std::ops::Range<u32>, at: u32) -> (Vec<Read>, Vec<String>) {
        let Some((_, dtype)) = self.fused.tile else { return (vec![], vec![]) };
        let e = &self.plan.epilogue;
        let tile = |i: u32| format!("%f_tile{i}");
        let start = eights.start;
        if !self.is_16_bit() {
            let read = |eight: u32, half: u32| {
                let to = 4 * (eight - start) + 2 * half;
                Read {
                    instruction: "ld.shared.v2.f32".to_owned(),
                    registers: format!("{}, {}", tile(to), tile(to + 1)),
                    address: vector_address(e, eight, at + half * 8 * e.line),
                }
            };
            return (eights.flat_map(|eight| [read(eight, 0), read(eight, 1)]).collect(), vec![]);
        }
        let (mut reads, mut values) = (vec![], vec![]);
        for eight in eights.clone().step_by(2) {
            let count = if eight + 2 <= eights.end { 4 } else { 2 };
            let first = 2 * (eight - start);
            let registers: Vec<String> = (first..first + count).map(|j| format!("%r_tile{j}")).collect();
            for (j, register) in (first..).zip(&registers) {
                values.extend(unpack(dtype, register, [&tile(2 * j), &tile(2 * j + 1)]));
            }
            reads.push(Read {
                instruction: format!("ldmatrix.sync.aligned.m8n8.x{count}.shared.b16"),
                registers: registers.join(", "),
                address: vector_address(e, eight / 2, at),
            });
        }
        (reads, values)
    }

    /// C where the full operand was, columns `from` and on of a unit whose first accumulator is `first`.
    fn writes(&self, stem: &'static str, (first, from, columns): (u32, u32, u32), at: u32) -> Vec<Write> {
        let e = &self.plan.epilogue;
        if !e.has_tile {
            return vec![];
        }
        let (writes, each) = match self.is_16_bit() {
            true => (writes_16(e, first / 2, at), 16),
            false => (writes_32(self.plan, stem, first, at), 4),
        };
        let (skip, count) = ((from / each) as usize, columns.div_ceil(each) as usize);
        writes.into_iter().skip(skip).take(count).collect()
    }
}
