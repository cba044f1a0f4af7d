//! Executing instructions: one file per family.

mod access;
mod barrier;
pub(crate) mod float;
pub(crate) mod int;
mod matrix;
mod mbarrier;
pub(crate) mod numbers;
mod warp;

use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::machine::address::{Window, classify, param_to_generic, shared_to_generic, split_shared, with_rank};
use crate::machine::memory::Who;
use crate::machine::warp::{Fragment, Wait};
use crate::machine::{Exec, Flow, Machine};
use crate::program::Inst;
use crate::program::op::{Logic, Op, PredSrc, Pure, Reg, Src};
use crate::program::types::{Space, Ty, mask};

impl Machine<'_> {
    /// Executes one instruction for fragment `f` of warp `w`. False: the fragment waits or is gone.
    pub(crate) fn step(&mut self, w: usize, f: usize) -> Exec<bool> {
        self.steps += 1;
        if self.steps > self.options.max_steps {
            let fragment = &self.warps[w].fragments[f];
            let (m, pc) = (fragment.mask, fragment.pc);
            return self.fail(FindingKind::StepLimit, w, m, pc, format!("{} warp instructions were executed and the cluster still runs", self.options.max_steps));
        }
        let f = self.gather(w, f);
        let Fragment { mask: all, pc, .. } = self.warps[w].fragments[f];
        let program = self.program;
        let inst = &program.code[pc as usize];
        let active = inst.guard.map_or(all, |g| self.predicate(w, g) & all);
        if let Some(flow) = self.converge(w, all, active, pc, inst)? {
            return Ok(self.follow(w, f, flow));
        }
        let who = Who { w, mask: active, pc };
        if active == 0 {
            self.warps[w].fragments[f].pc += 1;
            return Ok(true);
        }
        self.warps[w].now += 1;
        if !inst.reads.is_empty() || !inst.writes.is_empty() {
            self.touch_registers(who, &inst.reads, &inst.writes)?;
        }
        let flow = match &inst.op {
            Op::Bra { target, uniform } => self.branch(w, f, active, *target, *uniform)?,
            Op::Exit => self.exit(w, f, active, pc)?,
            op => self.execute(who, op)?,
        };
        Ok(self.follow(w, f, flow))
    }

    fn follow(&mut self, w: usize, f: usize, flow: Flow) -> bool {
        match flow {
            Flow::Next => {
                self.warps[w].fragments[f].pc += 1;
                true
            }
            Flow::Retry(wait) | Flow::Suspend(wait) => {
                self.warps[w].fragments[f].wait = Some(wait);
                false
            }
            Flow::Done => false,
        }
    }

    /// Joins fragments of the warp that stand at the same instruction. Gives the index of the joined one.
    fn gather(&mut self, w: usize, f: usize) -> usize {
        let warp = &mut self.warps[w];
        if warp.fragments.len() == 1 {
            return f;
        }
        let pc = warp.fragments[f].pc;
        let mut mask = 0;
        warp.fragments.retain(|g| {
            let joins = g.pc == pc && matches!(g.wait, None | Some(Wait::Converge { .. }));
            if joins {
                mask |= g.mask;
            }
            !joins
        });
        warp.fragments.push(Fragment { mask, pc, wait: None });
        warp.fragments.len() - 1
    }

    /// Checks that the threads an instruction needs together are together; else the fragment waits for them.
    fn converge(&mut self, w: usize, all: u32, active: u32, pc: u32, inst: &Inst) -> Exec<Option<Flow>> {
        let live = self.warps[w].live;
        if inst.op.aligned() {
            if active != 0 && active != all {
                return self.fail(FindingKind::Divergence, w, active, pc, "the guard of an .aligned instruction differs between the threads of a warp");
            }
            if all != live {
                if active == 0 {
                    return Ok(None);
                }
                return Ok(Some(Flow::Retry(Wait::Converge { members: None })));
            }
        }
        if let Some(members) = inst.op.members() {
            let values = self.values(w, members);
            for l in lanes(active) {
                let m = values[l as usize] as u32;
                if m >> l & 1 == 0 {
                    return self.fail(FindingKind::Divergence, w, 1 << l, pc, format!("lane {l} executes with the member mask {m:#010x}, which leaves it out"));
                }
                if m & live & !active != 0 {
                    if m & live & all & !active != 0 {
                        return self.fail(FindingKind::Divergence, w, active, pc, "the guard leaves out threads that the member mask names");
                    }
                    return Ok(Some(Flow::Retry(Wait::Converge { members: Some(m) })));
                }
            }
        }
        Ok(None)
    }

    fn branch(&mut self, w: usize, f: usize, taken: u32, target: u32, uniform: bool) -> Exec<Flow> {
        let warp = &mut self.warps[w];
        let fragment = &mut warp.fragments[f];
        if taken == fragment.mask {
            fragment.pc = target;
            return Ok(Flow::Done);
        }
        let pc = fragment.pc;
        if uniform {
            return self.fail(FindingKind::Divergence, w, taken, pc, "bra.uni is taken by some threads of the warp only");
        }
        fragment.mask &= !taken;
        fragment.pc += 1;
        warp.fragments.push(Fragment { mask: taken, pc: target, wait: None });
        Ok(Flow::Done)
    }

    fn exit(&mut self, w: usize, f: usize, mask: u32, pc: u32) -> Exec<Flow> {
        let flight = self.in_flight_at_exit(w, mask);
        if let Some((other, what)) = flight {
            let sides = vec![self.side(w, mask, pc, "exits"), self.side(w, mask, other, what)];
            self.report(FindingKind::ExitInFlight, format!("a thread exits while {what}"), sides, None)?;
        }
        let warp = &mut self.warps[w];
        warp.live &= !mask;
        let fragment = &mut warp.fragments[f];
        fragment.mask &= !mask;
        fragment.pc += 1;
        if fragment.mask == 0 {
            warp.fragments.remove(f);
        }
        let (cta, gone) = (warp.cta, warp.live == 0);
        if gone {
            self.ctas[cta].live_warps -= 1;
            self.ctas[cta].free_registers += self.warps[w].max_registers * 32;
            if self.ctas[cta].live_warps == 0 {
                self.ctas[cta].exited = true;
            }
        }
        self.epoch += 1;
        self.barriers_after_exit(cta)?;
        Ok(Flow::Done)
    }

    /// Asynchronous work that reads the block's shared memory or a warp's registers when its thread exits.
    fn in_flight_at_exit(&self, w: usize, mask: u32) -> Option<(u32, &'static str)> {
        let warp = &self.warps[w];
        if warp.wg.issued > warp.wg.waited {
            let group = self.warpgroup_of(w);
            let pc = self.warpgroups[group].get(warp.wg.waited).map_or(0, |o| o.pc);
            return Some((pc, "a wgmma it issued was not waited for"));
        }
        for l in lanes(mask) {
            let groups = &warp.bulk[l as usize];
            for t in groups.groups.iter().flatten().chain(&groups.open) {
                if let Some(p) = self.asyncs.pending.iter().find(|p| p.id == t.id)
                    && p.data.is_none()
                {
                    return Some((p.pc, "a bulk store it issued may still read shared memory; cp.async.bulk.wait_group.read 0 waits for it"));
                }
            }
        }
        None
    }

    fn execute(&mut self, who: Who, op: &Op) -> Exec<Flow> {
        let w = who.w;
        match op {
            Op::Pure { f, d, s } => self.pure(who, *f, *d, s)?,
            Op::Setp { cmp, ty, ftz, p, q, a, b, with } => {
                let (x, y) = (self.values(w, *a), self.values(w, *b));
                let mut yes = 0;
                for l in lanes(who.mask) {
                    yes |= u32::from(float::compare(*cmp, *ty, *ftz, x[l as usize], y[l as usize])) << l;
                }
                let (mut first, mut second) = (yes, !yes);
                if let Some((logic, with)) = with {
                    let c = self.predicate(w, *with);
                    (first, second) = (combine(*logic, yes, c), combine(*logic, !yes, c));
                }
                for (p, v) in [(p, first), (q, second)] {
                    if let Some(p) = p {
                        self.warps[w].set_pred(*p, who.mask, v);
                    }
                }
            }
            Op::Set { cmp, to, ty, d, a, b } => {
                let (x, y) = (self.values(w, *a), self.values(w, *b));
                let yes = if *to == Ty::F32 { u64::from(1f32.to_bits()) } else { mask(32) };
                let out = std::array::from_fn(|l| if float::compare(*cmp, *ty, false, x[l], y[l]) { yes } else { 0 });
                self.set(w, who.mask, *d, &out);
            }
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
            Op::Trap => return self.fail(FindingKind::Trap, w, who.mask, who.pc, "trap was executed"),
            Op::Nop | Op::Bra { .. } | Op::Exit => {}
            Op::Sleep => self.warps[w].now += 100,
            Op::Setmaxnreg { inc, count } => return self.setmaxnreg(who, *inc, *count),
            Op::Tensor(t) => {
                for l in lanes(who.mask) {
                    self.issue_tensor(who, l, t)?;
                }
            }
            Op::Bulk(b) => {
                for l in lanes(who.mask) {
                    self.issue_bulk(who, l, b)?;
                }
            }
            Op::WgFence => self.wg_fence(w),
            Op::WgCommit => self.wg_commit(w),
            Op::WgWait { pending } => return self.wg_wait(who, *pending),
            Op::Wgmma(op) => self.wg_issue(who, op)?,
            Op::Ld { .. } | Op::St { .. } | Op::Atom { .. } | Op::Prefetch { .. } | Op::CpAsync { .. } => self.access(who, op)?,
            Op::CpAsyncCommit | Op::CpAsyncWait { .. } | Op::BulkCommit | Op::BulkWait { .. } => return self.groups(who, op),
            Op::Shfl { .. } | Op::Vote { .. } | Op::Match { .. } | Op::Redux { .. } | Op::Activemask { .. } | Op::Elect { .. } => {
                self.warp_wide(who, op)?;
            }
            Op::WarpSync { members } => {
                let m = self.value(w, Self::first_lane(who.mask), *members) as u32;
                self.order_warp(w, m & who.mask);
            }
            Op::Bar { .. } | Op::ClusterArrive { .. } | Op::ClusterWait { .. } | Op::Fence(_) => return self.barrier(who, op),
            Op::Mbar { op, addr } => return self.mbarrier(who, op, addr),
            Op::Ldmatrix { .. } | Op::Stmatrix { .. } | Op::Mma(_) | Op::WmmaLoad { .. } | Op::WmmaStore { .. } | Op::WmmaMma { .. } => {
                self.matrix(who, op)?;
            }
        }
        Ok(Flow::Next)
    }

    fn pure(&mut self, who: Who, f: Pure, d: Reg, s: &[Src; 4]) -> Exec<()> {
        let w = who.w;
        let v = [self.values(w, s[0]), self.values(w, s[1]), self.values(w, s[2]), self.values(w, s[3])];
        let mut out = [0u64; 32];
        for l in lanes(who.mask) {
            let [a, b, c, e] = [0, 1, 2, 3].map(|i: usize| v[i][l as usize]);
            out[l as usize] = match f {
                Pure::Int(f, ty) => match int::apply(f, ty, a, b, c, e) {
                    Some(v) => v,
                    None => return self.fail(FindingKind::Trap, w, 1 << l, who.pc, "integer division by zero"),
                },
                Pure::Float(f, ty, m) => float::apply(f, ty, m, a, b, c),
                Pure::Cvt(c) => float::convert(&c, a, b),
                Pure::Mov(ty) => a & ty.mask(),
                Pure::CvtaFrom(space) => match space {
                    Space::Global => a,
                    Space::Param => param_to_generic(a as u32),
                    _ => shared_to_generic(a as u32),
                },
                Pure::CvtaTo(space) => match (space, classify(a)) {
                    (Space::Global, Window::Global(g)) => g,
                    (Space::Param, Window::Param(p)) => u64::from(p),
                    (Space::SharedCta | Space::SharedCluster, Window::Shared(s)) => u64::from(s),
                    _ => return self.fail(FindingKind::OutOfBounds, w, 1 << l, who.pc, format!("the generic address {a:#x} is not in the state space that cvta.to names")),
                },
                Pure::Mapa { generic } => {
                    let rank = b as u32;
                    if rank as usize >= self.ctas.len() {
                        return self.fail(FindingKind::OutOfBounds, w, 1 << l, who.pc, format!("mapa to block {rank}; the cluster has {}", self.ctas.len()));
                    }
                    let to = with_rank(a as u32, rank);
                    if generic { shared_to_generic(to) } else { u64::from(to) }
                }
                Pure::Getctarank { .. } => u64::from(split_shared(a as u32).0),
            };
        }
        self.set(w, who.mask, d, &out);
        Ok(())
    }

    fn setmaxnreg(&mut self, who: Who, inc: bool, count: u32) -> Exec<Flow> {
        let (cta, have) = (self.warps[who.w].cta, self.warps[who.w].max_registers);
        if self.program.limits.max_ntid.is_none() && self.program.limits.req_ntid.is_none() {
            self.complain(FindingKind::RegisterPool, who.w, who.mask, who.pc, "setmaxnreg is ignored in a kernel without .maxntid or .reqntid")?;
        }
        if inc {
            if count < have && !self.warps[who.w].budgeted {
                // At entry a warp holds what the compiler chose, which may be less than the cap we assume.
                self.ctas[cta].free_registers += (have - count) * 32;
                self.warps[who.w].max_registers = count;
            } else if count < have {
                return self.fail(FindingKind::RegisterPool, who.w, who.mask, who.pc, format!("setmaxnreg.inc to {count}, but the warp has {have} already"));
            }
            let need = count.saturating_sub(have) * 32;
            if self.ctas[cta].free_registers < need {
                return Ok(Flow::Retry(Wait::Registers { need }));
            }
            self.ctas[cta].free_registers -= need;
        } else {
            if count > have {
                return self.fail(FindingKind::RegisterPool, who.w, who.mask, who.pc, format!("setmaxnreg.dec to {count}, but the warp has only {have}"));
            }
            self.ctas[cta].free_registers += (have - count) * 32;
            self.epoch += 1;
        }
        self.warps[who.w].max_registers = count;
        self.warps[who.w].budgeted = true;
        Ok(Flow::Next)
    }

    /// A predicate's mask for one operand, for other files.
    pub(crate) fn holds(&self, w: usize, p: PredSrc) -> u32 {
        self.predicate(w, p)
    }
}

fn combine(f: Logic, a: u32, b: u32) -> u32 {
    match f {
        Logic::And => a & b,
        Logic::Or => a | b,
        Logic::Xor => a ^ b,
        Logic::Not => !a,
        Logic::Mov => a,
    }
}
