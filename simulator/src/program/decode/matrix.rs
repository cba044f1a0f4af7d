//! `ldmatrix`, `stmatrix` and `mma.sync`.

use super::super::context::Context;
use super::super::op::{Mma, Op, Src};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    match cx.head() {
        "mma" => mma(cx),
        head => {
            let load = head == "ldmatrix";
            cx.need(&["sync"])?;
            cx.need(&["aligned"])?;
            cx.need(&["m8n8"])?;
            let n = match cx.need(&["x1", "x2", "x4"])? {
                "x1" => 1,
                "x2" => 2,
                _ => 4,
            };
            let trans = cx.eat("trans");
            let space = match cx.eat_any(&["shared", "shared::cta"]) {
                Some(_) => Space::SharedCta,
                None => Space::Generic,
            };
            cx.need(&["b16"])?;
            cx.count(2, 2)?;
            let (list, addr) = if load { (0, 1) } else { (1, 0) };
            let regs = if load { cx.dst_regs(list, Ty::B32)? } else { cx.src_regs(list, Ty::B32)? };
            if regs.len() != n {
                return cx.error(cx.operand(list)?.span, format!(".x{n} takes {n} registers and {} stand", regs.len()));
            }
            let addr = cx.addr(addr, space)?;
            Ok(if load { Op::Ldmatrix { d: regs, trans, addr } } else { Op::Stmatrix { s: regs, trans, addr } })
        }
    }
}

fn mma(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["sync"])?;
    cx.need(&["aligned"])?;
    let k = match cx.need(&["m16n8k8", "m16n8k16"])? {
        "m16n8k8" => 8,
        _ => 16,
    };
    cx.need(&["row"])?;
    cx.need(&["col"])?;
    let d_ty = cx.ty(&[Ty::F32, Ty::F16])?;
    let a_ty = cx.ty(if k == 8 { &[Ty::F16, Ty::Bf16, Ty::Tf32] } else { &[Ty::F16, Ty::Bf16] })?;
    let b_ty = cx.ty(&[a_ty])?;
    let c_ty = cx.ty(&[d_ty])?;
    if d_ty == Ty::F16 && a_ty != Ty::F16 {
        return cx.error(cx.instr.span, "an f16 accumulator goes with f16 inputs");
    }
    cx.count(4, 4)?;
    let (out, element) = if d_ty == Ty::F16 { (2, Ty::B32) } else { (4, Ty::F32) };
    let a_regs = if a_ty == Ty::Tf32 { 4 } else { k as usize / 4 };
    let b_regs = a_regs / 2;
    let (d, a, b) = (cx.dst_regs(0, element)?, cx.src_regs(1, Ty::B32)?, cx.src_regs(2, Ty::B32)?);
    let c = cx.vector(3)?.into_iter().map(|o| cx.src_of(o, element)).collect::<Parsed<Vec<Src>>>()?;
    for (i, (have, want)) in
        [(d.len(), out), (a.len(), a_regs), (b.len(), b_regs), (c.len(), out)].into_iter().enumerate()
    {
        if have != want {
            return cx.error(cx.operand(i)?.span, format!("this fragment is {want} registers and {have} stand"));
        }
    }
    Ok(Op::Mma(Box::new(Mma { k, d_ty, a_ty, b_ty, c_ty, d, a, b, c })))
}
