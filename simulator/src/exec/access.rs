//! Loads, stores, atomics and the copies that threads issue one by one.

use crate::address::{LOCAL_BASE, Window, classify};
use crate::arithmetic::atomic::atomic;
use crate::arithmetic::numbers::raw;
use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::check::shadow::{Proxy, Stamp};
use crate::machine::in_flight::LaneCopy;
use crate::machine::memory::{Deed, Place, Who};
use crate::machine::warp::{CopyGroups, Wait};
use crate::machine::{Exec, Flow, Machine};
use crate::program::op::{Addr, Op, Order, Scope, Semantics};
use crate::program::types::{Space, Ty};

impl Machine<'_> {
    pub(super) fn access(&mut self, who: Who, op: &Op) -> Exec<()> {
        match op {
            Op::Ld { ty, width, d, addr, order, constant } => {
                let bytes = ty.bytes() * d.len() as u32;
                let addresses = self.values(who.w, addr.base);
                let mut rest = who.mask;
                while rest != 0 {
                    let l = rest.trailing_zeros();
                    let (lanes_of_load, proxy) = match order {
                        Order::Strong(semantics) => (1 << l, Proxy::strong(semantics.scope)),
                        Order::Weak if own(addr, addresses[l as usize]) => (1 << l, Proxy::Generic),
                        Order::Weak => (self.lanes_of_one_load(who.w, rest, l, &addresses), Proxy::Generic),
                    };
                    rest &= !lanes_of_load;
                    let place = self.resolve(who, l, addr, bytes, bytes)?;
                    self.opaque_or_map(who, place, bytes)?;
                    let stamp = Stamp { each: true, ..self.stamp(who.w, lanes_of_load, who.pc, proxy) };
                    let view = self.view_of(who.w, l);
                    let mut buffer = [0u8; 16];
                    match (order, place) {
                        // Strong accesses of several clusters do not race, as atomics do not, if the scope reaches that far.
                        (Order::Strong(s), Place::Global(a)) if s.scope == Scope::Device => {
                            self.check_global(&stamp, &view, a, bytes as usize, Deed::Reads)?;
                            self.global.read_atomic(a, &mut buffer[..bytes as usize], who.pc);
                            if d.len() > 1 {
                                self.exchanged_read(&stamp, &view, a)?;
                            }
                            self.acquire_global(who, l, a, *s);
                        }
                        _ => self.load(&stamp, &view, place, &mut buffer[..bytes as usize])?,
                    }
                    if *constant && let Place::Global(a) = place {
                        self.global.note_constant(a, bytes as usize, who.pc);
                        self.check_constant(&stamp, a, bytes as usize)?;
                    }
                    for (i, d) in d.iter().enumerate() {
                        if let Some(d) = d {
                            let at = i * ty.bytes() as usize;
                            let raw = raw(&buffer[at..at + ty.bytes() as usize]);
                            let register = &mut self.warps[who.w].regs[*d as usize];
                            lanes(lanes_of_load).for_each(|l| register[l as usize] = Self::extend(raw, *ty, *width));
                        }
                    }
                    if let Order::Strong(semantics) = order {
                        self.acquire_from(who, l, place, *semantics);
                    }
                }
            }
            Op::St { ty, s, addr, order } => {
                let bytes = ty.bytes() * s.len() as u32;
                for l in lanes(who.mask) {
                    let place = self.resolve(who, l, addr, bytes, bytes)?;
                    self.opaque_or_map(who, place, bytes)?;
                    let mut buffer = [0u8; 16];
                    for (i, s) in s.iter().enumerate() {
                        let at = i * ty.bytes() as usize;
                        let v = self.value(who.w, l, *s).to_le_bytes();
                        buffer[at..at + ty.bytes() as usize].copy_from_slice(&v[..ty.bytes() as usize]);
                    }
                    let proxy = match order {
                        Order::Strong(semantics) => Proxy::strong(semantics.scope),
                        Order::Weak => Proxy::Generic,
                    };
                    let stamp = self.stamp(who.w, 1 << l, who.pc, proxy);
                    let view = self.view_of(who.w, l);
                    match (order, place) {
                        (Order::Strong(s), Place::Global(a)) if s.scope == Scope::Device => {
                            self.check_global(&stamp, &view, a, bytes as usize, Deed::Writes)?;
                            self.exchanged_write(&stamp, a);
                            self.release_global(who, l, a, *s);
                            self.epoch += 1;
                            self.global.write_atomic(a, &buffer[..bytes as usize], &stamp);
                        }
                        _ => self.store(&stamp, &view, place, &buffer[..bytes as usize])?,
                    }
                    if let Order::Strong(semantics) = order {
                        self.release_to(who, l, place, *semantics);
                    }
                }
            }
            Op::Atom { semantics, f, ty, d, addr, b, c } => {
                for l in lanes(who.mask) {
                    let place = self.resolve(who, l, addr, ty.bytes(), ty.bytes())?;
                    let (b, c) = (self.value(who.w, l, *b), self.value(who.w, l, *c));
                    let old = self.atomic(who, (l, place), *semantics, *ty, |old| atomic(*f, *ty, old, b, c))?;
                    if let Some(d) = d {
                        self.warps[who.w].regs[*d as usize][l as usize] = old;
                    }
                }
            }
            Op::RedVector { semantics, f, ty, d, addr, b } => {
                let bytes = ty.bytes() * b.len() as u32;
                for l in lanes(who.mask) {
                    let Place::Global(first) = self.resolve(who, l, addr, bytes, bytes)? else { continue };
                    for (at, b) in b.iter().enumerate() {
                        let place = Place::Global(first + u64::from(ty.bytes()) * at as u64);
                        let b = self.value(who.w, l, *b);
                        let old = self.atomic(who, (l, place), *semantics, *ty, |old| atomic(*f, *ty, old, b, 0))?;
                        if let Some(Some(d)) = d.get(at) {
                            self.warps[who.w].regs[*d as usize][l as usize] = old;
                        }
                    }
                }
            }
            Op::FenceMap { addr, scope } => {
                for l in lanes(who.mask) {
                    self.fence_map(who, l, addr, *scope)?;
                }
            }
            Op::MapReplace { field, addr, ordinal, value } => {
                self.map_replace(who, (*field, *ordinal), addr, *value)?;
            }
            Op::MapRelease { to, from, scope } => self.map_release(who, to, from, *scope)?,
            Op::Prefetch { addr, tensor_map } => {
                for l in lanes(who.mask) {
                    if *tensor_map {
                        self.tensor_map(who, l, addr)?;
                    } else {
                        self.resolve(who, l, addr, 1, 1)?;
                    }
                }
            }
            Op::CpAsync { to, from, bytes, source, ignore } => {
                let mut copies = Vec::new();
                let ignored = ignore.map_or(0, |p| self.predicate(who.w, p));
                for l in lanes(who.mask) {
                    let real = match source {
                        _ if ignored >> l & 1 == 1 => 0,
                        Some(source) => self.value(who.w, l, *source) as u32,
                        None => *bytes,
                    };
                    if real > *bytes {
                        return self.fail(
                            FindingKind::OutOfBounds,
                            who.w,
                            1 << l,
                            who.pc,
                            format!("cp.async of {bytes} bytes has a src-size of {real}"),
                        );
                    }
                    let Place::Shared(cta, offset) = self.resolve(who, l, to, *bytes, *bytes)? else {
                        continue;
                    };
                    let global = if real == 0 {
                        0
                    } else {
                        match self.resolve(who, l, from, real, *bytes)? {
                            Place::Global(a) => a,
                            _ => continue,
                        }
                    };
                    copies.push(LaneCopy { lane: l, from: global, to: (cta, offset), bytes: *bytes, real });
                }
                self.issue_lanes(who, copies)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Replaces what is in a place and returns what it was.
    fn atomic(
        &mut self,
        who: Who,
        (l, place): (u32, Place),
        semantics: Semantics,
        ty: Ty,
        replaced: impl FnOnce(u64) -> u64,
    ) -> Exec<u64> {
        self.opaque_or_map(who, place, ty.bytes())?;
        self.acquire_from(who, l, place, semantics);
        let stamp = self.stamp(who.w, 1 << l, who.pc, Proxy::strong(semantics.scope));
        let view = self.view_of(who.w, l);
        let mut buffer = [0u8; 8];
        let bytes = ty.bytes() as usize;
        let new;
        // Atomics of several clusters do not race, if the scope reaches that far.
        if let Place::Global(a) = place
            && semantics.scope == Scope::Device
        {
            self.check_global(&stamp, &view, a, bytes, Deed::Writes)?;
            self.acquire_global(who, l, a, semantics);
            self.release_global(who, l, a, semantics);
            self.global.read_atomic(a, &mut buffer[..bytes], who.pc);
            new = replaced(raw(&buffer[..bytes]));
            self.global.write_atomic(a, &new.to_le_bytes()[..bytes], &stamp);
        } else {
            self.load(&stamp, &view, place, &mut buffer[..bytes])?;
            new = replaced(raw(&buffer[..bytes]));
            self.store(&stamp, &view, place, &new.to_le_bytes()[..bytes])?;
        }
        self.epoch += u64::from(raw(&buffer[..bytes]) != new);
        self.release_to(who, l, place, semantics);
        Ok(raw(&buffer[..bytes]))
    }

    /// The lanes of `mask` that load from where `lane` does, and know the same: one check is that of all.
    fn lanes_of_one_load(&self, w: usize, mask: u32, lane: u32, addresses: &[u64; 32]) -> u32 {
        let address = addresses[lane as usize];
        let same = addresses.iter().enumerate().fold(0, |same, (l, a)| same | u32::from(*a == address) << l);
        same & mask & self.warps[w].views.sharing(lane)
    }

    /// mbarriers and tensor maps are opaque to plain accesses.
    fn opaque_or_map(&mut self, who: Who, place: Place, bytes: u32) -> Exec<()> {
        match place {
            Place::Shared(cta, offset) => self.check_opaque(who, cta, offset, bytes),
            Place::Global(address) if self.global.base.holds_map(address, u64::from(bytes)) => self.fail(
                FindingKind::TensorCopy,
                who.w,
                who.mask,
                who.pc,
                "a tensor map is opaque: only copies may use it",
            ),
            Place::Global(_) | Place::Local(..) | Place::Param(_) => Ok(()),
        }
    }

    /// Strong accesses to one place pass on what their thread knows (relaxed ones too: fences around them are not
    /// distinguished).
    /// Commit and wait of `cp.async` and bulk groups.
    pub(super) fn groups(&mut self, who: Who, op: &Op) -> Exec<Flow> {
        let bulk = matches!(op, Op::BulkCommit | Op::BulkWait { .. });
        match op {
            Op::BulkCommit | Op::CpAsyncCommit => {
                for l in lanes(who.mask) {
                    let g = self.copy_groups(who.w, l, bulk);
                    let open = std::mem::take(&mut g.open);
                    g.groups.push_back(open);
                }
                Ok(Flow::Next)
            }
            Op::BulkWait { pending, read } => self.group_wait(who, *pending, *read, false, true),
            Op::CpAsyncWait { pending, all } => self.group_wait(who, *pending, false, *all, false),
            _ => Ok(Flow::Next),
        }
    }

    fn copy_groups(&mut self, w: usize, l: u32, bulk: bool) -> &mut CopyGroups {
        let warp = &mut self.warps[w];
        if bulk { &mut warp.bulk[l as usize] } else { &mut warp.copies[l as usize] }
    }

    pub(crate) fn group_done(&self, w: usize, lanes_of: u32, pending: u32, read: bool, all: bool, bulk: bool) -> bool {
        let warp = &self.warps[w];
        lanes(lanes_of).all(|l| {
            let g = if bulk { &warp.bulk[l as usize] } else { &warp.copies[l as usize] };
            let keep = g.groups.len().saturating_sub(pending as usize);
            let open: &[_] = if all { &g.open } else { &[] };
            g.groups.iter().take(keep).flatten().chain(open).all(|t| self.asyncs.done(t.id, read))
        })
    }

    fn group_wait(&mut self, who: Who, pending: u32, read: bool, all: bool, bulk: bool) -> Exec<Flow> {
        if !self.group_done(who.w, who.mask, pending, read, all, bulk) {
            let wait = if bulk { Wait::Bulk { pending, read } } else { Wait::CpAsync { pending, all } };
            return Ok(Flow::Retry(wait));
        }
        let mut copied = [0u32; 32];
        let mut due = 0;
        for l in lanes(who.mask) {
            let g = self.copy_groups(who.w, l, bulk);
            let keep = g.groups.len().saturating_sub(pending as usize);
            let mut known: Vec<_> = if read {
                g.groups.iter().take(keep).flatten().copied().collect()
            } else {
                g.groups.drain(..keep).flatten().collect()
            };
            if all {
                known.append(&mut g.open);
            }
            if !read {
                due = known.iter().map(|t| t.due).fold(due, u64::max);
            }
            if !bulk {
                // A thread's copies are counted: knowing the last is knowing all before it.
                copied[l as usize] = known.iter().map(|t| t.reads.1).max().unwrap_or(0);
                continue;
            }
            for t in known {
                let slots = [Some(t.reads), if read { None } else { t.writes }];
                for (slot, tick) in slots.into_iter().flatten() {
                    if self.options.races {
                        self.warps[who.w].views.learn(1 << l, slot, tick);
                    }
                }
            }
        }
        let base = self.copy_component(who.w);
        let warp = &mut self.warps[who.w];
        warp.now = warp.now.max(due);
        if self.options.races && !bulk {
            warp.views.learn_each(base, &copied);
        }
        Ok(Flow::Next)
    }
}

/// Whether an address is in local memory, where each thread has bytes of its own there.
fn own(addr: &Addr, base: u64) -> bool {
    match addr.space {
        Space::Local => true,
        Space::Param => base.wrapping_add(addr.offset as u64) >= u64::from(LOCAL_BASE),
        Space::Generic => matches!(classify(base.wrapping_add(addr.offset as u64)), Window::Local(_)),
        _ => false,
    }
}
