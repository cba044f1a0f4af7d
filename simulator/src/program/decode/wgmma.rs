//! `wgmma`: the warpgroup's asynchronous matrix multiply.

use super::super::context::Context;
use super::super::op::{Op, WgA, Wgmma};
use super::super::types::Ty;
use super::sparse;
use crate::parse::Parsed;
use crate::parse::ast::OperandKind;

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    match cx.need(&["fence", "commit_group", "wait_group", "mma_async"])? {
        "fence" => {
            cx.sync_aligned()?;
            cx.count(0, 0)?;
            Ok(Op::WgFence)
        }
        "commit_group" => {
            cx.sync_aligned()?;
            cx.count(0, 0)?;
            Ok(Op::WgCommit)
        }
        "wait_group" => {
            cx.sync_aligned()?;
            cx.count(1, 1)?;
            let pending = cx.imm(0)?;
            if pending > 7 {
                return cx.error(cx.operand(0)?.span, format!("wgmma.wait_group takes 0 to 7; {pending} is not"));
            }
            Ok(Op::WgWait { pending: pending as u32 })
        }
        _ => mma(cx),
    }
}

/// `m64n128k16` to (128, 16).
fn shape(word: &str) -> Option<(u32, u32)> {
    let (n, k) = word.strip_prefix("m64n")?.split_once('k')?;
    Some((n.parse().ok()?, k.parse().ok()?))
}

fn mma(cx: &mut Context<'_>) -> Parsed<Op> {
    let is_sparse = cx.eat("sp");
    cx.sync_aligned()?;
    let Some((n, k)) = cx.peek().and_then(shape) else {
        return cx.bad_modifier("a shape .m64nNkK");
    };
    let word = cx.peek().unwrap_or_default();
    if !(8..=256).contains(&n) || n % 8 != 0 {
        return cx.bad_modifier("n from 8 to 256 in steps of 8");
    }
    cx.eat(word);
    let early = cx.eat("satfinite");
    let d_ty = cx.ty(if early { &[Ty::S32] } else { &[Ty::F32, Ty::F16, Ty::S32] })?;
    let inputs: &[Ty] = match d_ty {
        Ty::S32 => &[Ty::S8, Ty::U8],
        Ty::F16 => &[Ty::F16, Ty::E4m3, Ty::E5m2],
        _ => &[Ty::F16, Ty::Bf16, Ty::Tf32, Ty::E4m3, Ty::E5m2],
    };
    let a_ty = cx.ty(inputs)?;
    let b_ty = match a_ty {
        Ty::E4m3 | Ty::E5m2 => cx.ty(&[Ty::E4m3, Ty::E5m2])?,
        Ty::S8 | Ty::U8 => cx.ty(&[Ty::S8, Ty::U8])?,
        same => cx.ty(&[same])?,
    };
    let wanted = if is_sparse { 512 } else { 256 } / a_ty.bits();
    if k != wanted {
        let kind = if is_sparse { "sparse wgmma" } else { "wgmma" };
        return cx.error(cx.instr.span, format!("{kind} of .{} has k = {wanted}; this says {k}", a_ty.name()));
    }
    let integer = d_ty == Ty::S32;
    let saturate = early || (integer && cx.eat("satfinite"));
    if integer && n % 16 != 0 && n != 8 && n != 24 {
        return cx.error(
            cx.instr.span,
            format!("wgmma of .{} has n = 8, 24 or a multiple of 16; this says {n}", a_ty.name()),
        );
    }
    let half = a_ty.bits() == 16;
    let from_regs = matches!(cx.operand(1)?.kind, OperandKind::Vector(_));
    let transposes = if !half {
        0
    } else if from_regs {
        1
    } else {
        2
    };
    // Metadata and its selector are behind B.
    let after_b = if is_sparse { 5 } else { 3 };
    let count = after_b + if integer { 1 } else { 3 + transposes };
    cx.count(count, count)?;
    let list = cx.vector(0)?;
    let registers = if d_ty == Ty::F16 { n / 4 } else { n / 2 } as usize;
    if list.len() != registers {
        return cx.error(
            cx.operand(0)?.span,
            format!("the accumulator of n = {n} takes {registers} registers; {} are given", list.len()),
        );
    }
    let element = if d_ty == Ty::F16 { Ty::B32 } else { d_ty };
    let d = cx.dst_regs(0, element)?;
    let a = if from_regs {
        let regs = cx.src_regs(1, Ty::B32)?;
        if regs.len() != 4 {
            return cx.error(cx.operand(1)?.span, format!("A takes 4 registers; {} are given", regs.len()));
        }
        WgA::Regs(regs)
    } else {
        WgA::Desc(cx.src(1, Ty::B64)?)
    };
    let b = cx.src(2, Ty::B64)?;
    let sparse = if is_sparse { Some(sparse::metadata(cx, 3, a_ty, k, false)?) } else { None };
    let scale_d = cx.pred(after_b)?;
    let sign = |cx: &Context<'_>, i: usize| -> Parsed<bool> {
        match cx.imm(i)? as i64 {
            1 => Ok(false),
            -1 => Ok(true),
            v => cx.error(cx.operand(i)?.span, format!("this scale is 1 or -1; {v} is neither")),
        }
    };
    let (negate_a, negate_b) = if integer { (false, false) } else { (sign(cx, after_b + 1)?, sign(cx, after_b + 2)?) };
    let flag = |cx: &Context<'_>, i: usize| -> Parsed<bool> {
        match cx.imm(i)? {
            v @ (0 | 1) => Ok(v == 1),
            v => cx.error(cx.operand(i)?.span, format!("this transpose flag is 0 or 1; {v} is neither")),
        }
    };
    let (trans_a, trans_b) = match transposes {
        2 => (flag(cx, after_b + 3)?, flag(cx, after_b + 4)?),
        1 => (false, flag(cx, after_b + 3)?),
        _ => (false, false),
    };
    Ok(Op::Wgmma(Box::new(Wgmma {
        n,
        k,
        d_ty,
        a_ty,
        b_ty,
        d,
        a,
        b,
        scale_d,
        negate_a,
        negate_b,
        trans_a,
        trans_b,
        saturate,
        sparse,
    })))
}
