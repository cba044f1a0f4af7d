//! Who runs next.
//!
//! The order of threads and of asynchronous work is drawn from a seed; every order that can come out is one that the
//! ISA allows.

use crate::check::{Finding, FindingKind};
use crate::machine::warp::Wait;
use crate::machine::{Exec, Machine, Stop};

/// How threads and asynchronous work are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Asynchronous work is done the moment it is issued; warps take turns.
    Early,
    /// Asynchronous work is done only when no thread can go on without it, the youngest first.
    Late,
    /// Everything in an order drawn from the seed; copies arrive in parts. Even seeds are fair to all, odd seeds
    /// let some blocks and warps run far ahead.
    #[default]
    Scrambled,
    /// By the cost model: the earliest first. The one to trace.
    Timed,
}

/// SplitMix64: small, and the same everywhere for ever, so that a seed replays a run.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// 0 .. n (0 for n = 0)
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }
}

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Warp(usize),
    Copy(usize),
    Tensor(usize),
}

impl Machine<'_> {
    /// Runs the cluster to its end. What went wrong is in `findings`.
    pub(crate) fn run(&mut self) {
        // An Err has been reported already.
        let _ = self.run_all();
    }

    fn run_all(&mut self) -> Exec<()> {
        let mut last = 0;
        loop {
            let choice = self.choose(last)?;
            match choice {
                Some(Choice::Warp(w)) => {
                    last = w;
                    self.run_warp(w)?;
                }
                Some(Choice::Copy(i)) => self.advance_copy(i)?,
                Some(Choice::Tensor(g)) => self.wg_run(g)?,
                None if self.warps.iter().all(|w| w.live == 0) => return self.at_end(),
                None => return self.deadlock(),
            }
        }
    }

    fn choose(&mut self, last: usize) -> Exec<Option<Choice>> {
        let ready: Vec<usize> = (0..self.warps.len()).filter(|w| self.warp_ready(*w)).collect();
        let copies: Vec<usize> = (0..self.asyncs.pending.len()).filter(|i| self.copy_may_run(*i)).collect();
        let groups: Vec<usize> = (0..self.warpgroups.len()).filter(|g| self.warpgroups[*g].ready()).collect();
        let turn = |ready: &[usize]| ready.iter().find(|w| **w > last).or(ready.first()).copied();
        Ok(match self.options.schedule {
            Schedule::Early | Schedule::Late => match turn(&ready) {
                Some(w) => Some(Choice::Warp(w)),
                // The youngest copy first; the tensor core last of all.
                None => copies.last().map(|i| Choice::Copy(*i)).or(groups.first().map(|g| Choice::Tensor(*g))),
            },
            Schedule::Scrambled => {
                if let Some(w) = self.favourite(&ready) {
                    return Ok(Some(Choice::Warp(w)));
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
        })
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

    fn fragment_ready(&self, w: usize, f: &crate::machine::warp::Fragment) -> bool {
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
            Some(Wait::Poll { epoch }) => self.epoch != *epoch,
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
                "a thread waits for phase {phase} of the mbarrier at byte {offset} of block {cta}'s shared memory, which has completed phase {} before it could look: the parity cannot tell them apart",
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

    fn deadlock(&mut self) -> Exec<()> {
        let mut sides = Vec::new();
        let mut reasons: Vec<String> = Vec::new();
        for (w, warp) in self.warps.iter().enumerate() {
            for f in &warp.fragments {
                let Some(wait) = &f.wait else {
                    continue;
                };
                let why = self.why(wait);
                if !reasons.contains(&why) {
                    reasons.push(why.clone());
                }
                sides.push(self.side(w, f.mask, f.pc, format!("waits: {why}")));
            }
        }
        let message = format!("nobody can proceed; {} groups of threads wait: {}", sides.len(), reasons.join("; "));
        let finding = Finding {
            kind: FindingKind::Deadlock,
            message,
            sides,
            address: None,
            cluster: self.cluster,
            seed: self.options.seed,
            times: 1,
        };
        self.findings.push(finding);
        Err(Stop)
    }

    fn why(&self, wait: &Wait) -> String {
        match wait {
            Wait::Mbar { cta, offset, phase } => match self.ctas[*cta].mbarriers.get(offset) {
                Some(b) => {
                    let last = b.last_arrive.map_or_else(
                        || "nobody has arrived yet".into(),
                        |pc| format!("the last arrival was at {}", self.program.where_is(pc)),
                    );
                    format!(
                        "mbarrier at byte {offset} of block {cta}, phase {phase} (parity {}): {} of {} arrivals and {} bytes missing; {last}",
                        phase & 1,
                        b.pending,
                        b.count,
                        b.tx
                    )
                }
                None => format!("mbarrier at byte {offset} of block {cta}, which does not exist any more"),
            },
            Wait::Poll { .. } => "a poll that nothing can make succeed".into(),
            Wait::NamedBarrier { id } => format!("barrier {id} of the block"),
            Wait::Cluster { generation } => {
                let live: u32 = self.warps.iter().map(|w| w.live.count_ones()).sum();
                format!(
                    "cluster barrier, round {}: {} of {live} threads have arrived",
                    generation - 1,
                    self.cluster_barrier.arrived
                )
            }
            Wait::Converge { members: None } => "the other threads of the warp, at an .aligned instruction".into(),
            Wait::Converge { members: Some(m) } => format!("the threads {m:#010x} of the warp"),
            Wait::Bulk { .. } | Wait::CpAsync { .. } => "its own copies".into(),
            Wait::Registers { need } => format!("{need} registers from the block's pool"),
            Wait::Wgmma { target } => format!("wgmma {} to be issued by all four warps", target - 1),
        }
    }
}
