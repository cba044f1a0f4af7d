//! Executing instructions: one file per family.

mod access;
mod assertion;
mod barrier;
mod defined;
mod flags;
mod matrix;
mod mbarrier;
mod mma;
mod mma_bits;
mod mma_f64;
mod mma_quads;
mod poll;
mod pure;
mod step;
mod warp;
mod wmma;

use crate::address::LOCAL_BASE;
use crate::arithmetic::float;
use crate::arithmetic::numbers::scalar;
use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::machine::memory::Who;
use crate::machine::warp::Wait;
use crate::machine::{Exec, Flow, Machine};
use crate::program::op::{Logic, Op, Order, PredSrc};
use crate::program::types::{Ty, mask};

impl Machine<'_> {
    pub(super) fn execute(&mut self, who: Who, op: &Op) -> Exec<Flow> {
        let w = who.w;
        match op {
            Op::Pure { f, d, s } => self.pure(who, *f, *d, s)?,
            Op::Setp { cmp, ty, ftz, p, q, a, b, with } => {
                let (x, y) = (self.values(w, *a), self.values(w, *b));
                let holds = |shift: u32, ty: Ty| {
                    let one = |l: u32| float::compare(*cmp, ty, *ftz, x[l as usize] >> shift, y[l as usize] >> shift);
                    lanes(who.mask).fold(0, |yes, l| yes | u32::from(one(l)) << l)
                };
                // The two predicates are those of a comparison and of its opposite, or of two halves.
                let (mut first, mut second) = match ty {
                    Ty::F16x2 | Ty::Bf16x2 => (holds(0, scalar(*ty)), holds(16, scalar(*ty))),
                    _ => {
                        let yes = holds(0, *ty);
                        (yes, !yes)
                    }
                };
                if let Some((logic, with)) = with {
                    let c = self.predicate(w, *with);
                    (first, second) = (combine(*logic, first, c), combine(*logic, second, c));
                }
                for (p, v) in [(p, first), (q, second)] {
                    if let Some(p) = p {
                        self.warps[w].set_pred(*p, who.mask, v);
                    }
                }
            }
            Op::Set { cmp, to, ty, d, a, b, with } => {
                let (x, y) = (self.values(w, *a), self.values(w, *b));
                let with = with.map(|(logic, p)| (logic, self.predicate(w, p)));
                let out = std::array::from_fn(|l| {
                    let also = |yes: bool| match with {
                        Some((logic, p)) => combine(logic, u32::from(yes), p >> l & 1) == 1,
                        None => yes,
                    };
                    float::set(*cmp, *to, *ty, (x[l], y[l]), also)
                });
                self.set(w, who.mask, *d, &out);
            }
            Op::Testp { .. } | Op::Isspacep { .. } | Op::Lop3 { .. } | Op::Extended { .. } => self.flags(who, op),
            Op::Selp { d, a, b, p } => {
                let (x, y, c) = (self.values(w, *a), self.values(w, *b), self.predicate(w, *p));
                let out = std::array::from_fn(|l| if c >> l & 1 == 1 { x[l] } else { y[l] });
                self.set(w, who.mask, *d, &out);
            }
            Op::Logic { f, d, a, b } => {
                let v = combine(*f, self.predicate(w, *a), self.predicate(w, *b));
                self.warps[w].set_pred(*d, who.mask, v);
            }
            Op::Pack { d, parts, bits } => {
                let mut out = [0u64; 32];
                for (i, p) in parts.iter().enumerate() {
                    let v = self.values(w, *p);
                    for (o, x) in out.iter_mut().zip(v) {
                        *o |= (x & mask(*bits)) << (i as u32 * bits);
                    }
                }
                self.set(w, who.mask, *d, &out);
            }
            Op::Unpack { a, parts, bits } => {
                let v = self.values(w, *a);
                for (i, p) in parts.iter().enumerate() {
                    if let Some(d) = p {
                        let out = v.map(|x| x >> (i as u32 * bits) & mask(*bits));
                        self.set(w, who.mask, *d, &out);
                    }
                }
            }
            Op::Trap => return self.fail(FindingKind::Trap, w, who.mask, who.pc, "trap, or brkpt, was executed"),
            Op::Bra { .. } | Op::Brx { .. } | Op::Exit | Op::GridLaunch | Op::Nothing => {}
            Op::Print { result } => {
                if let Some(at) = result {
                    for l in lanes(who.mask) {
                        self.store_local(w as u32 * 32 + l, at - LOCAL_BASE, &0u32.to_le_bytes());
                    }
                }
            }
            Op::Assert { params } => return self.assertion(who, params),
            Op::GridWait => self.grid_wait(who),
            Op::Sleep => self.warps[w].now += 100,
            Op::Setmaxnreg { inc, count } => return self.setmaxnreg(who, *inc, *count),
            Op::Tensor(t) => {
                let mut stores = Vec::new();
                for l in lanes(who.mask) {
                    self.issue_tensor(who, l, t, &mut stores)?;
                }
                self.issue_stores(who, stores)?;
            }
            Op::Bulk(b) => {
                let mut stores = Vec::new();
                for l in lanes(who.mask) {
                    self.issue_bulk(who, l, b, &mut stores)?;
                }
                self.issue_stores(who, stores)?;
            }
            Op::Post { f, ty, s, to, barrier } => {
                for l in lanes(who.mask) {
                    self.issue_post(Who { mask: 1 << l, ..who }, l, (*f, *ty), s, (to, barrier))?;
                }
            }
            Op::WgFence => self.wg_fence(w),
            Op::WgCommit => self.wg_commit(w),
            Op::WgWait { pending } => return self.wg_wait(who, *pending),
            Op::Wgmma(op) => self.wg_issue(who, op)?,
            Op::Ld { order: Order::Strong(_), .. } | Op::Atom { d: Some(_), .. } => {
                if let Some(wait) = self.poll(who) {
                    return Ok(Flow::Retry(wait));
                }
                self.access(who, op)?;
            }
            Op::Ld { .. }
            | Op::St { .. }
            | Op::Atom { .. }
            | Op::RedVector { .. }
            | Op::FenceMap { .. }
            | Op::MapReplace { .. }
            | Op::MapRelease { .. }
            | Op::Prefetch { .. }
            | Op::CpAsync { .. } => self.access(who, op)?,
            Op::CpAsyncCommit | Op::CpAsyncWait { .. } | Op::BulkCommit | Op::BulkWait { .. } => {
                return self.groups(who, op);
            }
            Op::Shfl { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::Activemask { .. }
            | Op::Elect { .. } => {
                self.warp_wide(who, op)?;
            }
            Op::WarpSync { members } => {
                let m = self.value(w, Self::first_lane(who.mask), *members) as u32;
                self.order_warp(w, m & who.mask);
            }
            Op::Bar { .. } | Op::BarRed { .. } | Op::ClusterArrive { .. } | Op::ClusterWait { .. } | Op::Fence(_) => {
                return self.barrier(who, op);
            }
            Op::Mbar { op, addr } => return self.mbarrier(who, op, addr),
            Op::Ldmatrix { .. }
            | Op::Stmatrix { .. }
            | Op::Mma(_)
            | Op::MmaQuads(_)
            | Op::Movmatrix { .. }
            | Op::WmmaLoad { .. }
            | Op::WmmaStore { .. }
            | Op::WmmaMma(_) => {
                self.matrix(who, op)?;
            }
        }
        Ok(Flow::Next)
    }

    /// The warps of a warpgroup execute the same setmaxnreg; compared when they are gone.
    pub(super) fn same_budgets(&mut self, w: usize) -> Exec<()> {
        let per_cta = self.warps_per_cta() as usize;
        let (cta, index) = (self.warps[w].cta, self.warps[w].index as usize / 4 * 4);
        let group = cta * per_cta + index..cta * per_cta + (index + 4).min(per_cta);
        if group.clone().any(|w| self.warps[w].live != 0) {
            return Ok(());
        }
        let most = group.clone().max_by_key(|w| self.warps[*w].budgets.len()).unwrap_or(w);
        let Some(least) = group.clone().find(|w| self.warps[*w].budgets != self.warps[most].budgets) else {
            return Ok(());
        };
        let (all, few) = (&self.warps[most].budgets, &self.warps[least].budgets);
        let pc = all.iter().enumerate().find(|(i, pc)| few.get(*i) != Some(pc)).map_or(0, |(_, pc)| *pc);
        let text = "a warp does not execute a setmaxnreg that another warp of its warpgroup does: all four must";
        let sides = vec![
            self.side(most, u32::MAX, pc, "executes it"),
            self.side(least, u32::MAX, few.last().copied().unwrap_or(pc), "does not, or another"),
        ];
        self.report(FindingKind::RegisterPool, text.into(), sides, None)
    }

    /// The largest number of registers that a warp of the kernel requests. ptxas 13.0 compiles for as many where the cap is
    /// higher: 232, 200 and 160 of 255 were seen.
    fn most_requested(&self) -> Option<u32> {
        let requests = self.program.code.iter().filter_map(|i| match i.op {
            Op::Setmaxnreg { inc: true, count } => Some(count),
            _ => None,
        });
        requests.max()
    }

    fn setmaxnreg(&mut self, who: Who, inc: bool, count: u32) -> Exec<Flow> {
        let (cta, have) = (self.warps[who.w].cta, self.warps[who.w].max_registers);
        if self.program.limits.max_ntid.is_none() && self.program.limits.req_ntid.is_none() {
            self.complain(
                FindingKind::RegisterPool,
                who.w,
                who.mask,
                who.pc,
                "setmaxnreg is ignored in a kernel without .maxntid or .reqntid",
            )?;
        }
        if inc {
            if count < have && !self.warps[who.w].budgeted && self.most_requested() == Some(count) {
                // At entry a warp holds what the compiler chose: not all that the cap allows, where the kernel requests less.
                self.ctas[cta].free_registers += (have - count) * 32;
                self.warps[who.w].max_registers = count;
            } else if count < have {
                return self.fail(
                    FindingKind::RegisterPool,
                    who.w,
                    who.mask,
                    who.pc,
                    format!("setmaxnreg.inc to {count}, but the warp has {have} already; setmaxnreg.dec gives registers back"),
                );
            }
            let need = count.saturating_sub(have) * 32;
            if self.ctas[cta].free_registers < need {
                return Ok(Flow::Retry(Wait::Registers { need }));
            }
            self.ctas[cta].free_registers -= need;
        } else {
            if count > have {
                return self.fail(
                    FindingKind::RegisterPool,
                    who.w,
                    who.mask,
                    who.pc,
                    format!("setmaxnreg.dec to {count}, but the warp has only {have}"),
                );
            }
            self.ctas[cta].free_registers += (have - count) * 32;
            self.epoch += 1;
        }
        self.warps[who.w].max_registers = count;
        self.warps[who.w].budgeted = true;
        self.warps[who.w].budgets.push(who.pc);
        Ok(Flow::Next)
    }

    /// A predicate's mask for one operand, for other files.
    pub(crate) fn holds(&self, w: usize, p: PredSrc) -> u32 {
        self.predicate(w, p)
    }
}

pub(super) fn combine(f: Logic, a: u32, b: u32) -> u32 {
    match f {
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
        Logic::Not => !a,
        Logic::Mov => a,
    }
}
