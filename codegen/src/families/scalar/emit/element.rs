//! Elements in registers: zeros, loads, conversions to f32 and back.

use crate::{Arch, Dtype};

/// From here on there are conversions of pairs, and any of bf16 at all.
const CONVERTS: (u32, u32) = (8, 0);

/// The register that an element of `dtype` is loaded to, and the f32 register that it is widened to.
pub(super) fn registers(dtype: Dtype, name: &str, i: u32) -> (String, String) {
    let wide = format!("%f_{name}{i}");
    let narrow = if dtype == Dtype::F32 { wide.clone() } else { format!("%h_{name}{i}") };
    (narrow, wide)
}

/// Makes the register an element of zero: what a load that is left out leaves.
pub(super) fn zero(dtype: Dtype, narrow: &str) -> String {
    match dtype {
        Dtype::F32 => format!("mov.f32 {narrow}, {ZERO}"),
        _ => format!("mov.b16 {narrow}, 0"),
    }
}

/// The load instruction of one element.
pub(super) fn load(dtype: Dtype) -> &'static str {
    if dtype == Dtype::F32 { "ld.global.nc.f32" } else { "ld.global.nc.b16" }
}

/// The instruction that widens an element to f32, if it takes one. bf16 is the upper half of an f32.
pub(super) fn widen(dtype: Dtype, narrow: &str, wide: &str) -> Vec<String> {
    match dtype {
        Dtype::F16 => vec![format!("cvt.f32.f16 {wide}, {narrow}")],
        Dtype::BF16 => vec![format!("mov.b32 {wide}, {{ %h_zero, {narrow} }}")],
        _ => vec![],
    }
}

/// What [`widen`] wants before.
pub(super) fn widen_setup(dtype: Dtype) -> Vec<String> {
    if dtype == Dtype::BF16 { vec!["mov.b16 %h_zero, 0".to_owned()] } else { vec![] }
}

/// Rounds an f32 to `dtype`: the instructions, and the register that a store takes.
pub(super) fn round(dtype: Dtype, arch: &Arch, from: &str) -> (Vec<String>, String) {
    let converted = |ty: &str| (vec![format!("cvt.rn.{ty}.f32 %h_out, {from}")], "%h_out".to_owned());
    match dtype {
        Dtype::F16 => converted("f16"),
        Dtype::BF16 if arch.compute_capability >= CONVERTS => converted("bf16"),
        Dtype::BF16 => {
            let mut lines = round_bits(from, "%r_bits");
            lines.push("mov.b32 { %h_rest, %h_out }, %r_bits".to_owned());
            (lines, "%h_out".to_owned())
        }
        _ => (vec![], from.to_owned()),
    }
}

/// Rounds two f32 to a 32-bit register `to` with both, the first in the lower half.
pub(super) fn round_pair(dtype: Dtype, arch: &Arch, (low, high): (&str, &str), to: &str) -> Vec<String> {
    let paired = arch.compute_capability >= CONVERTS;
    match dtype {
        Dtype::F16 if paired => vec![format!("cvt.rn.f16x2.f32 {to}, {high}, {low}")],
        Dtype::BF16 if paired => vec![format!("cvt.rn.bf16x2.f32 {to}, {high}, {low}")],
        Dtype::F16 => vec![
            format!("cvt.rn.f16.f32 %h_low, {low}"),
            format!("cvt.rn.f16.f32 %h_high, {high}"),
            format!("mov.b32 {to}, {{ %h_low, %h_high }}"),
        ],
        _ => {
            let mut lines = round_bits(low, "%r_low");
            lines.extend(round_bits(high, "%r_high"));
            // Bytes 2 and 3 of either.
            lines.push(format!("prmt.b32 {to}, %r_low, %r_high, 0x7632"));
            lines
        }
    }
}

/// Rounds an f32 to a bf16 in the upper half of `to` without a conversion: half of the last place that stays is added,
/// less one where that place is even, and the carry does the rest. A NaN could be carried to infinity; it becomes
/// another NaN.
fn round_bits(from: &str, to: &str) -> Vec<String> {
    vec![
        format!("mov.b32 {to}, {from}"),
        format!("bfe.u32 %r_even, {to}, 16, 1"),
        "add.u32 %r_even, %r_even, 0x7fff".to_owned(),
        format!("add.u32 {to}, {to}, %r_even"),
        format!("setp.nan.f32 %p_nan, {from}, {from}"),
        format!("selp.b32 {to}, 0x7fff0000, {to}, %p_nan"),
    ]
}

/// 0.0
pub(super) const ZERO: &str = "0f00000000";
