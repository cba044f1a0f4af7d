//! Copies from shared to global memory that the lanes of a warp issue by one instruction.

use crate::check::clock::View;
use crate::check::shadow::Proxy;
use crate::machine::in_flight::Work;
use crate::machine::memory::Who;
use crate::machine::{Exec, Machine};

/// One lane's.
pub(crate) struct LaneStore {
    pub(super) lane: u32,
    pub(super) view: View,
    pub(super) work: Work,
    pub(super) bytes: u64,
}

impl Machine<'_> {
    /// Lanes that store the same bytes to the same place are one store, of which they all know: a whole warp may execute the
    /// instruction, as CUTLASS's epilogues do. It relies on what all of them know.
    pub(crate) fn issue_stores(&mut self, who: Who, mut stores: Vec<LaneStore>) -> Exec<()> {
        while !stores.is_empty() {
            let first = stores.remove(0);
            let (same, rest): (Vec<_>, Vec<_>) = stores.into_iter().partition(|other| same(&first.work, &other.work));
            stores = rest;
            let mut view = first.view;
            same.iter().for_each(|other| view.meet(&other.view));
            let issuer = Who { mask: 1 << first.lane, ..who };
            let ticket = self.queue(issuer, &view, first.work, Proxy::Async, first.bytes)?;
            for lane in same.iter().map(|other| other.lane).chain([first.lane]) {
                self.warps[who.w].bulk[lane as usize].open.push(ticket);
            }
        }
        Ok(())
    }
}

/// Whether two stores are one: reductions never are.
fn same(one: &Work, other: &Work) -> bool {
    match (one, other) {
        (
            Work::TileStore { map, coords, from, f: None },
            Work::TileStore { map: map2, coords: coords2, from: from2, f: None },
        ) => (map, coords, from) == (map2, coords2, from2),
        (Work::Store { from, to, bytes, f: None }, Work::Store { from: from2, to: to2, bytes: bytes2, f: None }) => {
            (from, to, bytes) == (from2, to2, bytes2)
        }
        _ => false,
    }
}
