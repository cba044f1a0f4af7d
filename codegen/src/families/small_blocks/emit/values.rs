//! The loads of a thread's values, and how they become elements that are multiplied.

use serde::Serialize;

use super::super::plan::SmallBlocksPlan;
use super::registers::{Wide, guard, value};
use crate::Dtype;

/// One of the blocks that a thread has in flight.
#[derive(Serialize)]
pub(super) struct Block {
    number: u32,
    guard: String,
    /// Blocks of the row from the first in flight to it, and bytes of their columns.
    ahead: u32,
    column_from: u32,
    hint: &'static str,
    /// What is loaded, and how it is zeroed.
    registers: Vec<String>,
    kind: &'static str,
    zero: &'static str,
    loads: Vec<Load>,
    /// Words that are taken apart, then elements that are widened.
    halves: Vec<Halves>,
    widened: Vec<Widened>,
}

#[derive(Serialize)]
struct Load {
    #[serde(flatten)]
    wide: Wide,
    from: u32,
}

/// A word of two 16-bit elements.
#[derive(Serialize)]
struct Halves {
    word: String,
    low: String,
    high: String,
}

#[derive(Serialize)]
struct Widened {
    narrow: String,
    wide: String,
    /// The f32 that a bf16 is the upper half of, on its way to an f64.
    between: String,
}

impl Block {
    pub(super) fn new(plan: &SmallBlocksPlan, number: u32) -> Self {
        let (spec, from) = (&plan.spec, number * plan.slots() * plan.spec.bm * plan.row_bytes());
        let (per_load, loads) = (plan.a_load, spec.bk / plan.a_load);
        let narrow = |k: u32| match spec.a {
            dtype if dtype == spec.acc => value(plan, number, k),
            Dtype::F32 => format!("%f_in{number}_{k}"),
            _ => format!("%h_in{number}_{k}"),
        };
        let word = |k: u32| format!("%r_in{number}_{}", k / 2);
        let in_words = spec.a.bytes() == 2 && per_load > 1;
        let (kind, zero) = match (in_words, spec.a) {
            (true, _) => ("b32", "0"),
            (false, Dtype::F64) => ("f64", "0d0000000000000000"),
            (false, Dtype::F32) => ("f32", "0f00000000"),
            (false, _) => ("b16", "0"),
        };
        let load = |i: u32| {
            let elements = i * per_load..(i + 1) * per_load;
            let registers: Vec<String> = match in_words {
                true => elements.step_by(2).map(word).collect(),
                false => elements.map(narrow).collect(),
            };
            Load { wide: Wide::new(kind, &registers), from: from + i * per_load * spec.a.bytes() }
        };
        let halves = |k: u32| Halves { word: word(k), low: narrow(k), high: narrow(k + 1) };
        let widened =
            |k: u32| Widened { narrow: narrow(k), wide: value(plan, number, k), between: format!("%f_in{number}_{k}") };
        Self {
            number,
            guard: guard(number),
            ahead: number * plan.slots(),
            column_from: number * plan.slots() * 4,
            // A line that several loads share stays in L1 until the last of them.
            hint: if loads == 1 { ".L1::no_allocate" } else { ".L1::evict_first" },
            registers: match in_words {
                true => (0..spec.bk).step_by(2).map(word).collect(),
                false => (0..spec.bk).map(narrow).collect(),
            },
            kind,
            zero,
            loads: (0..loads).map(load).collect(),
            halves: if in_words { (0..spec.bk).step_by(2).map(halves).collect() } else { vec![] },
            widened: if spec.a == spec.acc { vec![] } else { (0..spec.bk).map(widened).collect() },
        }
    }
}
