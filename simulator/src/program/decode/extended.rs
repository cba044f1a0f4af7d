//! Arithmetic with the carry flag: `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`.

use super::super::context::Context;
use super::super::op::{Extended, Op, Src};
use super::super::types::Ty;
use crate::parse::Parsed;

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    let head = cx.head();
    let takes = head.ends_with('c');
    let f = match head.trim_end_matches('c') {
        "add" => Extended::Add,
        "sub" => Extended::Sub,
        "mad" => cx.choose(&[("lo", Extended::MadLo), ("hi", Extended::MadHi)])?,
        _ => return cx.error(cx.instr.span, format!("`{head}` has no carry")),
    };
    let gives = cx.eat("cc");
    let ty = cx.ty(&[Ty::U32, Ty::S32, Ty::U64, Ty::S64])?;
    let operands = if matches!(f, Extended::Add | Extended::Sub) { 2 } else { 3 };
    cx.count(operands + 1, operands + 1)?;
    let d = cx.dst(0, ty)?;
    let mut s = [Src::Imm(0); 3];
    for (i, slot) in s.iter_mut().enumerate().take(operands) {
        *slot = cx.src(i + 1, ty)?;
    }
    let flag = cx.carry_flag(takes, gives)?;
    Ok(Op::Extended { f, ty, d, s, flag, takes, gives })
}
