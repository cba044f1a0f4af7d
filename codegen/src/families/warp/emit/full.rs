//! The full operand of an epilogue: a lane reads its elements for 16 bytes of C in whole vectors, since lines of every matrix begin
//! on 16 bytes.

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

/// The reads of `count` elements.
pub(super) fn reads(dtype: Dtype, count: u32) -> Vec<Read> {
    let bytes = count * dtype.bytes();
    let of_read = bytes.min(VECTOR_BYTES);
    let read = |from: u32| {
        let words = from / 4..(from + of_read) / 4;
        let registers: Vec<String> = words.map(|word| register(dtype, word)).collect();
        let zero = if dtype == Dtype::F32 { "mov.f32" } else { "mov.b32" };
        let value = if dtype == Dtype::F32 { "0f00000000" } else { "0" };
        Read {
            vector: match (of_read, dtype) {
                (VECTOR_BYTES, Dtype::F32) => "v4.f32",
                (VECTOR_BYTES, _) => "v4.b32",
                _ => "v2.b32",
            },
            registers: tuple(&registers),
            cleared: registers.iter().map(|register| format!("{zero} {register}, {value}")).collect(),
            from,
        }
    };
    (0..bytes).step_by(of_read as usize).map(read).collect()
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
