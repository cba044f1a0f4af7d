//! The scores of a partial step: what the spec's function makes of a product, in units of log 2. And which registers of S are
//! of which key of a step.
//!
//! Elements of vectors by head and by query are loaded once a tile, those by key in each partial step. Queries beyond the
//! last one read the last one's element, and what becomes of it is not stored; keys beyond the last one read none.

use serde::Serialize;

use super::softmax::sum;
use super::vectors::{RowsOf, Vectors};
use crate::epilogue::{At, Held, Lines, Program};
use crate::plan::AttentionTiles;

/// What is computed for a work tile, for its queries, for pairs of keys.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Score {
    text: String,
    /// The function is there: without one, a score is the product times the scale.
    has_function: bool,
    /// It depends on the key.
    has_columns: bool,
    uniform: Vec<String>,
    rows: Vec<String>,
    runs: Vec<Run>,
}

/// Keys of a step that follow each other.
#[derive(Clone, Debug, Serialize)]
struct Run {
    number: u32,
    /// Where a step joins blocks: keys from its first one to the run's, and the bits of its second word that say that the run is stored
    /// and partial.
    offset: u32,
    stored: u32,
    partial: u32,
    pairs: Vec<Pair>,
}

/// Two neighbouring keys, by their places in the run.
#[derive(Clone, Debug, Serialize)]
struct Pair {
    first: u32,
    second: u32,
    /// It begins a group of pairs, which is skipped where the keys end before it.
    begins_group: bool,
    columns: Vec<String>,
    elements: Vec<Element>,
}

#[derive(Clone, Debug, Serialize)]
struct Element {
    lines: Vec<String>,
    register: String,
    /// 0 for the first key of the pair, 1 for the second.
    key: u32,
}

impl Score {
    /// The score of steps of so many runs of so many keys. A product is first multiplied by the factor of its row, if there
    /// are any.
    pub(crate) fn new(score: Option<&'static Program>, (run, runs): (u32, u32), factors: Option<[&str; 2]>) -> Self {
        let lines = score.map(|program| Lines::new(program, Held { rows: 2, columns: 2 }));
        let vectors = lines.as_ref().zip(score).map(|(lines, program)| Vectors::new(lines, program, RowsOf::Queries));
        let loads = |make: &dyn Fn(&Vectors<'_>) -> Vec<String>| vectors.as_ref().map(make).unwrap_or_default();
        let of = |make: &dyn Fn(&Lines) -> Vec<String>| lines.as_ref().map(make).unwrap_or_default();
        let pairs = run / 8;
        let pair = |number: u32| {
            let element = |(row, key): (u32, u32)| {
                let register = sum(4 * number + 2 * row + key);
                let at = At { acc: &register, row, column: key, tile: "" };
                let product = factors.map(|of_row| format!("mul.f32 {register}, {register}, {}", of_row[row as usize]));
                let lines = product.into_iter().chain(of(&|lines| lines.element(&at))).collect();
                Element { lines, register: register.clone(), key }
            };
            Pair {
                first: 8 * (number % pairs),
                second: 8 * (number % pairs) + 1,
                begins_group: vectors.as_ref().is_some_and(|vectors| vectors.begins_group(number % pairs)),
                columns: [
                    loads(&|vectors| vectors.columns(number % pairs)),
                    of(&|lines| [0, 1].into_iter().flat_map(|column| lines.column(column)).collect()),
                ]
                .concat(),
                elements: [(0, 0), (0, 1), (1, 0), (1, 1)].map(element).into(),
            }
        };
        Self {
            text: score.map_or("s * scale", |program| program.text()).to_owned(),
            has_function: score.is_some(),
            has_columns: !of(&|lines| lines.column(0)).is_empty()
                || vectors.as_ref().is_some_and(|vectors| vectors.by_column() > 0),
            uniform: [loads(&|vectors| vectors.rows()), of(&Lines::uniform)].concat(),
            rows: of(&|lines| [0, 1].into_iter().flat_map(|row| lines.row(row)).collect()),
            runs: (0..runs)
                .map(|number| Run {
                    number,
                    offset: number * run,
                    stored: 1 << number,
                    partial: 1 << (number + AttentionTiles::MOST_JOINED),
                    pairs: (number * pairs..(number + 1) * pairs).map(pair).collect(),
                })
                .collect(),
        }
    }
}
