//! Issuing copies: operands are checked and the work is queued.

use std::sync::Arc;

use super::stores::LaneStore;
use crate::address::{PARAM_BASE, Window, classify};
use crate::check::FindingKind;
use crate::check::clock::{View, lanes};
use crate::check::shadow::{Proxy, Stamp};
use crate::machine::in_flight::{Issued, LaneCopy, Pending, Spot, Ticket, Work};
use crate::machine::memory::{Place, Who};
use crate::machine::tensor_map::{MapAt, TensorMapDesc};
use crate::machine::{Exec, Machine, Stop};
use crate::program::op::{Addr, Bulk, Tensor, Way};
use crate::program::types::Space;
use crate::schedule::Schedule;

impl Machine<'_> {
    /// Where the tensor map at an address is, if one is there.
    pub(super) fn find_map(&mut self, who: Who, lane: u32, a: &Addr) -> Exec<Option<MapAt>> {
        let raw = self.raw_address(who.w, lane, a);
        let place = match a.space {
            Space::Param => Window::Param(raw as u32),
            _ => classify(raw),
        };
        let found = match place {
            Window::Param(p) => {
                let offset = p.wrapping_sub(PARAM_BASE);
                self.param_maps.contains_key(&offset).then_some(MapAt::Param(offset))
            }
            Window::Global(address) => match self.global.base.map_at(address) {
                Some(_) => Some(MapAt::Global(address)),
                None => self.made_map(who, lane, address)?,
            },
            Window::Shared(_) | Window::Local(_) => None,
        };
        Ok(found)
    }

    /// Where the tensor map at an address is.
    pub(crate) fn tensor_map(&mut self, who: Who, lane: u32, a: &Addr) -> Exec<MapAt> {
        match self.find_map(who, lane, a)? {
            Some(i) => Ok(i),
            None => {
                let text = format!(
                    "{:#x} is not the generic address of a tensor map: of a parameter (mov its address, then \
                     cvta.param), or of one in global memory",
                    self.raw_address(who.w, lane, a)
                );
                self.fail(FindingKind::TensorCopy, who.w, 1 << lane, who.pc, text)
            }
        }
    }

    /// The tensor map that is there.
    pub(super) fn map(&self, at: MapAt) -> Exec<Arc<TensorMapDesc>> {
        let found = match at {
            MapAt::Param(offset) => self.param_maps.get(&offset).cloned(),
            MapAt::Global(address) => self.global.base.map_at(address).cloned().map(Arc::new),
            MapAt::Made(_, number) => self.made_maps.get(number).cloned(),
        };
        found.ok_or(Stop)
    }

    /// The proxy of tensor maps has not acquired anything at the start of a kernel.
    fn map_is_fenced(&mut self, who: Who, lane: u32, at: MapAt) -> Exec<()> {
        match at {
            MapAt::Global(address) | MapAt::Made(address, _)
                if !self.fenced_maps.contains(&(self.warps[who.w].cta, address)) =>
            {
                let text = format!(
                    "the tensor map at {address:#x} in global memory is used by a block that has not fenced it since it was \
                     written; fence.proxy.tensormap::generic.acquire comes before"
                );
                self.fail(FindingKind::TensorCopy, who.w, 1 << lane, who.pc, text)
            }
            _ => Ok(()),
        }
    }

    /// A place in shared memory named by a copy; `multicast` masks name several blocks.
    fn spots(
        &mut self,
        who: Who,
        lane: u32,
        a: &Addr,
        bytes: u32,
        align: u32,
        multicast: Option<u32>,
    ) -> Exec<Vec<Spot>> {
        let Place::Shared(cta, offset) = self.resolve(who, lane, a, bytes, align)? else {
            return self.fail(
                FindingKind::TensorCopy,
                who.w,
                1 << lane,
                who.pc,
                "this side of the copy must be in shared memory",
            );
        };
        let Some(mask) = multicast else {
            return Ok(vec![(cta, offset)]);
        };
        let own = self.warps[who.w].cta;
        let mut out = Vec::new();
        for rank in lanes(mask) {
            if rank as usize >= self.ctas.len() {
                return self.fail(
                    FindingKind::TensorCopy,
                    who.w,
                    1 << lane,
                    who.pc,
                    format!("the multicast mask {mask:#06x} names block {rank}; the cluster has {}", self.ctas.len()),
                );
            }
            if rank as usize != own && self.ctas[rank as usize].exited {
                return self.fail(
                    FindingKind::ExitInFlight,
                    who.w,
                    1 << lane,
                    who.pc,
                    format!("block {rank} of the cluster has exited and a multicast writes to it"),
                );
            }
            out.push((rank as usize, offset));
        }
        if mask == 0 {
            return self.fail(
                FindingKind::TensorCopy,
                who.w,
                1 << lane,
                who.pc,
                "the multicast mask is 0: no block receives the copy",
            );
        }
        Ok(out)
    }

    fn multicast_mask(&self, who: Who, lane: u32, m: Option<crate::program::op::Src>) -> Option<u32> {
        m.map(|s| self.value(who.w, lane, s) as u32 & 0xffff)
    }

    /// The clock component and stamp of a new operation.
    pub(crate) fn new_stamp(&mut self, who: Who, view: &View, proxy: Proxy) -> Stamp {
        let (base, tick) = if self.options.races { self.asyncs.slot(view) } else { (0, 0) };
        Stamp { base, mask: 1, tick, pc: who.pc, warp: who.w as u16, proxy, each: false }
    }

    /// Queues one operation; in the `Early` schedule it is done at once.
    pub(super) fn queue(&mut self, who: Who, view: &View, work: Work, proxy: Proxy, bytes: u64) -> Exec<Ticket> {
        let two = matches!(work, Work::TileStore { .. } | Work::Store { .. } | Work::Across { .. });
        let stamp = self.new_stamp(who, view, proxy);
        let write_stamp = if two { Some(self.new_stamp(who, view, proxy)) } else { None };
        let id = self.asyncs.number();
        let (issued, due) = self.copy_time(who.w, bytes);
        let writes = write_stamp.map(|s| (s.base, s.tick));
        let ticket = Ticket { id, reads: (stamp.base, stamp.tick), writes, due };
        self.asyncs.add(Pending {
            id,
            w: who.w,
            pc: who.pc,
            view: view.clone(),
            stamp,
            write_stamp,
            work,
            data: None,
            issued,
            due,
        });
        if self.options.schedule == Schedule::Early {
            let last = self.asyncs.pending.len() - 1;
            let passes = if two { 2 } else { 1 };
            for _ in 0..passes {
                self.advance_copy(last)?;
            }
        }
        Ok(ticket)
    }

    /// The block's copy engine takes `bytes`: when they are issued, and when they land.
    fn copy_time(&mut self, w: usize, bytes: u64) -> (u64, u64) {
        let issued = self.warps[w].now;
        let cta = &mut self.ctas[self.warps[w].cta];
        cta.copy_free = issued.max(cta.copy_free) + bytes / crate::trace::GLOBAL_BYTES;
        self.cost.bytes_copied += bytes;
        (issued, cta.copy_free + crate::trace::COPY_LATENCY)
    }

    /// How many parts a load arrives in.
    fn parts(&mut self, rows: u32) -> u32 {
        match self.options.schedule {
            Schedule::Scrambled => (1 + self.random.below(3) as u32).min(rows),
            _ => 1,
        }
    }

    /// One lane's `cp.async.bulk.tensor`.
    pub(crate) fn issue_tensor(&mut self, who: Who, lane: u32, t: &Tensor, stores: &mut Vec<LaneStore>) -> Exec<()> {
        let index = self.tensor_map(who, lane, &t.map)?;
        self.map_is_fenced(who, lane, index)?;
        let map = self.map(index)?;
        let rank = map.dims.len();
        if rank != t.coords.len() {
            let text = format!("a {}d copy through a tensor map of {rank} dimensions", t.coords.len());
            return self.fail(FindingKind::TensorCopy, who.w, 1 << lane, who.pc, text);
        }
        let mut coords: Vec<i64> =
            t.coords.iter().map(|c| i64::from(self.value(who.w, lane, *c) as u32 as i32)).collect();
        let wrong = match (&t.im2col, &map.im2col) {
            (None, None) => None,
            (Some(offsets), Some(mode)) => {
                coords.extend(offsets.iter().map(|o| i64::from(self.value(who.w, lane, *o) as u16)));
                map.misplaced(mode, &coords)
            }
            (None, Some(_)) => Some("a copy of a tile through a tensor map of im2col mode".into()),
            (Some(_), None) => Some("an im2col copy through a tensor map of tiles".into()),
        };
        if let Some(text) = wrong {
            return self.fail(FindingKind::TensorCopy, who.w, 1 << lane, who.pc, text);
        }
        if let Some(text) = map.refused_start(t.way, &coords) {
            return self.fail(FindingKind::CopyStart, who.w, 1 << lane, who.pc, text);
        }
        let Some(shared) = &t.shared else {
            return Ok(());
        };
        let (rows, row_bytes) = (map.row_count(), map.row_bytes());
        let footprint = if map.dense() { rows * row_bytes } else { (rows - 1) * map.row_pitch() + map.swizzle.span() };
        let mask = self.multicast_mask(who, lane, t.multicast);
        let spots = self.spots(who, lane, shared, footprint, 128, mask)?;
        let view = self.publish(who.w, 1 << lane);
        let who = Who { mask: 1 << lane, ..who };
        match t.way {
            Way::ToShared => {
                let Some(barrier) = &t.barrier else {
                    return Ok(());
                };
                let barriers = self.spots(who, lane, barrier, 8, 8, mask)?;
                for (to, barrier) in spots.into_iter().zip(barriers) {
                    self.barrier_ready(who, &view, barrier)?;
                    self.copy_barriers.insert(who.pc, barrier);
                    let parts = self.parts(rows);
                    for p in 0..parts {
                        let rows = rows * p / parts..rows * (p + 1) / parts;
                        let bytes = u64::from(rows.len() as u32 * row_bytes);
                        let work = Work::TileLoad { map: index, coords: coords.clone(), rows, to, barrier };
                        self.queue(who, &view, work, Proxy::Async, bytes)?;
                    }
                }
            }
            Way::ToGlobal | Way::Reduce(_) => {
                let work = Work::TileStore { map: index, coords, from: spots[0], f: t.way.reduction() };
                stores.push(LaneStore { lane, view, work, bytes: u64::from(rows * row_bytes) });
            }
            Way::ToCluster | Way::Prefetch => {}
        }
        Ok(())
    }

    /// One lane's `cp.async.bulk`.
    pub(crate) fn issue_bulk(&mut self, who: Who, lane: u32, b: &Bulk, stores: &mut Vec<LaneStore>) -> Exec<()> {
        let bytes = self.value(who.w, lane, b.bytes) as u32;
        if !bytes.is_multiple_of(16) {
            return self.fail(
                FindingKind::Misaligned,
                who.w,
                1 << lane,
                who.pc,
                format!("a bulk copy moves a multiple of 16 bytes; {bytes} is not"),
            );
        }
        let who = Who { mask: 1 << lane, ..who };
        if bytes == 0 {
            return Ok(());
        }
        let Some(to) = &b.to else {
            self.resolve(who, lane, &b.from, bytes, 16)?;
            return Ok(());
        };
        let mask = self.multicast_mask(who, lane, b.multicast);
        let view = self.publish(who.w, 1 << lane);
        match b.way {
            Way::ToShared => {
                let Place::Global(from) = self.resolve(who, lane, &b.from, bytes, 16)? else {
                    return self.fail(
                        FindingKind::TensorCopy,
                        who.w,
                        who.mask,
                        who.pc,
                        "the source must be in global memory",
                    );
                };
                let Some(barrier) = &b.barrier else {
                    return Ok(());
                };
                let spots = self.spots(who, lane, to, bytes, 16, mask)?;
                let barriers = self.spots(who, lane, barrier, 8, 8, mask)?;
                for (to, barrier) in spots.into_iter().zip(barriers) {
                    self.barrier_ready(who, &view, barrier)?;
                    self.copy_barriers.insert(who.pc, barrier);
                    let parts = self.parts(bytes / 16);
                    for p in 0..parts {
                        let (a, z) = (bytes / 16 * p / parts * 16, bytes / 16 * (p + 1) / parts * 16);
                        let work =
                            Work::Load { from: from + u64::from(a), to: (to.0, to.1 + a), bytes: z - a, barrier };
                        self.queue(who, &view, work, Proxy::Async, u64::from(z - a))?;
                    }
                }
            }
            Way::ToGlobal | Way::Reduce(_) => {
                let Place::Global(to) = self.resolve(who, lane, to, bytes, 16)? else {
                    return self.fail(
                        FindingKind::TensorCopy,
                        who.w,
                        who.mask,
                        who.pc,
                        "the destination must be in global memory",
                    );
                };
                let from = self.spots(who, lane, &b.from, bytes, 16, None)?[0];
                let f = b.way.reduction().map(|f| (f, b.ty));
                stores.push(LaneStore {
                    lane,
                    view,
                    work: Work::Store { from, to, bytes, f },
                    bytes: u64::from(bytes),
                });
            }
            Way::ToCluster => {
                let from = self.spots(who, lane, &b.from, bytes, 16, None)?[0];
                let to = self.spots(who, lane, to, bytes, 16, None)?[0];
                let Some(barrier) = &b.barrier else {
                    return Ok(());
                };
                let barrier = self.spots(who, lane, barrier, 8, 8, None)?[0];
                self.barrier_ready(who, &view, barrier)?;
                self.queue(who, &view, Work::Across { from, to, bytes, barrier }, Proxy::Async, u64::from(bytes))?;
            }
            Way::Prefetch => {}
        }
        Ok(())
    }

    /// `cp.async` of a warp. A thread waits for its own only, and nothing orders two of them but a wait between: each
    /// thread has a clock component that counts its copies.
    pub(crate) fn issue_lanes(&mut self, who: Who, copies: Vec<LaneCopy>) -> Exec<()> {
        let views = if self.options.races { self.warps[who.w].views.publish_each(who.mask) } else { Vec::new() };
        let base = self.copy_component(who.w);
        let bytes: u64 = copies.iter().map(|c| u64::from(c.bytes)).sum();
        let (issued, due) = self.copy_time(who.w, bytes);
        let mut all = Vec::with_capacity(copies.len());
        for c in copies {
            let groups = &mut self.warps[who.w].copies[c.lane as usize];
            groups.issued += 1;
            let tick = groups.issued;
            let view = views.iter().find(|(l, _)| *l == c.lane).map(|(_, v)| v.clone()).unwrap_or_default();
            let (mask, warp) = (1 << c.lane, who.w as u16);
            all.push((
                c,
                Issued { view, stamp: Stamp { base, mask, tick, pc: who.pc, warp, proxy: Proxy::Copy, each: false } },
            ));
        }
        let parts = self.parts(all.len() as u32) as usize;
        let each = all.len().div_ceil(parts.max(1)).max(1);
        while !all.is_empty() {
            let rest = all.split_off(each.min(all.len()));
            let part = std::mem::replace(&mut all, rest);
            let id = self.asyncs.number();
            for (c, i) in &part {
                let ticket = Ticket { id, reads: (base + c.lane, i.stamp.tick), writes: None, due };
                self.warps[who.w].copies[c.lane as usize].open.push(ticket);
            }
            let (view, stamp) = (part[0].1.view.clone(), part[0].1.stamp);
            let work = Work::Lanes(part);
            let (w, pc) = (who.w, who.pc);
            let pending = Pending { id, w, pc, view, stamp, write_stamp: None, work, data: None, issued, due };
            self.asyncs.add(pending);
            if self.options.schedule == Schedule::Early {
                self.advance_copy(self.asyncs.pending.len() - 1)?;
            }
        }
        Ok(())
    }

    pub(crate) fn issue_arrive(&mut self, who: Who, lane: u32, barrier: Spot) -> Exec<()> {
        let view = self.publish(who.w, 1 << lane);
        let groups = &self.warps[who.w].copies[lane as usize];
        let all: Vec<Ticket> = groups.groups.iter().flatten().chain(&groups.open).copied().collect();
        let mut carried = view;
        for t in &all {
            carried.learn(t.reads.0, t.reads.1);
        }
        let work = Work::Arrive { after: all.iter().map(|t| t.id).collect(), barrier };
        self.queue(Who { mask: 1 << lane, ..who }, &carried, work, Proxy::Generic, 0)?;
        Ok(())
    }
}
