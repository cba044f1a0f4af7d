//! Loads, stores, atomics, prefetches and `cp.async`.

use super::super::context::Context;
use super::super::op::{AtomFn, Mbar, Op, Order, Pure, Scope, Semantics, Src};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;

const MEMORY: &[Ty] = &[
    Ty::B8,
    Ty::B16,
    Ty::B32,
    Ty::B64,
    Ty::U8,
    Ty::U16,
    Ty::U32,
    Ty::U64,
    Ty::S8,
    Ty::S16,
    Ty::S32,
    Ty::S64,
    Ty::F32,
    Ty::F64,
];

/// State spaces of atomics, then those of stores too, then those of loads alone.
const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("shared", Space::SharedCta),
    ("shared::cta", Space::SharedCta),
    ("shared::cluster", Space::SharedCluster),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::func", Space::Param),
    ("param::entry", Space::Param),
    ("const", Space::Global),
];
/// The spaces of atomics, and of stores.
const ATOMIC: usize = 4;
const WRITTEN: usize = 7;

/// The functions of `red` and `atom`; those of `redux` first.
pub(super) const ATOMICS: &[(&str, AtomFn)] = &[
    ("add", AtomFn::Add),
    ("min", AtomFn::Min),
    ("max", AtomFn::Max),
    ("and", AtomFn::And),
    ("or", AtomFn::Or),
    ("xor", AtomFn::Xor),
    ("exch", AtomFn::Exch),
    ("cas", AtomFn::Cas),
    ("inc", AtomFn::Inc),
    ("dec", AtomFn::Dec),
];

fn space(cx: &mut Context<'_>, allowed: &[(&str, Space)]) -> Space {
    cx.choose_any(allowed).unwrap_or(Space::Generic)
}

fn order(cx: &mut Context<'_>, strong: &[&str]) -> Order {
    if cx.eat("weak") {
        return Order::Weak;
    }
    // Of memory that is mapped for input and output: as strong as what follows.
    cx.eat("mmio");
    let Some(word) = cx.eat_any(strong) else { return Order::Weak };
    let semantics = Semantics { acquire: word == "acquire", release: word == "release", scope: scope(cx) };
    Order::Strong(semantics)
}

/// Semantics, then the state space; CUTLASS writes the space first, which ptxas takes, too.
fn order_and_space(cx: &mut Context<'_>, strong: &[&str], spaces: &[(&str, Space)]) -> (Order, Space) {
    let first = cx.choose_any(spaces);
    let order = order(cx, strong);
    (order, first.unwrap_or_else(|| space(cx, spaces)))
}

/// The scope of a strong access, the device where none is named.
fn scope(cx: &mut Context<'_>) -> Scope {
    cx.scope().unwrap_or(Scope::Device)
}

/// Cache hints: they change time, never values.
fn hints(cx: &mut Context<'_>) -> Parsed<bool> {
    cx.eat_any(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);
    cx.eat_any(&["L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"]);
    cx.eat_any(&["L2::evict_normal", "L2::evict_first", "L2::evict_last"]);
    let policy = cx.eat("L2::cache_hint");
    cx.eat_any(&["L2::64B", "L2::128B", "L2::256B"]);
    Ok(policy)
}

pub(super) fn policy(cx: &mut Context<'_>) -> Parsed<Op> {
    if cx.need(&["fractional", "range", "cvt"])? != "fractional" {
        return policy_of(cx);
    }
    let levels = &["L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"];
    cx.need(levels)?;
    cx.eat_any(levels);
    cx.need(&["b64"])?;
    cx.count(1, 2)?;
    let d = cx.dst(0, Ty::B64)?;
    if cx.operands() == 2 {
        cx.src(1, Ty::F32)?;
    }
    let s = [Src::Imm(0x1000_0000_0000_0000), Src::Imm(0), Src::Imm(0), Src::Imm(0)];
    Ok(Op::Pure { f: Pure::Mov(Ty::B64), d, s })
}

/// `createpolicy.range`, of memory from an address on, and `createpolicy.cvt`, of the host's property: nothing depends on what is in
/// a policy.
fn policy_of(cx: &mut Context<'_>) -> Parsed<Op> {
    let range = !cx.eat("L2");
    if range {
        cx.eat("global");
        let levels = &["L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"];
        cx.need(levels)?;
        cx.eat_any(levels);
    }
    cx.need(&["b64"])?;
    let d = cx.dst(0, Ty::B64)?;
    if range {
        cx.count(4, 4)?;
        cx.addr(1, Space::Global)?;
        cx.src(2, Ty::U32)?;
        cx.src(3, Ty::U32)?;
    } else {
        cx.count(2, 2)?;
        cx.src(1, Ty::B64)?;
    }
    let s = [Src::Imm(0x1000_0000_0000_0000), Src::Imm(0), Src::Imm(0), Src::Imm(0)];
    Ok(Op::Pure { f: Pure::Mov(Ty::B64), d, s })
}

/// `prefetchu`, and `applypriority` of 128 bytes.
pub(super) fn uniform_prefetch(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["L1"])?;
    cx.count(1, 1)?;
    Ok(Op::Prefetch { addr: cx.addr(0, Space::Generic)?, tensor_map: false })
}

pub(super) fn priority(cx: &mut Context<'_>) -> Parsed<Op> {
    let space = space(cx, &[("global", Space::Global)]);
    cx.need(&["L2::evict_normal"])?;
    cx.count(2, 2)?;
    let addr = cx.addr(0, space)?;
    match cx.imm(1)? {
        128 => Ok(Op::Prefetch { addr, tensor_map: false }),
        other => cx.error(cx.operand(1)?.span, format!("applypriority is of 128 bytes, not {other}")),
    }
}

fn vector_check(cx: &Context<'_>, ty: Ty, lanes: usize, found: usize, i: usize) -> Parsed<()> {
    if ty.bytes() as usize * lanes > 16 {
        return cx
            .error(cx.instr.span, format!("a vector access moves at most 16 bytes; {lanes} x {} is more", ty.bytes()));
    }
    if found != lanes {
        return cx.error(cx.operand(i)?.span, format!("{lanes} registers are needed here; {found} are given"));
    }
    Ok(())
}

fn policy_operand(cx: &mut Context<'_>, policy: bool, i: usize) -> Parsed<()> {
    cx.count(i + usize::from(policy), i + usize::from(policy))?;
    if policy {
        cx.src(i, Ty::B64)?;
    }
    Ok(())
}

pub(super) fn load(cx: &mut Context<'_>) -> Parsed<Op> {
    let (order, space) = order_and_space(cx, &["volatile", "relaxed", "acquire"], SPACES);
    let policy = hints(cx)?;
    let constant = cx.eat("nc");
    let policy = policy | hints(cx)?;
    let lanes = cx.choose_any(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    let ty = cx.ty(MEMORY)?;
    policy_operand(cx, policy, 2)?;
    let list = cx.vector(0)?;
    vector_check(cx, ty, lanes, list.len(), 0)?;
    let mut d = Vec::new();
    let mut width = ty.bits();
    for o in list {
        let (r, w) = cx.wide_dst_of(o, ty)?;
        d.push(r);
        width = width.max(w);
    }
    let addr = cx.addr(1, space)?;
    Ok(Op::Ld { ty, width, d, addr, order, constant })
}

/// The types of `st.async`.
const POSTED: &[Ty] = &[Ty::B32, Ty::B64, Ty::U32, Ty::U64, Ty::S32, Ty::S64, Ty::F32, Ty::F64];
/// Where the functions of `red.async` end, and where those begin that are not `exch` and `cas`.
const BEFORE_EXCH: usize = 6;
const AFTER_CAS: usize = 8;

/// `st.async` and `red.async`.
fn post(cx: &mut Context<'_>, reduces: bool) -> Parsed<Op> {
    cx.need(&["async"])?;
    if reduces {
        cx.need(&["relaxed"])?;
        cx.need(&["cluster"])?;
    } else {
        cx.eat("weak");
    }
    let space = if cx.eat("shared::cluster") { Space::SharedCluster } else { Space::Generic };
    cx.need(&["mbarrier::complete_tx::bytes"])?;
    let f = match (reduces, cx.choose_any(&ATOMICS[AFTER_CAS..])) {
        (true, None) => Some(cx.choose(&ATOMICS[..BEFORE_EXCH])?),
        (_, f) => f,
    };
    let lanes = if reduces { 1 } else { cx.choose_any(&[("v2", 2), ("v4", 4)]).unwrap_or(1) };
    let ty = cx.ty(match f {
        None => POSTED,
        Some(AtomFn::Add) => &[Ty::U32, Ty::S32, Ty::U64],
        Some(AtomFn::Min | AtomFn::Max) => &[Ty::U32, Ty::S32],
        Some(AtomFn::Inc | AtomFn::Dec) => &[Ty::U32],
        Some(_) => &[Ty::B32],
    })?;
    cx.count(3, 3)?;
    let list = cx.vector(1)?;
    vector_check(cx, ty, lanes, list.len(), 1)?;
    let s = list.into_iter().map(|o| cx.wide_src_of(o, ty)).collect::<Parsed<Vec<_>>>()?;
    Ok(Op::Post { f, ty, s, to: cx.addr(0, space)?, barrier: cx.addr(2, space)? })
}

pub(super) fn store(cx: &mut Context<'_>) -> Parsed<Op> {
    if cx.has("async") {
        return post(cx, false);
    }
    let (order, space) = order_and_space(cx, &["volatile", "relaxed", "release"], &SPACES[..WRITTEN]);
    let policy = hints(cx)?;
    let lanes = cx.choose_any(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    let ty = cx.ty(MEMORY)?;
    policy_operand(cx, policy, 2)?;
    let list = cx.vector(1)?;
    vector_check(cx, ty, lanes, list.len(), 1)?;
    let s = list.into_iter().map(|o| cx.wide_src_of(o, ty)).collect::<Parsed<Vec<_>>>()?;
    let addr = cx.addr(0, space)?;
    Ok(Op::St { ty, s, addr, order })
}

pub(super) fn atomic(cx: &mut Context<'_>, returns: bool) -> Parsed<Op> {
    if cx.has("async") && !returns {
        return post(cx, true);
    }
    // The ISA's order is semantics, scope, space; ptxas takes any.
    let (mut word, mut reach, mut at) = (None, None, None);
    loop {
        let before = cx.at();
        word = word.or_else(|| cx.eat_any(&["relaxed", "acquire", "release", "acq_rel"]));
        reach = reach.or_else(|| cx.scope());
        at = at.or_else(|| cx.choose_any(&SPACES[..ATOMIC]));
        if cx.at() == before {
            break;
        }
    }
    let semantics = Semantics {
        acquire: matches!(word, Some("acquire" | "acq_rel")),
        release: matches!(word, Some("release" | "acq_rel")),
        scope: reach.unwrap_or(Scope::Device),
    };
    let space = at.unwrap_or(Space::Generic);
    let f = cx.choose(ATOMICS)?;
    let halves = f == AtomFn::Add && cx.eat("noftz");
    let smaller_or_larger = matches!(f, AtomFn::Min | AtomFn::Max);
    let halves = halves || (smaller_or_larger && cx.eat("noftz"));
    let is_vector = (f == AtomFn::Add || halves) && at == Some(Space::Global);
    if let Some(lanes) = is_vector.then(|| cx.choose_any(&[("v2", 2), ("v4", 4), ("v8", 8)])).flatten() {
        return vector(cx, (semantics, f), lanes, halves, returns);
    }
    if halves && smaller_or_larger {
        return cx.bad_modifier(".v2, .v4 or .v8");
    }
    let ty = cx.ty(match f {
        AtomFn::Add if halves => &[Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2],
        AtomFn::Add => &[Ty::U32, Ty::S32, Ty::U64, Ty::F32, Ty::F64],
        AtomFn::Min | AtomFn::Max => &[Ty::U32, Ty::S32, Ty::U64, Ty::S64],
        AtomFn::Inc | AtomFn::Dec => &[Ty::U32],
        AtomFn::Cas => &[Ty::B16, Ty::B32, Ty::B64],
        _ => &[Ty::B32, Ty::B64],
    })?;
    let base = usize::from(returns);
    let operands = base + 2 + usize::from(f == AtomFn::Cas);
    cx.count(operands, operands)?;
    let d = if returns { cx.sink(0, ty)? } else { None };
    let addr = cx.addr(base, space)?;
    let b = cx.src(base + 1, ty)?;
    let c = if f == AtomFn::Cas { cx.src(base + 2, ty)? } else { Src::Imm(0) };
    Ok(Op::Atom { semantics, f, ty, d, addr, b, c })
}

/// 8 to 16 bytes of f32, halves or pairs of halves in global memory.
fn vector(
    cx: &mut Context<'_>,
    (semantics, f): (Semantics, AtomFn),
    lanes: usize,
    halves: bool,
    returns: bool,
) -> Parsed<Op> {
    let ty = cx.ty(if halves { &[Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2] } else { &[Ty::F32] })?;
    let at = usize::from(returns);
    cx.count(at + 2, at + 2)?;
    let mut d = Vec::new();
    if returns {
        let list = cx.vector(0)?;
        vector_check(cx, ty, lanes, list.len(), 0)?;
        for o in list {
            d.push(cx.wide_dst_of(o, ty)?.0);
        }
    }
    let list = cx.vector(at + 1)?;
    vector_check(cx, ty, lanes, list.len(), at + 1)?;
    let b = list.into_iter().map(|o| cx.src_of(o, ty)).collect::<Parsed<Vec<_>>>()?;
    let addr = cx.addr(at, Space::Global)?;
    Ok(Op::RedVector { semantics, f, ty, d, addr, b })
}

pub(super) fn prefetch(cx: &mut Context<'_>) -> Parsed<Op> {
    let space = space(cx, &[("global", Space::Global), ("param", Space::Param)]);
    let levels = &["tensormap", "L1", "L2", "L2::evict_last", "L2::evict_normal"];
    let tensor_map = cx.need(levels)? == "tensormap";
    cx.count(1, 1)?;
    let addr = cx.addr(0, space)?;
    Ok(Op::Prefetch { addr, tensor_map })
}

/// `cp.async` and its groups (the non-bulk kind).
pub(super) fn cp_async(cx: &mut Context<'_>) -> Parsed<Op> {
    cx.need(&["async"])?;
    match cx.eat_any(&["commit_group", "wait_group", "wait_all", "mbarrier"]) {
        Some("commit_group") => {
            cx.count(0, 0)?;
            return Ok(Op::CpAsyncCommit);
        }
        Some("wait_group") => {
            cx.count(1, 1)?;
            return Ok(Op::CpAsyncWait { pending: cx.imm(0)?.min(u64::from(u32::MAX)) as u32, all: false });
        }
        Some("wait_all") => {
            cx.count(0, 0)?;
            return Ok(Op::CpAsyncWait { pending: 0, all: true });
        }
        Some(_) => {
            cx.need(&["arrive"])?;
            let noinc = cx.eat("noinc");
            let space = cx.shared_space();
            cx.need(&["b64"])?;
            cx.count(1, 1)?;
            let addr = cx.addr(0, space)?;
            return Ok(Op::Mbar { op: Mbar::CpAsyncArrive { noinc }, addr });
        }
        None => {}
    }
    let only16 = cx.need(&["ca", "cg"])? == "cg";
    if cx.shared_space() == Space::Generic {
        return cx.bad_modifier(".shared.global");
    }
    cx.need(&["global"])?;
    let policy = cx.eat("L2::cache_hint");
    cx.eat_any(&["L2::64B", "L2::128B", "L2::256B"]);
    let most = 4 + usize::from(policy);
    cx.count(3 + usize::from(policy), most)?;
    let bytes = cx.imm(2)?;
    if !matches!(bytes, 4 | 8 | 16) || (only16 && bytes != 16) {
        return cx.error(cx.operand(2)?.span, "cp.async moves 4, 8 or 16 bytes, and cp.async.cg only 16");
    }
    let to = cx.addr(0, Space::SharedCta)?;
    let from = cx.addr(1, Space::Global)?;
    let (mut source, mut ignore) = (None, None);
    if cx.operands() > 3 + usize::from(policy) {
        if cx.is_predicate(3)? {
            ignore = Some(cx.pred(3)?);
        } else {
            source = Some(cx.src(3, Ty::U32)?);
        }
    }
    Ok(Op::CpAsync { to, from, bytes: bytes as u32, source, ignore })
}
