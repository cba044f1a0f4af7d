//! `cp.async.bulk` and `cp.async.bulk.tensor`: the tensor memory accelerator.

use super::super::context::Context;
use super::super::op::{Addr, AtomFn, Bulk, Op, Src, Tensor, Way};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;
use crate::parse::ast::OperandKind;

/// Where copies to shared memory go.
const SHARED: &[(&str, Space)] = &[("shared::cluster", Space::SharedCluster), ("shared::cta", Space::SharedCta)];

pub(super) fn decode(cx: &mut Context<'_>) -> Parsed<Op> {
    let reduce = cx.eat("reduce");
    cx.need(&["async"])?;
    cx.need(&["bulk"])?;
    match cx.eat_any(&["commit_group", "wait_group"]) {
        Some("commit_group") => {
            cx.count(0, 0)?;
            return Ok(Op::BulkCommit);
        }
        Some(_) => {
            let read = cx.eat("read");
            cx.count(1, 1)?;
            return Ok(Op::BulkWait { pending: cx.imm(0)?.min(u64::from(u32::MAX)) as u32, read });
        }
        None => {}
    }
    let prefetch = cx.eat("prefetch");
    if cx.eat("tensor") { tensor(cx, prefetch, reduce) } else { linear(cx, prefetch, reduce) }
}

/// `[map, {c0, c1}]`
fn map_and_coords(cx: &mut Context<'_>, i: usize, rank: usize) -> Parsed<(Addr, Vec<Src>)> {
    let o = cx.operand(i)?;
    let OperandKind::Address { base, offset, rest } = &o.kind else {
        return cx.error(o.span, "a tensor coordinate `[map, {x, y}]` is needed here");
    };
    let map = cx.base(base.as_deref(), *offset, Space::Generic)?;
    let list = match rest.as_slice() {
        [one] => match &one.kind {
            OperandKind::Vector(v) => v.as_slice(),
            _ => rest.as_slice(),
        },
        _ => return cx.error(o.span, "the coordinates are one vector `{x, y}`"),
    };
    if list.len() != rank {
        return cx.error(o.span, format!("a {rank}d copy takes {rank} coordinates; {} are given", list.len()));
    }
    let coords = list.iter().map(|c| cx.src_of(c, Ty::S32)).collect::<Parsed<Vec<_>>>()?;
    Ok((map, coords))
}

/// Modes that Hopper does not have.
const LATER_MODES: [&str; 4] = ["tile::gather4", "tile::scatter4", "im2col::w", "im2col::w::128"];

/// The functions of `cp.reduce`.
const REDUCTIONS: &[(&str, AtomFn)] = &[
    ("add", AtomFn::Add),
    ("min", AtomFn::Min),
    ("max", AtomFn::Max),
    ("inc", AtomFn::Inc),
    ("dec", AtomFn::Dec),
    ("and", AtomFn::And),
    ("or", AtomFn::Or),
    ("xor", AtomFn::Xor),
];

/// Takes the mode of a copy: whether it is im2col, by its word, and not a tile.
fn im2col(cx: &mut Context<'_>, rank: usize, word: &str) -> Parsed<bool> {
    if cx.eat("tile") {
        return Ok(false);
    }
    if let Some(mode) = cx.eat_any(&LATER_MODES) {
        return cx.error(cx.instr.span, format!("`.{mode}` is not modelled: the first target that has it is sm_100"));
    }
    let yes = cx.eat(word);
    if yes && rank < 3 {
        return cx.error(cx.instr.span, format!("`.{word}` is of tensors with 3 to 5 dimensions, not {rank}"));
    }
    Ok(yes)
}

/// The offsets of im2col mode, one for each spatial dimension.
fn offsets(cx: &mut Context<'_>, i: usize, rank: usize) -> Parsed<Vec<Src>> {
    let list = cx.vector(i)?;
    if list.len() != rank - 2 {
        let text = format!("a {rank}d im2col copy takes {} offsets; {} are given", rank - 2, list.len());
        return cx.error(cx.operand(i)?.span, text);
    }
    list.into_iter().map(|offset| cx.src_of(offset, Ty::B16)).collect()
}

fn tensor(cx: &mut Context<'_>, prefetch: bool, reduce: bool) -> Parsed<Op> {
    let rank = cx.choose(&[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)])?;
    if prefetch {
        cx.need(&["L2"])?;
        cx.need(&["global"])?;
        let im2col = im2col(cx, rank, "im2col")?;
        let hint = usize::from(cx.eat("L2::cache_hint"));
        let at = 1 + usize::from(im2col);
        cx.count(at + hint, at + hint)?;
        let (map, coords) = map_and_coords(cx, 0, rank)?;
        let im2col = if im2col { Some(offsets(cx, 1, rank)?) } else { None };
        policy(cx, hint, at)?;
        return Ok(Op::Tensor(Box::new(Tensor {
            way: Way::Prefetch,
            shared: None,
            map,
            coords,
            im2col,
            barrier: None,
            multicast: None,
        })));
    }
    if matches!(cx.peek(), Some("global")) {
        cx.eat("global");
        if cx.eat_any(&["shared::cta"]).is_none() {
            return cx.bad_modifier(".shared::cta");
        }
        let mut way = Way::ToGlobal;
        if reduce {
            way = Way::Reduce(cx.choose(REDUCTIONS)?);
        }
        // A store has no offsets: the pixels are the filter's corners.
        let im2col = im2col(cx, rank, "im2col_no_offs")?.then(|| vec![Src::Imm(0); rank - 2]);
        cx.need(&["bulk_group"])?;
        let hint = usize::from(cx.eat("L2::cache_hint"));
        cx.count(2 + hint, 2 + hint)?;
        let (map, coords) = map_and_coords(cx, 0, rank)?;
        let shared = Some(cx.addr(1, Space::SharedCta)?);
        policy(cx, hint, 2)?;
        return Ok(Op::Tensor(Box::new(Tensor { way, shared, map, coords, im2col, barrier: None, multicast: None })));
    }
    let space = cx.choose(SHARED)?;
    cx.need(&["global"])?;
    let im2col = im2col(cx, rank, "im2col")?;
    cx.need(&["mbarrier::complete_tx::bytes"])?;
    let multi = usize::from(cx.eat("multicast::cluster"));
    let hint = usize::from(cx.eat("L2::cache_hint"));
    let at = 3 + usize::from(im2col);
    cx.count(at + multi + hint, at + multi + hint)?;
    let shared = Some(cx.addr(0, space)?);
    let (map, coords) = map_and_coords(cx, 1, rank)?;
    let barrier = Some(cx.addr(2, space)?);
    let im2col = if im2col { Some(offsets(cx, 3, rank)?) } else { None };
    let multicast = if multi == 1 { Some(cx.src(at, Ty::B16)?) } else { None };
    policy(cx, hint, at + multi)?;
    Ok(Op::Tensor(Box::new(Tensor { way: Way::ToShared, shared, map, coords, im2col, barrier, multicast })))
}

fn policy(cx: &mut Context<'_>, hint: usize, i: usize) -> Parsed<()> {
    if hint == 1 {
        cx.src(i, Ty::B64)?;
    }
    Ok(())
}

fn linear(cx: &mut Context<'_>, prefetch: bool, reduce: bool) -> Parsed<Op> {
    if prefetch {
        cx.need(&["L2"])?;
        cx.need(&["global"])?;
        let hint = usize::from(cx.eat("L2::cache_hint"));
        cx.count(2 + hint, 2 + hint)?;
        let (from, bytes) = (cx.addr(0, Space::Global)?, cx.src(1, Ty::U32)?);
        policy(cx, hint, 2)?;
        let bulk = Bulk { way: Way::Prefetch, to: None, from, bytes, barrier: None, multicast: None, ty: Ty::B8 };
        return Ok(Op::Bulk(Box::new(bulk)));
    }
    if cx.eat("global") {
        cx.need(&["shared::cta"])?;
        cx.need(&["bulk_group"])?;
        let hint = usize::from(cx.eat("L2::cache_hint"));
        let (mut way, mut ty) = (Way::ToGlobal, Ty::B8);
        if reduce {
            let f = cx.choose(REDUCTIONS)?;
            let halves = f == AtomFn::Add && cx.eat("noftz");
            ty = cx.ty(match f {
                AtomFn::Add if halves => &[Ty::F16, Ty::Bf16],
                AtomFn::Add => &[Ty::U32, Ty::S32, Ty::U64, Ty::F32, Ty::F64],
                AtomFn::Min | AtomFn::Max => &[Ty::F16, Ty::Bf16, Ty::U32, Ty::S32, Ty::U64, Ty::S64],
                AtomFn::Inc | AtomFn::Dec => &[Ty::U32],
                _ => &[Ty::B32, Ty::B64],
            })?;
            way = Way::Reduce(f);
        }
        cx.count(3 + hint, 3 + hint)?;
        let to = Some(cx.addr(0, Space::Global)?);
        let (from, bytes) = (cx.addr(1, Space::SharedCta)?, cx.src(2, Ty::U32)?);
        policy(cx, hint, 3)?;
        return Ok(Op::Bulk(Box::new(Bulk { way, to, from, bytes, barrier: None, multicast: None, ty })));
    }
    if reduce {
        return cx.bad_modifier(".global.shared::cta");
    }
    let space = cx.choose(SHARED)?;
    let way = cx.choose(&[("global", Way::ToShared), ("shared::cta", Way::ToCluster)])?;
    cx.need(&["mbarrier::complete_tx::bytes"])?;
    let multi = usize::from(way == Way::ToShared && cx.eat("multicast::cluster"));
    let hint = usize::from(way == Way::ToShared && cx.eat("L2::cache_hint"));
    cx.count(4 + multi + hint, 4 + multi + hint)?;
    let to = Some(cx.addr(0, space)?);
    let from = cx.addr(1, if way == Way::ToShared { Space::Global } else { Space::SharedCta })?;
    let bytes = cx.src(2, Ty::U32)?;
    let barrier = Some(cx.addr(3, space)?);
    let multicast = if multi == 1 { Some(cx.src(4, Ty::B16)?) } else { None };
    policy(cx, hint, 4 + multi)?;
    Ok(Op::Bulk(Box::new(Bulk { way, to, from, bytes, barrier, multicast, ty: Ty::B8 })))
}
