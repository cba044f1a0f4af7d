//! Named barriers, cluster barriers, fences and mbarriers.

use super::super::context::Context;
use super::super::op::{Fence, IntFn, Mbar, Op, PENDING_AT, Pure, Reduction, Scope, Src};
use super::super::types::{Space, Ty};
use crate::parse::Parsed;
use crate::parse::ast::OperandKind;

pub(super) fn membar(cx: &mut Context<'_>) -> Parsed<Op> {
    if cx.eat("proxy") {
        cx.need(&["alias"])?;
        return aliases(cx);
    }
    let scope = cx.choose(&[("cta", Scope::Cta), ("gl", Scope::Device), ("sys", Scope::Device)])?;
    cx.count(0, 0)?;
    Ok(Op::Fence(Fence::Thread { scope }))
}

/// A fence between two addresses of one place: every place has one address here.
fn aliases(cx: &Context<'_>) -> Parsed<Op> {
    cx.count(0, 0)?;
    Ok(Op::Nothing)
}

/// `barrier.cluster`
pub(super) fn cluster(cx: &mut Context<'_>) -> Parsed<Op> {
    let arrives = cx.choose(&[("arrive", true), ("wait", false)])?;
    let semantics = cx.eat_any(if arrives { &["release", "relaxed"] } else { &["acquire"] });
    let aligned = cx.eat("aligned");
    cx.count(0, 0)?;
    Ok(match arrives {
        true => Op::ClusterArrive { release: semantics != Some("relaxed"), aligned },
        false => Op::ClusterWait { aligned },
    })
}

/// `bar`, and `barrier` of a block.
pub(super) fn named(cx: &mut Context<'_>, is_bar: bool) -> Parsed<Op> {
    cx.eat("cta");
    if is_bar && cx.eat("warp") {
        cx.need(&["sync"])?;
        cx.count(1, 1)?;
        return Ok(Op::WarpSync { members: cx.src(0, Ty::B32)? });
    }
    if cx.eat("red") {
        return reducing(cx, is_bar);
    }
    let arrive = cx.choose(&[("sync", false), ("arrive", true)])?;
    let aligned = cx.eat("aligned") || is_bar;
    cx.count(1 + usize::from(arrive), 2)?;
    let id = cx.src(0, Ty::U32)?;
    let count = if cx.operands() == 2 { Some(cx.src(1, Ty::U32)?) } else { None };
    if let Some(Src::Imm(n)) = count
        && (n == 0 || n % 32 != 0)
    {
        let text = format!("the thread count of a barrier is a multiple of 32; {n} is not");
        return cx.error(cx.operand(1)?.span, text);
    }
    if let Src::Imm(n) = id
        && n > 15
    {
        return cx.error(cx.operand(0)?.span, format!("a block has barriers 0 to 15; {n} is not one of them"));
    }
    Ok(Op::Bar { arrive, id, count, aligned })
}

/// `bar.red`
fn reducing(cx: &mut Context<'_>, is_bar: bool) -> Parsed<Op> {
    let f = cx.choose(&[("popc", Reduction::Popc), ("and", Reduction::And), ("or", Reduction::Or)])?;
    let aligned = cx.eat("aligned") || is_bar;
    let ty = cx.ty(if f == Reduction::Popc { &[Ty::U32] } else { &[Ty::Pred] })?;
    cx.count(3, 4)?;
    let d = cx.dst(0, ty)?;
    let id = cx.src(1, Ty::U32)?;
    let count = if cx.operands() == 4 { Some(cx.src(2, Ty::U32)?) } else { None };
    let a = cx.pred(cx.operands() - 1)?;
    Ok(Op::BarRed { f, d, id, count, a, aligned })
}

/// Every scope, in words.
pub(super) const SCOPES: &str = ".cta or .cluster or .gpu or .sys";

pub(super) fn fence(cx: &mut Context<'_>) -> Parsed<Op> {
    let kind = if cx.eat("proxy") {
        match cx.need(&["async", "async::generic", "tensormap::generic", "alias"])? {
            "alias" => return aliases(cx),
            "tensormap::generic" => {
                let release = cx.choose(&[("acquire", false), ("release", true)])?;
                let Some(scope) = cx.scope() else { return cx.bad_modifier(SCOPES) };
                if release {
                    cx.count(0, 0)?;
                    return Ok(Op::Fence(Fence::MapRelease { scope }));
                }
                cx.count(2, 2)?;
                let addr = cx.addr(0, Space::Generic)?;
                return match cx.imm(1)? {
                    128 => Ok(Op::FenceMap { addr, scope }),
                    _ => cx.error(cx.operand(1)?.span, "a tensor map has 128 bytes"),
                };
            }
            "async" => match cx.eat_any(&["global", "shared::cta", "shared::cluster"]) {
                Some("global") => Fence::ProxyAsync { shared: false, global: true },
                Some(_) => Fence::ProxyAsync { shared: true, global: false },
                None => Fence::ProxyAsync { shared: true, global: true },
            },
            _ => {
                // The acquire orders the async proxy's accesses before generic ones, not the other way round.
                let release = cx.need(&["acquire", "release"])? == "release";
                cx.need(&["sync_restrict::shared::cluster", "sync_restrict::shared::cta"])?;
                cx.need(&["cluster"])?;
                Fence::ProxyAsync { shared: release, global: false }
            }
        }
    } else if cx.eat("mbarrier_init") {
        cx.need(&["release"])?;
        cx.need(&["cluster"])?;
        Fence::MbarrierInit
    } else {
        cx.eat_any(&["sc", "acq_rel", "acquire", "release"]);
        match cx.scope() {
            Some(scope) => Fence::Thread { scope },
            None => return cx.bad_modifier(SCOPES),
        }
    };
    cx.count(0, 0)?;
    Ok(Op::Fence(kind))
}

/// `.sem` and `.scope` of an operation on an mbarrier; none if it is relaxed. Where no scope is named the ISA has `.cta`;
/// hardware orders accesses in the whole cluster, and so do kernels that are in use rely on it.
fn semantics(cx: &mut Context<'_>, strong: &str) -> Option<Scope> {
    let sem = cx.eat_any(&[strong, "relaxed"]);
    let scope = match cx.peek() {
        Some("cta" | "cluster") if sem.is_some() => cx.scope(),
        _ => None,
    };
    (sem != Some("relaxed")).then_some(scope.unwrap_or(Scope::Cluster))
}

pub(super) fn mbarrier(cx: &mut Context<'_>) -> Parsed<Op> {
    let what = cx.need(&[
        "init",
        "inval",
        "arrive",
        "arrive_drop",
        "expect_tx",
        "complete_tx",
        "test_wait",
        "try_wait",
        "pending_count",
    ])?;
    let op = match what {
        "init" => {
            let space = local(cx)?;
            cx.need(&["b64"])?;
            cx.count(2, 2)?;
            let (addr, count) = (cx.addr(0, space)?, cx.src(1, Ty::U32)?);
            Op::Mbar { op: Mbar::Init { count }, addr }
        }
        "inval" => {
            let space = local(cx)?;
            cx.need(&["b64"])?;
            cx.count(1, 1)?;
            Op::Mbar { op: Mbar::Inval, addr: cx.addr(0, space)? }
        }
        "expect_tx" | "complete_tx" => {
            cx.eat("relaxed");
            cx.eat_any(&["cta", "cluster"]);
            let space = cx.shared_space();
            cx.need(&["b64"])?;
            cx.count(2, 2)?;
            let (addr, bytes) = (cx.addr(0, space)?, cx.src(1, Ty::U32)?);
            let op = if what == "expect_tx" { Mbar::ExpectTx { bytes } } else { Mbar::CompleteTx { bytes } };
            Op::Mbar { op, addr }
        }
        "pending_count" => {
            cx.need(&["b64"])?;
            cx.count(2, 2)?;
            let d = cx.dst(0, Ty::U32)?;
            let s = [cx.src(1, Ty::B64)?, Src::Imm(u64::from(PENDING_AT)), Src::Imm(0), Src::Imm(0)];
            Op::Pure { f: Pure::Int(IntFn::Shr, Ty::U64), d, s }
        }
        "arrive" | "arrive_drop" => arrive(cx, what == "arrive_drop")?,
        _ => wait(cx, what == "try_wait")?,
    };
    Ok(op)
}

/// Spaces of a barrier of the executing block.
fn local(cx: &mut Context<'_>) -> Parsed<Space> {
    let space = cx.shared_space();
    if space == Space::SharedCluster {
        return cx.error(cx.instr.span, "only a barrier in the block's own shared memory can be used so: .shared::cta");
    }
    Ok(space)
}

fn arrive(cx: &mut Context<'_>, drop: bool) -> Parsed<Op> {
    let expects = cx.eat("expect_tx");
    let no_complete = !expects && cx.eat("noComplete");
    let release = semantics(cx, "release");
    let space = cx.shared_space();
    cx.need(&["b64"])?;
    // `mbarrier.arrive.expect_tx _, [addr], n` and the older form without a result are both written.
    let has_state = !matches!(cx.operand(0)?.kind, OperandKind::Address { .. });
    let base = usize::from(has_state);
    let needs = usize::from(expects || no_complete);
    cx.count(base + 1 + needs, base + 2)?;
    let state = if has_state { cx.sink(0, Ty::B64)? } else { None };
    if state.is_some() && space == Space::SharedCluster {
        return cx.error(cx.operand(0)?.span, "an arrive on .shared::cluster returns no state; write `_`");
    }
    let addr = cx.addr(base, space)?;
    let extra = if cx.operands() == base + 2 { Some(cx.src(base + 1, Ty::U32)?) } else { None };
    let (count, expect) = match extra {
        Some(v) if expects => (Src::Imm(1), Some(v)),
        Some(v) => (v, None),
        None => (Src::Imm(1), None),
    };
    Ok(Op::Mbar { op: Mbar::Arrive { state, count, expect, drop, complete: !no_complete, release }, addr })
}

fn wait(cx: &mut Context<'_>, suspends: bool) -> Parsed<Op> {
    let parity = cx.eat("parity");
    let acquire = semantics(cx, "acquire");
    let space = local(cx)?;
    cx.need(&["b64"])?;
    cx.count(3, 3 + usize::from(suspends))?;
    let done = cx.dst(0, Ty::Pred)?;
    let addr = cx.addr(1, space)?;
    let what = cx.src(2, if parity { Ty::U32 } else { Ty::B64 })?;
    if cx.operands() == 4 {
        cx.src(3, Ty::U32)?;
    }
    Ok(Op::Mbar { op: Mbar::Wait { done, parity, what, acquire, suspends }, addr })
}
