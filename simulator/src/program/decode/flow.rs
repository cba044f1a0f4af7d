//! Control flow, warp-wide instructions and register budgets.

use super::super::context::Context;
use super::super::op::{AtomFn, Op, Shfl, Src, Vote};
use super::super::types::Ty;
use crate::parse::Parsed;

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    match cx.head() {
        "bra" => {
            let uniform = cx.eat("uni");
            cx.count(1, 1)?;
            Ok(Op::Bra { target: cx.label(0)?, uniform })
        }
        "ret" => {
            cx.eat("uni");
            cx.count(0, 0)?;
            Ok(Op::Exit)
        }
        "exit" => {
            cx.count(0, 0)?;
            Ok(Op::Exit)
        }
        "trap" => {
            cx.count(0, 0)?;
            Ok(Op::Trap)
        }
        "nanosleep" => {
            let ty = cx.ty(&[Ty::U32])?;
            cx.count(1, 1)?;
            cx.src(0, ty)?;
            Ok(Op::Sleep)
        }
        "griddepcontrol" => {
            let wait = cx.need(&["launch_dependents", "wait"])? == "wait";
            cx.count(0, 0)?;
            Ok(if wait { Op::GridWait } else { Op::GridLaunch })
        }
        "setmaxnreg" => {
            let inc = cx.need(&["inc", "dec"])? == "inc";
            cx.need(&["sync"])?;
            cx.need(&["aligned"])?;
            cx.ty(&[Ty::U32])?;
            cx.count(1, 1)?;
            let count = cx.imm(0)?;
            if !(24..=256).contains(&count) || count % 8 != 0 {
                return cx.error(
                    cx.operand(0)?.span,
                    format!("setmaxnreg takes a multiple of 8 from 24 to 256; {count} is not"),
                );
            }
            Ok(Op::Setmaxnreg { inc, count: count as u32 })
        }
        "activemask" => {
            cx.ty(&[Ty::B32])?;
            cx.count(1, 1)?;
            Ok(Op::Activemask { d: cx.dst(0, Ty::B32)? })
        }
        "elect" => {
            cx.need(&["sync"])?;
            cx.count(2, 2)?;
            let (d, p) = cx.pair(0, Ty::B32, Ty::Pred)?;
            let members = cx.src(1, Ty::B32)?;
            match p {
                Some(p) => Ok(Op::Elect { d, p, members }),
                None => cx.error(
                    cx.instr.span,
                    "elect.sync writes `register|predicate`; `_|%p` where only the predicate is wanted",
                ),
            }
        }
        "shfl" => shuffle(cx),
        "vote" => vote(cx),
        "match" => {
            let all = cx.need(&["any", "all"])? == "all";
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
        _ => {
            cx.need(&["sync"])?;
            let f = match cx.need(&["add", "min", "max", "and", "or", "xor"])? {
                "add" => AtomFn::Add,
                "min" => AtomFn::Min,
                "max" => AtomFn::Max,
                "and" => AtomFn::And,
                "or" => AtomFn::Or,
                _ => AtomFn::Xor,
            };
            let bitwise = matches!(f, AtomFn::And | AtomFn::Or | AtomFn::Xor);
            let ty = cx.ty(if bitwise { &[Ty::B32] } else { &[Ty::U32, Ty::S32] })?;
            cx.count(3, 3)?;
            let d = cx.dst(0, ty)?;
            let (a, members) = (cx.src(1, ty)?, cx.src(2, Ty::B32)?);
            Ok(Op::Redux { f, ty, d, a, members })
        }
    }
}

fn shuffle(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["sync"])?;
    let f = match cx.need(&["up", "down", "bfly", "idx"])? {
        "up" => Shfl::Up,
        "down" => Shfl::Down,
        "bfly" => Shfl::Bfly,
        _ => Shfl::Idx,
    };
    let ty = cx.ty(&[Ty::B32])?;
    cx.count(5, 5)?;
    let (d, p) = cx.pair(0, ty, Ty::Pred)?;
    let (a, b, c, members) = (cx.src(1, ty)?, cx.src(2, Ty::B32)?, cx.src(3, Ty::B32)?, cx.src(4, Ty::B32)?);
    match d {
        Some(d) => Ok(Op::Shfl { f, d, p, a, b, c, members }),
        None => cx.error(cx.instr.span, "shfl.sync writes a register"),
    }
}

fn vote(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["sync"])?;
    let f = match cx.need(&["all", "any", "uni", "ballot"])? {
        "all" => Vote::All,
        "any" => Vote::Any,
        "uni" => Vote::Uni,
        _ => Vote::Ballot,
    };
    let ty = cx.ty(if f == Vote::Ballot { &[Ty::B32] } else { &[Ty::Pred] })?;
    cx.count(3, 3)?;
    let d = cx.dst(0, ty)?;
    let a = cx.pred(1)?;
    let members: Src = cx.src(2, Ty::B32)?;
    Ok(Op::Vote { f, d, a, members })
}
