//! `cvt`.

use super::super::context::Context;
use super::super::op::{Cvt, IntFn, Op, Pure, Round, Src};
use super::super::types::Ty;
use crate::parse::Parsed;

const ANY: &[Ty] = &[
    Ty::U8,
    Ty::U16,
    Ty::U32,
    Ty::U64,
    Ty::S8,
    Ty::S16,
    Ty::S32,
    Ty::S64,
    Ty::F16,
    Ty::Bf16,
    Ty::F32,
    Ty::F64,
    Ty::Tf32,
    Ty::F16x2,
    Ty::Bf16x2,
    Ty::E4m3x2,
    Ty::E5m2x2,
];

const ROUNDINGS: &[(&str, Round)] = &[
    ("rn", Round::Rn),
    ("rz", Round::Rz),
    ("rm", Round::Rm),
    ("rp", Round::Rp),
    ("rna", Round::Rna),
    ("rni", Round::Rni),
    ("rzi", Round::Rzi),
    ("rmi", Round::Rmi),
    ("rpi", Round::Rpi),
];

/// `cvt.pack`: two words, saturated, into the halves of one, or in front of what is moved up by as many bits.
fn pack(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["sat"])?;
    let narrow = [
        ("u16", (16, false)),
        ("s16", (16, true)),
        ("u8", (8, false)),
        ("s8", (8, true)),
        ("u4", (4, false)),
        ("s4", (4, true)),
    ];
    let (bits, signed) = cx.choose(&narrow)?;
    cx.ty(&[Ty::S32])?;
    let above = bits < 16;
    if above {
        cx.ty(&[Ty::B32])?;
    }
    let count = if above { 4 } else { 3 };
    cx.count(count, count)?;
    let d = cx.dst(0, Ty::B32)?;
    let (a, b) = (cx.src(1, Ty::S32)?, cx.src(2, Ty::S32)?);
    let c = if above { cx.src(3, Ty::B32)? } else { Src::Imm(0) };
    Ok(Op::Pure { f: Pure::Int(IntFn::Pack { bits, signed }, Ty::S32), d, s: [a, b, c, Src::Imm(0)] })
}

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    if cx.eat("pack") {
        return pack(cx);
    }
    let round = cx.choose_any(ROUNDINGS).unwrap_or(Round::None);
    let ftz = cx.eat("ftz");
    let finite = cx.eat("satfinite");
    let relu = cx.eat("relu");
    let sat = cx.eat("sat");
    let to = cx.ty(ANY)?;
    let from = cx.ty(ANY)?;
    check(cx, to, from, round)?;
    if matches!(to, Ty::E4m3x2 | Ty::E5m2x2) && !finite {
        return cx.error(cx.instr.span, format!("cvt to .{} saturates; write .rn.satfinite", to.name()));
    }
    if finite && (from.int() || !matches!(to, Ty::E4m3x2 | Ty::E5m2x2 | Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2)) {
        return cx.error(cx.instr.span, format!("cvt to .{} has no .satfinite here", to.name()));
    }
    let packed = matches!(to, Ty::F16x2 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2) && from == Ty::F32;
    cx.count(if packed { 3 } else { 2 }, if packed { 3 } else { 2 })?;
    let o = cx.operand(0)?;
    let (d, width) = if to.int() {
        match cx.wide_dst_of(o, to)? {
            (Some(r), w) => (r, w),
            (None, _) => return cx.error(o.span, "the destination of cvt is a register"),
        }
    } else {
        (cx.dst(0, if to == Ty::Tf32 { Ty::B32 } else { to })?, to.bits())
    };
    let mut s = [Src::Imm(0); 4];
    if packed {
        s[0] = cx.src(1, from)?;
        s[1] = cx.src(2, from)?;
    } else {
        let o = cx.operand(1)?;
        s[0] = if from.int() { cx.wide_src_of(o, from)? } else { cx.src(1, from)? };
    }
    Ok(Op::Pure { f: Pure::Cvt(Cvt { to, from, round, sat, finite, ftz, relu, width }), d, s })
}

/// The combinations of types and rounding that are modelled.
fn check(cx: &Context<'_>, to: Ty, from: Ty, round: Round) -> Parsed<()> {
    use Round::*;
    let scalar = |t: Ty| matches!(t, Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::F64);
    let size = |t: Ty| match t {
        Ty::F16 | Ty::Bf16 => 16,
        other => other.bits(),
    };
    let ok = if to.int() && from.int() {
        round == None
    } else if to.int() && scalar(from) {
        matches!(round, Rni | Rzi | Rmi | Rpi)
    } else if scalar(to) && from.int() {
        matches!(round, Rn | Rz | Rm | Rp)
    } else if scalar(to) && scalar(from) {
        if size(to) < size(from) || (to != from && size(to) == size(from)) {
            matches!(round, Rn | Rz) || (matches!(round, Rm | Rp) && to != Ty::Bf16)
        } else if to == from {
            matches!(round, None | Rni | Rzi | Rmi | Rpi)
        } else {
            round == None
        }
    } else if matches!(to, Ty::F16x2 | Ty::Bf16x2) && from == Ty::F32 {
        matches!(round, Rn | Rz)
    } else if (matches!(to, Ty::E4m3x2 | Ty::E5m2x2) && matches!(from, Ty::F32 | Ty::F16x2))
        || (to == Ty::F16x2 && matches!(from, Ty::E4m3x2 | Ty::E5m2x2))
    {
        round == Rn
    } else {
        to == Ty::Tf32 && from == Ty::F32 && matches!(round, Rna | Rn | Rz)
    };
    if ok {
        return Ok(());
    }
    cx.error(
        cx.instr.span,
        format!("cvt from .{} to .{} with this rounding is not modelled (float to int needs .rzi or the like, a narrowing conversion .rn)", from.name(), to.name()),
    )
}
