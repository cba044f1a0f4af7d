//! Several CTAs share the K of a tile: what is in the workspace, and in a work tile beside its place.

use super::WarpPlan;
use crate::hopper::split_k::Workspace;
use crate::plan::SplitForm;

impl WarpPlan {
    /// The workspace of a kernel that divides K: a CTA's warps multiply one tile together, and pass on their sums together.
    pub(crate) fn workspace(&self) -> Option<Workspace> {
        let threads = self.crew().consumers * 32;
        let registers = self.tiling.accumulators(&self.spec);
        self.spec.split.is_on().then(|| Workspace::new(1, 1, threads, registers))
    }

    pub(crate) fn split_form(&self) -> Option<SplitForm> {
        let words = (self.work_tile_words(), self.role_word());
        self.workspace().map(|workspace| workspace.form(self.memory.stage_bytes, words))
    }

    /// Words of a work tile.
    pub(crate) fn work_tile_words(&self) -> u32 {
        match (self.spec.batch.is_on(), self.spec.split.is_on()) {
            (false, false) => 4,
            (true, true) => 12,
            _ => 8,
        }
    }

    /// The first of the words that say how much of K it is.
    pub(crate) fn role_word(&self) -> u32 {
        if self.spec.batch.is_on() { 8 } else { 4 }
    }
}
