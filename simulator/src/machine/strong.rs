//! Order within a cluster by strong accesses: what one thread has released at a place in memory, and another acquires
//! there, where the scopes of both reach the other.

use super::Machine;
use super::memory::{Place, Who};
use super::released::{Fenced, Found, Released};
use crate::check::clock::View;
use crate::program::op::{Scope, Semantics};

impl Machine<'_> {
    /// A strong write publishes what its thread knows: all of it, or what it knew at its last fence.
    pub(crate) fn release_to(&mut self, who: Who, lane: u32, place: Place, semantics: Semantics) {
        if !self.options.races {
            return;
        }
        let cta = self.warps[who.w].cta;
        let mut published = Vec::new();
        if semantics.release {
            published.push((semantics.scope, self.publish(who.w, 1 << lane)));
        } else {
            let fences = self.warps[who.w].fences.iter().filter(|fence| fence.mask >> lane & 1 == 1);
            published.extend(fences.map(|fence| (fence.scope.min(semantics.scope), fence.view.clone())));
        }
        if published.is_empty() {
            return;
        }
        let there = self.strong.entry(key(place)).or_default();
        for (scope, view) in published {
            match there.iter_mut().find(|released| (released.cta, released.scope) == (cta, scope)) {
                Some(released) => released.view.join(&view),
                None => there.push(Released { cta, scope, view }),
            }
        }
    }

    /// A strong read learns what was released there: at once, or at the next fence.
    pub(crate) fn acquire_from(&mut self, who: Who, lane: u32, place: Place, semantics: Semantics) {
        if !self.options.races {
            return;
        }
        let Some(there) = self.strong.get(&key(place)) else { return };
        let cta = self.warps[who.w].cta;
        let reaches = |r: &&Released| r.cta == cta || r.scope.min(semantics.scope) > Scope::Cta;
        let found: Vec<(bool, View)> = there.iter().filter(reaches).map(|r| (r.cta == cta, r.view.clone())).collect();
        for (own, view) in found {
            if semantics.acquire {
                self.acquire(who.w, 1 << lane, &view);
                continue;
            }
            let (mask, place) = (1 << lane, key(place));
            let list = &mut self.warps[who.w].found;
            match list.iter_mut().find(|f| (f.mask, f.own, f.place) == (mask, own, place)) {
                Some(before) => before.view.join(&view),
                None => list.push(Found { mask, own, place, view }),
            }
        }
    }

    /// A fence between threads: later strong writes publish what its threads know now, and what they have read before it by
    /// strong reads is acquired.
    pub(crate) fn fence_threads(&mut self, who: Who, scope: Scope) {
        if !self.options.races {
            return;
        }
        let found = std::mem::take(&mut self.warps[who.w].found);
        for found in found {
            match found.mask & who.mask != 0 && (found.own || scope > Scope::Cta) {
                true => self.acquire(who.w, found.mask, &found.view),
                false => self.warps[who.w].found.push(found),
            }
        }
        if scope == Scope::Device {
            self.acquire_exchanged(who);
        }
        let view = self.publish(who.w, who.mask);
        let fences = &mut self.warps[who.w].fences;
        fences.retain(|fence| fence.scope > scope || fence.mask & !who.mask != 0);
        fences.push(Fenced { mask: who.mask, scope, view });
    }
}

fn key(place: Place) -> (u64, u64) {
    match place {
        Place::Shared(cta, offset) => (cta as u64 + 1, u64::from(offset)),
        Place::Param(o) => (u64::MAX, u64::from(o)),
        Place::Local(thread, o) => (u64::MAX - 1, u64::from(thread) << 32 | u64::from(o)),
        Place::Global(a) => (0, a),
    }
}
