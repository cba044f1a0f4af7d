//! Checked accesses to shared and global memory.

use std::ops::Range;

use super::{Exec, Machine, Stop};
use crate::address::{LOCAL_BASE, Window, classify, split_shared};
use crate::check::FindingKind;
use crate::check::clock::View;
use crate::check::shadow::{Conflict, Memory, Proxy, Stamp};
use crate::program::op::Addr;
use crate::program::types::Space;

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Block rank, offset in its shared memory.
    Shared(usize, u32),
    Param(u32),
    /// Thread of the cluster, offset in its local memory.
    Local(u32, u32),
    Global(u64),
}

/// What an access does to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Reads,
    Writes,
    /// Writes what is there already.
    Repeats,
}

impl Deed {
    /// A write of `new` over `old`.
    pub(crate) fn write(old: &[u8], new: &[u8]) -> Self {
        if old == new { Self::Repeats } else { Self::Writes }
    }

    pub(crate) fn writes(self) -> bool {
        self != Self::Reads
    }
}

/// Who accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) w: usize,
    pub(crate) mask: u32,
    pub(crate) pc: u32,
}

impl Machine<'_> {
    /// The raw address of a lane.
    pub(crate) fn raw_address(&self, w: usize, lane: u32, a: &Addr) -> u64 {
        self.value(w, lane, a.base).wrapping_add(a.offset as u64)
    }

    /// Resolves a lane's address and checks its range and alignment.
    pub(crate) fn resolve(&mut self, who: Who, lane: u32, a: &Addr, bytes: u32, align: u32) -> Exec<Place> {
        let raw = self.raw_address(who.w, lane, a);
        let (space, raw) = match a.space {
            Space::Generic => match classify(raw) {
                Window::Shared(s) => (Space::SharedCluster, u64::from(s)),
                Window::Param(p) => (Space::Param, u64::from(p)),
                Window::Local(l) => (Space::Local, u64::from(l)),
                Window::Global(g) => (Space::Global, g),
            },
            // Parameters of calls are in local memory.
            Space::Param if raw >= u64::from(LOCAL_BASE) => (Space::Local, raw),
            other => (other, raw),
        };
        let lane_mask = 1 << lane;
        if !raw.is_multiple_of(u64::from(align)) {
            return self.fail(
                FindingKind::Misaligned,
                who.w,
                lane_mask,
                who.pc,
                format!("the address {raw:#x} is not a multiple of {align}"),
            );
        }
        match space {
            Space::SharedCta | Space::SharedCluster => {
                if raw > u64::from(u32::MAX) {
                    return self.fail(
                        FindingKind::OutOfBounds,
                        who.w,
                        lane_mask,
                        who.pc,
                        format!("{raw:#x} is no shared address; cvta.to.shared makes one from a generic address"),
                    );
                }
                self.shared_place(who, lane_mask, raw as u32, bytes, space == Space::SharedCta)
            }
            Space::Local => {
                let offset = self.local_offset(who, lane, raw, bytes)?;
                Ok(Place::Local(who.w as u32 * 32 + lane, offset))
            }
            Space::Param => {
                let size = u64::from(self.program.param_bytes);
                let offset = raw.wrapping_sub(u64::from(crate::address::PARAM_BASE));
                if offset.checked_add(u64::from(bytes)).is_none_or(|e| e > size) {
                    return self.fail(
                        FindingKind::OutOfBounds,
                        who.w,
                        lane_mask,
                        who.pc,
                        format!("{bytes} bytes at offset {offset:#x} of the parameters, which have {size}"),
                    );
                }
                Ok(Place::Param(offset as u32))
            }
            _ => {
                if !self.global.contains(raw, bytes as usize) {
                    return self.global_out(who, lane_mask, raw, u64::from(bytes));
                }
                Ok(Place::Global(raw))
            }
        }
    }

    pub(crate) fn global_out<T>(&mut self, who: Who, lanes: u32, raw: u64, bytes: u64) -> Exec<T> {
        let near = match self.global.base.nearest(raw) {
            Some((i, len, distance)) => {
                let lines = self.global.base.spread(i).map(|(line, pitch)| {
                    format!(
                        ", in lines of {line} that are {pitch} apart: byte {} of line {}",
                        distance % pitch,
                        distance / pitch
                    )
                });
                let lines = lines.unwrap_or_default();
                format!("buffer {i} below it has {len} bytes and the access starts at byte {distance}{lines}")
            }
            None if raw < 1 << 32 => "it looks like a shared or parameter address; cvta makes a generic one".into(),
            None => "no buffer is below it".into(),
        };
        self.fail(
            FindingKind::OutOfBounds,
            who.w,
            lanes,
            who.pc,
            format!("{bytes} bytes at global address {raw:#x}: {near}"),
        )
    }

    pub(crate) fn shared_place(&mut self, who: Who, lanes: u32, raw: u32, bytes: u32, own_only: bool) -> Exec<Place> {
        let own = self.warps[who.w].cta;
        let (rank, offset) = split_shared(raw);
        let cta = rank as usize;
        if cta >= self.ctas.len() || (own_only && cta != own) {
            return self.fail(
                FindingKind::OutOfBounds,
                who.w,
                lanes,
                who.pc,
                format!(
                    "the address {raw:#x} names block {cta} of the cluster; .shared::cta reaches only the block itself"
                ),
            );
        }
        let size = self.ctas[cta].shared.len() as u64;
        if u64::from(offset) + u64::from(bytes) > size {
            return self.fail(
                FindingKind::OutOfBounds,
                who.w,
                lanes,
                who.pc,
                format!("{bytes} bytes at byte {offset} of the block's shared memory, which has {size}"),
            );
        }
        if cta != own && self.ctas[cta].exited {
            return self.fail(FindingKind::ExitInFlight, who.w, lanes, who.pc, format!("block {cta} of the cluster has exited; its shared memory is gone (barrier.cluster before exit keeps it)"));
        }
        Ok(Place::Shared(cta, offset))
    }

    /// Checks a read of shared bytes against what happened before.
    pub(crate) fn check_shared_read(
        &mut self,
        now: &Stamp,
        view: &View,
        cta: usize,
        offset: u32,
        len: u32,
    ) -> Exec<()> {
        if !self.options.races {
            return Ok(());
        }
        let range = offset as usize..(offset + len) as usize;
        self.states.read(&mut self.ctas[cta].shadow[range], now, view, Memory::Shared);
        self.after_check(now, Deed::Reads, u64::from(offset), cta)
    }

    pub(crate) fn check_shared_write(
        &mut self,
        now: &Stamp,
        view: &View,
        cta: usize,
        offset: u32,
        len: u32,
        deed: Deed,
    ) -> Exec<()> {
        if !self.options.races {
            return Ok(());
        }
        let range = offset as usize..(offset + len) as usize;
        self.states.write(&mut self.ctas[cta].shadow[range], now, view, Memory::Shared);
        self.after_check(now, deed, u64::from(offset), cta)
    }

    fn after_check(&mut self, now: &Stamp, deed: Deed, offset: u64, cta: usize) -> Exec<()> {
        if self.states.crowded() {
            let (states, ctas, global) = (&mut self.states, &mut self.ctas, &mut self.global);
            states.collect(ctas.iter_mut().map(|c| &mut c.shadow[..]).chain(global.shadows()));
        }
        let found = self.states.take_conflicts();
        if found.is_empty() {
            return Ok(());
        }
        let place = format!("shared memory of block {cta} (byte {} of it)", offset + found[0].0.start as u64);
        self.conflicts(now, deed, offset + u64::from(crate::address::SHARED_BASE), &place, found)
    }

    /// An mbarrier is opaque: other accesses to its bytes are errors.
    pub(crate) fn check_opaque(&mut self, who: Who, cta: usize, offset: u32, len: u32) -> Exec<()> {
        let hit = self.ctas[cta].mbarriers.range(offset.saturating_sub(7)..offset + len).next().map(|(o, _)| *o);
        if let Some(at) = hit {
            return self.complain(
                FindingKind::BarrierMisuse,
                who.w,
                who.mask,
                who.pc,
                format!("bytes {offset}..{} of shared memory hold the mbarrier at byte {at}", offset + len),
            );
        }
        Ok(())
    }

    /// The gap between the lines of a matrix is not written.
    pub(crate) fn check_padding(&mut self, now: &Stamp, addr: u64, len: usize) -> Exec<()> {
        let Some((line, beyond)) = self.global.base.between_lines(addr, len) else {
            return Ok(());
        };
        let text = format!(
            "writes between the lines of a matrix: {beyond} bytes beyond the end of line {line}; a mask of rows and \
             columns, or a tensor map of the matrix's extent, keeps stores inside"
        );
        let side = self.stamp_side(now, true);
        self.report(FindingKind::OutOfBounds, text, vec![side], Some(addr..addr + len as u64))
    }

    pub(crate) fn check_global(&mut self, now: &Stamp, view: &View, addr: u64, len: usize, deed: Deed) -> Exec<()> {
        if !self.options.races {
            return Ok(());
        }
        let writes = deed.writes();
        self.check_dependency(now, view, addr, len, writes)?;
        self.watch(now, view, addr, len, deed)?;
        if writes {
            self.check_padding(now, addr, len)?;
        }
        let (global, states) = (&mut self.global, &mut self.states);
        let mut found: Vec<(Range<usize>, Conflict)> = Vec::new();
        global.shadow(addr, len, |offset, shadow| {
            if writes {
                states.write(shadow, now, view, Memory::Global);
            } else {
                states.read(shadow, now, view, Memory::Global);
            }
            let moved = |bytes: Range<usize>| offset + bytes.start..offset + bytes.end;
            found.extend(states.take_conflicts().into_iter().map(|(bytes, c)| (moved(bytes), c)));
        });
        // Tensor maps and buffers written by the generic proxy before the launch are fenced by the launch itself.
        if found.is_empty() { Ok(()) } else { self.conflicts(now, deed, addr, "global memory", found) }
    }

    /// Reads on behalf of a lane or an asynchronous operation; the place was resolved.
    pub(crate) fn load(&mut self, now: &Stamp, view: &View, place: Place, out: &mut [u8]) -> Exec<()> {
        match place {
            Place::Shared(cta, offset) => {
                self.check_shared_read(now, view, cta, offset, out.len() as u32)?;
                out.copy_from_slice(&self.ctas[cta].shared[offset as usize..offset as usize + out.len()]);
                Ok(())
            }
            Place::Param(offset) => {
                out.copy_from_slice(&self.params[offset as usize..offset as usize + out.len()]);
                Ok(())
            }
            Place::Local(thread, offset) => self.load_local(now, thread, offset, out),
            Place::Global(addr) => {
                self.check_global(now, view, addr, out.len(), Deed::Reads)?;
                if self.global.read(addr, out, now.pc) { Ok(()) } else { Err(Stop) }
            }
        }
    }

    pub(crate) fn store(&mut self, now: &Stamp, view: &View, place: Place, data: &[u8]) -> Exec<()> {
        match place {
            Place::Shared(cta, offset) => {
                let at = offset as usize..offset as usize + data.len();
                // Threads that store the same value to the same place in one instruction do no harm.
                if now.proxy != Proxy::Generic
                    || self.ctas[cta].shared[at.clone()] != *data
                    || !self.same_instruction(now, cta, offset)
                {
                    let deed = Deed::write(&self.ctas[cta].shared[at.clone()], data);
                    self.check_shared_write(now, view, cta, offset, data.len() as u32, deed)?;
                }
                self.ctas[cta].shared[at].copy_from_slice(data);
                self.epoch += 1;
                Ok(())
            }
            Place::Param(_) => Err(Stop),
            Place::Local(thread, offset) => {
                self.store_local(thread, offset, data);
                Ok(())
            }
            Place::Global(addr) => {
                let deed = if self.global.holds(addr, data) { Deed::Repeats } else { Deed::Writes };
                self.check_global(now, view, addr, data.len(), deed)?;
                self.epoch += 1;
                if self.global.write(addr, data, now) { Ok(()) } else { Err(Stop) }
            }
        }
    }

    fn same_instruction(&self, now: &Stamp, cta: usize, offset: u32) -> bool {
        self.options.races && self.states.written_by(self.ctas[cta].shadow[offset as usize], now)
    }
}
