//! One step of a warp: gathering its threads, guards, branches and exits.

use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::machine::memory::Who;
use crate::machine::warp::{Fragment, Wait};
use crate::machine::{Exec, Flow, Machine};
use crate::program::Inst;
use crate::program::op::{Op, PredSrc, Src};

impl Machine<'_> {
    /// Executes one instruction for fragment `f` of warp `w`. False: the fragment waits or is gone.
    pub(crate) fn step(&mut self, w: usize, f: usize) -> Exec<bool> {
        self.steps += 1;
        if self.steps > self.options.max_steps {
            let fragment = &self.warps[w].fragments[f];
            let (m, pc) = (fragment.mask, fragment.pc);
            return self.fail(
                FindingKind::StepLimit,
                w,
                m,
                pc,
                format!("{} warp instructions were executed and the cluster still runs", self.options.max_steps),
            );
        }
        let f = self.gather(w, f);
        let Fragment { mask: all, pc, .. } = self.warps[w].fragments[f];
        let program = self.program;
        let inst = &program.code[pc as usize];
        if let Some(PredSrc { reg: Some(p), .. }) = inst.guard {
            self.predicate_is_defined(Who { w, mask: all, pc }, p)?;
        }
        let active = inst.guard.map_or(all, |g| self.predicate(w, g) & all);
        if let Some(flow) = self.converge(w, all, active, pc, inst)? {
            return Ok(self.follow(w, f, flow));
        }
        let who = Who { w, mask: active, pc };
        if active == 0 {
            self.warps[w].fragments[f].pc += 1;
            return Ok(true);
        }
        self.executed[pc as usize] = true;
        let without = self.without_value(who, inst);
        if without.is_none() {
            self.registers_are_defined(who, &inst.uses)?;
        }
        let before = self.warps[w].now;
        self.warps[w].now += 1;
        if !inst.reads.is_empty() || !inst.writes.is_empty() {
            self.touch_registers(who, &inst.reads, &inst.writes)?;
        }
        let flow = match &inst.op {
            Op::Bra { target, uniform } => self.branch(w, f, active, *target, *uniform)?,
            Op::Brx { index, targets } => self.branch_of(w, f, active, *index, targets)?,
            Op::Exit => self.exit(w, f, active, pc)?,
            op => self.execute(who, op)?,
        };
        let now = self.warps[w].now;
        if let Some(r) = &mut self.recorder
            && now > before + crate::trace::SHORTEST_SHOWN_WAIT
        {
            let name = format!("waits at {}", self.program.where_is(pc));
            r.wait(self.warps[w].cta as u32, self.warps[w].index, name, before, now);
        }
        if matches!(flow, Flow::Next) {
            self.define(who, &inst.uses, without.unwrap_or(0));
            self.warps[w].now += crate::trace::extra_cycles(&inst.op, active.count_ones());
        }
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

    /// Joins fragments of the warp that are at the same instruction. Returns the index of the joined one.
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
                return self.fail(
                    FindingKind::Divergence,
                    w,
                    active,
                    pc,
                    "the guard of an .aligned instruction differs between the threads of a warp",
                );
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
                    return self.fail(
                        FindingKind::Divergence,
                        w,
                        1 << l,
                        pc,
                        format!("lane {l} executes with the member mask {m:#010x}, which leaves it out"),
                    );
                }
                if m & live & !active != 0 {
                    if m & live & all & !active != 0 {
                        return self.fail(
                            FindingKind::Divergence,
                            w,
                            active,
                            pc,
                            "the guard leaves out threads that the member mask names",
                        );
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
            return self.fail(
                FindingKind::Divergence,
                w,
                taken,
                pc,
                "bra.uni is taken by some threads of the warp only",
            );
        }
        fragment.mask &= !taken;
        fragment.pc += 1;
        warp.fragments.push(Fragment { mask: taken, pc: target, wait: None });
        Ok(Flow::Done)
    }

    /// `brx.idx`: each thread goes to the target of its index.
    fn branch_of(&mut self, w: usize, f: usize, active: u32, index: Src, targets: &[u32]) -> Exec<Flow> {
        let values = self.values(w, index);
        let pc = self.warps[w].fragments[f].pc;
        if let Some(l) = lanes(active).find(|l| values[*l as usize] as usize >= targets.len()) {
            let text = format!("brx.idx by {}, and there are {} targets", values[l as usize], targets.len());
            return self.fail(FindingKind::OutOfBounds, w, 1 << l, pc, text);
        }
        let fragments = &mut self.warps[w].fragments;
        let stays = fragments[f].mask & !active;
        let mut all: Vec<Fragment> = Vec::new();
        for l in lanes(active) {
            let target = targets[values[l as usize] as usize];
            match all.iter_mut().find(|g| g.pc == target) {
                Some(g) => g.mask |= 1 << l,
                None => all.push(Fragment { mask: 1 << l, pc: target, wait: None }),
            }
        }
        if stays != 0 {
            all.push(Fragment { mask: stays, pc: pc + 1, wait: None });
        }
        fragments.remove(f);
        fragments.extend(all);
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
        if self.options.races {
            let known = self.publish(w, mask);
            self.ctas[cta].at_exit.join(&known);
        }
        if gone {
            self.same_budgets(w)?;
            // Its registers do not go back to the pool: nothing says that they do.
            self.ctas[cta].live_warps -= 1;
            if self.ctas[cta].live_warps == 0 {
                self.ctas[cta].exited = true;
                self.remote_arrivals_are_over(cta, (w, mask, pc))?;
            }
        }
        self.epoch += 1;
        self.barriers_after_exit(w, mask)?;
        Ok(Flow::Done)
    }

    /// Arrivals from other blocks at the mbarriers of a block that exits have happened: its threads know of them.
    fn remote_arrivals_are_over(&mut self, cta: usize, (w, mask, pc): (usize, u32, u32)) -> Exec<()> {
        let (all, known) = (&self.ctas[cta].remote, &self.ctas[cta].at_exit);
        let Some(late) = all.values().find(|s| lanes(s.mask).any(|l| known.seen.get(s.base + l) < s.tick)) else {
            return Ok(());
        };
        let late = *late;
        let text = format!(
            "block {cta} exits while arrivals of another block at its mbarriers may still be under way: nothing orders \
             them before the exit; barrier.cluster.arrive.release after them, or waiting for their phase, does"
        );
        let sides = vec![
            self.side(w, mask, pc, "exits"),
            self.side(late.warp as usize, late.mask, late.pc, "arrives at a barrier of the block"),
        ];
        self.report(FindingKind::ExitInFlight, text, sides, None)
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
                    return Some((
                        p.pc,
                        "a bulk store it issued may still read shared memory; cp.async.bulk.wait_group.read 0 waits for it",
                    ));
                }
            }
        }
        None
    }
}
