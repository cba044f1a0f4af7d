//! The loads of a thread's values, and how they become elements that are multiplied.

use serde::Serialize;

use super::registers::{Wide, value};
use crate::{Dtype, KernelSpec};

/// One of the blocks that a thread has in flight.
#[derive(Serialize)]
pub(super) struct Block {
    number: u32,
    guard: String,
    /// Blocks of the row from the first in flight to it, and bytes of their columns.
    ahead: u32,
    column_from: u32,
    /// The register of its address in memory.
    at: String,
    path: &'static str,
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
    /// Block `number` of a thread, `slots` blocks behind the one before it, of which the thread has a row: by loads of
    /// `per_load` elements.
    pub(super) fn new(spec: &KernelSpec, per_load: u32, slots: u32, number: u32, guard: String) -> Self {
        let (from, bytes) = (number * slots * spec.bm * spec.bk * spec.a.bytes(), spec.a.bytes());
        let at = "%rd_a_at".to_owned();
        Self {
            number,
            guard,
            ahead: number * slots,
            column_from: number * slots * 4,
            at,
            ..Self::of(spec, (spec.bk, per_load), number, |k| from + k * bytes)
        }
    }

    /// The same where the thread has a column of a block, element by element; each block has an address of its own.
    pub(super) fn of_column(spec: &KernelSpec, slots: u32, number: u32, guard: String) -> Self {
        let row_bytes = spec.bk * spec.a.bytes();
        let at = format!("%rd_a_at{number}");
        Self {
            number,
            guard,
            ahead: number * slots,
            column_from: number * slots * 4,
            at,
            ..Self::of(spec, (spec.bm, 1), number, |k| k * row_bytes)
        }
    }

    /// The same of a run of memory that neighbouring warps read: lines stay in L1 until both have read them, and leave it and L2 before
    /// those of B (PTX ISA, "cache operators": `.cs`).
    pub(super) fn streamed(self) -> Self {
        Self { path: ".cs", hint: "", ..self }
    }

    /// What a thread has of a block: so many elements, by loads of so many, each from where `from` says.
    fn of(spec: &KernelSpec, (count, per_load): (u32, u32), number: u32, from: impl Fn(u32) -> u32) -> Self {
        let loads = count / per_load;
        let narrow = |k: u32| match spec.a {
            dtype if dtype == spec.acc => value(spec, number, k),
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
            Load { wide: Wide::new(kind, &registers), from: from(i * per_load) }
        };
        let halves = |k: u32| Halves { word: word(k), low: narrow(k), high: narrow(k + 1) };
        let widened =
            |k: u32| Widened { narrow: narrow(k), wide: value(spec, number, k), between: format!("%f_in{number}_{k}") };
        Self {
            number,
            guard: String::new(),
            ahead: 0,
            column_from: 0,
            at: String::new(),
            // A line that several loads share stays in L1 until the last of them.
            path: ".nc",
            hint: if loads == 1 { ".L1::no_allocate" } else { ".L1::evict_first" },
            registers: match in_words {
                true => (0..count).step_by(2).map(word).collect(),
                false => (0..count).map(narrow).collect(),
            },
            kind,
            zero,
            loads: (0..loads).map(load).collect(),
            halves: if in_words { (0..count).step_by(2).map(halves).collect() } else { vec![] },
            widened: if spec.a == spec.acc { vec![] } else { (0..count).map(widened).collect() },
        }
    }
}
