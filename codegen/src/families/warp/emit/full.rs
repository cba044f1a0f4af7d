//! The full operand of an epilogue: a lane reads its elements for 16 bytes of C in whole vectors, since lines of every matrix begin
//! on 16 bytes. It reads those of a subtile before the one before it is stored: a store may be to where a later load reads, so that
//! a load behind it waits for its own trip to memory.

use serde::Serialize;

use super::super::plan::VECTOR_BYTES;
use super::operands::tuple;
use crate::Dtype;

/// A vector of the operand.
#[derive(Serialize)]
pub(super) struct Read {
    /// `v4.b32`, or of 8 bytes `v2.b32`.
    vector: &'static str,
    registers: String,
    /// Each of them, and zero.
    cleared: Vec<String>,
    /// Bytes from the first element.
    from: u32,
}

/// The operand of a lane's 16 bytes of C.
#[derive(Serialize)]
pub(super) struct Ahead {
    reads: Vec<Read>,
    /// Its words become those that an element's lines name.
    moves: Vec<String>,
}

/// Vector `number` of subtile `subtile`, of `count` elements. Two neighbouring subtiles have registers of their own.
pub(super) fn ahead(dtype: Dtype, count: u32, subtile: u32, number: u32) -> Ahead {
    let bytes = count * dtype.bytes();
    let of_read = bytes.min(VECTOR_BYTES);
    let (class, kind, zero) = if dtype == Dtype::F32 { ("f", "f32", "0f00000000") } else { ("r", "b32", "0") };
    let held = |word: u32| format!("%{class}_ahead{}_{number}_{word}", subtile % 2);
    let read = |from: u32| {
        let registers: Vec<String> = (from / 4..(from + of_read) / 4).map(held).collect();
        Read {
            vector: match (of_read, dtype) {
                (VECTOR_BYTES, Dtype::F32) => "v4.f32",
                (VECTOR_BYTES, _) => "v4.b32",
                _ => "v2.b32",
            },
            cleared: registers.iter().map(|register| format!("mov.{kind} {register}, {zero}")).collect(),
            registers: tuple(&registers),
            from,
        }
    };
    Ahead {
        reads: (0..bytes).step_by(of_read as usize).map(read).collect(),
        moves: (0..bytes / 4).map(|word| format!("mov.{kind} {}, {}", register(dtype, word), held(word))).collect(),
    }
}

/// A word of the operand: an f32, or two elements of 16 bits.
fn register(dtype: Dtype, word: u32) -> String {
    if dtype == Dtype::F32 { element(word) } else { format!("%r_tile{word}") }
}

/// The register of element `number` as f32.
pub(super) fn element(number: u32) -> String {
    format!("%f_tile{number}")
}

/// How element `number` becomes an f32.
pub(super) fn widened(dtype: Dtype, number: u32) -> Vec<String> {
    let (word, to, is_low) = (register(dtype, number / 2), element(number), number.is_multiple_of(2));
    match dtype {
        Dtype::F32 => vec![],
        // A bf16 is the upper half of an f32.
        Dtype::BF16 if is_low => vec![format!("shl.b32 %r_wide, {word}, 16"), format!("mov.b32 {to}, %r_wide")],
        Dtype::BF16 => vec![format!("and.b32 %r_wide, {word}, 0xffff0000"), format!("mov.b32 {to}, %r_wide")],
        _ => {
            let half = if is_low { "%h_even" } else { "%h_odd" };
            vec![format!("mov.b32 {{ %h_even, %h_odd }}, {word}"), format!("cvt.f32.f16 {to}, {half}")]
        }
    }
}
