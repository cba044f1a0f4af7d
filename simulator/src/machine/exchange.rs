//! Order between clusters: what one has released at a place in global memory, and another acquires there.
//!
//! Every cluster has clocks of its own. A release is stored with the view that it publishes; a thread of another cluster
//! that acquires it learns a clock component that represents this release, and passes it on by the barriers of its own
//! cluster. Data that a strong vector access reads, which is too wide for a flag, must have been released and acquired.

use super::memory::Who;
use super::released::Fenced;
use super::{Exec, Machine};
use crate::check::FindingKind;
use crate::check::clock::{View, lanes};
use crate::check::shadow::Stamp;
use crate::program::op::{Scope, Semantics};

impl Machine<'_> {
    /// A strong write of the bytes from `address` on.
    pub(crate) fn exchanged_write(&mut self, now: &Stamp, address: u64) {
        if self.options.races {
            self.exchange.written.insert(address, (self.cluster, *now));
        }
    }

    /// A strong read of data, not of a flag: what another cluster has written there was released to this thread.
    pub(crate) fn exchanged_read(&mut self, now: &Stamp, view: &View, address: u64) -> Exec<()> {
        let Some((writer, before)) = self.exchange.written.get(&address).copied() else { return Ok(()) };
        let covers = |known: &View| lanes(before.mask).all(|l| known.seen.get(before.base + l) >= before.tick);
        let known = writer == self.cluster
            || self.acquired.iter().any(|(from, published, component)| {
                *from == writer && view.seen.get(*component) > 0 && covers(published)
            });
        if known {
            return Ok(());
        }
        let text = format!(
            "reads data that cluster {writer} has written without acquiring its release: a flag that the writer sets by \
             .release.gpu (or after fence.acq_rel.gpu) and that is read by .acquire.gpu orders the two"
        );
        let sides = vec![self.stamp_side(now, false), self.stamp_side(&before, true)];
        self.report(FindingKind::ClusterRace, text, sides, Some(address..address + 1))
    }

    /// A strong write to global memory publishes what the thread knows: all of it, or what it knew at its last fence.
    pub(crate) fn release_global(&mut self, who: Who, lane: u32, address: u64, semantics: Semantics) {
        if !self.options.races || semantics.scope < Scope::Device {
            return;
        }
        let published: Vec<View> = match semantics.release {
            true => vec![self.publish(who.w, 1 << lane)],
            false => {
                let reaches = |fence: &&Fenced| fence.scope == Scope::Device && fence.mask >> lane & 1 == 1;
                self.warps[who.w].fences.iter().filter(reaches).map(|fence| fence.view.clone()).collect()
            }
        };
        for view in published {
            let at = self.exchange.released.entry(address).or_default();
            at.entry(self.cluster).or_default().join(&view);
        }
    }

    /// A strong read of global memory learns what other clusters have released there: at once, or at the next fence.
    pub(crate) fn acquire_global(&mut self, who: Who, lane: u32, address: u64, semantics: Semantics) {
        if !self.options.races || semantics.scope < Scope::Device {
            return;
        }
        let Some(at) = self.exchange.released.get(&address) else { return };
        let others: Vec<(u32, View)> =
            at.iter().filter(|(from, _)| **from != self.cluster).map(|(from, view)| (*from, view.clone())).collect();
        for (from, view) in others {
            let known = self.acquired.iter().find(|(f, v, _)| *f == from && v.seen == view.seen).map(|(.., c)| *c);
            let component = known.unwrap_or_else(|| {
                let component = self.asyncs.slot(&View::default()).0;
                self.acquired.push((from, view, component));
                component
            });
            match semantics.acquire {
                true => self.warps[who.w].views.learn(1 << lane, component, 1),
                false => self.warps[who.w].unfenced.push((1 << lane, component)),
            }
        }
    }

    /// A fence of device scope: what its threads have read of other clusters by strong reads is acquired.
    pub(super) fn acquire_exchanged(&mut self, who: Who) {
        let read = std::mem::take(&mut self.warps[who.w].unfenced);
        for (mask, component) in read {
            match mask & who.mask {
                0 => self.warps[who.w].unfenced.push((mask, component)),
                _ => self.warps[who.w].views.learn(mask, component, 1),
            }
        }
    }
}
