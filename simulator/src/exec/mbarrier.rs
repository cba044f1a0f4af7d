//! mbarrier instructions.

use crate::address::SHARED_BASE;
use crate::check::FindingKind;
use crate::check::clock::{View, lanes};
use crate::check::shadow::Proxy;
use crate::machine::in_flight::Spot;
use crate::machine::mbarrier::{COUNT_LIMIT, Mbarrier, Outcome, TX_LIMIT};
use crate::machine::memory::{Deed, Place, Who};
use crate::machine::warp::Wait;
use crate::machine::{Exec, Flow, Machine, Stop};
use crate::program::op::{Addr, Mbar, PENDING_AT, Scope};
use crate::program::types::mask;
use crate::schedule::Schedule;

impl Machine<'_> {
    pub(super) fn mbarrier(&mut self, who: Who, op: &Mbar, addr: &Addr) -> Exec<Flow> {
        if let Mbar::Wait { done, parity, what, acquire, suspends } = op {
            return self.wait(who, addr, *done, *parity, *what, *acquire, *suspends);
        }
        for l in lanes(who.mask) {
            let who = Who { mask: 1 << l, ..who };
            let spot = self.spot(who, l, addr)?;
            self.one(who, l, op, spot)?;
        }
        Ok(Flow::Next)
    }

    fn spot(&mut self, who: Who, l: u32, addr: &Addr) -> Exec<Spot> {
        match self.resolve(who, l, addr, 8, 8)? {
            Place::Shared(cta, offset) => Ok((cta, offset)),
            _ => self.fail(FindingKind::BarrierMisuse, who.w, who.mask, who.pc, "an mbarrier must be in shared memory"),
        }
    }

    /// The addresses of an mbarrier.
    fn bytes_of((_, offset): Spot) -> std::ops::Range<u64> {
        let start = u64::from(SHARED_BASE) + u64::from(offset);
        start..start + 8
    }

    fn name(spot: Spot) -> String {
        format!("the mbarrier at byte {} of block {}'s shared memory", spot.1, spot.0)
    }

    fn one(&mut self, who: Who, l: u32, op: &Mbar, spot: Spot) -> Exec<()> {
        match op {
            Mbar::Init { count } => {
                let count = self.value(who.w, l, *count) & 0xffff_ffff;
                if !(1..=COUNT_LIMIT).contains(&count) {
                    return self.fail(
                        FindingKind::BarrierMisuse,
                        who.w,
                        who.mask,
                        who.pc,
                        format!("an mbarrier counts 1 to {COUNT_LIMIT} arrivals, not {count}"),
                    );
                }
                if self.ctas[spot.0].mbarriers.contains_key(&spot.1) {
                    self.complain(
                        FindingKind::BarrierMisuse,
                        who.w,
                        who.mask,
                        who.pc,
                        format!("{} is initialised again without mbarrier.inval", Self::name(spot)),
                    )?;
                }
                let (stamp, view) = (self.stamp(who.w, who.mask, who.pc, Proxy::Generic), self.view_of(who.w, l));
                self.check_shared_write(&stamp, &view, spot.0, spot.1, 8, Deed::Writes)?;
                self.ctas[spot.0].mbarriers.insert(spot.1, Mbarrier::new(count as u32, stamp));
                self.epoch += 1;
            }
            Mbar::Inval => {
                self.usable(who, &self.view_of(who.w, l), spot, false)?;
                self.ctas[spot.0].mbarriers.remove(&spot.1);
            }
            Mbar::ExpectTx { bytes } => {
                let n = self.value(who.w, l, *bytes) as u32;
                self.usable(who, &self.view_of(who.w, l), spot, false)?;
                self.transact(who, spot, i64::from(n))?;
            }
            Mbar::CompleteTx { bytes } => {
                let n = self.value(who.w, l, *bytes) as u32;
                self.usable(who, &self.view_of(who.w, l), spot, false)?;
                self.transact(who, spot, -i64::from(n))?;
            }
            Mbar::Arrive { state, count, expect, drop, complete, release } => {
                let n = self.value(who.w, l, *count) as u32;
                let expect = expect.map(|e| self.value(who.w, l, e) as u32);
                self.usable(who, &self.view_of(who.w, l), spot, false)?;
                if let Some(d) = state {
                    let before = self.ctas[spot.0].mbarriers.get(&spot.1).map_or(0, Mbarrier::state);
                    self.warps[who.w].regs[*d as usize][l as usize] = before;
                }
                if *drop && let Some(b) = self.ctas[spot.0].mbarriers.get_mut(&spot.1) {
                    b.count = b.count.saturating_sub(n);
                }
                if self.options.races && self.warps[who.w].cta != spot.0 {
                    let stamp = self.stamp(who.w, who.mask, who.pc, Proxy::Generic);
                    self.ctas[spot.0].remote.insert(who.w, stamp);
                }
                // A release of CTA scope orders nothing for the block of another one's barrier.
                let reaches = release.is_some_and(|scope| scope > Scope::Cta || self.warps[who.w].cta == spot.0);
                let view = reaches.then(|| self.publish(who.w, who.mask));
                let phase = self.ctas[spot.0].mbarriers.get(&spot.1).map(|b| b.phase);
                self.warps[who.w].at_barriers.arrived = Some((spot, who.pc));
                self.arrive_at(who, spot, n, expect, view)?;
                let after = self.ctas[spot.0].mbarriers.get(&spot.1).map(|b| b.phase);
                if !complete && phase != after {
                    return self.fail(
                        FindingKind::PhaseOverrun,
                        who.w,
                        who.mask,
                        who.pc,
                        "mbarrier.arrive.noComplete completes the phase",
                    );
                }
            }
            Mbar::CpAsyncArrive { noinc } => {
                self.usable(who, &self.view_of(who.w, l), spot, false)?;
                if !noinc && let Some(b) = self.ctas[spot.0].mbarriers.get_mut(&spot.1) {
                    b.pending += 1;
                }
                self.issue_arrive(who, l, spot)?;
            }
            Mbar::Wait { .. } => {}
        }
        Ok(())
    }

    /// Is there a barrier, initialised before what `view` knows, and fenced where others than its block's threads
    /// use it?
    fn usable(&mut self, who: Who, view: &View, spot: Spot, by_copy: bool) -> Exec<()> {
        let Some(b) = self.ctas[spot.0].mbarriers.get(&spot.1) else {
            return self.fail(
                FindingKind::BarrierMisuse,
                who.w,
                who.mask,
                who.pc,
                format!("{} was never initialised", Self::name(spot)),
            );
        };
        let (init, announced) = (b.init, b.announced);
        let remote = self.warps[who.w].cta != spot.0;
        if self.options.races {
            let own = init.base == who.w as u32 * 32 && init.mask & !who.mask == 0;
            let told = announced.is_some_and(|(component, tick)| view.seen.get(component) >= tick);
            let known = own || told || lanes(init.mask).all(|l| view.seen.get(init.base + l) >= init.tick);
            if !known {
                let sides = vec![
                    self.side(who.w, who.mask, who.pc, "uses the barrier"),
                    self.side(init.warp as usize, init.mask, init.pc, "initialises it"),
                ];
                let text = format!("{} is used, but the use is not ordered after its init", Self::name(spot));
                self.report(FindingKind::BarrierMisuse, text, sides, Some(Self::bytes_of(spot)))?;
            }
        }
        if (remote || by_copy) && !self.ctas[spot.0].mbarriers.get(&spot.1).is_some_and(|b| b.fenced) {
            let sides = vec![
                self.side(
                    who.w,
                    who.mask,
                    who.pc,
                    if by_copy { "passes the barrier to the async proxy" } else { "uses the barrier of another block" },
                ),
                self.side(init.warp as usize, init.mask, init.pc, "initialises it"),
            ];
            let text = format!("{} has no fence.mbarrier_init (or fence.proxy.async) after its init", Self::name(spot));
            self.report(FindingKind::MissingInitFence, text, sides, Some(Self::bytes_of(spot)))?;
        }
        Ok(())
    }

    /// A copy is issued against this barrier.
    pub(crate) fn barrier_ready(&mut self, who: Who, view: &View, spot: Spot) -> Exec<()> {
        self.usable(who, view, spot, true)
    }

    fn outcome(&mut self, who: Who, spot: Spot, outcome: Outcome) -> Exec<()> {
        let Some(b) = self.ctas[spot.0].mbarriers.get_mut(&spot.1) else {
            return Ok(());
        };
        let (tx, count, told, last) = (b.tx, b.count, b.underflow_told, b.last_arrive);
        match outcome {
            Outcome::Pending => {}
            Outcome::Completed => {
                b.time = b.time.max(self.warps[who.w].now);
            }
            Outcome::Overrun => {
                let mut sides = vec![self.side(who.w, who.mask, who.pc, "arrives")];
                sides.extend(last.map(|pc| self.side(who.w, who.mask, pc, "arrived before")));
                let text = format!("{} gets more arrivals in a phase than its count of {count}", Self::name(spot));
                self.report(FindingKind::PhaseOverrun, text, sides, Some(Self::bytes_of(spot)))?;
                return Err(Stop);
            }
            Outcome::Underflow if !told => {
                b.underflow_told = true;
                let mut sides = vec![self.side(who.w, who.mask, who.pc, "brings the bytes")];
                sides.extend(last.map(|pc| self.side(who.w, who.mask, pc, "was the last arrival")));
                let text = format!(
                    "{}: all arrivals are there and {} bytes more than expected came in; expect_tx announces too few",
                    Self::name(spot),
                    -tx
                );
                self.report(FindingKind::TransactionUnderflow, text, sides, Some(Self::bytes_of(spot)))?;
            }
            Outcome::Underflow => {}
        }
        Ok(())
    }

    fn transact(&mut self, who: Who, spot: Spot, bytes: i64) -> Exec<()> {
        self.epoch += 1;
        let Some(b) = self.ctas[spot.0].mbarriers.get_mut(&spot.1) else {
            return self.fail(
                FindingKind::BarrierMisuse,
                who.w,
                who.mask,
                who.pc,
                format!("{} does not exist (any more)", Self::name(spot)),
            );
        };
        if (b.tx + bytes).abs() > TX_LIMIT {
            let text = format!(
                "{}: the transaction count would be {}; its range is +-{TX_LIMIT}",
                Self::name(spot),
                b.tx + bytes
            );
            return self.fail(FindingKind::TransactionUnderflow, who.w, who.mask, who.pc, text);
        }
        let outcome = b.transact(bytes);
        self.outcome(who, spot, outcome)
    }

    /// Bytes of a copy have landed.
    pub(crate) fn complete_bytes(
        &mut self,
        who: Who,
        spot: Spot,
        bytes: u32,
        slot: Option<(u32, u32)>,
        time: u64,
    ) -> Exec<()> {
        if let Some(b) = self.ctas[spot.0].mbarriers.get_mut(&spot.1) {
            if let Some((slot, tick)) = slot {
                b.gathering.learn(slot, tick);
            }
            b.time = b.time.max(time);
        }
        self.transact(who, spot, -i64::from(bytes))
    }

    /// An arrival; `view` is what it publishes.
    pub(crate) fn arrive_at(
        &mut self,
        who: Who,
        spot: Spot,
        n: u32,
        expect: Option<u32>,
        view: Option<View>,
    ) -> Exec<()> {
        self.epoch += 1;
        let now = self.warps[who.w].now;
        let Some(b) = self.ctas[spot.0].mbarriers.get_mut(&spot.1) else {
            return self.fail(
                FindingKind::BarrierMisuse,
                who.w,
                who.mask,
                who.pc,
                format!("{} does not exist (any more)", Self::name(spot)),
            );
        };
        if let Some(v) = view {
            b.gather(&v, self.warps[who.w].cta != spot.0);
        }
        if let Some(bytes) = expect {
            b.tx += i64::from(bytes);
            if b.tx > TX_LIMIT {
                let text = format!("{}: {} bytes are expected; the most is {TX_LIMIT}", Self::name(spot), b.tx);
                return self.fail(FindingKind::TransactionUnderflow, who.w, who.mask, who.pc, text);
            }
        }
        b.time = b.time.max(now);
        let outcome = b.arrive(n);
        b.last_arrive = Some(who.pc);
        self.outcome(who, spot, outcome)
    }

    #[allow(clippy::too_many_arguments)]
    fn wait(
        &mut self,
        who: Who,
        addr: &Addr,
        done: u32,
        parity: bool,
        what: crate::program::op::Src,
        acquire: Option<Scope>,
        suspends: bool,
    ) -> Exec<Flow> {
        let mut yes = 0;
        let mut blocked = None;
        let mut groups: Vec<(Spot, u32)> = Vec::new();
        for l in lanes(who.mask) {
            let one = Who { mask: 1 << l, ..who };
            let spot = self.spot(one, l, addr)?;
            if !groups.iter().any(|(s, _)| *s == spot) {
                self.usable(one, &self.view_of(who.w, l), spot, false)?;
                groups.push((spot, 0));
            }
            let what = self.value(who.w, l, what);
            let Some(b) = self.ctas[spot.0].mbarriers.get(&spot.1) else {
                return Err(Stop);
            };
            let complete = if parity { b.parity_done(what as u32) } else { b.phase > what & mask(PENDING_AT) };
            if complete {
                yes |= 1 << l;
                if let Some(g) = groups.iter_mut().find(|(s, _)| *s == spot) {
                    g.1 |= 1 << l;
                }
            } else {
                blocked = Some((spot, b.phase));
            }
        }
        for (spot, m) in groups {
            if m != 0
                && let Some(scope) = acquire
                && let Some(b) = self.ctas[spot.0].mbarriers.get(&spot.1)
            {
                let (own, remote, time) = (b.completed.clone(), b.completed_remote.clone(), b.time);
                self.warps[who.w].at_barriers.waited = Some((spot, who.pc));
                self.acquire(who.w, m, &own);
                if scope > Scope::Cta {
                    self.acquire(who.w, m, &remote);
                }
                let warp = &mut self.warps[who.w];
                warp.now = warp.now.max(time);
            }
        }
        if let (Some((spot, phase)), 0) = (blocked, yes) {
            if !suspends {
                // A failed poll is worth repeating only when something has happened.
                let polled = std::mem::replace(&mut self.polled[who.w], self.epoch + 1);
                if polled == self.epoch + 1 {
                    self.polled[who.w] = 0;
                    return Ok(Flow::Retry(Wait::Poll { world: self.world() }));
                }
            // A try_wait may give up at any time.
            } else if self.options.schedule != Schedule::Scrambled || self.random.below(2) != 0 {
                return Ok(Flow::Retry(Wait::Mbar { cta: spot.0, offset: spot.1, phase }));
            }
        }
        self.warps[who.w].set_pred(done, who.mask, yes);
        Ok(Flow::Next)
    }
}
