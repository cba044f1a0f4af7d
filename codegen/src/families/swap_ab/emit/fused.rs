//! The spec's epilogue on accumulators of the transposed C: which elements a thread has, and where its vectors' are.
//!
//! Of 64 dense columns by 8 rows of C, accumulator 2 h + c is dense column lane / 4 + 8 h of a warp's 16 and row
//! 2 (lane mod 4) + c of C. In the words of fragments, which [`fused`] and [`Lines`] speak, dense columns are the rows:
//! those of a group of 64 are held while its epilogue subtiles are stored, rows of C two at a time.

use serde::Serialize;

use super::super::plan::{Along, Fused as Plan, HELD_COLUMNS, HELD_ROWS, SwapAbPlan};
use crate::Dtype;
use crate::epilogue::{At, Held, InputKind, Lines, Reduction};
use crate::hopper::SECOND;
use crate::hopper::fused::{self, Load, Vector};

/// The context of the `fused_*` components.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fused {
    text: String,
    /// Values that are the same for all of C.
    uniform: Vec<String>,
    /// Vectors by rows of C as the kernel computes it.
    vectors: Vec<Vector>,
    /// Values that depend on 64 dense columns, if the epilogue uses any.
    columns: Option<Columns>,
    second: Option<Second>,
    tile: Option<Tile>,
}

/// What consumers need for the full operand.
#[derive(Clone, Debug, Serialize)]
struct Tile {
    name: String,
    symbol: String,
    dtype: String,
    /// Barriers of consumer 0, and bytes to those of the next.
    offset: u32,
    stride: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Columns {
    vectors: Vec<Vector>,
    loads: Vec<ColumnLoads>,
    values: Vec<String>,
}

/// The elements of vectors for one of a thread's two dense columns.
#[derive(Clone, Debug, Serialize)]
struct ColumnLoads {
    register: &'static str,
    loads: Vec<Load>,
}

/// A second result, collected along rows of C.
#[derive(Clone, Debug, Serialize)]
struct Second {
    parameter: &'static str,
    along: Along,
    /// It is a sum; else the greatest value.
    is_sum: bool,
    /// Bits in which the numbers of the lanes differ that have parts of a row of C.
    lane_bits: &'static [u32],
    totals: Vec<Total>,
}

/// A register in which a row of C is collected.
#[derive(Clone, Debug, Serialize)]
struct Total {
    register: String,
    start: String,
    /// Another lane's part joins it.
    collect: String,
    /// Where C is transposed, the dense column that is its row.
    index: &'static str,
}

/// Eight rows of C: a thread has two of them, in two dense columns.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Eight {
    /// Which rows exist, and what vectors have for them.
    pair: fused::Pair,
    elements: Vec<Element>,
    /// Rows of C that are complete with them.
    collected: Vec<Collected>,
}

/// An accumulator becomes a result; what its row collects is added where `guard` says that it exists.
#[derive(Clone, Debug, Serialize)]
struct Element {
    lines: Vec<String>,
    guard: String,
    collect: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Collected {
    total: Total,
    row: u32,
    /// Bytes to where its total is.
    offset: u32,
}

const INDEX: [&str; 2] = ["%r_fused_row0", "%r_fused_row1"];

/// Makes the lines for one plan.
pub(super) struct Emitter<'p> {
    plan: &'p SwapAbPlan,
    fused: &'p Plan,
    lines: Lines,
}

impl<'p> Emitter<'p> {
    /// None of a plan without an epilogue of its spec's.
    pub(super) fn new(plan: &'p SwapAbPlan) -> Option<Self> {
        let fused = plan.fused.as_ref()?;
        let lines = Lines::new(fused.program, Held { rows: HELD_ROWS, columns: HELD_COLUMNS });
        Some(Self { plan, fused, lines })
    }

    /// Is a full operand read?
    pub(super) fn has_tile(&self) -> bool {
        self.fused.tile.is_some()
    }

    pub(super) fn collects_along_columns(&self) -> bool {
        matches!(self.fused.second, Some((_, Along::Columns)))
    }

    pub(super) fn context(&self) -> Fused {
        let (program, memory) = (self.fused.program, &self.plan.memory);
        Fused {
            text: program.text().to_owned(),
            uniform: self.lines.uniform(),
            vectors: fused::vectors(program, |kind| matches!(kind, InputKind::Cols(_))),
            columns: self.columns(),
            second: self.second(),
            tile: self.fused.tile.map(|(input, dtype)| Tile {
                name: program.inputs()[input].name.clone(),
                symbol: program.inputs()[input].symbol.clone(),
                dtype: dtype.to_string(),
                offset: memory.tile_offset,
                stride: memory.buffers * 8,
            }),
        }
    }

    fn columns(&self) -> Option<Columns> {
        let (lines, program) = (&self.lines, self.fused.program);
        let vectors = fused::vectors(program, |kind| matches!(kind, InputKind::Rows(_)));
        let held = if vectors.is_empty() { 0 } else { HELD_ROWS };
        let load =
            |row: u32| ColumnLoads { register: INDEX[row as usize], loads: fused::row_loads(lines, program, row) };
        (!vectors.is_empty() || self.fused.second.is_some()).then(|| Columns {
            vectors,
            loads: (0..held).map(load).collect(),
            values: (0..HELD_ROWS).flat_map(|row| fused::row_values(lines, program, row)).collect(),
        })
    }

    fn second(&self) -> Option<Second> {
        let (reduction, along) = self.fused.second?;
        let lane_bits: &[u32] = if along == Along::Columns { &[1, 2] } else { &[4, 8, 16] };
        let is_sum = reduction == Reduction::Sum;
        Some(Second { parameter: SECOND, along, is_sum, lane_bits, totals: self.totals() })
    }

    fn totals(&self) -> Vec<Total> {
        let total = |(at, index)| {
            let (register, start) = self.lines.total(at)?;
            let collect = self.lines.collect(&register, "%f_other")?;
            Some(Total { register, start, collect, index })
        };
        (0..).zip(INDEX).filter_map(total).collect()
    }

    /// The sums of eight rows of C, `row` the first of them in the tile; `halves` are the registers that they come from
    /// where these are pairs of f16, `tile` those of the full operand's elements.
    pub(super) fn eight(&self, row: u32, sums: &[String], halves: Vec<String>, tile: &[String]) -> Eight {
        let pair = fused::pair(&self.lines, self.fused.program, row, self.collects_along_columns());
        let element = |at: u32| {
            let (half, c, acc, tile) = (at / 2, at % 2, &sums[at as usize], &tile[at as usize]);
            let (into, guard) = match self.collects_along_columns() {
                true => (half, if c == 0 { "%p_any".to_owned() } else { "%p_both".to_owned() }),
                false => (c, format!("%p_row{half}")),
            };
            let total = self.lines.total(into);
            let widened = halves.get(half as usize).filter(|_| c == 0);
            let both = [&sums[at as usize], &sums[at as usize | 1]].map(String::as_str);
            let mut lines = widened.map_or(vec![], |pair| fused::unpack(Dtype::F16, pair, both));
            lines.extend(self.lines.element(&At { acc, row: half, column: c, tile }));
            // Results take the place of the sums: the pair is complete with its second one.
            let narrowed = halves.get(half as usize).filter(|_| c == 1);
            lines.extend(narrowed.map(|pair| format!("cvt.rn.f16x2.f32 {pair}, {acc}, {}", sums[at as usize & 2])));
            Element { lines, guard, collect: total.and_then(|(total, _)| self.lines.collect(&total, "%f_collected")) }
        };
        Eight { pair, elements: (0..4).map(element).collect(), collected: self.collected(row) }
    }

    /// Rows `row` and `row + 1` of the tile, collected along this warp's 16 dense columns, join what all warps collect.
    fn collected(&self, row: u32) -> Vec<Collected> {
        let Some((_, Along::Rows)) = self.fused.second else { return vec![] };
        (row..).zip(self.totals()).map(|(row, total)| Collected { total, row, offset: 4 * row }).collect()
    }
}
