//! Tensor maps that a kernel makes: written in shared memory, released to global memory, fenced, and then used.

use std::sync::Arc;

use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::check::shadow::Proxy;
use crate::machine::map_bytes::{self, MAP_BYTES};
use crate::machine::memory::{Deed, Place, Who};
use crate::machine::tensor_map::MapAt;
use crate::machine::{Exec, Machine};
use crate::program::op::{Addr, MapField, Scope, Src};

impl Machine<'_> {
    /// The tensor map that the kernel has released at an address of global memory.
    pub(super) fn made_map(&mut self, who: Who, lane: u32, address: u64) -> Exec<Option<MapAt>> {
        let mut bytes = [0; MAP_BYTES];
        if !self.global.read_atomic(address, &mut bytes, who.pc) {
            return Ok(None);
        }
        let map = match map_bytes::read(&bytes, self.global.base) {
            None => return Ok(None),
            Some(Ok(map)) => map,
            Some(Err(reason)) => {
                let text = format!("the tensor map at {address:#x}, which the kernel has made: {reason}");
                return self.fail(FindingKind::TensorCopy, who.w, 1 << lane, who.pc, text);
            }
        };
        let known = self.made_maps.iter().position(|made| **made == map);
        let number = known.unwrap_or_else(|| {
            self.made_maps.push(Arc::new(map));
            self.made_maps.len() - 1
        });
        Ok(Some(MapAt::Made(address, number)))
    }

    /// Whether a fence of a scope acquires what another block, or the host, has released at an address.
    fn fence_reaches(&mut self, who: Who, lane: u32, address: u64, scope: Scope) -> Exec<()> {
        let cta = self.warps[who.w].cta;
        let lacks = match self.written_maps.get(&address) {
            Some((_, None)) => {
                "has been written and not released: fence.proxy.tensormap::generic.release follows the writes"
            }
            Some((by, _)) if *by == cta => return Ok(()),
            Some((_, Some(released))) if scope.min(*released) == Scope::Cta => {
                "was released by another block, or is fenced, with the scope of one block: both take .cluster, .gpu or .sys"
            }
            None if scope != Scope::Device => {
                "was written by the host or another cluster: its fence takes .gpu or .sys"
            }
            _ => return Ok(()),
        };
        let text = format!("the tensor map at {address:#x} {lacks}");
        self.complain(FindingKind::TensorCopy, who.w, 1 << lane, who.pc, text)
    }

    /// `tensormap.replace`: reads and writes the whole object.
    pub(crate) fn map_replace(
        &mut self,
        who: Who,
        (field, ordinal): (MapField, u32),
        addr: &Addr,
        value: Src,
    ) -> Exec<()> {
        for l in lanes(who.mask) {
            let place = self.resolve(who, l, addr, MAP_BYTES as u32, 64)?;
            let (stamp, view) = (self.stamp(who.w, 1 << l, who.pc, Proxy::Generic), self.view_of(who.w, l));
            let mut bytes = [0; MAP_BYTES];
            self.load(&stamp, &view, place, &mut bytes)?;
            map_bytes::replace(&mut bytes, field, ordinal, self.value(who.w, l, value));
            self.store(&stamp, &view, place, &bytes)?;
            if let Place::Global(address) = place {
                self.map_written(who, address, None);
            }
        }
        Ok(())
    }

    /// A block has written a tensor map in global memory, and released it: every block fences it anew.
    fn map_written(&mut self, who: Who, address: u64, released: Option<Scope>) {
        self.fenced_maps.retain(|(_, fenced)| *fenced != address);
        self.written_maps.insert(address, (self.warps[who.w].cta, released));
    }

    /// `fence.proxy.tensormap::generic.release`: of what this block has written.
    pub(crate) fn release_maps(&mut self, who: Who, scope: Scope) {
        let cta = self.warps[who.w].cta;
        let mine = self.written_maps.values_mut().filter(|(by, _)| *by == cta);
        mine.for_each(|(_, released)| *released = (*released).max(Some(scope)));
    }

    /// `tensormap.cp_fenceproxy`: one copy by the warp.
    pub(crate) fn map_release(&mut self, who: Who, to: &Addr, from: &Addr, scope: Scope) -> Exec<()> {
        self.order_warp(who.w, who.mask);
        let l = Self::first_lane(who.mask);
        let (source, target) =
            (self.resolve(who, l, from, MAP_BYTES as u32, 128)?, self.resolve(who, l, to, MAP_BYTES as u32, 128)?);
        let (stamp, view) = (self.stamp(who.w, 1 << l, who.pc, Proxy::Generic), self.view_of(who.w, l));
        let mut bytes = [0; MAP_BYTES];
        self.load(&stamp, &view, source, &mut bytes)?;
        self.store(&stamp, &view, target, &bytes)?;
        if let Place::Global(address) = target {
            self.map_written(who, address, Some(scope));
        }
        self.order_warp(who.w, who.mask);
        Ok(())
    }

    /// `fence.proxy.tensormap::generic.acquire`: from now on this block may copy through the tensor map.
    pub(crate) fn fence_map(&mut self, who: Who, lane: u32, a: &Addr, scope: Scope) -> Exec<()> {
        let cta = self.warps[who.w].cta;
        let Some(map) = self.find_map(who, lane, a)? else {
            let text = "no tensor map is at the address that is fenced; the fence orders nothing";
            return self.complain(FindingKind::IdleFence, who.w, 1 << lane, who.pc, text);
        };
        match map {
            MapAt::Param(_) => {}
            MapAt::Global(address) => {
                self.fence_reaches(who, lane, address, scope)?;
                self.fenced_maps.insert((cta, address));
            }
            MapAt::Made(address, _) => {
                self.fence_reaches(who, lane, address, scope)?;
                let (stamp, view) = (self.stamp(who.w, 1 << lane, who.pc, Proxy::Generic), self.view_of(who.w, lane));
                self.check_global(&stamp, &view, address, MAP_BYTES, Deed::Reads)?;
                self.fenced_maps.insert((cta, address));
            }
        }
        Ok(())
    }
}
