//! `wmma`: the older warp-wide matrix interface, shape m16n16k16.

use super::super::context::Context;
use super::super::op::{Frag, Op, Src};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    match cx.need(&["load", "store", "mma"])? {
        "load" => {
            let frag = match cx.need(&["a", "b", "c"])? {
                "a" => Frag::A,
                "b" => Frag::B,
                _ => Frag::C,
            };
            let (row, space) = layout(cx)?;
            let ty = cx.ty(if frag == Frag::C { &[Ty::F32, Ty::F16] } else { &[Ty::F16, Ty::Bf16] })?;
            cx.count(2, 3)?;
            let d = cx.dst_regs(0, element(ty))?;
            registers(cx, 0, d.len(), size(frag, ty))?;
            let addr = cx.addr(1, space)?;
            let stride = stride(cx, 2)?;
            Ok(Op::WmmaLoad { d, frag, row, ty, addr, stride })
        }
        "store" => {
            cx.need(&["d"])?;
            let (row, space) = layout(cx)?;
            let ty = cx.ty(&[Ty::F32, Ty::F16])?;
            cx.count(2, 3)?;
            let s = cx.src_regs(1, element(ty))?;
            registers(cx, 1, s.len(), size(Frag::C, ty))?;
            let addr = cx.addr(0, space)?;
            let stride = stride(cx, 2)?;
            Ok(Op::WmmaStore { s, row, ty, addr, stride })
        }
        _ => {
            cx.need(&["sync"])?;
            cx.need(&["aligned"])?;
            // The layouts only name how the fragments were loaded; ours are layout-free.
            cx.need(&["row", "col"])?;
            cx.need(&["row", "col"])?;
            cx.need(&["m16n16k16"])?;
            let (ty, d_ty, c_ty) = if cx.peek() == Some("f32") && cx.instr.opcode.iter().any(|n| n.text == "bf16") {
                cx.ty(&[Ty::F32])?;
                cx.ty(&[Ty::Bf16])?;
                cx.ty(&[Ty::Bf16])?;
                (Ty::Bf16, Ty::F32, cx.ty(&[Ty::F32])?)
            } else {
                let d = cx.ty(&[Ty::F32, Ty::F16])?;
                (Ty::F16, d, cx.ty(&[Ty::F32, Ty::F16])?)
            };
            cx.count(4, 4)?;
            let d = cx.dst_regs(0, element(d_ty))?;
            let (a, b) = (cx.src_regs(1, Ty::B32)?, cx.src_regs(2, Ty::B32)?);
            let c = cx.src_regs(3, element(c_ty))?;
            registers(cx, 0, d.len(), size(Frag::C, d_ty))?;
            registers(cx, 1, a.len(), size(Frag::A, ty))?;
            registers(cx, 2, b.len(), size(Frag::B, ty))?;
            registers(cx, 3, c.len(), size(Frag::C, c_ty))?;
            Ok(Op::WmmaMma { d, a, b, c, ty, d_ty, c_ty })
        }
    }
}

fn element(ty: Ty) -> Ty {
    if ty == Ty::F32 { Ty::F32 } else { Ty::B32 }
}

fn size(frag: Frag, ty: Ty) -> usize {
    match (frag, ty) {
        (Frag::C, Ty::F16) | (_, Ty::Bf16) => 4,
        _ => 8,
    }
}

fn registers(cx: &Context<'_>, i: usize, have: usize, want: usize) -> Parsed<()> {
    if have == want {
        return Ok(());
    }
    cx.error(cx.operand(i)?.span, format!("this fragment is {want} registers and {have} stand"))
}

fn layout(cx: &mut Context<'_>) -> Parsed<(bool, Space)> {
    cx.need(&["sync"])?;
    cx.need(&["aligned"])?;
    let row = cx.need(&["row", "col"])? == "row";
    cx.need(&["m16n16k16"])?;
    let space = match cx.eat_any(&["global", "shared", "shared::cta"]) {
        Some("global") => Space::Global,
        Some(_) => Space::SharedCta,
        None => Space::Generic,
    };
    Ok((row, space))
}

fn stride(cx: &mut Context<'_>, i: usize) -> Parsed<Src> {
    if cx.operands() > i { cx.src(i, Ty::U32) } else { Ok(Src::Imm(16)) }
}
