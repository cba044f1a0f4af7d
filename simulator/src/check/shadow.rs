//! The state of every byte: who wrote it last, who has read it since.
//!
//! States are numbered; a byte's shadow is its state's number, so a range of bytes in one state costs one check.

use std::ops::Range;

use super::clock::{View, lanes};
use crate::program::op::Scope;

/// Which path an access takes to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    Generic,
    /// `cp.async`: generic, but beside its thread.
    Copy,
    Async,
    /// Generic and strong (atomic, volatile, relaxed and up) for the cluster or more: never races with its like.
    Strong,
    /// Generic and strong for its block: never races with its like of the same block.
    StrongInBlock,
}

impl Proxy {
    /// A strong access of a scope.
    pub(crate) fn strong(scope: Scope) -> Self {
        if scope == Scope::Cta { Self::StrongInBlock } else { Self::Strong }
    }

    fn is_strong(self) -> bool {
        matches!(self, Self::Strong | Self::StrongInBlock)
    }
}

/// An access, as remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// First clock component: a warp's lane 0, or a slot.
    pub(crate) base: u32,
    /// Lanes of the warp; 1 for a slot.
    pub(crate) mask: u32,
    pub(crate) tick: u32,
    pub(crate) pc: u32,
    /// The warp that executed or issued it, and the lanes that did.
    pub(crate) warp: u16,
    pub(crate) proxy: Proxy,
    /// Each lane has made the whole access for itself.
    pub(crate) each: bool,
}

/// What is wrong between an earlier access and this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    Race { before: Stamp, before_writes: bool },
    Unfenced { before: Stamp },
    Unwritten,
}

/// The last write, and the reads since: the last of them, and the number of the state before it, which has the others.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    write: Option<Stamp>,
    read: Option<Stamp>,
    /// 0 where there are no other reads.
    earlier: u32,
}

/// Splits states of neighbouring bytes into runs of one state: (first byte, run).
fn runs(mut shadow: &mut [u32]) -> impl Iterator<Item = (usize, &mut [u32])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = *shadow.first()?;
        // Sixteen at a time as long as they are equal, without a branch for each.
        let whole = |part: &[u32; 16]| part.iter().fold(0, |differ, id| differ | (id ^ first)) == 0;
        let mut length = 16 * shadow.as_chunks::<16>().0.iter().take_while(|part| whole(part)).count();
        length += shadow[length..].iter().take_while(|id| **id == first).count();
        let (run, rest) = std::mem::take(&mut shadow).split_at_mut(length);
        shadow = rest;
        at += length;
        Some((at - length, run))
    })
}

/// The numbered states of one cluster. State 0: never touched; state 1: written before the run.
#[derive(Debug)]
pub(crate) struct States {
    all: Vec<State>,
    /// What the last collection has emptied.
    spare: Vec<State>,
    conflicts: Vec<(Range<usize>, Conflict)>,
    /// What the current access made of states: (before, after), so that its many ranges share them.
    memo: Vec<(u32, u32)>,
    memo_of: Option<(Stamp, bool)>,
    collect_at: usize,
    /// Warps of a block.
    block: u16,
}

/// More states than this (or twice what the last one kept) start a collection.
const COLLECT_AT: usize = 1 << 17;

impl States {
    /// Of a cluster whose blocks have so many warps.
    pub(crate) fn new(block: u16) -> Self {
        Self {
            block: block.max(1),
            all: vec![State::default(), State::default()],
            spare: Vec::new(),
            conflicts: Vec::new(),
            memo: Vec::new(),
            memo_of: None,
            collect_at: COLLECT_AT,
        }
    }
}

/// State number of bytes written before the run.
pub(crate) const INITIALISED: u32 = 1;

/// Which clock of a view must cover an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Seen,
    /// It is visible to the asynchronous proxy: in shared, or in global memory.
    Fenced(Memory),
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Shared,
    Global,
}

fn ordered(before: &Stamp, now: &Stamp, view: &View, known: Known) -> bool {
    // An instruction of the whole warp orders no other lane's accesses before its own.
    let one = now.mask.is_power_of_two() || before.mask == now.mask;
    if before.base == now.base
        && one
        && (before.mask & !now.mask) == 0
        && (before.proxy == Proxy::Async) == (now.proxy == Proxy::Async)
        && (now.proxy != Proxy::Copy || before.tick == now.tick)
    {
        return true; // program order, or the same operation
    }
    let clock = match known {
        Known::Seen => &view.seen,
        Known::Fenced(Memory::Shared) => &view.fenced,
        Known::Fenced(Memory::Global) => &view.fenced_global,
    };
    lanes(before.mask).all(|l| {
        (before.base == now.base && now.mask == 1 << l && !matches!(now.proxy, Proxy::Async | Proxy::Copy))
            || clock.get(before.base + l) >= before.tick
    })
}

fn compare(
    (before, before_writes): (&Stamp, bool),
    now: &Stamp,
    view: &View,
    memory: Memory,
    block: u16,
) -> Option<Conflict> {
    if now.each && !now.mask.is_power_of_two() {
        // Two of the lanes represent all: they know the same, and what one of them did is not ordered before the other.
        let alone = |lane: u32| Stamp { mask: 1 << lane, each: false, ..*now };
        let mut two = lanes(now.mask).take(2).map(alone);
        return two.find_map(|now| compare((before, before_writes), &now, view, memory, block));
    }
    if before.proxy.is_strong() && now.proxy.is_strong() {
        let wide = before.proxy == Proxy::Strong && now.proxy == Proxy::Strong;
        if wide || before.warp / block == now.warp / block {
            return None;
        }
    }
    if !ordered(before, now, view, Known::Seen) {
        return Some(Conflict::Race { before: *before, before_writes });
    }
    let crosses = before_writes && now.proxy == Proxy::Async && before.proxy != Proxy::Async;
    if crosses && !ordered(before, now, view, Known::Fenced(memory)) {
        return Some(Conflict::Unfenced { before: *before });
    }
    None
}

impl States {
    /// Was the state made by another lane of the instruction `now` belongs to?
    pub(crate) fn written_by(&self, id: u32, now: &Stamp) -> bool {
        let last = self.all[id as usize].write;
        last.is_some_and(|s| s.base == now.base && s.tick == now.tick && s.pc == now.pc)
    }

    pub(crate) fn crowded(&self) -> bool {
        self.all.len() > self.collect_at
    }

    /// Keeps only the states that `shadows` still name, and those that these name, renumbering them.
    pub(crate) fn collect<'a>(&mut self, shadows: impl Iterator<Item = &'a mut [u32]>) {
        let mut next = vec![u32::MAX; self.all.len()];
        (next[0], next[1]) = (0, 1);
        let mut live = std::mem::take(&mut self.spare);
        live.clear();
        live.extend_from_slice(&self.all[..2]);
        for shadow in shadows {
            for id in shadow {
                let slot = &mut next[*id as usize];
                if *slot == u32::MAX {
                    *slot = live.len() as u32;
                    live.push(self.all[*id as usize]);
                }
                *id = *slot;
            }
        }
        // What is kept names states by their old numbers, until it is its turn.
        let mut at = 2;
        while let Some(earlier) = live.get(at).map(|state| state.earlier) {
            let slot = &mut next[earlier as usize];
            if *slot == u32::MAX {
                *slot = live.len() as u32;
                live.push(self.all[earlier as usize]);
            }
            live[at].earlier = *slot;
            at += 1;
        }
        self.collect_at = COLLECT_AT.max(2 * live.len());
        self.spare = std::mem::replace(&mut self.all, live);
        self.memo.clear();
    }

    /// The reads of a state since its write, the last one first.
    fn reads(&self, id: u32) -> impl Iterator<Item = &Stamp> {
        let first = Some(&self.all[id as usize]);
        let states = std::iter::successors(first, |state| {
            Some(state.earlier).filter(|earlier| *earlier != 0).map(|earlier| &self.all[earlier as usize])
        });
        states.filter_map(|state| state.read.as_ref())
    }

    fn memo(&mut self, now: &Stamp, writes: bool) {
        if self.memo_of != Some((*now, writes)) {
            self.memo_of = Some((*now, writes));
            self.memo.clear();
        }
    }

    /// Conflicts of the last access, each with its bytes within the range.
    pub(crate) fn take_conflicts(&mut self) -> Vec<(Range<usize>, Conflict)> {
        std::mem::take(&mut self.conflicts)
    }

    /// A write of these bytes.
    pub(crate) fn write(&mut self, shadow: &mut [u32], now: &Stamp, view: &View, memory: Memory) {
        self.memo(now, true);
        let known = self.memo.first().map(|m| m.1);
        let fresh = known.unwrap_or(self.all.len() as u32);
        for (at, run) in runs(shadow) {
            let id = run[0];
            if id == fresh {
                continue;
            }
            let conflict = |before: &Stamp, writes: bool| compare((before, writes), now, view, memory, self.block);
            let written = self.all[id as usize].write.as_ref().and_then(|before| conflict(before, true));
            // The first of the reads that conflict.
            let found = written.or_else(|| self.reads(id).filter_map(|before| conflict(before, false)).last());
            self.conflicts.extend(found.map(|conflict| (at..at + run.len(), conflict)));
            run.fill(fresh);
        }
        if known.is_none() {
            self.all.push(State { write: Some(*now), read: None, earlier: 0 });
            self.memo.push((fresh, fresh));
        }
    }

    /// A read of these bytes; of shared memory, reading what was never written is an error.
    pub(crate) fn read(&mut self, shadow: &mut [u32], now: &Stamp, view: &View, memory: Memory) {
        self.memo(now, false);
        for (at, run) in runs(shadow) {
            let id = run[0];
            if let Some((_, after)) = self.memo.iter().find(|(before, _)| *before == id) {
                if *after != id {
                    run.fill(*after);
                }
                continue;
            }
            let found = match &self.all[id as usize].write {
                None if id == 0 && memory == Memory::Shared => Some(Conflict::Unwritten),
                None => None,
                Some(w) => compare((w, true), now, view, memory, self.block),
            };
            self.conflicts.extend(found.map(|conflict| (at..at + run.len(), conflict)));
            let becomes = self.after_read(id, now, view);
            if self.memo.len() < 64 {
                self.memo.push((id, becomes));
            }
            if becomes != id {
                run.fill(becomes);
            }
        }
    }

    fn after_read(&mut self, id: u32, now: &Stamp, view: &View) -> u32 {
        if id == 0 {
            return 0; // stays unwritten, so that every reader is reported
        }
        let State { write, read, .. } = self.all[id as usize];
        let same = |r: &Stamp| r.base == now.base && r.tick == now.tick && r.pc == now.pc;
        let mut all_count = true;
        for before in self.reads(id) {
            if same(before) && before.mask & now.mask == now.mask {
                return id;
            }
            all_count &= !same(before) && !ordered(before, now, view, Known::Seen);
        }
        if all_count {
            let earlier = if read.is_some() { id } else { 0 };
            return self.push(State { write, read: Some(*now), earlier });
        }
        // A read that happened before this one can no longer be the first to conflict, and lanes of one instruction read
        // together.
        let mine = self.reads(id).find(|before| same(before)).map(|mine| Stamp { mask: mine.mask | now.mask, ..*mine });
        let counts = |before: &&Stamp| !same(before) && (mine.is_some() || !ordered(before, now, view, Known::Seen));
        let mut reads: Vec<Stamp> = self.reads(id).filter(counts).copied().collect();
        reads.reverse();
        reads.push(mine.unwrap_or(*now));
        reads.into_iter().fold(0, |earlier, read| self.push(State { write, read: Some(read), earlier }))
    }

    fn push(&mut self, state: State) -> u32 {
        self.all.push(state);
        self.all.len() as u32 - 1
    }
}
