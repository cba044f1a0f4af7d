//! `tensormap`: tensor maps that a kernel makes itself.

use super::super::context::Context;
use super::super::op::{MapField, Op, Src};
use super::super::types::{Space, Ty};
use super::barrier::SCOPES;
use crate::parse::Parsed;

/// How a field is written.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    /// One value.
    One,
    /// A dimension, and a value.
    Ordinal,
    /// One constant.
    Constant,
}

const FIELDS: &[(&str, (MapField, Takes))] = &[
    ("global_address", (MapField::Address, Takes::One)),
    ("rank", (MapField::Rank, Takes::One)),
    ("box_dim", (MapField::Box, Takes::Ordinal)),
    ("global_dim", (MapField::Extent, Takes::Ordinal)),
    ("global_stride", (MapField::Stride, Takes::Ordinal)),
    ("element_stride", (MapField::ElementStride, Takes::Ordinal)),
    ("elemtype", (MapField::Element, Takes::Constant)),
    ("interleave_layout", (MapField::Interleave, Takes::Constant)),
    ("swizzle_mode", (MapField::Swizzle, Takes::Constant)),
    ("fill_mode", (MapField::Fill, Takes::Constant)),
];

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    if cx.eat("cp_fenceproxy") {
        return release(cx);
    }
    cx.need(&["replace"])?;
    cx.need(&["tile"])?;
    let (field, takes) = cx.choose(FIELDS)?;
    let space = match cx.eat_any(&["global", "shared::cta"]) {
        Some("global") => Space::Global,
        Some(_) => Space::SharedCta,
        None => Space::Generic,
    };
    cx.need(&["b1024"])?;
    let ty = cx.ty(match field {
        MapField::Address | MapField::Stride => &[Ty::B64],
        _ => &[Ty::B32],
    })?;
    let ordinal = usize::from(takes == Takes::Ordinal);
    cx.count(2 + ordinal, 2 + ordinal)?;
    let addr = cx.addr(0, space)?;
    let dimension = if takes == Takes::Ordinal { cx.imm(1)? } else { 0 };
    let most = if field == MapField::Stride { 3 } else { 4 };
    if dimension > most {
        return cx.error(cx.operand(1)?.span, format!("the ordinal of this field is 0 to {most}, not {dimension}"));
    }
    let value = match takes {
        Takes::Constant => Src::Imm(cx.imm(1)?),
        _ => cx.src(1 + ordinal, ty)?,
    };
    Ok(Op::MapReplace { field, addr, ordinal: dimension as u32, value })
}

fn release(cx: &mut Context<'_>) -> Parsed<Op> {
    for word in ["global", "shared::cta", "tensormap::generic", "release"] {
        cx.need(&[word])?;
    }
    let Some(scope) = cx.scope() else { return cx.bad_modifier(SCOPES) };
    cx.sync_aligned()?;
    cx.count(3, 3)?;
    let (to, from) = (cx.addr(0, Space::Global)?, cx.addr(1, Space::SharedCta)?);
    match cx.imm(2)? {
        128 => Ok(Op::MapRelease { to, from, scope }),
        _ => cx.error(cx.operand(2)?.span, "a tensor map has 128 bytes"),
    }
}
