//! The scores of a partial step: what the spec's function makes of a product, in units of log 2.
//!
//! What depends on the head and on the tile's rows is computed once a tile by a kernel of dQ. The steps of a kernel of dK and dV
//! are of several heads, so that it is computed in each partial step there.

use serde::Serialize;

use super::super::plan::{GradientPlan, program};
use super::probability::F32;
use super::product::{score, slope};
use super::sums::sum;
use crate::epilogue::{At, Held, Lines, Sloped};
use crate::scores::vectors::{RowsOf, Vectors};

/// What is computed for the head and the tile's rows, and for pairs of a step's.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Score {
    text: String,
    rows: Vec<String>,
    /// It depends on the column.
    has_columns: bool,
    /// It may be infinite, or no number, for zeros that are read beyond the last query.
    may_be_infinite: bool,
    pairs: Vec<Pair>,
}

/// Two neighbouring columns of a step.
#[derive(Clone, Debug, Serialize)]
struct Pair {
    first: u32,
    next: u32,
    /// Bytes to them in the values of a step's columns.
    bytes: u32,
    /// It begins a group of pairs, which is skipped where the columns end before it.
    begins_group: bool,
    columns: Vec<String>,
    elements: Vec<Element>,
}

#[derive(Clone, Debug, Serialize)]
struct Element {
    lines: Vec<String>,
    /// The register of the product, and that of dP.
    register: String,
    dp: String,
    /// Where the lines put the score, and its derivative by `s * scale` unless that is 1.
    score: String,
    slope: Option<String>,
    /// Sums of the row, and the derivatives that they are of.
    sums: Vec<[String; 2]>,
    /// 0 for the first column of the pair, 1 for the second.
    column: u32,
    /// What its exponential is taken to, and what is subtracted of its dP.
    base: String,
    delta: String,
}

impl Score {
    pub(super) fn new(plan: &GradientPlan) -> Option<Self> {
        let program = program(&plan.spec)?;
        let lines = Lines::new(program, Held { rows: 2, columns: 2 });
        let side = if plan.tiling.is_of_keys() { RowsOf::Keys } else { RowsOf::Queries };
        let vectors = Vectors::new(&lines, program, side);
        let both = |of: &dyn Fn(u32) -> Vec<String>| -> Vec<String> { [0, 1].into_iter().flat_map(of).collect() };
        // Without a branch between pairs ptxas 13.0 computes many of them at once, and spills registers.
        let has_derivative = program.is_sloped();
        let pair = |number: u32| {
            let is_first = has_derivative && number == 0 && vectors.by_column() == 0;
            let from = if is_first { vectors.remaining() } else { vec![] };
            let element = |(row, column): (u32, u32)| {
                let at = 4 * number + 2 * row + column;
                let (register, dp) = (score(at), slope(at));
                let at = At { acc: &register, row, column, tile: "" };
                let in_place =
                    || Sloped { lines: lines.element(&at), score: register.clone(), slope: None, slopes: vec![] };
                let Sloped { lines, score, slope, slopes } = lines.sloped(&at).unwrap_or_else(in_place);
                let sums = slopes.into_iter().zip(0..).map(|(slope, number)| [sum(number, row), slope]).collect();
                // Queries are rows of S and columns of S^T.
                let query = if side == RowsOf::Keys { column } else { row };
                let (base, delta) = (format!("%f_base{query}"), format!("%f_delta{query}"));
                Element { lines, register: register.clone(), dp, score, slope, sums, column, base, delta }
            };
            Pair {
                first: 8 * number,
                next: 8 * number + 1,
                bytes: 8 * F32 * number,
                begins_group: vectors.begins_group(number) || (has_derivative && number > 0),
                columns: [from, vectors.columns(number), both(&|column| lines.column(column))].concat(),
                elements: [(0, 0), (0, 1), (1, 0), (1, 1)].map(element).into(),
            }
        };
        Some(Self {
            text: plan.spec.score.map_or("", |score| score.program().text()).to_owned(),
            rows: [vectors.rows(), lines.uniform(), both(&|row| lines.row(row))].concat(),
            has_columns: !lines.column(0).is_empty(),
            may_be_infinite: !program.is_bounded(),
            pairs: (0..plan.tiling.step / 8).map(pair).collect(),
        })
    }
}
