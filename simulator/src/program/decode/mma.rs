//! `mma.sync` and `mma.sp.sync`.

use super::super::context::Context;
use super::super::op::{Logic, Mma, Op, Quads, Src};
use super::super::types::Ty;
use super::sparse::metadata;
use crate::parse::Parsed;

const BYTES: &[Ty] = &[Ty::S8, Ty::U8];
const NIBBLES: &[Ty] = &[Ty::S4, Ty::U4];

/// M and K of the shapes of `mma.sync` that are modelled for a type of A, and the types of B that go with it.
fn shapes(a: Ty) -> (&'static [(u32, u32)], &'static [Ty]) {
    match a {
        Ty::F16 => (&[(8, 4), (16, 8), (16, 16)], &[Ty::F16]),
        Ty::Bf16 => (&[(16, 8), (16, 16)], &[Ty::Bf16]),
        Ty::Tf32 => (&[(16, 4), (16, 8)], &[Ty::Tf32]),
        Ty::F64 => (&[(8, 4), (16, 4), (16, 8), (16, 16)], &[Ty::F64]),
        Ty::E4m3 | Ty::E5m2 => (&[(16, 16), (16, 32)], &[Ty::E4m3, Ty::E5m2]),
        Ty::S4 | Ty::U4 => (&[(8, 32), (16, 32), (16, 64)], NIBBLES),
        Ty::B1 => (&[(8, 128), (16, 128), (16, 256)], &[Ty::B1]),
        _ => (&[(8, 16), (16, 16), (16, 32)], BYTES),
    }
}

/// The same of a sparse A.
fn sparse_shapes(a: Ty) -> (&'static [(u32, u32)], &'static [Ty]) {
    let known: &[(u32, u32)] = match a {
        Ty::Tf32 => &[(16, 8), (16, 16)],
        Ty::F16 | Ty::Bf16 => &[(16, 16), (16, 32)],
        Ty::E4m3 | Ty::E5m2 => &[(16, 64)],
        Ty::S4 | Ty::U4 => &[(16, 64), (16, 128)],
        Ty::B1 => &[],
        _ => &[(16, 32), (16, 64)],
    };
    (known, shapes(a).1)
}

/// All of them.
const SHAPES: &[(&str, (u32, u32))] = &[
    ("m8n8k4", (8, 4)),
    ("m8n8k16", (8, 16)),
    ("m8n8k32", (8, 32)),
    ("m8n8k128", (8, 128)),
    ("m16n8k4", (16, 4)),
    ("m16n8k8", (16, 8)),
    ("m16n8k16", (16, 16)),
    ("m16n8k32", (16, 32)),
    ("m16n8k64", (16, 64)),
    ("m16n8k128", (16, 128)),
    ("m16n8k256", (16, 256)),
];

/// The types of A that are summed in a type.
fn factors(sum: Ty, sparse: bool) -> &'static [Ty] {
    match sum {
        Ty::S32 => &[Ty::S8, Ty::U8, Ty::S4, Ty::U4, Ty::B1],
        Ty::F16 if sparse => &[Ty::F16],
        Ty::F16 => &[Ty::F16, Ty::E4m3, Ty::E5m2],
        Ty::F64 => &[Ty::F64],
        _ => &[Ty::F16, Ty::Bf16, Ty::Tf32, Ty::E4m3, Ty::E5m2],
    }
}

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    let sparse = cx.choose_any(&[("sp", false), ("sp::ordered_metadata", true)]);
    cx.sync_aligned()?;
    let shape = cx.choose(SHAPES)?;
    let (m, k) = shape;
    let a_by_rows = cx.choose(&[("row", true), ("col", false)])?;
    let b_by_columns = cx.choose(&[("col", true), ("row", false)])?;
    let early = cx.eat("satfinite");
    let d_ty = cx.ty(if early { &[Ty::S32] } else { &[Ty::F32, Ty::F16, Ty::S32, Ty::F64] })?;
    let a_ty = cx.ty(factors(d_ty, sparse.is_some()))?;
    let (known, partners) = if sparse.is_some() { sparse_shapes(a_ty) } else { shapes(a_ty) };
    let b_ty = cx.ty(partners)?;
    let quads = a_ty == Ty::F16 && shape == (8, 4) && sparse.is_none();
    let c_ty = cx.ty(if quads && d_ty == Ty::F32 { &[Ty::F32, Ty::F16] } else { std::slice::from_ref(&d_ty) })?;
    let bitwise = if a_ty == Ty::B1 {
        let f = cx.choose(&[("xor", Logic::Xor), ("and", Logic::And)])?;
        cx.need(&["popc"])?;
        Some(f)
    } else {
        None
    };
    let saturate = early || (d_ty == Ty::S32 && bitwise.is_none() && cx.eat("satfinite"));
    if !known.contains(&shape) || (early && bitwise.is_some()) {
        let there = known.iter().map(|(m, k)| format!("m{m}n8k{k}")).collect::<Vec<_>>();
        let there = if there.is_empty() { "no shape".to_owned() } else { there.join(" and ") };
        let kind = if sparse.is_some() { "sparse mma" } else { "mma" };
        let text = format!("{kind} of .{} is modelled as {there}; this says m{m}n8k{k}", a_ty.name());
        return cx.error(cx.instr.span, text);
    }
    if quads {
        return four_products(cx, (d_ty, c_ty), a_by_rows, b_by_columns);
    }
    if !(a_by_rows && b_by_columns) {
        let text = format!("mma of .{} and m{m}n8k{k} takes A by rows and B by columns: .row.col", a_ty.name());
        return cx.error(cx.instr.span, text);
    }
    let count = if sparse.is_some() { 6 } else { 4 };
    cx.count(count, count)?;
    let (out, element) = if d_ty == Ty::F16 { (m as usize / 8, Ty::B32) } else { (m as usize / 4, d_ty) };
    // m x k and k x 8 elements over 32 threads.
    let factor = if a_ty == Ty::F64 { Ty::F64 } else { Ty::B32 };
    let stored = if sparse.is_some() { k / 2 } else { k };
    let [a_regs, b_regs] =
        [(m, stored), (8, k)].map(|(lines, k)| (lines * k * a_ty.bits() / factor.bits() / 32) as usize);
    let (d, a, b, c) = fragments(cx, [(out, element), (a_regs, factor), (b_regs, factor), (out, element)])?;
    let sparse = sparse.map(|ordered| metadata(cx, 4, a_ty, k, ordered)).transpose()?;
    Ok(Op::Mma(Box::new(Mma { m, k, d_ty, a_ty, b_ty, c_ty, d, a, b, c, saturate, bitwise, sparse })))
}

/// Registers of D, A and B, and the sources of C.
type Fragments = (Vec<u32>, Vec<u32>, Vec<u32>, Vec<Src>);

/// D, A, B and C, of so many registers of these types.
fn fragments(cx: &mut Context<'_>, [d, a, b, c]: [(usize, Ty); 4]) -> Parsed<Fragments> {
    let all = (cx.dst_regs(0, d.1)?, cx.src_regs(1, a.1)?, cx.src_regs(2, b.1)?);
    let sums = cx.vector(3)?.into_iter().map(|o| cx.src_of(o, c.1)).collect::<Parsed<Vec<Src>>>()?;
    let have = [all.0.len(), all.1.len(), all.2.len(), sums.len()];
    for (i, (have, want)) in have.into_iter().zip([d.0, a.0, b.0, c.0]).enumerate() {
        if have != want {
            return cx.error(cx.operand(i)?.span, format!("this fragment has {want} registers; {have} are given"));
        }
    }
    Ok((all.0, all.1, all.2, sums))
}

/// `mma.m8n8k4` of f16: a product for each eight threads.
fn four_products(cx: &mut Context<'_>, (d_ty, c_ty): (Ty, Ty), a_by_rows: bool, b_by_columns: bool) -> Parsed<Op> {
    cx.count(4, 4)?;
    let sums = |ty: Ty| if ty == Ty::F16 { (4, Ty::B32) } else { (8, Ty::F32) };
    let (d, a, b, c) = fragments(cx, [sums(d_ty), (2, Ty::B32), (2, Ty::B32), sums(c_ty)])?;
    Ok(Op::MmaQuads(Box::new(Quads { d_ty, c_ty, a_by_rows, b_by_columns, d, a, b, c })))
}
