//! The warpgroup's queue of matrix multiplies.
//!
//! An operation starts when its four warps have issued it and runs in order with the others of its warpgroup. Each
//! warp must by itself have waited for the operands: what the operation may rely on is what *all* four know.

use crate::check::FindingKind;
use crate::check::shadow::Proxy;
use crate::machine::memory::Who;
use crate::machine::warp::Wait;
use crate::machine::warpgroup::{ALL, WgOp};
use crate::machine::{Exec, Flow, Machine};
use crate::program::op::{Op, WgA, Wgmma};
use crate::schedule::Schedule;

impl Machine<'_> {
    fn register_name(&self, r: u32) -> String {
        self.program.register_names[r as usize].clone()
    }

    /// Generic code touches registers that the tensor core also uses.
    pub(crate) fn touch_registers(&mut self, who: Who, reads: &[u32], writes: &[u32]) -> Exec<()> {
        let wg = &mut self.warps[who.w].wg;
        let clock = wg.clock;
        let mut bad = None;
        for (r, writes) in reads.iter().map(|r| (*r, false)).chain(writes.iter().map(|r| (*r, true))) {
            wg.touched[r as usize] = (clock, who.pc);
            if wg.writing[r as usize] > wg.waited || (writes && wg.reading[r as usize] > wg.waited) {
                bad = Some((r, wg.writing[r as usize].max(wg.reading[r as usize]) - 1));
            }
        }
        let Some((r, number)) = bad else {
            return Ok(());
        };
        let group = self.warpgroup_of(who.w);
        let other = self.warpgroups[group].get(number).map(|o| o.pc);
        let name = self.register_name(r);
        let mut sides = vec![self.side(who.w, who.mask, who.pc, format!("touches {name}"))];
        sides.extend(other.map(|pc| self.side(who.w, u32::MAX, pc, format!("uses {name} until a wgmma.wait_group"))));
        let text = format!("{name} belongs to a wgmma in flight; wgmma.commit_group and wgmma.wait_group come first");
        self.report(FindingKind::WgmmaRegisters, text, sides, None)
    }

    /// `wgmma.fence`
    pub(crate) fn wg_fence(&mut self, w: usize) {
        let wg = &mut self.warps[w].wg;
        wg.fence = wg.clock;
        wg.clock += 1;
    }

    /// One warp issues `wgmma.mma_async`.
    pub(crate) fn wg_issue(&mut self, who: Who, op: &Wgmma) -> Exec<()> {
        let w = who.w;
        if self.warps[w].index / 4 * 4 + 4 > self.warps_per_cta() {
            return self.fail(
                FindingKind::WgmmaMisuse,
                w,
                who.mask,
                who.pc,
                "this warp is not one of four whole warps: it has no warpgroup",
            );
        }
        let lane = Self::first_lane(who.mask);
        let uniform = |m: &Self, s| {
            let v = m.values(w, s);
            crate::check::clock::lanes(who.mask).all(|l| v[l as usize] == v[lane as usize]).then_some(v[lane as usize])
        };
        let a = match &op.a {
            WgA::Desc(s) => uniform(self, *s),
            WgA::Regs(_) => Some(0),
        };
        let (Some(desc_a), Some(desc_b)) = (a, uniform(self, op.b)) else {
            return self.fail(
                FindingKind::WgmmaMisuse,
                w,
                who.mask,
                who.pc,
                "the threads of a warp give different descriptors",
            );
        };
        let scale = self.predicate(w, op.scale_d) & who.mask;
        if scale != 0 && scale != who.mask {
            return self.fail(
                FindingKind::WgmmaMisuse,
                w,
                who.mask,
                who.pc,
                "scale-d differs between the threads of a warp",
            );
        }
        self.check_fence(who, op)?;
        if let Some(sparse) = op.sparse {
            self.metadata_is_defined(who, sparse)?;
        }
        if scale != 0 {
            self.accumulators_are_defined(who, op)?;
        }
        let group = self.warpgroup_of(w);
        let number = self.warps[w].wg.issued;
        let bit = 1 << (self.warps[w].index % 4);
        let view = self.publish(w, who.mask);
        let (scale_d, now) = (scale != 0, self.warps[w].now);
        match self.warpgroups[group].get(number) {
            None => {
                let stamp = self.new_stamp(who, &view, Proxy::Async);
                let op = WgOp {
                    pc: who.pc,
                    desc_a,
                    desc_b,
                    scale_d,
                    joined: bit,
                    done: false,
                    view,
                    stamp,
                    issued: now,
                    due: 0,
                };
                self.warpgroups[group].ops.push_back(op);
            }
            Some(first)
                if (first.pc, first.desc_a, first.desc_b, first.scale_d) != (who.pc, desc_a, desc_b, scale_d) =>
            {
                let sides = vec![
                    self.side(
                        w,
                        who.mask,
                        who.pc,
                        format!("issues descriptors {desc_a:#x}, {desc_b:#x}, scale-d {scale_d}"),
                    ),
                    self.side(
                        w,
                        who.mask,
                        first.pc,
                        format!(
                            "is the same operation of another warp, with {:#x}, {:#x}, scale-d {}",
                            first.desc_a, first.desc_b, first.scale_d
                        ),
                    ),
                ];
                self.report(
                    FindingKind::WgmmaMisuse,
                    "the four warps of a warpgroup issue different wgmma".into(),
                    sides,
                    None,
                )?;
                return Err(crate::machine::Stop);
            }
            Some(_) => {
                let g = &mut self.warpgroups[group];
                let first = g.first;
                if let Some(o) = g.ops.get_mut((number - first) as usize) {
                    o.joined |= bit;
                    o.view.meet(&view);
                    o.issued = o.issued.max(now);
                }
            }
        }
        let wg = &mut self.warps[w].wg;
        for r in &op.d {
            wg.writing[*r as usize] = number + 1;
        }
        for r in op.inputs() {
            wg.reading[r as usize] = number + 1;
        }
        wg.issued += 1;
        if self.warpgroups[group].get(number).is_some_and(|o| o.joined == ALL) {
            let cta = self.warps[w].cta;
            let start = self.ctas[cta].tensor_free.max(now);
            let due = start + u64::from(op.n * op.stored_k()) * u64::from(op.a_ty.bits()) / 512;
            self.ctas[cta].tensor_free = due;
            self.cost.tensor_cycles += due - start;
            let g = &mut self.warpgroups[group];
            let first = g.first;
            if let Some(o) = g.ops.get_mut((number - first) as usize) {
                o.issued = start;
                o.due = due;
            }
        }
        if self.options.schedule == Schedule::Early {
            while self.warpgroups[group].ready() {
                self.wg_run(group)?;
            }
        }
        Ok(())
    }

    fn check_fence(&mut self, who: Who, op: &Wgmma) -> Exec<()> {
        let wg = &self.warps[who.w].wg;
        if wg.fence == 0 {
            return self.complain(
                FindingKind::WgmmaRegisters,
                who.w,
                who.mask,
                who.pc,
                "the first wgmma.mma_async of the warp has no wgmma.fence before it",
            );
        }
        let dirty = op.d.iter().copied().chain(op.inputs()).find(|r| wg.touched[*r as usize].0 > wg.fence);
        if let Some(r) = dirty {
            let pc = wg.touched[r as usize].1;
            let name = self.register_name(r);
            let sides = vec![
                self.side(who.w, who.mask, who.pc, format!("uses {name}")),
                self.side(who.w, who.mask, pc, format!("touched {name} after the last wgmma.fence")),
            ];
            return self.report(
                FindingKind::WgmmaRegisters,
                format!("{name} is touched and then used by wgmma with no wgmma.fence in between"),
                sides,
                None,
            );
        }
        // Accumulators of two operations in flight must be the very same list.
        let group = self.warpgroup_of(who.w);
        let before = op.d.iter().map(|r| wg.writing[*r as usize]).max().unwrap_or(0);
        if before > wg.waited
            && let Some(o) = self.warpgroups[group].get(before - 1)
            && let Op::Wgmma(other) = &self.program.code[o.pc as usize].op
            && other.d != op.d
        {
            let pc = o.pc;
            let sides = vec![
                self.side(who.w, who.mask, who.pc, "issues"),
                self.side(who.w, who.mask, pc, "is in flight with other accumulators"),
            ];
            return self.report(
                FindingKind::WgmmaRegisters,
                "accumulators overlap those of a wgmma in flight without being the same list".into(),
                sides,
                None,
            );
        }
        Ok(())
    }

    pub(crate) fn wg_commit(&mut self, w: usize) {
        let wg = &mut self.warps[w].wg;
        wg.groups.push_back(wg.issued);
    }

    pub(crate) fn wg_wait(&mut self, who: Who, pending: u32) -> Exec<Flow> {
        let wg = &self.warps[who.w].wg;
        let Some(last) = wg.groups.len().checked_sub(1 + pending as usize) else {
            return Ok(Flow::Next);
        };
        let target = wg.groups[last];
        let group = self.warpgroup_of(who.w);
        if !self.warpgroups[group].issued(target) {
            return Ok(Flow::Retry(Wait::Wgmma { target }));
        }
        while self.warpgroups[group].done < target {
            self.wg_run(group)?;
        }
        self.flush_accumulators(group);
        let from = self.warps[who.w].wg.waited;
        for n in from..target {
            let Some((slot, due)) = self.warpgroups[group].get(n).map(|o| ((o.stamp.base, o.stamp.tick), o.due)) else {
                continue;
            };
            if self.options.races {
                self.warps[who.w].views.learn(who.mask, slot.0, slot.1);
            }
            let warp = &mut self.warps[who.w];
            warp.now = warp.now.max(due);
        }
        let wg = &mut self.warps[who.w].wg;
        wg.groups.drain(..=last);
        wg.waited = wg.waited.max(target);
        self.wg_forget(group);
        Ok(Flow::Next)
    }

    /// Drops operations that all four warps have waited for.
    fn wg_forget(&mut self, group: usize) {
        let per_cta = self.warps_per_cta();
        let groups_per_cta = per_cta.div_ceil(4) as usize;
        let (cta, inside) = (group / groups_per_cta, group % groups_per_cta);
        let first = cta * per_cta as usize + inside * 4;
        let least = (first..first + 4).map(|w| self.warps[w].wg.waited).min().unwrap_or(0);
        let g = &mut self.warpgroups[group];
        while g.first < least && g.ops.front().is_some_and(|o| o.done) {
            g.ops.pop_front();
            g.first += 1;
        }
    }

    /// Runs the next operation of a warpgroup.
    pub(crate) fn wg_run(&mut self, group: usize) -> Exec<()> {
        self.epoch += 1;
        let g = &mut self.warpgroups[group];
        let (number, first) = (g.done, g.first);
        let Some(op) = g.ops.get_mut((number - first) as usize) else {
            return Ok(());
        };
        op.done = true;
        g.done += 1;
        let op = op.clone();
        let program = self.program;
        if let Op::Wgmma(w) = &program.code[op.pc as usize].op {
            self.wgmma(group, &op, w)?;
        }
        if let Some(r) = &mut self.recorder {
            let groups_per_cta = (self.launch.threads().div_ceil(32)).div_ceil(4);
            r.tensor(group as u32 / groups_per_cta, group as u32 % groups_per_cta, op.issued, op.due);
        }
        self.asyncs.release(op.stamp.base);
        Ok(())
    }
}
