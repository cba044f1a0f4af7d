//! `mma.sync` and `mma.sp.sync`.

use super::super::context::Context;
use super::super::op::{Mma, Op, Src};
use super::super::types::Ty;
use super::sparse::metadata;
use crate::parse::Parsed;

/// M and K of the shapes of `mma.sync` that are modelled for a type of A, and the types of B that go with it.
fn shapes(a: Ty) -> (&'static [(u32, u32)], &'static [Ty]) {
    match a {
        Ty::F16 => (&[(16, 8), (16, 16)], &[Ty::F16]),
        Ty::Bf16 => (&[(16, 8), (16, 16)], &[Ty::Bf16]),
        Ty::Tf32 => (&[(16, 4), (16, 8)], &[Ty::Tf32]),
        Ty::F64 => (&[(8, 4), (16, 4), (16, 8), (16, 16)], &[Ty::F64]),
        Ty::E4m3 | Ty::E5m2 => (&[(16, 32)], &[Ty::E4m3, Ty::E5m2]),
        _ => (&[(16, 16), (16, 32)], &[Ty::S8, Ty::U8]),
    }
}

/// The same of a sparse A.
fn sparse_shapes(a: Ty) -> (&'static [(u32, u32)], &'static [Ty]) {
    let known: &[(u32, u32)] = match a {
        Ty::Tf32 => &[(16, 8), (16, 16)],
        Ty::F16 | Ty::Bf16 => &[(16, 16), (16, 32)],
        Ty::E4m3 | Ty::E5m2 => &[(16, 64)],
        _ => &[(16, 32), (16, 64)],
    };
    (known, shapes(a).1)
}

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    let sparse = cx.choose_any(&[("sp", false), ("sp::ordered_metadata", true)]);
    cx.sync_aligned()?;
    let shape = cx.choose(&[
        ("m8n8k4", (8, 4)),
        ("m16n8k4", (16, 4)),
        ("m16n8k8", (16, 8)),
        ("m16n8k16", (16, 16)),
        ("m16n8k32", (16, 32)),
        ("m16n8k64", (16, 64)),
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
    let (known, partners) = if sparse.is_some() { sparse_shapes(a_ty) } else { shapes(a_ty) };
    let b_ty = cx.ty(partners)?;
    let c_ty = cx.ty(&[d_ty])?;
    let saturate = early || (d_ty == Ty::S32 && cx.eat("satfinite"));
    if !known.contains(&shape) {
        let there = known.iter().map(|(m, k)| format!("m{m}n8k{k}")).collect::<Vec<_>>().join(" and ");
        let kind = if sparse.is_some() { "sparse mma" } else { "mma" };
        let text = format!("{kind} of .{} is modelled as {there}; this says m{m}n8k{k}", a_ty.name());
        return cx.error(cx.instr.span, text);
    }
    let count = if sparse.is_some() { 6 } else { 4 };
    cx.count(count, count)?;
    let (out, element) = if d_ty == Ty::F16 { (2, Ty::B32) } else { (m as usize / 4, d_ty) };
    // m x k and k x 8 elements over 32 threads.
    let factor = if a_ty == Ty::F64 { Ty::F64 } else { Ty::B32 };
    let stored = if sparse.is_some() { k / 2 } else { k };
    let [a_regs, b_regs] =
        [(m, stored), (8, k)].map(|(lines, k)| (lines * k * a_ty.bits() / factor.bits() / 32) as usize);
    let (d, a, b) = (cx.dst_regs(0, element)?, cx.src_regs(1, factor)?, cx.src_regs(2, factor)?);
    let c = cx.vector(3)?.into_iter().map(|o| cx.src_of(o, element)).collect::<Parsed<Vec<Src>>>()?;
    for (i, (have, want)) in
        [(d.len(), out), (a.len(), a_regs), (b.len(), b_regs), (c.len(), out)].into_iter().enumerate()
    {
        if have != want {
            return cx.error(cx.operand(i)?.span, format!("this fragment has {want} registers; {have} are given"));
        }
    }
    let sparse = sparse.map(|ordered| metadata(cx, 4, a_ty, k, ordered)).transpose()?;
    Ok(Op::Mma(Box::new(Mma { m, k, d_ty, a_ty, b_ty, c_ty, d, a, b, c, saturate, sparse })))
}
