//! `mov`, comparisons and selections, and address arithmetic between windows.

use super::super::context::Context;
use super::super::op::{Class, Cmp, Logic, Op, Pure, Src};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;
use crate::parse::ast::OperandKind;

/// The state spaces of `cvta`.
const WINDOWS: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("shared", Space::SharedCta),
    ("shared::cta", Space::SharedCta),
    ("shared::cluster", Space::SharedCluster),
    ("param", Space::Param),
    ("local", Space::Local),
    ("const", Space::Global),
];

pub(super) fn cvta(cx: &mut Context<'_>) -> Parsed<Op> {
    let to = cx.eat("to");
    let space = cx.choose(WINDOWS)?;
    let ty = cx.ty(&[Ty::U64])?;
    cx.count(2, 2)?;
    let d = cx.dst(0, ty)?;
    let a = cx.src(1, ty)?;
    Ok(pure(if to { Pure::CvtaTo(space) } else { Pure::CvtaFrom(space) }, d, &[a]))
}

pub(super) fn mapa(cx: &mut Context<'_>) -> Parsed<Op> {
    let generic = cx.shared_space() == Space::Generic;
    let ty = cx.ty(&[Ty::U32, Ty::U64])?;
    if generic && ty == Ty::U32 {
        return cx.error(cx.instr.span, "a generic address has 64 bits: mapa.u64, or mapa.shared::cluster.u32");
    }
    cx.count(3, 3)?;
    let d = cx.dst(0, ty)?;
    let (a, b) = (cx.src(1, ty)?, cx.src(2, Ty::U32)?);
    Ok(pure(Pure::Mapa { generic }, d, &[a, b]))
}

pub(super) fn getctarank(cx: &mut Context<'_>) -> Parsed<Op> {
    let generic = cx.shared_space() == Space::Generic;
    let ty = cx.ty(&[Ty::U32, Ty::U64])?;
    cx.count(2, 2)?;
    let d = cx.dst(0, Ty::U32)?;
    let a = cx.src(1, ty)?;
    Ok(pure(Pure::Getctarank { generic }, d, &[a]))
}

fn pure(f: Pure, d: u32, s: &[Src]) -> Op {
    let mut all = [Src::Imm(0); 4];
    all[..s.len()].copy_from_slice(s);
    Op::Pure { f, d, s: all }
}

pub(super) fn mov(cx: &mut Context<'_>) -> Parsed<Op> {
    let ty = cx.ty(&[
        Ty::Pred,
        Ty::B16,
        Ty::B32,
        Ty::B64,
        Ty::U16,
        Ty::U32,
        Ty::U64,
        Ty::S16,
        Ty::S32,
        Ty::S64,
        Ty::F16,
        Ty::F16x2,
        Ty::Bf16,
        Ty::Bf16x2,
        Ty::F32,
        Ty::F64,
    ])?;
    cx.count(2, 2)?;
    if ty == Ty::Pred {
        let d = cx.dst(0, ty)?;
        let a = cx.pred(1)?;
        return Ok(Op::Logic { f: Logic::Mov, d, a, b: a });
    }
    let (to, from) = (cx.operand(0)?, cx.operand(1)?);
    if let OperandKind::Vector(parts) = &from.kind {
        let part = part_type(cx, ty, parts.len())?;
        let parts = parts.iter().map(|o| cx.src_of(o, part)).collect::<Parsed<Vec<_>>>()?;
        let d = cx.dst(0, ty)?;
        return Ok(Op::Pack { d, parts, bits: part.bits() });
    }
    if let OperandKind::Vector(parts) = &to.kind {
        let part = part_type(cx, ty, parts.len())?;
        let a = cx.src(1, ty)?;
        let mut regs = Vec::new();
        for o in parts {
            let sink = matches!(&o.kind, OperandKind::Word(w) if w == "_");
            regs.push(if sink { None } else { Some(cx.dst_of(o, part)?) });
        }
        return Ok(Op::Unpack { a, parts: regs, bits: part.bits() });
    }
    let d = cx.dst(0, ty)?;
    let a = cx.src(1, ty)?;
    Ok(pure(Pure::Mov(ty), d, &[a]))
}

fn part_type(cx: &Context<'_>, ty: Ty, parts: usize) -> Parsed<Ty> {
    match (ty.untyped(), ty.bits() as usize, parts) {
        (true, 64, 2) => Ok(Ty::B32),
        (true, 64, 4) | (true, 32, 2) => Ok(Ty::B16),
        (true, 32, 4) | (true, 16, 2) => Ok(Ty::B8),
        _ => {
            cx.error(cx.instr.span, format!("mov.{} cannot pack or unpack {parts} parts; use .b32 or .b64", ty.name()))
        }
    }
}

const COMPARISONS: &[(&str, Cmp)] = &[
    ("eq", Cmp::Eq),
    ("ne", Cmp::Ne),
    ("lt", Cmp::Lt),
    ("lo", Cmp::Lt),
    ("le", Cmp::Le),
    ("ls", Cmp::Le),
    ("gt", Cmp::Gt),
    ("hi", Cmp::Gt),
    ("ge", Cmp::Ge),
    ("hs", Cmp::Ge),
    ("equ", Cmp::Equ),
    ("neu", Cmp::Neu),
    ("ltu", Cmp::Ltu),
    ("leu", Cmp::Leu),
    ("gtu", Cmp::Gtu),
    ("geu", Cmp::Geu),
    ("num", Cmp::Num),
    ("nan", Cmp::Nan),
];

/// Two that are compared one by one.
const HALVES: &[Ty] = &[Ty::F16x2, Ty::Bf16x2];

/// How `setp` and `set` combine their comparison with a predicate.
const COMBINED: &[(&str, Logic)] = &[("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)];

const COMPARED: &[Ty] = &[
    Ty::B16,
    Ty::B32,
    Ty::B64,
    Ty::U16,
    Ty::U32,
    Ty::U64,
    Ty::S16,
    Ty::S32,
    Ty::S64,
    Ty::F16,
    Ty::Bf16,
    Ty::F32,
    Ty::F64,
];

fn comparison(cx: &mut Context<'_>) -> Parsed<Cmp> {
    match cx.choose_any(COMPARISONS) {
        Some(comparison) => Ok(comparison),
        None => cx.bad_modifier("a comparison such as .eq or .lt"),
    }
}

fn check(cx: &Context<'_>, c: Cmp, ty: Ty) -> Parsed<()> {
    use Cmp::{Eq, Equ, Geu, Gtu, Leu, Ltu, Nan, Ne, Neu, Num};
    let bad = if ty.untyped() {
        !matches!(c, Eq | Ne)
    } else {
        ty.int() && matches!(c, Equ | Neu | Ltu | Leu | Gtu | Geu | Num | Nan)
    };
    if bad { cx.error(cx.instr.span, format!("this comparison does not exist for .{}", ty.name())) } else { Ok(()) }
}

pub(super) fn setp(cx: &mut Context<'_>) -> Parsed<Op> {
    let c = comparison(cx)?;
    let logic = cx.choose_any(COMBINED);
    let ftz = cx.eat("ftz");
    let halves = cx.peek().is_some_and(|word| matches!(word, "f16x2" | "bf16x2"));
    let ty = cx.ty(if halves { HALVES } else { COMPARED })?;
    check(cx, c, ty)?;
    let n = 3 + usize::from(logic.is_some());
    cx.count(n, n)?;
    let (p, q) = cx.pair(0, Ty::Pred, Ty::Pred)?;
    let (a, b) = (cx.src(1, ty)?, cx.src(2, ty)?);
    let with = match logic {
        Some(l) => Some((l, cx.pred(3)?)),
        None => None,
    };
    Ok(Op::Setp { cmp: c, ty, ftz, p, q, a, b, with })
}

pub(super) fn set(cx: &mut Context<'_>) -> Parsed<Op> {
    let c = comparison(cx)?;
    let logic = cx.choose_any(COMBINED);
    cx.eat("ftz");
    let to = cx.ty(&[Ty::U32, Ty::S32, Ty::F32, Ty::F16, Ty::Bf16, Ty::F16x2, Ty::Bf16x2])?;
    let ty = cx.ty(if HALVES.contains(&to) { HALVES } else { COMPARED })?;
    check(cx, c, ty)?;
    let n = 3 + usize::from(logic.is_some());
    cx.count(n, n)?;
    let d = cx.dst(0, to)?;
    let (a, b) = (cx.src(1, ty)?, cx.src(2, ty)?);
    let with = match logic {
        Some(l) => Some((l, cx.pred(3)?)),
        None => None,
    };
    Ok(Op::Set { cmp: c, to, ty, d, a, b, with })
}

/// `slct`: one of two values, by the sign of a third.
pub(super) fn slct(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.eat("ftz");
    let ty = cx.ty(COMPARED)?;
    let by = cx.ty(&[Ty::S32, Ty::F32])?;
    cx.count(4, 4)?;
    let d = cx.dst(0, ty)?;
    let s = [cx.src(1, ty)?, cx.src(2, ty)?, cx.src(3, by)?];
    Ok(pure(Pure::Slct(by), d, &s))
}

const CLASSES: &[(&str, Class)] = &[
    ("finite", Class::Finite),
    ("infinite", Class::Infinite),
    ("number", Class::Number),
    ("notanumber", Class::NotANumber),
    ("normal", Class::Normal),
    ("subnormal", Class::Subnormal),
];

pub(super) fn testp(cx: &mut Context<'_>) -> Parsed<Op> {
    let class = cx.choose(CLASSES)?;
    let ty = cx.ty(&[Ty::F32, Ty::F64])?;
    cx.count(2, 2)?;
    let p = cx.dst(0, Ty::Pred)?;
    Ok(Op::Testp { class, ty, p, a: cx.src(1, ty)? })
}

/// Variables of `.const` are in global memory here, so that nothing tells the two apart.
const TOLD_APART: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("shared", Space::SharedCta),
    ("shared::cta", Space::SharedCta),
    ("shared::cluster", Space::SharedCluster),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::entry", Space::Param),
];

pub(super) fn isspacep(cx: &mut Context<'_>) -> Parsed<Op> {
    let space = cx.choose(TOLD_APART)?;
    cx.count(2, 2)?;
    let p = cx.dst(0, Ty::Pred)?;
    Ok(Op::Isspacep { space, p, a: cx.src(1, Ty::U64)? })
}

pub(super) fn selp(cx: &mut Context<'_>) -> Parsed<Op> {
    let ty = cx.ty(COMPARED)?;
    cx.count(4, 4)?;
    let d = cx.dst(0, ty)?;
    let (a, b) = (cx.src(1, ty)?, cx.src(2, ty)?);
    let p = cx.pred(3)?;
    Ok(Op::Selp { d, a, b, p })
}
