//! Named barriers, cluster barriers and fences.

use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::check::shadow::Stamp;
use crate::machine::memory::Who;
use crate::machine::warp::Wait;
use crate::machine::{Exec, Flow, Machine};
use crate::program::op::{Fence, Op, Reduction, Scope, Src};

impl Machine<'_> {
    pub(super) fn barrier(&mut self, who: Who, op: &Op) -> Exec<Flow> {
        match op {
            Op::Bar { arrive, id, count, aligned } => self.named(who, *arrive, *id, *count, *aligned),
            Op::BarRed { id, count, a, aligned, .. } => {
                let at = self.value(who.w, Self::first_lane(who.mask), *id) as usize & 15;
                let yes = (self.holds(who.w, *a) & who.mask).count_ones();
                let cta = self.warps[who.w].cta;
                let votes = &mut self.ctas[cta].named[at].votes;
                *votes = [votes[0] + yes, votes[1] + who.mask.count_ones() - yes];
                let flow = self.named(who, false, *id, *count, *aligned)?;
                if matches!(flow, Flow::Next) {
                    self.reduced(who.w, who.mask, who.pc, self.last_votes);
                }
                Ok(flow)
            }
            Op::ClusterArrive { release, .. } => {
                self.cluster_arrive(who, *release)?;
                Ok(Flow::Next)
            }
            Op::ClusterWait { .. } => self.cluster_wait(who),
            Op::Fence(kind) => {
                self.fence(who, *kind);
                Ok(Flow::Next)
            }
            _ => Ok(Flow::Next),
        }
    }

    fn fence(&mut self, who: Who, kind: Fence) {
        if kind == Fence::MbarrierInit {
            self.announce_inits(who);
        }
        if matches!(kind, Fence::ProxyAsync { shared: true, .. } | Fence::MbarrierInit) {
            let (base, mask) = (who.w as u32 * 32, who.mask);
            let mine = |s: &Stamp| s.base == base && s.mask & !mask == 0;
            let cta = self.warps[who.w].cta;
            for b in self.ctas[cta].mbarriers.values_mut() {
                if mine(&b.init) {
                    b.fenced = true;
                }
            }
        }
        if let Fence::MapRelease { scope } = kind {
            self.release_maps(who, scope);
        }
        if let Fence::Thread { scope } = kind {
            self.fence_threads(who, scope);
        }
        if let Fence::ProxyAsync { shared, global } = kind
            && self.options.races
        {
            self.warps[who.w].views.fence(who.mask, (shared, global));
        }
    }

    /// `fence.mbarrier_init`: what these threads have initialised is known to whoever acquires their next arrival at the
    /// cluster's barrier, even a relaxed one.
    fn announce_inits(&mut self, who: Who) {
        let (base, cta) = (who.w as u32 * 32, self.warps[who.w].cta);
        let mine = |s: &Stamp| s.base == base && s.mask & !who.mask == 0;
        let all = &mut self.ctas[cta].mbarriers;
        if !self.options.races || !all.values().any(|b| mine(&b.init) && b.announced.is_none()) {
            return;
        }
        let view = self.warps[who.w].views.view(Self::first_lane(who.mask));
        let component = self.asyncs.slot(view);
        all.values_mut().filter(|b| mine(&b.init)).for_each(|b| b.announced = b.announced.or(Some(component)));
        self.warps[who.w].announced.push((who.mask, component));
    }

    fn named(&mut self, who: Who, arrive: bool, id: Src, count: Option<Src>, aligned: bool) -> Exec<Flow> {
        let w = who.w;
        let lane = Self::first_lane(who.mask);
        let id = self.value(w, lane, id) as u32;
        if id > 15 {
            return self.fail(
                FindingKind::NamedBarrierMisuse,
                w,
                who.mask,
                who.pc,
                format!("barrier {id}; a block has 0 to 15"),
            );
        }
        let cta = self.warps[w].cta;
        let count = count.map(|c| self.value(w, lane, c) as u32);
        let all = self.ctas[cta].live_warps * 32;
        if let Some(n) = count
            && (n == 0 || n % 32 != 0 || n > self.warps_per_cta() * 32)
        {
            return self.fail(
                FindingKind::NamedBarrierMisuse,
                w,
                who.mask,
                who.pc,
                format!("a barrier of {n} threads in a block of {}", self.launch.threads()),
            );
        }
        let view = self.publish(w, who.mask);
        let b = &mut self.ctas[cta].named[id as usize];
        if b.arrived > 0 && b.expected != count {
            let (had, pc) = (b.expected, b.last_pc);
            let text = format!(
                "barrier {id} is used for {} threads while an earlier arrival says {}",
                count.unwrap_or(all),
                had.unwrap_or(all)
            );
            let sides = vec![self.side(w, who.mask, who.pc, "arrives"), self.side(w, who.mask, pc, "arrived before")];
            self.report(FindingKind::NamedBarrierMisuse, text, sides, None)?;
            return Err(crate::machine::Stop);
        }
        // A warp counts whole, whichever of its threads have exited; unaligned arrivals count thread by thread.
        b.arrived += if aligned { 32 } else { who.mask.count_ones() };
        b.expected = count;
        b.last_pc = who.pc;
        b.view.join(&view);
        let arrived = b.arrived;
        let expected = count.unwrap_or(all);
        if arrived > expected {
            return self.fail(
                FindingKind::NamedBarrierMisuse,
                w,
                who.mask,
                who.pc,
                format!("{arrived} threads arrive at barrier {id}, which is used for {expected}"),
            );
        }
        if arrived < expected {
            return Ok(if arrive { Flow::Next } else { Flow::Suspend(Wait::NamedBarrier { id }) });
        }
        self.release_named(cta, id);
        if !arrive {
            self.acquire(w, who.mask, &self.last_named.clone());
        }
        Ok(Flow::Next)
    }

    /// The barrier is complete: everybody who waits goes on.
    fn release_named(&mut self, cta: usize, id: u32) {
        self.epoch += 1;
        let b = std::mem::take(&mut self.ctas[cta].named[id as usize]);
        let per_cta = self.warps_per_cta() as usize;
        let range = cta * per_cta..(cta + 1) * per_cta;
        let time = range.clone().map(|w| self.warps[w].now).max().unwrap_or(0);
        for w in range {
            let mut woken = 0;
            let mut waited = Vec::new();
            for f in &mut self.warps[w].fragments {
                if matches!(f.wait, Some(Wait::NamedBarrier { id: i }) if i == id) {
                    waited.push((f.mask, f.pc));
                    f.wait = None;
                    f.pc += 1;
                    woken |= f.mask;
                }
            }
            waited.into_iter().for_each(|(mask, pc)| self.reduced(w, mask, pc, b.votes));
            if woken != 0 {
                self.acquire(w, woken, &b.view);
                let warp = &mut self.warps[w];
                warp.now = warp.now.max(time.min(warp.now + 64));
            }
        }
        self.last_named = b.view;
        self.last_votes = b.votes;
    }

    /// Writes the result of a `bar.red` that has completed; of other barriers nothing.
    fn reduced(&mut self, w: usize, mask: u32, pc: u32, [yes, no]: [u32; 2]) {
        let program = self.program;
        let inst = &program.code[pc as usize];
        let Op::BarRed { f, d, .. } = &inst.op else { return };
        match f {
            Reduction::Popc => self.set(w, mask, *d, &[u64::from(yes); 32]),
            Reduction::And => self.warps[w].set_pred(*d, mask, if no == 0 { u32::MAX } else { 0 }),
            Reduction::Or => self.warps[w].set_pred(*d, mask, if yes > 0 { u32::MAX } else { 0 }),
        }
        self.define(Who { w, mask, pc }, &inst.uses, 0);
    }

    fn live_threads(&self) -> u32 {
        self.warps.iter().map(|w| w.live.count_ones()).sum()
    }

    fn cluster_arrive(&mut self, who: Who, release: bool) -> Exec<()> {
        let generation = self.cluster_barrier.generation;
        for l in lanes(who.mask) {
            if self.warps[who.w].cluster_arrived[l as usize] != 0 {
                return self.fail(
                    FindingKind::ClusterBarrierMisuse,
                    who.w,
                    1 << l,
                    who.pc,
                    "a thread arrives at the cluster barrier twice without waiting in between",
                );
            }
            self.warps[who.w].cluster_arrived[l as usize] = generation + 1;
        }
        let view = self.publish(who.w, who.mask);
        let gathering = &mut self.cluster_barrier.gathering;
        if release {
            gathering.join(&view);
        }
        // A relaxed arrival passes on what its threads knew at their last fences.
        let (warp, mine) = (&self.warps[who.w], |mask: u32| mask & who.mask != 0);
        let fences = warp.fences.iter().filter(|fence| mine(fence.mask) && fence.scope > Scope::Cta);
        fences.for_each(|fence| gathering.join(&fence.view));
        let announced = warp.announced.iter().filter(|(mask, _)| mine(*mask));
        announced.for_each(|(_, (component, tick))| gathering.learn(*component, *tick));
        self.cluster_barrier.arrived += who.mask.count_ones();
        self.settle_cluster();
        Ok(())
    }

    fn settle_cluster(&mut self) {
        let live = self.live_threads();
        let b = &mut self.cluster_barrier;
        if b.arrived < live || b.arrived == 0 {
            return;
        }
        b.arrived = 0;
        b.completed[(b.generation & 1) as usize] = std::mem::take(&mut b.gathering);
        b.generation += 1;
        self.epoch += 1;
    }

    fn cluster_wait(&mut self, who: Who) -> Exec<Flow> {
        let lane = Self::first_lane(who.mask);
        let arrived = self.warps[who.w].cluster_arrived[lane as usize];
        if arrived == 0 {
            return self.fail(
                FindingKind::ClusterBarrierMisuse,
                who.w,
                who.mask,
                who.pc,
                "a thread waits at the cluster barrier without having arrived",
            );
        }
        if self.cluster_barrier.generation < arrived {
            return Ok(Flow::Retry(Wait::Cluster { generation: arrived }));
        }
        let view = self.cluster_barrier.completed[((arrived - 1) & 1) as usize].clone();
        self.acquire(who.w, who.mask, &view);
        for l in lanes(who.mask) {
            self.warps[who.w].cluster_arrived[l as usize] = 0;
        }
        Ok(Flow::Next)
    }

    /// Threads that have exited are no longer waited for.
    pub(super) fn barriers_after_exit(&mut self, w: usize, mask: u32) -> Exec<()> {
        // One that has arrived is counted among the arrivals no longer, as it is not among the threads.
        let (cta, open) = (self.warps[w].cta, self.cluster_barrier.generation + 1);
        let arrived = lanes(mask).filter(|lane| self.warps[w].cluster_arrived[*lane as usize] == open).count();
        self.cluster_barrier.arrived -= arrived as u32;
        self.settle_cluster();
        let all = self.ctas[cta].live_warps * 32;
        for id in 0..16 {
            let b = &self.ctas[cta].named[id];
            if b.arrived > 0 && b.expected.is_none() && b.arrived >= all {
                self.release_named(cta, id as u32);
            }
        }
        Ok(())
    }
}
