//! What a CTA does for one tile.

use bsr_codegen::{Multicast, Profile};

use super::view::View;

/// What one CTA does for a tile; of the clusters' CTAs each does as much.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tile {
    /// Operations, those on padding included.
    pub(super) flops: f64,
    /// Bytes of the sparse and of the dense operand that L2 is asked for: what a cluster shares counts once.
    pub(super) sparse: f64,
    pub(super) dense: f64,
    /// Rows of its boxes that lie beyond the last column.
    pub(super) beyond: f64,
    /// Pipeline stages, and stored blocks in them.
    pub(super) stages: f64,
    pub(super) blocks: f64,
    /// Stages of which one of several consumers alone has a block.
    pub(super) lone: f64,
    /// What the tile scheduler takes it to cost.
    pub(super) cost: u64,
    /// The parts into which its K can be divided.
    pub(super) units: u32,
    /// Which of [`Tiles::column_lists`](super::tiles::Tiles::column_lists) it is.
    pub(super) column_list: u32,
}

/// A CTA's tile with so many stored blocks of one block row.
pub(super) fn of_blocks(profile: &Profile, view: &View, blocks: f64) -> Tile {
    let (cta_m, cta_n) = (f64::from(profile.cta_m), f64::from(profile.cta_n));
    let cluster = f64::from(profile.cluster.max(1));
    let shared = |which: Multicast| if profile.multicast == which { cluster } else { 1.0 };
    let (steps, gathered) = profile.stages_per_block;
    Tile {
        flops: 2.0 * blocks * cta_m * cta_n * view.depth,
        sparse: blocks * cta_m * view.depth * view.bytes[0] / shared(Multicast::Sparse),
        dense: blocks * view.depth * cta_n * view.bytes[1] / shared(Multicast::Dense),
        beyond: 0.0,
        stages: (blocks / f64::from(gathered.max(1))).ceil() * f64::from(steps),
        blocks,
        lone: 0.0,
        cost: 0,
        units: (blocks / f64::from(gathered.max(1))).ceil() as u32,
        column_list: 0,
    }
}
