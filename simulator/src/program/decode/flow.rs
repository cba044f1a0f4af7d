//! Control flow, warp-wide instructions and register budgets.

use super::super::context::Context;
use super::super::op::{AtomFn, Op, Shfl, Src, Vote};
use super::super::types::Ty;
use super::memory::ATOMICS;
use crate::parse::Parsed;

pub(super) fn without_operands(cx: &mut Context<'_>, op: Op) -> Parsed<Op> {
    cx.count(0, 0)?;
    Ok(op)
}

pub(super) fn bra(cx: &mut Context<'_>) -> Parsed<Op> {
    let uniform = cx.eat("uni");
    cx.count(1, 1)?;
    Ok(Op::Bra { target: cx.label(0)?, uniform })
}

pub(super) fn brx(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["idx"])?;
    cx.eat("uni");
    cx.count(2, 2)?;
    Ok(Op::Brx { index: cx.src(0, Ty::U32)?, targets: cx.targets(1)? })
}

pub(super) fn ret(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.eat("uni");
    without_operands(cx, Op::Exit)
}

/// `pmevent`: a count for a profiler.
pub(super) fn event(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.eat("mask");
    cx.count(1, 1)?;
    cx.imm(0)?;
    Ok(Op::Nothing)
}

pub(super) fn nanosleep(cx: &mut Context<'_>) -> Parsed<Op> {
    let ty = cx.ty(&[Ty::U32])?;
    cx.count(1, 1)?;
    cx.src(0, ty)?;
    Ok(Op::Sleep)
}

pub(super) fn griddepcontrol(cx: &mut Context<'_>) -> Parsed<Op> {
    let waits = cx.choose(&[("launch_dependents", false), ("wait", true)])?;
    without_operands(cx, if waits { Op::GridWait } else { Op::GridLaunch })
}

pub(super) fn setmaxnreg(cx: &mut Context<'_>) -> Parsed<Op> {
    let inc = cx.choose(&[("inc", true), ("dec", false)])?;
    cx.sync_aligned()?;
    cx.ty(&[Ty::U32])?;
    cx.count(1, 1)?;
    let count = cx.imm(0)?;
    if !(24..=256).contains(&count) || count % 8 != 0 {
        let text = format!("setmaxnreg takes a multiple of 8 from 24 to 256; {count} is not");
        return cx.error(cx.operand(0)?.span, text);
    }
    Ok(Op::Setmaxnreg { inc, count: count as u32 })
}

pub(super) fn activemask(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.ty(&[Ty::B32])?;
    cx.count(1, 1)?;
    Ok(Op::Activemask { d: cx.dst(0, Ty::B32)? })
}

pub(super) fn elect(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["sync"])?;
    cx.count(2, 2)?;
    let (d, p) = cx.pair(0, Ty::B32, Ty::Pred)?;
    let members = cx.src(1, Ty::B32)?;
    match p {
        Some(p) => Ok(Op::Elect { d, p, members }),
        None => {
            let text = "elect.sync writes `register|predicate`; `_|%p` where only the predicate is wanted";
            cx.error(cx.instr.span, text)
        }
    }
}

pub(super) fn matching(cx: &mut Context<'_>) -> Parsed<Op> {
    let all = cx.choose(&[("any", false), ("all", true)])?;
    cx.need(&["sync"])?;
    let ty = cx.ty(&[Ty::B32, Ty::B64])?;
    cx.count(3, 3)?;
    let (d, p) = cx.pair(0, Ty::B32, Ty::Pred)?;
    let (a, members) = (cx.src(1, ty)?, cx.src(2, Ty::B32)?);
    match d {
        Some(d) => Ok(Op::Match { all, ty, d, p, a, members }),
        None => cx.error(cx.instr.span, "match.sync writes a mask"),
    }
}

/// How many of [`ATOMICS`] there are for `redux`.
const REDUCED: usize = 6;

pub(super) fn redux(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["sync"])?;
    let f = cx.choose(&ATOMICS[..REDUCED])?;
    let bitwise = matches!(f, AtomFn::And | AtomFn::Or | AtomFn::Xor);
    let ty = cx.ty(if bitwise { &[Ty::B32] } else { &[Ty::U32, Ty::S32] })?;
    cx.count(3, 3)?;
    let d = cx.dst(0, ty)?;
    let (a, members) = (cx.src(1, ty)?, cx.src(2, Ty::B32)?);
    Ok(Op::Redux { f, ty, d, a, members })
}

const SHUFFLES: &[(&str, Shfl)] = &[("up", Shfl::Up), ("down", Shfl::Down), ("bfly", Shfl::Bfly), ("idx", Shfl::Idx)];

pub(super) fn shuffle(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["sync"])?;
    let f = cx.choose(SHUFFLES)?;
    let ty = cx.ty(&[Ty::B32])?;
    cx.count(5, 5)?;
    let (d, p) = cx.pair(0, ty, Ty::Pred)?;
    let (a, b, c, members) = (cx.src(1, ty)?, cx.src(2, Ty::B32)?, cx.src(3, Ty::B32)?, cx.src(4, Ty::B32)?);
    match d {
        Some(d) => Ok(Op::Shfl { f, d, p, a, b, c, members }),
        None => cx.error(cx.instr.span, "shfl.sync writes a register"),
    }
}

const VOTES: &[(&str, Vote)] = &[("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uni), ("ballot", Vote::Ballot)];

pub(super) fn vote(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["sync"])?;
    let f = cx.choose(VOTES)?;
    let ty = cx.ty(if f == Vote::Ballot { &[Ty::B32] } else { &[Ty::Pred] })?;
    cx.count(3, 3)?;
    let d = cx.dst(0, ty)?;
    let a = cx.pred(1)?;
    let members: Src = cx.src(2, Ty::B32)?;
    Ok(Op::Vote { f, d, a, members })
}
