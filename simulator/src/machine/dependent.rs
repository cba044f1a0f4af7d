//! Programmatic dependent launch: what an earlier kernel may still be writing.
//!
//! `griddepcontrol.wait` returns when the earlier kernels have ended and their writes are visible to the whole grid.
//! That a thread may rely on this is a fact like any other that it knows: a clock component of its own says so, and
//! barriers pass it on. Nothing inside the launch is ordered by it.

use super::memory::Who;
use super::{Exec, Machine};
use crate::check::FindingKind;
use crate::check::clock::View;
use crate::check::shadow::Stamp;

impl Machine<'_> {
    /// The clock component of `griddepcontrol.wait`.
    fn dependency(&self) -> u32 {
        self.warps.len() as u32 * 64
    }

    /// `griddepcontrol.wait`
    pub(crate) fn grid_wait(&mut self, who: Who) {
        if self.options.races && self.options.dependent {
            let component = self.dependency();
            self.warps[who.w].views.learn(who.mask, component, 1);
        }
    }

    /// An access to global memory that an earlier kernel may still be writing is ordered after a wait for it.
    pub(crate) fn check_dependency(
        &mut self,
        now: &Stamp,
        view: &View,
        addr: u64,
        len: usize,
        writes: bool,
    ) -> Exec<()> {
        let waited = !self.options.dependent || !self.options.races || view.seen.get(self.dependency()) > 0;
        if waited || !self.global.base.unsettled(addr, len) {
            return Ok(());
        }
        let (verb, hazard) = match writes {
            true => ("writes", "reading or writing them"),
            false => ("reads", "writing them"),
        };
        let place = self.place_of(addr, len);
        let text = format!(
            "{verb} {place} before griddepcontrol.wait: an earlier kernel may still be {hazard}; execute \
             griddepcontrol.wait first, or order this thread after one that has"
        );
        let side = self.stamp_side(now, writes);
        self.report(FindingKind::GridDependency, text, vec![side], Some(addr..addr + len as u64))
    }

    /// A load that takes its bytes for constant reads none that an earlier kernel may still be writing, also after a wait.
    pub(crate) fn check_constant(&mut self, now: &Stamp, addr: u64, len: usize) -> Exec<()> {
        if !self.options.dependent || !self.options.races || !self.global.base.unsettled(addr, len) {
            return Ok(());
        }
        let text = format!(
            "ld.global.nc reads {}, which an earlier kernel may still be writing while this one runs: ptxas may move the load \
             before griddepcontrol.wait; use ld.global",
            self.place_of(addr, len)
        );
        let side = self.stamp_side(now, false);
        self.report(FindingKind::ReadOnlyPath, text, vec![side], Some(addr..addr + len as u64))
    }

    fn place_of(&self, addr: u64, len: usize) -> String {
        let nearest = self.global.base.nearest(addr);
        nearest
            .map_or_else(String::new, |(buffer, _, at)| format!("bytes {at}..{} of buffer {buffer}", at + len as u64))
    }
}
