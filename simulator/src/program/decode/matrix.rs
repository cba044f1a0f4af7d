//! `ldmatrix`, `stmatrix` and `mma.sync`.

use super::super::context::Context;
use super::super::op::{Mma, Op, Src};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;

/// `ldmatrix` and `stmatrix`
pub(super) fn rows(cx: &mut Context<'_>, load: bool) -> Parsed<Op> {
    cx.sync_aligned()?;
    // The ISA's order is shape, number, transposition, space; ptxas takes any, and CUTLASS writes the number first.
    let (mut shape, mut number, mut trans, mut space) = (false, None, false, Space::Generic);
    loop {
        let before = cx.at();
        shape |= cx.eat("m8n8");
        number = number.or_else(|| cx.choose_any(&[("x1", 1), ("x2", 2), ("x4", 4)]));
        trans |= cx.eat("trans");
        if cx.eat_any(&["shared", "shared::cta"]).is_some() {
            space = Space::SharedCta;
        }
        if cx.at() == before {
            break;
        }
    }
    if !shape {
        return cx.bad_modifier(".m8n8");
    }
    let Some(n) = number else { return cx.bad_modifier(".x1, .x2 or .x4") };
    cx.need(&["b16"])?;
    cx.count(2, 2)?;
    let (list, addr) = if load { (0, 1) } else { (1, 0) };
    let regs = if load { cx.dst_regs(list, Ty::B32)? } else { cx.src_regs(list, Ty::B32)? };
    if regs.len() != n {
        return cx.error(cx.operand(list)?.span, format!(".x{n} takes {n} registers; {} are given", regs.len()));
    }
    let addr = cx.addr(addr, space)?;
    Ok(if load { Op::Ldmatrix { d: regs, trans, addr } } else { Op::Stmatrix { s: regs, trans, addr } })
}

/// M and K of the shapes of `mma.sync` that are modelled for a type of A, and the types of B that go with it.
fn shapes(a: Ty) -> (&'static [(u32, u32)], &'static [Ty]) {
    match a {
        Ty::F16 => (&[(16, 8), (16, 16)], &[Ty::F16]),
        Ty::Bf16 => (&[(16, 8), (16, 16)], &[Ty::Bf16]),
        Ty::Tf32 => (&[(16, 8)], &[Ty::Tf32]),
        Ty::F64 => (&[(8, 4), (16, 4), (16, 8), (16, 16)], &[Ty::F64]),
        Ty::E4m3 | Ty::E5m2 => (&[(16, 32)], &[Ty::E4m3, Ty::E5m2]),
        _ => (&[(16, 16), (16, 32)], &[Ty::S8, Ty::U8]),
    }
}

pub(super) fn mma(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.sync_aligned()?;
    let shape = cx.choose(&[
        ("m8n8k4", (8, 4)),
        ("m16n8k4", (16, 4)),
        ("m16n8k8", (16, 8)),
        ("m16n8k16", (16, 16)),
        ("m16n8k32", (16, 32)),
    ])?;
    let (m, k) = shape;
    cx.need(&["row"])?;
    cx.need(&["col"])?;
    let early = cx.eat("satfinite");
    let d_ty = cx.ty(if early { &[Ty::S32] } else { &[Ty::F32, Ty::F16, Ty::S32, Ty::F64] })?;
    let a_ty = cx.ty(match d_ty {
        Ty::S32 => &[Ty::S8, Ty::U8],
        Ty::F16 => &[Ty::F16],
        Ty::F64 => &[Ty::F64],
        _ => &[Ty::F16, Ty::Bf16, Ty::Tf32, Ty::E4m3, Ty::E5m2],
    })?;
    let (known, partners) = shapes(a_ty);
    let b_ty = cx.ty(partners)?;
    let c_ty = cx.ty(&[d_ty])?;
    let saturate = early || (d_ty == Ty::S32 && cx.eat("satfinite"));
    if !known.contains(&shape) {
        let there = known.iter().map(|(m, k)| format!("m{m}n8k{k}")).collect::<Vec<_>>().join(" and ");
        return cx
            .error(cx.instr.span, format!("mma of .{} is modelled as {there}; this says m{m}n8k{k}", a_ty.name()));
    }
    cx.count(4, 4)?;
    let (out, element) = if d_ty == Ty::F16 { (2, Ty::B32) } else { (m as usize / 4, d_ty) };
    // m x k and k x 8 elements over 32 threads.
    let factor = if a_ty == Ty::F64 { Ty::F64 } else { Ty::B32 };
    let [a_regs, b_regs] = [m, 8].map(|lines| (lines * k * a_ty.bits() / factor.bits() / 32) as usize);
    let (d, a, b) = (cx.dst_regs(0, element)?, cx.src_regs(1, factor)?, cx.src_regs(2, factor)?);
    let c = cx.vector(3)?.into_iter().map(|o| cx.src_of(o, element)).collect::<Parsed<Vec<Src>>>()?;
    for (i, (have, want)) in
        [(d.len(), out), (a.len(), a_regs), (b.len(), b_regs), (c.len(), out)].into_iter().enumerate()
    {
        if have != want {
            return cx.error(cx.operand(i)?.span, format!("this fragment has {want} registers; {have} are given"));
        }
    }
    Ok(Op::Mma(Box::new(Mma { m, k, d_ty, a_ty, b_ty, c_ty, d, a, b, c, saturate })))
}
