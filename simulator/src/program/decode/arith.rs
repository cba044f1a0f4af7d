//! Integer, logic and floating-point arithmetic.

use super::super::context::Context;
use super::super::op::{FloatFn, FloatMods, IntFn, Op, Pure, Src};
use super::super::types::Ty;
use crate::parse::Parsed;

const INTS: &[Ty] = &[Ty::U16, Ty::U32, Ty::U64, Ty::S16, Ty::S32, Ty::S64];
const NARROW: &[Ty] = &[Ty::U16, Ty::U32, Ty::S16, Ty::S32];
const SIGNED: &[Ty] = &[Ty::S16, Ty::S32, Ty::S64];
const BITS: &[Ty] = &[Ty::B16, Ty::B32, Ty::B64];
const WIDE_BITS: &[Ty] = &[Ty::B32, Ty::B64];

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    let float = cx.instr.opcode.iter().skip(1).rev().find_map(|n| Ty::parse(&n.text)).is_some_and(Ty::float);
    if float { floating(cx) } else { integer(cx) }
}

fn pure_int(f: IntFn, ty: Ty, d: u32, s: &[Src]) -> Op {
    let mut all = [Src::Imm(0); 4];
    all[..s.len()].copy_from_slice(s);
    Op::Pure { f: Pure::Int(f, ty), d, s: all }
}

/// Type of the double-width result of `.wide`.
fn widened(ty: Ty) -> Ty {
    match ty {
        Ty::U16 => Ty::U32,
        Ty::S16 => Ty::S32,
        Ty::U32 => Ty::U64,
        _ => Ty::S64,
    }
}

fn integer(cx: &mut Context<'_>) -> Parsed<Op> {
    use IntFn::*;
    let simple = |cx: &mut Context<'_>, f: IntFn, allowed: &[Ty], n: usize| -> Parsed<Op> {
        let ty = cx.ty(allowed)?;
        cx.count(n + 1, n + 1)?;
        let d = cx.dst(0, ty)?;
        let s = (1..=n).map(|i| cx.src(i, ty)).collect::<Parsed<Vec<_>>>()?;
        Ok(pure_int(f, ty, d, &s))
    };
    match cx.head() {
        "add" => simple(cx, Add, INTS, 2),
        "sub" => simple(cx, Sub, INTS, 2),
        "div" => simple(cx, Div, INTS, 2),
        "rem" => simple(cx, Rem, INTS, 2),
        "min" => simple(cx, Min, INTS, 2),
        "max" => simple(cx, Max, INTS, 2),
        "neg" => simple(cx, Neg, SIGNED, 1),
        "abs" => simple(cx, Abs, SIGNED, 1),
        "sad" => simple(cx, Sad, INTS, 3),
        "and" | "or" | "xor" | "not" if cx.peek() == Some("pred") => predicates(cx),
        "and" => simple(cx, And, BITS, 2),
        "or" => simple(cx, Or, BITS, 2),
        "xor" => simple(cx, Xor, BITS, 2),
        "not" => simple(cx, Not, BITS, 1),
        "cnot" => simple(cx, Cnot, BITS, 1),
        "brev" => simple(cx, Brev, WIDE_BITS, 1),
        "popc" | "clz" => {
            let f = if cx.head() == "popc" { Popc } else { Clz };
            let ty = cx.ty(WIDE_BITS)?;
            cx.count(2, 2)?;
            let d = cx.dst(0, Ty::U32)?;
            let a = cx.src(1, ty)?;
            Ok(pure_int(f, ty, d, &[a]))
        }
        "bfind" => {
            let shift = cx.eat("shiftamt");
            let ty = cx.ty(&[Ty::U32, Ty::U64, Ty::S32, Ty::S64])?;
            cx.count(2, 2)?;
            let d = cx.dst(0, Ty::U32)?;
            let a = cx.src(1, ty)?;
            Ok(pure_int(Bfind, ty, d, &[a, Src::Imm(u64::from(shift))]))
        }
        "mul" => {
            let ty_of = |cx: &mut Context<'_>, wide| cx.ty(if wide { NARROW } else { INTS });
            let f = match cx.need(&["lo", "hi", "wide"])? {
                "lo" => MulLo,
                "hi" => MulHi,
                _ => MulWide,
            };
            let ty = ty_of(cx, f == MulWide)?;
            cx.count(3, 3)?;
            let d = cx.dst(0, if f == MulWide { widened(ty) } else { ty })?;
            let (a, b) = (cx.src(1, ty)?, cx.src(2, ty)?);
            Ok(pure_int(f, ty, d, &[a, b]))
        }
        "mad" => {
            let f = match cx.need(&["lo", "hi", "wide"])? {
                "lo" => MadLo,
                "hi" => MadHi,
                _ => MadWide,
            };
            let ty = cx.ty(if f == MadWide { NARROW } else { INTS })?;
            cx.count(4, 4)?;
            let out = if f == MadWide { widened(ty) } else { ty };
            let d = cx.dst(0, out)?;
            let (a, b, c) = (cx.src(1, ty)?, cx.src(2, ty)?, cx.src(3, out)?);
            Ok(pure_int(f, ty, d, &[a, b, c]))
        }
        "shl" | "shr" => {
            let (f, allowed): (_, &[Ty]) = if cx.head() == "shl" {
                (Shl, BITS)
            } else {
                (Shr, &[Ty::B16, Ty::B32, Ty::B64, Ty::U16, Ty::U32, Ty::U64, Ty::S16, Ty::S32, Ty::S64])
            };
            let ty = cx.ty(allowed)?;
            cx.count(3, 3)?;
            let d = cx.dst(0, ty)?;
            let (a, b) = (cx.src(1, ty)?, cx.src(2, Ty::U32)?);
            Ok(pure_int(f, ty, d, &[a, b]))
        }
        "shf" => {
            let left = cx.need(&["l", "r"])? == "l";
            let wrap = cx.need(&["wrap", "clamp"])? == "wrap";
            let ty = cx.ty(&[Ty::B32])?;
            cx.count(4, 4)?;
            let d = cx.dst(0, ty)?;
            let (a, b, c) = (cx.src(1, ty)?, cx.src(2, ty)?, cx.src(3, Ty::U32)?);
            Ok(pure_int(if left { ShfL { wrap } } else { ShfR { wrap } }, ty, d, &[a, b, c]))
        }
        "bfe" => {
            let ty = cx.ty(&[Ty::U32, Ty::U64, Ty::S32, Ty::S64])?;
            cx.count(4, 4)?;
            let d = cx.dst(0, ty)?;
            let (a, b, c) = (cx.src(1, ty)?, cx.src(2, Ty::U32)?, cx.src(3, Ty::U32)?);
            Ok(pure_int(Bfe, ty, d, &[a, b, c]))
        }
        "bfi" => {
            let ty = cx.ty(WIDE_BITS)?;
            cx.count(5, 5)?;
            let d = cx.dst(0, ty)?;
            let (a, b) = (cx.src(1, ty)?, cx.src(2, ty)?);
            let (c, e) = (cx.src(3, Ty::U32)?, cx.src(4, Ty::U32)?);
            Ok(pure_int(Bfi, ty, d, &[a, b, c, e]))
        }
        "prmt" => simple(cx, Prmt, &[Ty::B32], 3),
        "lop3" => {
            let ty = cx.ty(&[Ty::B32])?;
            cx.count(5, 5)?;
            let d = cx.dst(0, ty)?;
            let (a, b, c) = (cx.src(1, ty)?, cx.src(2, ty)?, cx.src(3, ty)?);
            let table = cx.imm(4)?;
            if table > 255 {
                return cx.error(cx.operand(4)?.span, "the truth table of lop3 is a byte");
            }
            Ok(pure_int(Lop3, ty, d, &[a, b, c, Src::Imm(table)]))
        }
        other => cx.error(cx.instr.span, format!("`{other}` of this type is not modelled")),
    }
}

fn predicates(cx: &mut Context<'_>) -> Parsed<Op> {
    use super::super::op::Logic;
    cx.eat("pred");
    let f = match cx.head() {
        "and" => Logic::And,
        "or" => Logic::Or,
        "xor" => Logic::Xor,
        _ => Logic::Not,
    };
    let n = if f == Logic::Not { 2 } else { 3 };
    cx.count(n, n)?;
    let d = cx.dst(0, Ty::Pred)?;
    let a = cx.pred(1)?;
    let b = if n == 3 { cx.pred(2)? } else { a };
    Ok(Op::Logic { f, d, a, b })
}

fn floating(cx: &mut Context<'_>) -> Parsed<Op> {
    use FloatFn::*;
    let all = &[Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2, Ty::F32, Ty::F64][..];
    let single = &[Ty::F32, Ty::F64][..];
    let (f, n, allowed) = match cx.head() {
        "add" => (Add, 2, all),
        "sub" => (Sub, 2, all),
        "mul" => (Mul, 2, all),
        "fma" => (Fma, 3, all),
        "mad" => (Fma, 3, single),
        "neg" => (Neg, 1, all),
        "abs" => (Abs, 1, all),
        "min" => (Min, 2, all),
        "max" => (Max, 2, all),
        "div" => (Div, 2, single),
        "rcp" => (Rcp, 1, single),
        "sqrt" => (Sqrt, 1, single),
        "rsqrt" => (Rsqrt, 1, single),
        "ex2" => (Ex2, 1, &[Ty::F32, Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2][..]),
        "lg2" => (Lg2, 1, &[Ty::F32][..]),
        "sin" => (Sin, 1, &[Ty::F32][..]),
        "cos" => (Cos, 1, &[Ty::F32][..]),
        "tanh" => (Tanh, 1, &[Ty::F32, Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2][..]),
        other => return cx.error(cx.instr.span, format!("`{other}` of this type is not modelled")),
    };
    match f {
        Fma => {
            cx.need(&["rn"])?;
        }
        Add | Sub | Mul => {
            cx.eat("rn");
        }
        Div | Rcp | Sqrt => {
            cx.need(&["rn", "approx", "full"])?;
        }
        Rsqrt | Ex2 | Lg2 | Sin | Cos | Tanh => {
            cx.need(&["approx"])?;
        }
        _ => {}
    }
    let mut m = FloatMods { ftz: cx.eat("ftz"), ..FloatMods::default() };
    match f {
        Add | Sub | Mul => m.sat = cx.eat("sat"),
        Fma => {
            m.sat = cx.eat("sat");
            m.relu = cx.eat("relu");
        }
        Min | Max => m.nan = cx.eat("NaN"),
        _ => {}
    }
    let ty = cx.ty(allowed)?;
    cx.count(n + 1, n + 1)?;
    let d = cx.dst(0, ty)?;
    let mut s = [Src::Imm(0); 4];
    for (i, slot) in s.iter_mut().enumerate().take(n) {
        *slot = cx.src(i + 1, ty)?;
    }
    Ok(Op::Pure { f: Pure::Float(f, ty, m), d, s })
}
