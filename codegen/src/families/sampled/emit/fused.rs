//! The spec's epilogue on the sums of a gathered tile: which elements of the stored matrix a thread has.
//!
//! A slot's columns are where its block is, so columns' vectors are addressed slot by slot. What a tile has beyond a
//! block is not stored; what a block has beyond the matrix is stored as zero, whatever the epilogue makes of it: strips of
//! elements that may lie there end in instructions that whole tiles branch over.

use serde::Serialize;

use super::super::plan::{Fused as PlannedFused, ROWS, SampledPlan, Split, WG_M};
use super::consumer::Stem;
use super::epilogue::{Write, chunk_address, pack, writes_16, writes_32};
use crate::epilogue::{At, Held, InputKind, Lines, Reduction};
use crate::hopper::SECOND;
use crate::hopper::fused::{self, Load, Pack, Pair, Vector, elements, red, unpack};

/// Columns of a strip: 16 accumulators.
const STRIP: u32 = 32;
/// A block number beyond all others.
const OUTSIDE: u32 = 1 << 30;

/// The context of the `fused_*` templates.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fused {
    text: String,
    /// Values that are the same for all of C.
    uniform: Vec<String>,
    row_vectors: Vec<Vector>,
    rows: Vec<Vec<Load>>,
    row_values: Vec<String>,
    totals: Vec<Total>,
    second: &'static str,
    /// Where sums of rows are collected, and not greatest values.
    is_sum: bool,
    tile: Option<Tile>,
    /// Rows of a tile that are rows of its blocks.
    row_bound: u32,
    /// Bytes from an item's start to the first slot's column, and from one consumer's slots to the next one's.
    columns_at: u32,
    columns_stride: u32,
    /// Rows of a block, where a tile has several block rows and it matters which of them have a block: their number.
    packed: Option<u32>,
    block_rows: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Total {
    row: u32,
    register: String,
    start: String,
    collect: String,
    red: Vec<String>,
}

/// What consumers need for the full operand.
#[derive(Clone, Debug, Serialize)]
struct Tile {
    name: String,
    symbol: String,
    offset: u32,
    /// A tile has rows that no block fills.
    clears: bool,
}

/// Elements that are computed together: up to 32 columns of one unit.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Strip {
    /// Where the slot's columns are, at a slot's first strip.
    slot: Vec<String>,
    /// Elements of the full operand.
    reads: Vec<String>,
    pairs: Vec<Pair>,
    /// Where elements go on that need no zeros.
    inside: String,
    zeros: Vec<String>,
    packs: Vec<Pack>,
    /// C in the place of the full operand.
    writes: Vec<Write>,
}

/// Makes the lines for one plan.
pub(super) struct Emitter<'p> {
    plan: &'p SampledPlan,
    fused: &'p PlannedFused,
    lines: Lines,
}

impl<'p> Emitter<'p> {
    /// None of a plan without an epilogue of its spec's.
    pub(super) fn new(plan: &'p SampledPlan) -> Option<Self> {
        let lines = |fused: &PlannedFused| Lines::new(fused.program, Held { rows: ROWS, columns: 2 });
        plan.fused.as_ref().map(|fused| Self { plan, fused, lines: lines(fused) })
    }

    pub(super) fn context(&self) -> Fused {
        let (program, plan) = (self.fused.program, self.plan);
        let row_vectors = fused::vectors(program, |kind| matches!(kind, InputKind::Rows(_)));
        let loads = |row| fused::row_loads(&self.lines, program, row);
        let stride = if plan.tiling.split == Split::Slots { 4 * plan.tiling.wg_slots() } else { 0 };
        Fused {
            text: program.text().to_owned(),
            uniform: self.lines.uniform(),
            rows: if row_vectors.is_empty() { vec![] } else { (0..ROWS).map(loads).collect() },
            row_vectors,
            row_values: (0..ROWS).flat_map(|row| fused::row_values(&self.lines, program, row)).collect(),
            totals: (0..ROWS).filter_map(|row| self.total(row)).collect(),
            second: SECOND,
            is_sum: program.reduction() == Some(Reduction::Sum),
            tile: self.fused.tile.map(|(input, _)| Tile {
                name: program.inputs()[input].name.clone(),
                symbol: program.inputs()[input].symbol.clone(),
                offset: plan.memory.tile_offset,
                clears: plan.tiling.pack * plan.epilogue.box_rows < WG_M,
            }),
            row_bound: plan.tiling.pack * plan.spec.bm,
            columns_at: plan.item.column(0),
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

    /// The strips of a tile's unit `unit`, the full operand staged from byte `at` on where there is one.
    pub(super) fn strips(&self, stem: Stem, unit: u32, at: u32) -> Vec<Strip> {
        let (e, t) = (&self.plan.epilogue, &self.plan.tiling);
        let (slot, column) = (unit / e.units_per_slot, unit % e.units_per_slot * e.unit);
        let first = (slot * t.pitch + column) / 2;
        let strip = |from: u32| {
            let columns = STRIP.min(e.unit - from);
            let first = first + from / 2;
            let pairs = 0..columns / 8;
            let pair = |pair: u32| self.pair(stem, column + from + 8 * pair, first + 4 * pair, 4 * pair);
            Strip {
                slot: if column + from == 0 { self.slot(slot) } else { vec![] },
                reads: self.reads(from / 8..(from + columns) / 8, at),
                pairs: pairs.clone().map(pair).collect(),
                inside: format!("$inside_{stem}_{first}"),
                zeros: self.zeros(stem, column + from, first, pairs),
                packs: match e.deferred || e.has_tile && self.is_16_bit() {
                    true => (first / 2..(first + columns / 2) / 2).map(|i| pack(stem, i)).collect(),
                    false => vec![],
                },
                writes: self.writes(stem, (first - from / 2, from, columns), at),
            }
        };
        (0..e.unit).step_by(STRIP as usize).map(strip).collect()
    }

    fn is_16_bit(&self) -> bool {
        self.plan.spec.out.bytes() == 2
    }

    /// Where a slot's columns are, and how many of them there are within the matrix and the block, from the first one and
    /// from this thread's first one on.
    fn slot(&self, slot: u32) -> Vec<String> {
        let of_slot = self.plan.item.stores(slot) - self.plan.item.stores(0);
        let mut lines = vec![
            format!("ld.shared.u32 %r_fused_col, [%r_fused_columns + {}]", 4 * slot),
            format!("ld.shared.u32 %r_t, [%r_fused_stores + {of_slot}]"),
            "sub.s32 %r_fused_limit, %r_n, %r_fused_col".to_owned(),
            format!("sub.s32 %r_t, {}, %r_t", self.plan.spec.bk),
            "min.s32 %r_fused_whole, %r_fused_limit, %r_t".to_owned(),
            "sub.s32 %r_fused_limit, %r_fused_whole, %r_fused_pair".to_owned(),
        ];
        let vectors = fused::vectors(self.fused.program, |kind| matches!(kind, InputKind::Cols(_)));
        if !vectors.is_empty() {
            lines.push("add.u32 %r_fused_col, %r_fused_col, %r_fused_pair".to_owned());
        }
        for Vector { symbol, pointer, bytes } in vectors {
            lines.push(format!("ld.param.u64 {pointer}, [{symbol}]"));
            lines.push(format!("cvta.to.global.u64 {pointer}, {pointer}"));
            lines.push(format!("mad.wide.u32 {pointer}, %r_fused_col, {bytes}, {pointer}"));
        }
        if self.by_row() {
            for row in 0..ROWS {
                lines.push(format!("ld.shared.u32 %r_t, [%r_fused_block{row} + {of_slot}]"));
                lines.push(format!("setp.lt.u32 %p_t, %r_t, {OUTSIDE}"));
                lines.push(format!("selp.b32 %r_fused_kept{row}, %r_fused_limit, 0, %p_t"));
            }
        }
        lines
    }

    /// The elements of two neighbouring columns, the first of them column `offset` of its slot, from accumulator `first`
    /// and element `tile` of the strip's full operand on.
    fn pair(&self, stem: Stem, offset: u32, first: u32, tile: u32) -> Pair {
        let program = self.fused.program;
        let (collects, by_row) = (program.reduction().is_some(), self.by_row());
        let mut pair = fused::pair(&self.lines, program, offset, collects && !by_row);
        let kept = |row: u32, column: u32| match by_row {
            true => format!("{}{row}", ["%p_any", "%p_both"][column as usize]),
            false => ["%p_any", "%p_both"][column as usize].to_owned(),
        };
        if by_row {
            let guard = |(_, row, column): (&(), u32, u32)| {
                format!("setp.gt.s32 {}, %r_fused_kept{row}, {}", kept(row, column), offset + column)
            };
            pair.guards.extend(elements(&[()]).map(guard));
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

    /// What lies beyond the matrix is zero, in so many eights of columns from `offset` and from accumulator `first` on.
    fn zeros(&self, stem: Stem, offset: u32, first: u32, eights: std::ops::Range<u32>) -> Vec<String> {
        let mut lines: Vec<String> =
            (0..ROWS).map(|row| format!("setp.lt.u32 %p_row{row}, %r_fused_row{row}, %r_m")).collect();
        for eight in eights {
            let (offset, first) = (offset + 8 * eight, first + 4 * eight);
            lines.push(format!("setp.gt.s32 %p_any, %r_fused_limit, {offset}"));
            lines.push(format!("setp.gt.s32 %p_both, %r_fused_limit, {}", offset + 1));
            for (_, row, column) in elements(&[()]) {
                let acc = format!("%f_{stem}{}", first + 2 * row + column);
                let column = ["%p_any", "%p_both"][column as usize];
                lines.push(format!("selp.f32 {acc}, {acc}, 0f00000000, {column}"));
                lines.push(format!("selp.f32 {acc}, {acc}, 0f00000000, %p_row{row}"));
            }
        }
        lines
    }

    /// The full operand's elements in pieces of 8 columns of a unit.
    fn reads(&self, eights: std::ops::Range<u32>, at: u32) -> Vec<String> {
        let Some((_, dtype)) = self.fused.tile else { return vec![] };
        let e = &self.plan.epilogue;
        let tile = |i: u32| format!("%f_tile{i}");
        let start = eights.start;
        if !self.is_16_bit() {
            let read = |eight: u32, half: u32| {
                let to = 4 * (eight - start) + 2 * half;
                let address = chunk_address(e, eight, at + half * 8 * e.line);
                format!("ld.shared.v2.f32 {{ {}, {} }}, [{address}]", tile(to), tile(to + 1))
            };
            return eights.flat_map(|eight| [read(eight, 0), read(eight, 1)]).collect();
        }
        let (mut reads, mut values) = (vec![], vec![]);
        for eight in eights.clone().step_by(2) {
            let count = if eight + 2 <= eights.end { 4 } else { 2 };
            let first = 2 * (eight - start);
            let registers: Vec<String> = (first..first + count).map(|j| format!("%r_tile{j}")).collect();
            let address = chunk_address(e, eight / 2, at);
            reads.push(format!(
                "ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{ {} }}, [{address}]",
                registers.join(", ")
            ));
            for (j, register) in (first..).zip(&registers) {
                values.extend(unpack(dtype, register, [&tile(2 * j), &tile(2 * j + 1)]));
            }
        }
        reads.extend(values);
        reads
    }

    /// C where the full operand was, columns `from` and on of a unit whose first accumulator is `first`.
    fn writes(&self, stem: Stem, (first, from, columns): (u32, u32, u32), at: u32) -> Vec<Write> {
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
