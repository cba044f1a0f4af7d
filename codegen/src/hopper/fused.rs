//! The parts of an epilogue that are the same in every family with the accumulator layout of WGMMA.
//!
//! Accumulator 4 t + 2 h + e of 64 rows is column 8 t + 2 (lane mod 4) + e of row lane / 4 + 8 h: a thread holds values of
//! two rows, and of two columns at a time. These are rows and columns of the fragments: with swap-AB, C's rows
//! are the columns.

use serde::Serialize;

use super::ring::BARRIER;
use super::store::Pack;
use crate::Dtype;
use crate::epilogue::{InputKind, Lines, Program, Reduction, widen};

/// Accumulators that ptxas schedules at once: a branch separates two batches of columns. Without it, ptxas 13.0 had so many
/// elements under way at the same time that wide tiles spilled.
pub(crate) const COLUMN_BATCH: u32 = 16;

/// The address of a parameter that is a vector.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Vector {
    pub(crate) symbol: String,
    pub(crate) pointer: String,
    pub(crate) bytes: u32,
}

/// A row's element of a vector by rows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Load {
    pointer: String,
    bytes: u32,
    /// The f32 register that it is loaded to, or the 16-bit one that it is converted from.
    to: String,
    is_f32: bool,
}

/// Two neighbouring columns of which a thread has elements in every row.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Pair {
    /// The first of them, and the second, from where `%r_fused_limit` is counted.
    first: u32,
    second: u32,
    /// The conditions that are computed: both columns exist, one at least.
    asks_both: bool,
    asks_any: bool,
    /// Further conditions, row by row.
    pub(crate) kept: Vec<Kept>,
    vectors: Vec<PairOfVector>,
    /// From the columns' elements to values.
    values: Vec<String>,
    pub(crate) elements: Vec<String>,
    /// Results become what is kept of a tile whose store is overlapped: sums are done with one after the other.
    pub(crate) packs: Vec<Pack>,
}

/// A condition that a row's element exists.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Kept {
    pub(crate) predicate: String,
    pub(crate) limit: String,
    pub(crate) column: u32,
}

/// Two elements of a vector by columns.
#[derive(Clone, Debug, Serialize)]
struct PairOfVector {
    is_f32: bool,
    low: String,
    high: String,
    raw: String,
    address: String,
}

/// The epilogue's full operand.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FullOperand {
    pub(crate) name: String,
    pub(crate) symbol: String,
    /// The barriers of consumer 0, and bytes to those of the next consumer.
    pub(crate) offset: u32,
    pub(crate) stride: u32,
    /// The registers of the tile's place along its contiguous dimension and across it.
    pub(crate) inner: &'static str,
    pub(crate) outer: &'static str,
    /// A tile has rows of it that nobody loads.
    pub(crate) clears: bool,
}

impl FullOperand {
    /// Input `input`, whose barriers are at `offset`, one a consumer.
    pub(crate) fn new(program: &Program, input: usize, offset: u32) -> Self {
        let input = &program.inputs()[input];
        let (name, symbol) = (input.name.clone(), input.symbol.clone());
        Self { name, symbol, offset, stride: BARRIER, inner: "", outer: "", clears: false }
    }
}

/// The parameters of one kind of vector.
pub(crate) fn vectors(program: &Program, is_one: fn(InputKind) -> bool) -> Vec<Vector> {
    let of_kind = program.inputs().iter().enumerate().filter(|(_, input)| is_one(input.kind));
    of_kind
        .map(|(at, input)| Vector {
            symbol: input.symbol.clone(),
            pointer: pointer(at),
            bytes: input.kind.dtype().bytes(),
        })
        .collect()
}

/// The loads of a row's elements of vectors by rows, each from `%rd_t`.
pub(crate) fn row_loads(lines: &Lines, program: &Program, row: u32) -> Vec<Load> {
    let load = |(at, dtype): (usize, Dtype)| {
        let to = lines.row_input(at, row)?;
        let is_f32 = dtype == Dtype::F32;
        let to = if is_f32 { to } else { raw_of_row(at, row) };
        Some(Load { pointer: pointer(at), bytes: dtype.bytes(), to, is_f32 })
    };
    inputs(program).filter_map(load).collect()
}

/// From what [`row_loads`] loaded to what the epilogue needs of the row.
pub(crate) fn row_values(lines: &Lines, program: &Program, row: u32) -> Vec<String> {
    let widened = |(at, dtype): (usize, Dtype)| {
        let to = lines.row_input(at, row)?;
        (dtype != Dtype::F32).then(|| widen(dtype, &to, &raw_of_row(at, row)))
    };
    let mut values: Vec<String> = inputs(program).filter_map(widened).collect();
    values.extend(lines.row(row));
    values
}

/// What a pair of columns needs before its elements, the first of them `offset` columns from where the vectors' pointers
/// are. Columns exist as far as `%r_fused_limit` says; `asked` where the elements ask for that too.
pub(crate) fn pair(lines: &Lines, program: &Program, offset: u32, asked: bool) -> Pair {
    let of_columns = inputs(program).filter_map(|(at, dtype)| {
        let [low, high] = [0, 1].map(|column| lines.column_input(at, column));
        Some((at, dtype, low?, high?))
    });
    let (mut vectors, mut values) = (vec![], vec![]);
    for (at, dtype, low, high) in of_columns {
        let (raw, is_f32) = (format!("%r_raw_col{at}"), dtype == Dtype::F32);
        if !is_f32 {
            values.extend(unpack(dtype, &raw, [&low, &high]));
        }
        let address = format!("[{} + {}]", pointer(at), dtype.bytes() * offset);
        vectors.push(PairOfVector { is_f32, low, high, raw, address });
    }
    values.extend([0, 1].into_iter().flat_map(|column| lines.column(column)));
    Pair {
        first: offset,
        second: offset + 1,
        asks_both: asked || !vectors.is_empty(),
        asks_any: asked,
        vectors,
        values,
        ..Pair::default()
    }
}

/// Every group with each of its two rows and two columns.
pub(crate) fn elements<T>(groups: &[T]) -> impl Iterator<Item = (&T, u32, u32)> {
    groups.iter().flat_map(|group| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(half, column)| (group, half, column)))
}

/// Two 16-bit values of one register as f32.
pub(crate) fn unpack(dtype: Dtype, from: &str, [low, high]: [&str; 2]) -> Vec<String> {
    match dtype {
        // The upper half of an f32.
        Dtype::BF16 => vec![
            format!("shl.b32 %r_half, {from}, 16"),
            format!("mov.b32 {low}, %r_half"),
            format!("and.b32 %r_half, {from}, 0xffff0000"),
            format!("mov.b32 {high}, %r_half"),
        ],
        _ => vec![
            format!("mov.b32 {{ %h_low, %h_high }}, {from}"),
            widen(dtype, low, "%h_low"),
            widen(dtype, high, "%h_high"),
        ],
    }
}

/// What a row has come to in `total` joins what is at `address`, where `%p_t` holds. The bits of floats are ordered like
/// integers, those of negative ones backwards.
pub(crate) fn red(reduction: Reduction, total: &str, address: &str) -> Vec<String> {
    match reduction {
        Reduction::Sum => vec![format!("@%p_t red.global.add.f32 [{address}], {total}")],
        Reduction::Max => vec![
            format!("mov.b32 %r_bits, {total}"),
            "setp.lt.and.s32 %p_negative, %r_bits, 0, %p_t".to_owned(),
            "setp.ge.and.s32 %p_t, %r_bits, 0, %p_t".to_owned(),
            format!("@%p_negative red.global.min.u32 [{address}], %r_bits"),
            format!("@%p_t red.global.max.s32 [{address}], %r_bits"),
        ],
    }
}

/// Every parameter with its element type.
fn inputs(program: &Program) -> impl Iterator<Item = (usize, Dtype)> + '_ {
    program.inputs().iter().enumerate().map(|(at, input)| (at, input.kind.dtype()))
}

fn pointer(input: usize) -> String {
    format!("%rd_vector{input}")
}

fn raw_of_row(input: usize, row: u32) -> String {
    format!("%h_raw_row{input}_{row}")
}
