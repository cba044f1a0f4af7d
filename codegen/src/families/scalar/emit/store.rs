//! From accumulators to C, up to 16 bytes at a time where the tile lies inside of C.

use serde::Serialize;

use super::super::plan::ScalarPlan;
use super::element;
use super::place::offset;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Store {
    rows: Vec<Row>,
    element: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    add: Option<String>,
    index: String,
    pieces: Vec<Piece>,
    elements: Vec<Element>,
}

/// Neighbouring columns in one store.
#[derive(Clone, Debug, Serialize)]
struct Piece {
    rounding: Vec<String>,
    /// `st.global.v4.b32` and the registers.
    instruction: String,
    registers: String,
    to: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Element {
    add: Option<String>,
    index: String,
    rounding: Vec<String>,
    register: String,
    to: u32,
}

impl Store {
    /// For threads whose columns come in runs of `run`, `lanes_n` runs apart.
    pub(super) fn new(plan: &ScalarPlan, run: u32) -> Self {
        let row = |i: u32| {
            let (add, index) = offset("%r_out_row", i);
            let elements = (0..plan.tile.thread_n).map(|j| element(plan, run, i, j)).collect();
            Row { add, index, pieces: pieces(plan, run, i), elements }
        };
        Self {
            rows: (0..plan.tile.thread_m).map(row).collect(),
            element: if plan.spec.out.bytes() == 4 { "st.global.f32" } else { "st.global.b16" },
        }
    }
}

/// Column `j` of a thread, counted from its first one.
fn column(plan: &ScalarPlan, run: u32, j: u32) -> u32 {
    j / run * run * plan.tile.lanes_n + j % run
}

fn accumulator(plan: &ScalarPlan, i: u32, j: u32) -> String {
    format!("%f_acc{}", i * plan.tile.thread_n + j)
}

fn pieces(plan: &ScalarPlan, run: u32, i: u32) -> Vec<Piece> {
    let bytes = plan.spec.out.bytes();
    let width = run.min(16 / bytes);
    let piece = |first: u32| {
        let (mut rounding, mut registers) = (vec![], vec![]);
        if bytes == 4 {
            registers.extend((first..first + width).map(|j| accumulator(plan, i, j)));
        } else {
            for (pair, j) in (first..first + width).step_by(2).enumerate() {
                let both = (accumulator(plan, i, j), accumulator(plan, i, j + 1));
                let to = format!("%r_pack{pair}");
                rounding.extend(element::round_pair(plan.spec.out, &plan.arch, (&both.0, &both.1), &to));
                registers.push(to);
            }
        }
        Piece {
            rounding,
            instruction: format!("st.global.v{}.b32", registers.len()),
            registers: registers.join(", "),
            to: column(plan, run, first) * bytes,
        }
    };
    (0..plan.tile.thread_n).step_by(width as usize).map(piece).collect()
}

fn element(plan: &ScalarPlan, run: u32, i: u32, j: u32) -> Element {
    let (rounding, register) = element::round(plan.spec.out, &plan.arch, &accumulator(plan, i, j));
    let column = column(plan, run, j);
    let (add, index) = offset("%r_out_col", column);
    Element { add, index, rounding, register, to: column * plan.spec.out.bytes() }
}
