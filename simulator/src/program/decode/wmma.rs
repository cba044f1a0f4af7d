//! `wmma`: the older warp-wide matrix interface, shapes m16n16k16, m32n8k16 and m8n32k16.

use super::super::context::Context;
use super::super::op::{Frag, Op, Reg, Src, WmmaMatrix, WmmaMma};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    match cx.need(&["load", "store", "mma"])? {
        "load" => {
            let frag = cx.choose(&[("a", Frag::A), ("b", Frag::B), ("c", Frag::C)])?;
            let (row_major, m, n, space) = layout(cx)?;
            let ty = cx.ty(if frag == Frag::C { &[Ty::F32, Ty::F16] } else { &[Ty::F16, Ty::Bf16] })?;
            let matrix = WmmaMatrix { frag, m, n, row_major, ty };
            cx.count(2, 3)?;
            let d = destination(cx, 0, &matrix)?;
            let addr = cx.addr(1, space)?;
            let stride = stride(cx, &matrix)?;
            Ok(Op::WmmaLoad { d, matrix, addr, stride })
        }
        "store" => {
            cx.need(&["d"])?;
            let (row_major, m, n, space) = layout(cx)?;
            let ty = cx.ty(&[Ty::F32, Ty::F16])?;
            let matrix = WmmaMatrix { frag: Frag::C, m, n, row_major, ty };
            cx.count(2, 3)?;
            let s = source(cx, 1, &matrix)?;
            let addr = cx.addr(0, space)?;
            let stride = stride(cx, &matrix)?;
            Ok(Op::WmmaStore { s, matrix, addr, stride })
        }
        _ => mma(cx),
    }
}

/// Whether a matrix is row-major.
const MAJOR: &[(&str, bool)] = &[("row", true), ("col", false)];

fn mma(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.sync_aligned()?;
    let a_row = cx.choose(MAJOR)?;
    let b_row = cx.choose(MAJOR)?;
    let (m, n) = shape(cx)?;
    // f16 is not written: `.f32.f32`; bf16 is: `.f32.bf16.bf16.f32`.
    let d_ty = cx.ty(&[Ty::F32, Ty::F16])?;
    let ty = if d_ty == Ty::F32 && cx.eat("bf16") {
        cx.ty(&[Ty::Bf16])?;
        Ty::Bf16
    } else {
        Ty::F16
    };
    let c_ty = cx.ty(if ty == Ty::Bf16 { &[Ty::F32] } else { &[Ty::F32, Ty::F16] })?;
    let matrix = |frag, row_major, ty| WmmaMatrix { frag, m, n, row_major, ty };
    let (a, b) = (matrix(Frag::A, a_row, ty), matrix(Frag::B, b_row, ty));
    let (c, d) = (matrix(Frag::C, true, c_ty), matrix(Frag::C, true, d_ty));
    cx.count(4, 4)?;
    let d_regs = destination(cx, 0, &d)?;
    let (a_regs, b_regs, c_regs) = (source(cx, 1, &a)?, source(cx, 2, &b)?, source(cx, 3, &c)?);
    Ok(Op::WmmaMma(Box::new(WmmaMma { a, b, c, d, d_regs, a_regs, b_regs, c_regs })))
}

fn shape(cx: &mut Context<'_>) -> Parsed<(u32, u32)> {
    cx.choose(&[("m16n16k16", (16, 16)), ("m32n8k16", (32, 8)), ("m8n32k16", (8, 32))])
}

/// (row-major, M, N, space)
fn layout(cx: &mut Context<'_>) -> Parsed<(bool, u32, u32, Space)> {
    cx.sync_aligned()?;
    let row = cx.choose(MAJOR)?;
    let (m, n) = shape(cx)?;
    let spaces = [("global", Space::Global), ("shared", Space::SharedCta), ("shared::cta", Space::SharedCta)];
    let space = cx.choose_any(&spaces).unwrap_or(Space::Generic);
    Ok((row, m, n, space))
}

fn element(m: &WmmaMatrix) -> Ty {
    if m.ty == Ty::F32 { Ty::F32 } else { Ty::B32 }
}

fn destination(cx: &mut Context<'_>, i: usize, m: &WmmaMatrix) -> Parsed<Vec<Reg>> {
    let regs = cx.dst_regs(i, element(m))?;
    registers(cx, i, regs, m)
}

fn source(cx: &mut Context<'_>, i: usize, m: &WmmaMatrix) -> Parsed<Vec<Reg>> {
    let regs = cx.src_regs(i, element(m))?;
    registers(cx, i, regs, m)
}

fn registers(cx: &Context<'_>, i: usize, regs: Vec<Reg>, m: &WmmaMatrix) -> Parsed<Vec<Reg>> {
    if regs.len() == m.registers() {
        return Ok(regs);
    }
    let text = format!("this fragment has {} registers; {} are given", m.registers(), regs.len());
    cx.error(cx.operand(i)?.span, text)
}

/// Elements from one line to the next; a matrix without holes where nothing is said.
fn stride(cx: &mut Context<'_>, m: &WmmaMatrix) -> Parsed<Src> {
    if cx.operands() > 2 { cx.src(2, Ty::U32) } else { Ok(Src::Imm(u64::from(m.lines().1))) }
}
