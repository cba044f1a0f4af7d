//! The vectors of an epilogue under WGMMA's accumulators: how a thread comes by the elements that it needs.
//!
//! A thread holds fragments of some rows, lane / 4 and 8 further of every 16, and of two neighbouring columns at a time,
//! 2 (lane mod 4) and the next of every 8. These are rows and columns of the fragments: with operands swapped, C's rows
//! are the columns.

use serde::Serialize;

use crate::Dtype;
use crate::epilogue::{InputKind, Lines, Program, Reduction, widen};

/// Accumulators that ptxas schedules at once: between two strips stands a branch. Without it, ptxas 13.0 had so many
/// elements under way at the same time that wide tiles spilled.
pub(super) const STRIP: u32 = 16;

/// A vector's address.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Vector {
    symbol: String,
    pointer: String,
    bytes: u32,
}

/// A load that is done under a condition, and what stands in its place otherwise.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Load {
    pointer: String,
    bytes: u32,
    clear: String,
    load: String,
}

/// Two neighbouring elements of every vector by columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    pub(super) clears: Vec<String>,
    /// Under `%p_both` or `%p_alone`: both columns exist, or the first alone.
    pub(super) loads: Vec<String>,
    /// From what was loaded to values.
    pub(super) values: Vec<String>,
}

/// The vectors of a program.
pub(super) struct Vectors<'l> {
    pub(super) program: &'static Program,
    pub(super) lines: &'l Lines,
}

impl Vectors<'_> {
    /// Those by rows.
    pub(super) fn by_rows(&self) -> Vec<Vector> {
        self.of(|kind| matches!(kind, InputKind::Rows(_)))
    }

    /// Those by columns.
    pub(super) fn by_columns(&self) -> Vec<Vector> {
        self.of(|kind| matches!(kind, InputKind::Cols(_)))
    }

    fn of(&self, is_one: fn(InputKind) -> bool) -> Vec<Vector> {
        let of_kind = self.program.inputs().iter().enumerate().filter(|(_, input)| is_one(input.kind));
        of_kind
            .map(|(at, input)| Vector {
                symbol: input.symbol.clone(),
                pointer: pointer(at),
                bytes: input.kind.dtype().bytes(),
            })
            .collect()
    }

    /// Every parameter, with its element type.
    fn inputs(&self) -> impl Iterator<Item = (usize, Dtype)> {
        self.program.inputs().iter().enumerate().map(|(at, input)| (at, input.kind.dtype()))
    }

    /// The elements of a held row, from the address in `%rd_t`.
    pub(super) fn row_loads(&self, row: u32) -> Vec<Load> {
        let load = |(at, dtype): (usize, Dtype)| {
            let to = self.lines.row_input(at, row)?;
            let raw = raw_of_row(at, row);
            let (clear, load) = match dtype {
                Dtype::F32 => (format!("mov.f32 {to}, 0f00000000"), format!("ld.global.nc.f32 {to}, [%rd_t]")),
                _ => (format!("mov.b16 {raw}, 0"), format!("ld.global.nc.b16 {raw}, [%rd_t]")),
            };
            Some(Load { pointer: pointer(at), bytes: dtype.bytes(), clear, load })
        };
        self.inputs().filter_map(load).collect()
    }

    /// From the elements of a held row to what the epilogue needs of the row.
    pub(super) fn row_values(&self, row: u32) -> Vec<String> {
        let widened = |(at, dtype): (usize, Dtype)| {
            let to = self.lines.row_input(at, row)?;
            (dtype != Dtype::F32).then(|| widen(dtype, &to, &raw_of_row(at, row)))
        };
        let mut lines: Vec<String> = self.inputs().filter_map(widened).collect();
        lines.extend(self.lines.row(row));
        lines
    }

    /// The elements of columns `offset` and the next, from the thread's first column on.
    pub(super) fn column_loads(&self, offset: u32) -> Columns {
        let mut columns = Columns::default();
        for (at, dtype) in self.inputs() {
            let [Some(first), Some(second)] = [0, 1].map(|column| self.lines.column_input(at, column)) else {
                continue;
            };
            let address = format!("[{} + {}]", pointer(at), dtype.bytes() * offset);
            if dtype == Dtype::F32 {
                columns.clears.extend([&first, &second].map(|to| format!("mov.f32 {to}, 0f00000000")));
                columns.loads.push(format!("@%p_both ld.global.nc.v2.f32 {{ {first}, {second} }}, {address}"));
                columns.loads.push(format!("@%p_alone ld.global.nc.f32 {first}, {address}"));
                continue;
            }
            let raw = format!("%r_raw_col{at}");
            columns.clears.push(format!("mov.b32 {raw}, 0"));
            columns.loads.push(format!("@%p_both ld.global.nc.b32 {raw}, {address}"));
            columns.loads.push(format!("@%p_alone ld.global.nc.u16 {raw}, {address}"));
            columns.values.extend(unpack(dtype, &raw, [&first, &second]));
        }
        columns
    }
}

/// What a row has come to in `total` joins what is at `address`, where `%p_t` holds. The bits of floats are ordered like
/// integers, those of negative ones backwards.
pub(super) fn red(reduction: Reduction, total: &str, address: &str) -> Vec<String> {
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

fn pointer(input: usize) -> String {
    format!("%rd_vector{input}")
}

fn raw_of_row(input: usize, row: u32) -> String {
    format!("%h_raw_row{input}_{row}")
}

/// Two 16-bit values of one register as f32.
pub(super) fn unpack(dtype: Dtype, from: &str, [low, high]: [&str; 2]) -> Vec<String> {
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
