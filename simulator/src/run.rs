//! Who runs next.
//!
//! The order of threads and of asynchronous work is drawn from a seed; every order that can come out is one that the
//! ISA allows.

use crate::check::FindingKind;
use crate::machine::warp::{Fragment, Wait};
use crate::machine::{Exec, Machine, Stop};
use crate::schedule::{Choices, Progress, Schedule};

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Warp(usize),
    Copy(usize),
    Tensor(usize),
}

impl Choices {
    fn gather(&mut self, m: &Machine<'_>) {
        fn fill(list: &mut Vec<usize>, count: usize, holds: impl Fn(usize) -> bool) {
            list.clear();
            list.extend((0..count).filter(|i| holds(*i)));
        }
        fill(&mut self.ready, m.warps.len(), |w| m.warp_ready(w));
        let copies = m.asyncs.pending.len();
        if m.asyncs.all_may_run() {
            if !std::mem::replace(&mut self.all_copies, true) {
                self.copies.clear();
            }
            self.copies.truncate(copies);
            self.copies.extend(self.copies.len()..copies);
        } else {
            self.all_copies = false;
            fill(&mut self.copies, copies, |i| m.copy_may_run(i));
        }
        fill(&mut self.groups, m.warpgroups.len(), |g| m.warpgroups[g].ready());
    }
}

impl Machine<'_> {
    /// Runs the cluster to its end. What went wrong is in `findings`.
    pub(crate) fn run(&mut self) {
        if self.run_for(u64::MAX) == Progress::Polls {
            let _ = self.deadlock();
        }
    }

    /// Runs the cluster for so many steps of the scheduler. What went wrong is in `findings`.
    pub(crate) fn run_for(&mut self, steps: u64) -> Progress {
        for _ in 0..steps {
            match self.run_one() {
                Ok(Progress::Runs) => {}
                Ok(ended) => return ended,
                // It has been reported already.
                Err(Stop) => return Progress::Over,
            }
        }
        Progress::Runs
    }

    /// One step of the scheduler.
    fn run_one(&mut self) -> Exec<Progress> {
        match self.choose(self.last) {
            Some(Choice::Warp(w)) => {
                self.last = w;
                self.run_warp(w)?;
            }
            Some(Choice::Copy(i)) => self.advance_copy(i)?,
            Some(Choice::Tensor(g)) => self.wg_run(g)?,
            None if self.warps.iter().all(|w| w.live == 0) => return self.at_end().map(|()| Progress::Over),
            None if self.polls() => return Ok(Progress::Polls),
            None => return self.deadlock().map(|()| Progress::Over),
        }
        Ok(Progress::Runs)
    }

    /// Whether a thread waits for what another cluster may do.
    fn polls(&self) -> bool {
        let mut fragments = self.warps.iter().flat_map(|warp| &warp.fragments);
        fragments.any(|fragment| matches!(fragment.wait, Some(Wait::Poll { .. })))
    }

    fn choose(&mut self, last: usize) -> Option<Choice> {
        if matches!(self.options.schedule, Schedule::Early | Schedule::Late) {
            // Threads first, in turns.
            let count = self.warps.len();
            let next = (1..=count).map(|step| (last + step) % count).find(|w| self.warp_ready(*w));
            if let Some(w) = next {
                return Some(Choice::Warp(w));
            }
        }
        let mut found = std::mem::take(&mut self.choices);
        found.gather(self);
        let choice = self.choose_of(&found);
        self.choices = found;
        choice
    }

    fn choose_of(&mut self, Choices { ready, copies, groups, .. }: &Choices) -> Option<Choice> {
        match self.options.schedule {
            // The youngest copy first; the tensor core last of all.
            Schedule::Early | Schedule::Late => {
                copies.last().map(|i| Choice::Copy(*i)).or(groups.first().map(|g| Choice::Tensor(*g)))
            }
            Schedule::Scrambled => {
                if let Some(w) = self.favourite(ready) {
                    return Some(Choice::Warp(w));
                }
                let all = ready.len() + copies.len() + groups.len();
                let mut n = self.random.below(all as u64) as usize;
                // Now and then asynchronous work is held back for a while.
                if !ready.is_empty() && self.random.below(4) == 0 {
                    n = self.random.below(ready.len() as u64) as usize;
                }
                if n < ready.len() {
                    Some(Choice::Warp(ready[n]))
                } else if n < ready.len() + copies.len() {
                    Some(Choice::Copy(copies[n - ready.len()]))
                } else {
                    groups.get(n - ready.len() - copies.len()).map(|g| Choice::Tensor(*g))
                }
            }
            Schedule::Timed => {
                let threads = ready.iter().map(|w| (self.warps[*w].now, Choice::Warp(*w)));
                let flying = copies.iter().map(|i| (self.asyncs.pending[*i].due, Choice::Copy(*i)));
                let tensor = groups.iter().filter_map(|g| {
                    let group = &self.warpgroups[*g];
                    group.get(group.done).map(|o| (o.due, Choice::Tensor(*g)))
                });
                threads.chain(flying).chain(tensor).min_by_key(|(t, _)| *t).map(|(_, c)| c)
            }
        }
    }

    /// Half of the seeds run by priorities: one block, and one warp, may be far ahead of the others. The warp to
    /// run, or none if asynchronous work may be next.
    fn favourite(&mut self, ready: &[usize]) -> Option<usize> {
        if self.options.seed & 1 == 0 {
            return None;
        }
        if self.priorities.is_empty() {
            let blocks: Vec<u64> = (0..self.ctas.len()).map(|_| self.random.below(4) << 32).collect();
            self.priorities = self.warps.iter().map(|w| blocks[w.cta]).collect();
            for p in &mut self.priorities {
                *p += self.random.below(1 << 32);
            }
        }
        if self.random.below(512) == 0 {
            let w = self.random.below(self.priorities.len() as u64) as usize;
            self.priorities[w] = self.random.below(4 << 32);
        }
        if self.random.below(8) == 0 {
            return None;
        }
        ready.iter().max_by_key(|w| self.priorities[**w]).copied()
    }

    fn warp_ready(&self, w: usize) -> bool {
        let warp = &self.warps[w];
        warp.live != 0 && warp.fragments.iter().any(|f| self.fragment_ready(w, f))
    }

    fn fragment_ready(&self, w: usize, f: &Fragment) -> bool {
        let warp = &self.warps[w];
        match &f.wait {
            None => true,
            Some(Wait::Converge { members }) => {
                // Threads that stand here already join when the fragment runs.
                let here = warp
                    .fragments
                    .iter()
                    .filter(|g| g.pc == f.pc && matches!(g.wait, None | Some(Wait::Converge { .. })));
                let mask = here.fold(0, |m, g| m | g.mask);
                members.unwrap_or(u32::MAX) & warp.live & !mask == 0
            }
            Some(Wait::Mbar { cta, offset, phase }) => {
                self.ctas[*cta].mbarriers.get(offset).is_none_or(|b| b.phase > *phase)
            }
            Some(Wait::Poll { world }) => self.world() != *world,
            Some(Wait::NamedBarrier { .. }) => false,
            Some(Wait::Cluster { generation }) => self.cluster_barrier.generation >= *generation,
            Some(Wait::Bulk { pending, read }) => self.group_done(w, f.mask, *pending, *read, false, true),
            Some(Wait::CpAsync { pending, all }) => self.group_done(w, f.mask, *pending, false, *all, false),
            Some(Wait::Registers { need }) => self.ctas[warp.cta].free_registers >= *need,
            Some(Wait::Wgmma { target }) => self.warpgroups[self.warpgroup_of(w)].issued(*target),
        }
    }

    /// Runs a warp for a while: until it waits, or its turn is over.
    fn run_warp(&mut self, w: usize) -> Exec<()> {
        let mut quantum = match self.options.schedule {
            Schedule::Scrambled => 1 + self.random.below(64),
            Schedule::Timed => 16,
            _ => 256,
        };
        while quantum > 0 && self.warps[w].live != 0 {
            quantum -= 1;
            let Some(f) = self.pick_fragment(w) else {
                return Ok(());
            };
            self.wake(w, f)?;
            let before = self.warps[w].fragments.len();
            let goes_on = self.step(w, f)?;
            // After a wait or a branch another fragment may be the one to run.
            if !goes_on
                && before == 1
                && self.warps[w].fragments.len() == 1
                && self.warps[w].fragments[0].wait.is_some()
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The fragment that is furthest behind: threads meet again soon. Scrambled runs sometimes take another.
    fn pick_fragment(&mut self, w: usize) -> Option<usize> {
        let fragments = &self.warps[w].fragments;
        if fragments.len() == 1 {
            return self.fragment_ready(w, &fragments[0]).then_some(0);
        }
        let ready: Vec<usize> = (0..fragments.len()).filter(|i| self.fragment_ready(w, &fragments[*i])).collect();
        if self.options.schedule == Schedule::Scrambled && ready.len() > 1 && self.random.below(8) == 0 {
            return Some(ready[self.random.below(ready.len() as u64) as usize]);
        }
        ready.into_iter().min_by_key(|i| self.warps[w].fragments[*i].pc)
    }

    fn wake(&mut self, w: usize, f: usize) -> Exec<()> {
        let fragment = &mut self.warps[w].fragments[f];
        let (mask, pc) = (fragment.mask, fragment.pc);
        if let Some(Wait::Mbar { cta, offset, phase }) = fragment.wait.take()
            && let Some(b) = self.ctas[cta].mbarriers.get(&offset)
            && b.phase > phase + 1
        {
            let text = format!(
                "a thread waits for phase {phase} of the mbarrier at byte {offset} of block {cta}'s shared memory, which has completed phase {} before the thread read it: the two phases have the same parity",
                b.phase - 1
            );
            return self.fail(FindingKind::PhaseOverrun, w, mask, pc, text);
        }
        Ok(())
    }

    /// All threads are gone; late copies may still land.
    fn at_end(&mut self) -> Exec<()> {
        while !self.asyncs.pending.is_empty() {
            let Some(i) = (0..self.asyncs.pending.len()).find(|i| self.copy_may_run(*i)) else {
                return Ok(());
            };
            self.advance_copy(i)?;
        }
        Ok(())
    }
}
