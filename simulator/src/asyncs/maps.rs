//! Tensor maps that a kernel makes: written in shared memory, released to global memory, fenced, and then used.

use std::sync::Arc;

use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::check::shadow::Proxy;
use crate::machine::map_bytes::{self, MAP_BYTES};
use crate::machine::memory::{Deed, Place, Who};
use crate::machine::tensor_map::MapAt;
use crate::machine::{Exec, Machine};
use crate::program::op::{Addr, MapField, Src};

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
                self.fenced_maps.retain(|(_, fenced)| *fenced != address);
            }
        }
        Ok(())
    }

    /// `tensormap.cp_fenceproxy`: one copy by the warp.
    pub(crate) fn map_release(&mut self, who: Who, to: &Addr, from: &Addr) -> Exec<()> {
        self.order_warp(who.w, who.mask);
        let l = Self::first_lane(who.mask);
        let (source, target) =
            (self.resolve(who, l, from, MAP_BYTES as u32, 128)?, self.resolve(who, l, to, MAP_BYTES as u32, 128)?);
        let (stamp, view) = (self.stamp(who.w, 1 << l, who.pc, Proxy::Generic), self.view_of(who.w, l));
        let mut bytes = [0; MAP_BYTES];
        self.load(&stamp, &view, source, &mut bytes)?;
        self.store(&stamp, &view, target, &bytes)?;
        if let Place::Global(address) = target {
            self.fenced_maps.retain(|(_, fenced)| *fenced != address);
        }
        self.order_warp(who.w, who.mask);
        Ok(())
    }

    /// `fence.proxy.tensormap::generic.acquire`: from now on this block may copy through the tensor map.
    pub(crate) fn fence_map(&mut self, who: Who, lane: u32, a: &Addr) -> Exec<()> {
        let cta = self.warps[who.w].cta;
        match self.tensor_map(who, lane, a)? {
            MapAt::Param(_) => {}
            MapAt::Global(address) => _ = self.fenced_maps.insert((cta, address)),
            MapAt::Made(address, _) => {
                let (stamp, view) = (self.stamp(who.w, 1 << lane, who.pc, Proxy::Generic), self.view_of(who.w, lane));
                self.check_global(&stamp, &view, address, MAP_BYTES, Deed::Reads)?;
                self.fenced_maps.insert((cta, address));
            }
        }
        Ok(())
    }
}
