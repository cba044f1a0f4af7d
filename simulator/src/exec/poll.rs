//! Polls: loops that wait for memory to change.

use std::collections::hash_map::Entry;

use crate::machine::Machine;
use crate::machine::memory::Who;
use crate::machine::warp::{Poll, PollState, Wait, World};

impl Machine<'_> {
    /// What a thread of the cluster can see of others has changed if this has.
    pub(crate) fn world(&self) -> World {
        (self.epoch, self.global.changes())
    }

    /// A strong access that returns a value. If the warp was here before in the very same state, and nothing has changed
    /// since, it will come again and again: it polls, and waits for a change.
    pub(super) fn poll(&mut self, who: Who) -> Option<Wait> {
        let world = self.world();
        let warp = &mut self.warps[who.w];
        let mut entry = match warp.polls.entry(who.pc) {
            Entry::Occupied(entry) if entry.get().world == world => entry,
            entry => {
                entry.insert_entry(Poll { world, state: None });
                return None;
            }
        };
        let state = PollState {
            at: warp.fragments.iter().map(|fragment| (fragment.mask, fragment.pc)).collect(),
            regs: warp.regs.clone(),
            preds: warp.preds.clone(),
        };
        if entry.get().state.as_ref() == Some(&state) {
            return Some(Wait::Poll { world });
        }
        entry.get_mut().state = Some(state);
        None
    }
}
