//! The parts of an epilogue that are the same in every family whose sums lie as WGMMA leaves them.
//!
//! Accumulator 4 t + 2 h + e of 64 rows is column 8 t + 2 (lane mod 4) + e of row lane / 4 + 8 h: a thread holds values of
//! two rows, and of two columns at a time. These are rows and columns of the fragments: with operands swapped, C's rows
//! are the columns.

use serde::Serialize;

use crate::Dtype;
use crate::epilogue::{InputKind, Lines, Program, Reduction, widen};

/// Accumulators that ptxas schedules at once: between two strips stands a branch. Without it, ptxas 13.0 had so many
/// elements under way at the same time that wide tiles spilled.
pub(crate) const STRIP: u32 = 16;

/// The address of a parameter that is a vector.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Vector {
    pub(crate) symbol: String,
    pub(crate) pointer: String,
    pub(crate) bytes: u32,
}

/// A load that is done under a condition, and what stands in its place otherwise.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Load {
    pointer: String,
    bytes: u32,
    clear: String,
    load: String,
}

/// Two f32 accumulators become one register of two 16-bit values.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pack {
    pub(crate) to: String,
    pub(crate) high: String,
    pub(crate) low: String,
}

/// Two neighbouring columns of which a thread has elements in every row.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Pair {
    /// Conditions: both columns, one at least, one alone exist.
    pub(crate) guards: Vec<String>,
    clears: Vec<String>,
    loads: Vec<String>,
    /// From the columns' elements to values.
    values: Vec<String>,
    pub(crate) elements: Vec<String>,
    /// Results become what is kept of a tile whose store is deferred: sums are done with one after the other.
    pub(crate) packs: Vec<Pack>,
}

impl Pair {
    /// What stands before the elements.
    pub(crate) fn before(self) -> impl Iterator<Item = String> {
        self.guards.into_iter().chain(self.clears).chain(self.loads).chain(self.values)
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
        let raw = raw_of_row(at, row);
        let (clear, load) = match dtype {
            Dtype::F32 => (format!("mov.f32 {to}, 0f00000000"), format!("ld.global.nc.f32 {to}, [%rd_t]")),
            _ => (format!("mov.b16 {raw}, 0"), format!("ld.global.nc.b16 {raw}, [%rd_t]")),
        };
        Some(Load { pointer: pointer(at), bytes: dtype.bytes(), clear, load })
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
    let mut pair = Pair::default();
    let vectors: Vec<_> = inputs(program).filter(|(at, _)| lines.column_input(*at, 0).is_some()).collect();
    if asked || !vectors.is_empty() {
        pair.guards.push(format!("setp.gt.s32 %p_both, %r_fused_limit, {}", offset + 1));
    }
    if asked {
        pair.guards.push(format!("setp.gt.s32 %p_any, %r_fused_limit, {offset}"));
    }
    if !vectors.is_empty() {
        pair.guards.push(format!("setp.eq.s32 %p_alone, %r_fused_limit, {}", offset + 1));
    }
    for (at, dtype) in vectors {
        column_loads(lines, &mut pair, offset, (at, dtype));
    }
    pair.values.extend([0, 1].into_iter().flat_map(|column| lines.column(column)));
    pair
}

fn column_loads(lines: &Lines, pair: &mut Pair, offset: u32, (at, dtype): (usize, Dtype)) {
    let [Some(first), Some(second)] = [0, 1].map(|column| lines.column_input(at, column)) else { return };
    let address = format!("[{} + {}]", pointer(at), dtype.bytes() * offset);
    if dtype == Dtype::F32 {
        pair.clears.extend([&first, &second].map(|to| format!("mov.f32 {to}, 0f00000000")));
        pair.loads.push(format!("@%p_both ld.global.nc.v2.f32 {{ {first}, {second} }}, {address}"));
        pair.loads.push(format!("@%p_alone ld.global.nc.f32 {first}, {address}"));
        return;
    }
    let raw = format!("%r_raw_col{at}");
    pair.clears.push(format!("mov.b32 {raw}, 0"));
    pair.loads.push(format!("@%p_both ld.global.nc.b32 {raw}, {address}"));
    pair.loads.push(format!("@%p_alone ld.global.nc.u16 {raw}, {address}"));
    pair.values.extend(unpack(dtype, &raw, [&first, &second]));
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
