//! Fragments and stores of f64.

use serde::Serialize;

use super::super::plan::{Operand, VECTOR_BYTES, WarpPlan, doubles};
use super::operands::{Address, Fragments, Load, accumulator, address, register, tuple};
use crate::Layout;

/// Lines of C that threads 4 g of a warp have, and elements that a thread has of two of them.
const LINES: u32 = 8;
/// Bytes of f64.
const BYTES: u32 = 8;
/// Bytes of K from one whole fragment to the next.
const DEPTH_BYTES: u32 = doubles::DEPTH * BYTES;

/// The epilogue's part of the context: the lines of C of a thread, from the first one.
#[derive(Serialize)]
pub(super) struct Store {
    /// Of a row-major C.
    rows: Vec<Line<Pair>>,
    /// Of a column-major C.
    columns: Vec<Line<One>>,
}

#[derive(Serialize)]
struct Line<T> {
    /// Lines from the thread's first.
    number: u32,
    /// What leads to the next line; nothing at the last one.
    advance: &'static str,
    stores: Vec<T>,
}

/// Two neighbouring columns of a row.
#[derive(Serialize)]
struct Pair {
    /// The second of them, from the thread's first column.
    last: u32,
    sums: [String; 2],
    to: String,
}

#[derive(Serialize)]
struct One {
    /// Rows from the thread's first.
    row: u32,
    sum: String,
    to: String,
}

impl Store {
    pub(super) fn new(plan: &WarpPlan) -> Self {
        let (rows, columns) = (plan.tiling.warp_m / LINES, plan.tiling.warp_n / LINES);
        let place = |line: u32| address("%rd_to", LINES * line * BYTES);
        let pair = |row, column| Pair {
            last: LINES * column + 1,
            sums: [0, 1].map(|second| sum(plan, row, column, second)),
            to: place(column),
        };
        let one = |row, column, second| One { row: LINES * row, sum: sum(plan, row, column, second), to: place(row) };
        let row = |row| Line {
            number: LINES * row,
            advance: if row + 1 < rows { "%rd_c_pass" } else { "" },
            stores: (0..columns).map(|column| pair(row, column)).collect(),
        };
        let column = |line: u32| Line {
            number: LINES * (line / 2) + line % 2,
            advance: match line {
                _ if line + 1 == 2 * columns => "",
                _ if line.is_multiple_of(2) => "%rd_c_next",
                _ => "%rd_c_pass",
            },
            stores: (0..rows).map(|row| one(row, line / 2, line % 2)).collect(),
        };
        match plan.spec.c_layout {
            Layout::RowMajor => Self { rows: (0..rows).map(row).collect(), columns: vec![] },
            Layout::ColMajor => Self { rows: vec![], columns: (0..2 * columns).map(column).collect() },
        }
    }
}

/// A thread's sum of 8 x 8 number `row`, `column` of the warp's tile: of its first column there, or of the `second`.
fn sum(plan: &WarpPlan, row: u32, column: u32, second: u32) -> String {
    let (halves, columns) = (plan.tiling.fragment.0 / LINES, plan.tiling.warp_n / LINES);
    // Along N two instructions have the even and the odd columns of 16: of each, first the columns of the first 8.
    let (instruction, register) = match plan.b.along_k {
        true => (column, second),
        false => (column / 2 * 2 + second, column % 2),
    };
    accumulator(plan, ((row / halves * columns + instruction) * halves + row % halves) * 2 + register)
}

/// Parts of [`doubles::DEPTH`] elements of K whose fragments are loaded one after the other.
fn parts(plan: &WarpPlan) -> u32 {
    doubles::DEPTH / doubles::loaded_k(&plan.spec)
}

/// The fragments of part `unit` of a stage, into set `set`.
pub(super) fn fragments(plan: &WarpPlan, unit: u32, set: u32) -> Fragments {
    let mut loads = along_k(plan, &plan.a, ("a", plan.tiling.warp_m, plan.tiling.fragment.0), unit, set);
    loads.extend(match plan.b.along_k {
        true => along_k(plan, &plan.b, ("b", plan.tiling.warp_n, LINES), unit, set),
        false => along_n(plan, unit, set),
    });
    Fragments { doubles: loads, ..Fragments::default() }
}

/// Vectors of two elements of K of one line. An instruction of 16 rows takes those of its halves in turns.
fn along_k(plan: &WarpPlan, operand: &Operand, (x, lines, of_one): (&str, u32, u32), unit: u32, set: u32) -> Vec<Load> {
    let (halves, parts) = (of_one / LINES, parts(plan));
    let (whole, first) = (unit / parts, unit % parts);
    let (vectors, elements) = (2 / parts, 4 / parts);
    let places = (0..lines / LINES).flat_map(|line| (0..vectors).map(move |vector| (line, vector)));
    let load = |(line, vector): (u32, u32)| {
        let number = |element| line / halves * halves * elements + (2 * vector + element) * halves + line % halves;
        Load {
            registers: tuple(&[number(0), number(1)].map(|n| register(plan, x, set, n))),
            address: address(
                &format!("%r_{x}_at{}", first + vector),
                whole * DEPTH_BYTES + LINES * line * operand.pitch,
            ),
        }
    };
    places.map(load).collect()
}

/// Vectors of two columns of one row of K, for two instructions.
fn along_n(plan: &WarpPlan, unit: u32, set: u32) -> Vec<Load> {
    let parts = parts(plan);
    let (whole, rows) = (unit / parts, 4 / parts);
    let places = (0..plan.tiling.warp_n / 16).flat_map(|pair| (0..rows).map(move |row| (pair, row)));
    let load = |(pair, row): (u32, u32)| Load {
        registers: tuple(&[0, 1].map(|odd| register(plan, "b", set, (2 * pair + odd) * rows + row))),
        address: address(
            &format!("%r_b_at{}", whole % 2),
            (whole * doubles::DEPTH + unit % parts * rows + row) * plan.b.pitch + 16 * pair * BYTES,
        ),
    };
    places.map(load).collect()
}

/// A thread's places in a stage: those of both vectors of its 32 bytes of K, or in rows of B of an even and of an odd 16 of K,
/// which the swizzle puts 4 vectors apart.
pub(super) fn addresses(plan: &WarpPlan) -> Vec<Address> {
    let two = |x, flip, count| (0..count).map(move |number| Address { x, number, flip: number * flip });
    let of_b = match plan.b.along_k {
        true => (VECTOR_BYTES, 2),
        false => (4 * VECTOR_BYTES, (plan.b.rows / doubles::DEPTH).min(2)),
    };
    two("a", VECTOR_BYTES, 2).chain(two("b", of_b.0, of_b.1)).collect()
}
