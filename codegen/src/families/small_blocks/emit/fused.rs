//! The operands of the template of an epilogue: what becomes of a sum before it is stored.

use serde::Serialize;

use super::registers::sum;
use crate::epilogue::{At, Held, InputKind, Lines, Program, widen};
use crate::{Dtype, KernelSpec, Layout};

/// The register of the full operand's element, in f32 and in f64.
const TILE: [&str; 2] = ["%f_tile", "%d_tile"];

/// What the templates name.
#[derive(Debug, Serialize)]
pub(super) struct Fused {
    uniform: Vec<String>,
    pointers: Vec<Pointer>,
    /// A row's elements of vectors, and what is computed of them.
    row: Vec<Load>,
    row_lines: Vec<String>,
    tile: Option<Tile>,
    columns: Vec<Column>,
}

/// The address of a parameter.
#[derive(Debug, Serialize)]
struct Pointer {
    register: String,
    symbol: &'static str,
}

/// The element of a vector, or of the full operand.
#[derive(Debug, Serialize)]
struct Load {
    pointer: String,
    bytes: u32,
    /// Bytes from the tile's first column, where that is where its address is.
    from: u32,
    kind: &'static str,
    zero: &'static str,
    /// Where it is loaded to, and from there widened, if it is narrower than the sums.
    to: String,
    widen: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Tile {
    pointer: String,
    bytes: u32,
    is_row_major: bool,
}

#[derive(Debug, Serialize)]
struct Column {
    number: u32,
    loads: Vec<Load>,
    lines: Vec<String>,
    tile: Option<Load>,
    elements: Vec<String>,
}

impl Fused {
    pub(super) fn new(spec: &KernelSpec) -> Option<Self> {
        let program = spec.epilogue?.program();
        let (lines, acc) = (Lines::of_sums(program, Held { rows: 1, columns: 1 }, spec.acc), spec.acc);
        let held = TILE[usize::from(acc == Dtype::F64)];
        let full = program.inputs().iter().enumerate().find_map(|(at, input)| match input.kind {
            InputKind::Dense(dtype) => Some((at, dtype)),
            _ => None,
        });
        let is_row_major = spec.c_layout == Layout::RowMajor;
        let column = |number: u32| Column {
            number,
            loads: loads((program, acc), |at| lines.column_input(at, 0), |bytes| number * bytes),
            lines: lines.column(0),
            tile: full.map(|(at, dtype)| {
                let from = if is_row_major { number * dtype.bytes() } else { 0 };
                Load::new((at, dtype), acc, held.to_owned(), from)
            }),
            elements: lines.element(&At { acc: &sum(spec, number), row: 0, column: 0, tile: held }),
        };
        let has_address = |kind: InputKind| !matches!(kind, InputKind::Scalar);
        let inputs = program.inputs().iter().enumerate().filter(|(_, input)| has_address(input.kind));
        Some(Self {
            uniform: lines.uniform(),
            pointers: inputs.map(|(at, input)| Pointer { register: pointer(at), symbol: &input.symbol }).collect(),
            row: loads((program, acc), |at| lines.row_input(at, 0), |_| 0),
            row_lines: lines.row(0),
            tile: full.map(|(at, dtype)| Tile { pointer: pointer(at), bytes: dtype.bytes(), is_row_major }),
            columns: (0..spec.bn).map(column).collect(),
        })
    }
}

impl Load {
    /// Of the input of this number and type, which becomes an element of the type of the sums.
    fn new((at, dtype): (usize, Dtype), acc: Dtype, register: String, from: u32) -> Self {
        let (pointer, bytes, narrow, half) = (pointer(at), dtype.bytes(), format!("%f_raw{at}"), format!("%h_raw{at}"));
        let (kind, zero) = match dtype {
            Dtype::F64 => ("f64", "0d0000000000000000"),
            Dtype::F32 => ("f32", "0f00000000"),
            _ => ("b16", "0"),
        };
        let to_f64 = |from: &str| format!("cvt.f64.f32 {register}, {from}");
        let (to, widen) = match (dtype, acc) {
            (Dtype::F64, _) | (Dtype::F32, Dtype::F32) => (register, vec![]),
            (Dtype::F32, _) => (narrow.clone(), vec![to_f64(&narrow)]),
            (_, Dtype::F32) => (half.clone(), vec![widen(dtype, &register, &half)]),
            _ => (half.clone(), vec![widen(dtype, &narrow, &half), to_f64(&narrow)]),
        };
        Self { pointer, bytes, from, kind, zero, to, widen }
    }
}

/// The loads of the vectors that `register` has a place for.
fn loads(
    (program, acc): (&Program, Dtype),
    register: impl Fn(usize) -> Option<String>,
    from: impl Fn(u32) -> u32,
) -> Vec<Load> {
    let load = |(at, kind): (usize, InputKind)| {
        let dtype = kind.dtype();
        Some(Load::new((at, dtype), acc, register(at)?, from(dtype.bytes())))
    };
    program.inputs().iter().map(|input| input.kind).enumerate().filter_map(load).collect()
}

fn pointer(input: usize) -> String {
    format!("%rd_vector{input}")
}
