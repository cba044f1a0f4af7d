//! `ldmatrix`, `stmatrix` and `movmatrix`.

use super::super::context::Context;
use super::super::op::{Op, Src};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;

/// `movmatrix`
pub(super) fn transposed(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.sync_aligned()?;
    for word in ["m8n8", "trans", "b16"] {
        cx.need(&[word])?;
    }
    cx.count(2, 2)?;
    let d = cx.dst(0, Ty::B32)?;
    match cx.src(1, Ty::B32)? {
        Src::Reg(a) => Ok(Op::Movmatrix { d, a }),
        _ => cx.error(cx.operand(1)?.span, "movmatrix takes a register"),
    }
}

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
