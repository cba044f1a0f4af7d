//! The spec's epilogue on accumulators of the transposed C: which elements a thread has, and where its vectors' are.
//!
//! Of 64 dense columns by 8 rows of C, accumulator 2 h + c is dense column lane / 4 + 8 h of a warp's 16 and row
//! 2 (lane mod 4) + c of C. In the words of fragments, which [`fused`] and [`Lines`] speak, dense columns are the rows:
//! those of a group of 64 are held while its passes are stored, rows of C two at a time.

use serde::Serialize;

use super::super::plan::{Along, HELD_COLUMNS, HELD_ROWS, SwapAbPlan};
use super::store::{Staging, Write, accumulated};
use crate::epilogue::{At, Held, InputKind, Lines, Reduction};
use crate::hopper::SECOND;
use crate::hopper::fused::{self, Load, STRIP, Vector, red, unpack};
use crate::hopper::store::Pack;

/// The context of the `fused_*` templates.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fused {
    text: String,
    /// Values that are the same for all of C.
    uniform: Vec<String>,
    /// Vectors by rows of C as the kernel computes it.
    vectors: Vec<Vector>,
    second: Option<&'static str>,
    /// Rows of C lie along dense columns, and each eight of them is collected when it is complete.
    by_eights: bool,
    tile: Option<Tile>,
}

/// What consumers need for the full operand.
#[derive(Clone, Debug, Serialize)]
struct Tile {
    name: String,
    symbol: String,
    /// Barriers of consumer 0, and bytes to those of the next.
    offset: u32,
    stride: u32,
    /// Bytes of a pass.
    bytes: u32,
}

/// Before the first pass of 64 dense columns: what these determine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Group {
    offset: u32,
    vectors: Vec<Vector>,
    rows: Vec<Row>,
    values: Vec<String>,
    /// Each row of C that lies across is begun.
    starts: Vec<String>,
    /// Conditions that a dense column exists.
    guards: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    index: &'static str,
    loads: Vec<Load>,
}

/// After its last pass: what was collected along them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Total {
    index: &'static str,
    /// Over the four lanes of a dense column.
    lanes: Vec<String>,
    red: Vec<String>,
}

/// Some accumulators that become results.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Strip {
    /// A branch keeps ptxas from scheduling it together with those before it.
    is_apart: bool,
    lines: Vec<String>,
}

/// A piece of the full operand and the part of C that takes its place.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Piece {
    strip: Strip,
    packs: Vec<Pack>,
    writes: Vec<Write>,
}

const INDEX: [&str; 2] = ["%r_fused_row0", "%r_fused_row1"];
/// Accumulators of eight rows of C.
const EIGHT: u32 = 4;

/// Makes the lines for one plan.
pub(super) struct Emitter<'p> {
    plan: &'p SwapAbPlan,
    fused: &'p super::super::plan::Fused,
    lines: Lines,
}

impl<'p> Emitter<'p> {
    /// None of a plan without an epilogue of its spec's.
    pub(super) fn new(plan: &'p SwapAbPlan) -> Option<Self> {
        let fused = plan.fused.as_ref()?;
        let lines = Lines::new(fused.program, Held { rows: HELD_ROWS, columns: HELD_COLUMNS });
        Some(Self { plan, fused, lines })
    }

    pub(super) fn has_tile(&self) -> bool {
        self.fused.tile.is_some()
    }

    pub(super) fn context(&self) -> Fused {
        let (program, memory) = (self.fused.program, &self.plan.memory);
        Fused {
            text: program.text().to_owned(),
            uniform: self.lines.uniform(),
            vectors: fused::vectors(program, |kind| matches!(kind, InputKind::Cols(_))),
            second: self.fused.second.map(|_| SECOND),
            by_eights: self.collects(Along::Rows).is_some(),
            tile: self.fused.tile.map(|(input, _)| Tile {
                name: program.inputs()[input].name.clone(),
                symbol: program.inputs()[input].symbol.clone(),
                offset: memory.tile_offset,
                stride: memory.buffers * 8,
                bytes: self.plan.store.bytes,
            }),
        }
    }

    fn collects(&self, along: Along) -> Option<Reduction> {
        self.fused.second.filter(|(_, of)| *of == along).map(|(reduction, _)| reduction)
    }

    /// What 64 dense columns determine, where the epilogue asks for it.
    pub(super) fn group(&self, group: u32) -> Option<Group> {
        let (lines, program) = (&self.lines, self.fused.program);
        let (across, along) = (self.collects(Along::Columns), self.collects(Along::Rows));
        let found = fused::vectors(program, |kind| matches!(kind, InputKind::Rows(_)));
        let asked = !found.is_empty() || across.is_some() || along.is_some();
        asked.then(|| Group {
            offset: group * 64,
            rows: match found.is_empty() {
                true => vec![],
                false => (0..HELD_ROWS)
                    .map(|row| Row { index: INDEX[row as usize], loads: fused::row_loads(lines, program, row) })
                    .collect(),
            },
            vectors: found,
            values: (0..HELD_ROWS).flat_map(|row| fused::row_values(lines, program, row)).collect(),
            starts: across.map_or(vec![], |_| self.starts()),
            guards: match along {
                Some(_) => [0, 1].map(|row| format!("setp.lt.u32 %p_row{row}, {}, %r_n", INDEX[row])).to_vec(),
                None => vec![],
            },
        })
    }

    /// Both totals begin.
    fn starts(&self) -> Vec<String> {
        (0..2).filter_map(|at| self.lines.total(at)).map(|(total, start)| format!("mov.f32 {total}, {start}")).collect()
    }

    /// What the rows of C that lie across were collected to.
    pub(super) fn totals(&self) -> Vec<Total> {
        let Some(reduction) = self.collects(Along::Columns) else { return vec![] };
        let total = |row: u32| {
            let (total, _) = self.lines.total(row)?;
            let lanes = self.over_lanes(&total, &[1, 2]);
            Some(Total { index: INDEX[row as usize], red: red(reduction, &total, "%rd_t"), lanes })
        };
        (0..HELD_ROWS).filter_map(total).collect()
    }

    /// `total` over lanes whose numbers differ in these bits.
    fn over_lanes(&self, total: &str, bits: &[u32]) -> Vec<String> {
        let step = |bit: &u32| {
            let collect = self.lines.collect(total, "%f_other").unwrap_or_default();
            [format!("shfl.sync.bfly.b32 %f_other, {total}, {bit}, 31, 0xffffffff"), collect]
        };
        bits.iter().flat_map(step).collect()
    }

    /// The accumulators of eight rows of C at a time, as `(row, first accumulator)`, a strip after the other; `is_first` of
    /// a tile's first pass.
    pub(super) fn strips(&self, is_first: bool, eights: &[(u32, u32)]) -> Vec<Strip> {
        let strips = eights.chunks((STRIP / EIGHT) as usize).enumerate();
        strips
            .map(|(at, eights)| Strip {
                is_apart: at > 0 || !is_first,
                lines: eights.iter().flat_map(|eight| self.eight(*eight, &|_, _| String::new())).collect(),
            })
            .collect()
    }

    /// The pieces of a pass that is staged from byte `buffer` on.
    pub(super) fn pieces(&self, staging: Staging, eights: &[(u32, u32)], buffer: u32) -> Vec<Piece> {
        let Some((_, dtype)) = self.fused.tile else { return vec![] };
        let per = staging.eights_of_a_piece();
        let tile = |i: u32| format!("%f_tile{i}");
        let piece = |(at, part): (usize, &[(u32, u32)])| {
            let mut lines = vec![];
            let registers: Vec<String> = (0..2 * part.len()).map(|j| format!("%r_tile{j}")).collect();
            let values: Vec<String> = (0..EIGHT * part.len() as u32).map(tile).collect();
            lines.extend(staging.reads(self.plan, (at, part.len()), buffer, &registers, &values));
            if staging.is_16_bit() {
                for (register, pair) in registers.iter().zip(values.chunks(2)) {
                    lines.extend(unpack(dtype, register, [&pair[0], &pair[1]]));
                }
            }
            for (number, eight) in (0..).zip(part) {
                lines.extend(self.eight(*eight, &|half, row| tile(EIGHT * number + 2 * half + row)));
            }
            let strip = (STRIP / EIGHT) as usize / per;
            Piece {
                strip: Strip { is_apart: at > 0 && at.is_multiple_of(strip), lines },
                packs: staging.packs(at * per, part),
                writes: staging.writes(self.plan, (at, part), buffer),
            }
        };
        eights.chunks(per).enumerate().map(piece).collect()
    }

    /// Eight rows of C, `row` the first of them in the tile; `tile` is the register of the full operand's element.
    fn eight(&self, (row, first): (u32, u32), tile: &dyn Fn(u32, u32) -> String) -> Vec<String> {
        let (along, across) = (self.collects(Along::Rows), self.collects(Along::Columns));
        let pair = fused::pair(&self.lines, self.fused.program, row, across.is_some());
        let mut lines: Vec<String> = pair.before().collect();
        lines.extend(along.map_or(vec![], |_| self.starts()));
        for (half, c) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (acc, tile) = (accumulated(first + 2 * half + c), tile(half, c));
            lines.extend(self.lines.element(&At { acc: &acc, row: half, column: c, tile: &tile }));
            let (into, guard) = match self.fused.second {
                None => continue,
                Some((_, Along::Rows)) => (c, format!("%p_row{half}")),
                Some((_, Along::Columns)) => (half, ["%p_any", "%p_both"][c as usize].to_owned()),
            };
            let collect = self.lines.total(into).and_then(|(total, _)| self.lines.collect(&total, "%f_collected"));
            lines.extend(collect.map(|collect| format!("@{guard} {collect}")));
        }
        if let Some(reduction) = along {
            lines.extend((0..2).flat_map(|c| self.eight_total(reduction, row, c)));
        }
        lines
    }

    /// Row `row + c` of the tile, collected along this warp's 16 dense columns: over the eight lanes that have it, and on
    /// to where all warps collect it.
    fn eight_total(&self, reduction: Reduction, row: u32, c: u32) -> Vec<String> {
        let Some((total, _)) = self.lines.total(c) else { return vec![] };
        let mut lines = self.over_lanes(&total, &[4, 8, 16]);
        lines.push(format!("setp.gt.and.s32 %p_t, %r_fused_limit, {}, %p_eighth", row + c));
        lines.extend(red(reduction, &total, &format!("%rd_second + {}", 4 * (row + c))));
        lines
    }
}
