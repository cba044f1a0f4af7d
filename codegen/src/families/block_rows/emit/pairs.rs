//! The producer of tiles of several blocks of C, each the product of two sparse factors: the records that it reads, and
//! the loads of a stage.

use serde::Serialize;

use super::super::plan::BlockRowsPlan;
use super::step::Step;
use super::stored::{self, ColumnBox};
use crate::hopper::tma::{Load, Offset, constant, offset};
use crate::plan::{Major, SharedPairs};

/// What such a kernel's producer names.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Pairs {
    /// Bytes of a record, and its words.
    bytes: u32,
    words: Vec<Word>,
    /// The register of the word that says which blocks are multiplied, and its bits of block rows and of block columns.
    mask: String,
    rows: u32,
    columns: u32,
    blocks: Vec<Block>,
    steps: Vec<Step>,
}

/// A word of a record: the registers of the batch that is loaded and of the one before it, its place in bytes.
#[derive(Clone, Debug, Serialize)]
struct Word {
    ahead: String,
    now: String,
    at: u32,
}

/// A block of either factor that a record may have.
#[derive(Clone, Debug, Serialize)]
struct Block {
    /// The register of its number, that of its first line in the tensor map, and lines of a block there.
    number: String,
    at: String,
    lines: u32,
    bit: u32,
    /// The predicate of its loads.
    lead: &'static str,
}

impl Pairs {
    pub(super) fn new(plan: &BlockRowsPlan) -> Option<Self> {
        let form = plan.shared_pairs()?;
        let now = |word: u32| format!("%r_now{word}");
        let word = |word: u32| Word { ahead: format!("%r_ahead{word}"), now: now(word), at: 4 * word };
        let of_a = |row: u32| Block {
            number: now(1 + row),
            at: format!("%r_a_row{row}"),
            lines: plan.view.rows / plan.a.rows_per_line,
            bit: 1 << row,
            lead: LEAD_A[row as usize],
        };
        let (name, lines) = stored::lines(plan);
        let of_b = |column: u32| Block {
            number: now(1 + form.rows + column),
            at: format!("{name}{column}"),
            lines,
            bit: 1 << (SharedPairs::COLUMN_BIT + column),
            lead: LEAD_B[column as usize],
        };
        Some(Self {
            bytes: 4 * form.record(),
            words: (0..form.record()).map(word).collect(),
            mask: now(0),
            rows: (1 << form.rows) - 1,
            columns: ((1 << form.columns) - 1) << SharedPairs::COLUMN_BIT,
            blocks: (0..form.rows).map(of_a).chain((0..form.columns).map(of_b)).collect(),
            steps: Step::all(plan, form.columns, |step| {
                let of_b = match plan.b.major {
                    Major::K => columns_of_b(plan, step),
                    Major::Mn => rows_of_b(plan, &form, step),
                };
                loads_a(plan, &form, step).chain(of_b).collect()
            }),
        })
    }
}

/// The predicates of loads of blocks of A, by their block rows, and of blocks of B, by their block columns.
const LEAD_A: [&str; 4] = ["%p_lead_a0", "%p_lead_a1", "%p_lead_a2", "%p_lead_a3"];
const LEAD_B: [&str; 4] = ["%p_lead_b0", "%p_lead_b1", "%p_lead_b2", "%p_lead_b3"];

fn loads_a<'p>(plan: &'p BlockRowsPlan, form: &SharedPairs, step: u32) -> impl Iterator<Item = Load> + use<'p> {
    let (a, rows) = (&plan.a, plan.a.rows / form.rows);
    (0..form.rows).flat_map(move |row| {
        (0..a.loads.0).map(move |panel| {
            let mut offsets = vec![];
            let at = panel * a.panel_bytes() + row * rows * a.span;
            let destination = offset("%r_stage_at", at, "%r_box_at", &mut offsets);
            let k = step * plan.kloop.k_step + panel * a.span_elements();
            let inner = constant(k, "%r_inner", &mut offsets);
            load("%rd_map_a", (destination, format!("{inner}, %r_a_row{row}")), LEAD_A[row as usize], offsets)
        })
    })
}

/// The blocks of B that are stored row by row.
fn rows_of_b(plan: &BlockRowsPlan, form: &SharedPairs, step: u32) -> Vec<Load> {
    let (b, width, k_start) =
        (&plan.b, plan.b.panels * plan.b.span_elements() / form.columns, step * plan.kloop.k_step);
    let parts = b.parts(plan.kloop.width(step));
    let load = |(panel, part): (u32, u32)| {
        let (column, inner) = (panel * b.span_elements() / width, panel * b.span_elements() % width);
        let mut offsets = vec![];
        let at = plan.memory.b_offset + panel * b.panel_bytes() + part * b.box_rows * b.span;
        let destination = offset("%r_stage_at", at, "%r_box_at", &mut offsets);
        let inner = constant(inner, "%r_inner", &mut offsets);
        let k = offset(&format!("%r_b_k{column}"), k_start + part * b.box_rows, "%r_outer", &mut offsets);
        load("%rd_map_b", (destination, format!("{inner}, {k}")), LEAD_B[column as usize], offsets)
    };
    (0..b.loads.0).flat_map(|panel| (0..parts).map(move |part| (panel, part))).map(load).collect()
}

/// Those that are stored column by column.
fn columns_of_b(plan: &BlockRowsPlan, step: u32) -> Vec<Load> {
    let (name, width) = stored::lines(plan);
    let load = |part: ColumnBox| {
        let (block, within) = (part.column / width, part.column % width);
        let mut offsets = vec![];
        let destination = offset("%r_stage_at", plan.memory.b_offset + part.at, "%r_box_at", &mut offsets);
        let coordinates = part.coordinates(&format!("{name}{block}"), within, &mut offsets);
        load("%rd_map_b", (destination, coordinates), LEAD_B[block as usize], offsets)
    };
    stored::boxes(plan, step).map(load).collect()
}

fn load(
    map: &str,
    (destination, coordinates): (String, String),
    predicate: &'static str,
    offsets: Vec<Offset>,
) -> Load {
    Load {
        offsets,
        predicate,
        destination,
        map: map.to_owned(),
        rank: 2,
        coordinates,
        mask: None,
        is_reused: map == "%rd_map_a",
    }
}
