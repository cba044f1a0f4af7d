//! What the scheduler takes tiles to cost, and their parts. The cost model takes the same numbers.
//!
//! The tiles of one launch have one unit, which is the kernel's own: stages of the pipeline, bytes that are loaded, or KiB.

use bsr_codegen::{ClusterTile, SharedColumns, SharedPairs, SplitForm, StagePacking};

/// The cost of a stage where K is divided; what moves fewer bytes than a stage costs fractions of it.
const STAGE: u64 = 20;
/// The smallest part of a tile's K, in stages, in records of stage metadata, or in block columns of a union.
const LEAST_PART: u32 = 4;
/// A stage of an SDDMM tile of half the width, as timelines of 8192 x 8192 over 4096 with 205 blocks of 128 x 128 have it on an
/// H200, whose tiles wait for loads a quarter of their time: 31 us in place of 40 (0.62 us a stage; `benches/LOG.md`, 47).
const SDDMM_HALF_STAGE: u64 = 15;
/// Passing on the sums of a part of an SDDMM tile, in stages of a whole tile: 5 us (the same timelines).
const SDDMM_CONTRIBUTE_STAGES: u64 = 8;
/// Adding the sums of a part of an SDDMM tile, in stages of a whole tile: 4.4 us (the same timelines).
const SDDMM_COLLECT_STAGES: u64 = 7;

/// What a work tile costs whose K can be divided, in one unit of time for all tiles of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// A unit of K: the least by which the K of a tile can be divided.
    pub unit: u64,
    /// A tile in addition to its units, because the pipeline is not full between two tiles.
    pub tile: u64,
    /// The same for partial sums that are written to the workspace, and for each part that is read from there.
    pub contribute: u64,
    /// See `contribute`.
    pub collect: u64,
    /// The smallest number of units that is worth a part of its own.
    pub least: u32,
}

impl Costs {
    /// A tile of stored blocks, whose units are stages or blocks of several stages. Sums in the workspace take as long as the
    /// loads of as many bytes.
    pub fn of_blocks(tile: &ClusterTile, form: &SplitForm) -> Self {
        let steps = tile.stages_per_block.0.max(1);
        let exchange = STAGE + STAGE * u64::from(form.partial_bytes) / u64::from(form.stage_bytes.max(1));
        Self {
            unit: STAGE * u64::from(steps),
            tile: STAGE,
            contribute: exchange,
            collect: exchange,
            least: LEAST_PART.div_ceil(steps),
        }
    }

    /// A tile that loads so many bytes in so many records of stage metadata, which are its units; in bytes.
    pub fn of_records(packing: &StagePacking, form: &SplitForm, bytes: u64, records: u32) -> Self {
        let unit = (bytes / u64::from(records.max(1))).max(1);
        let exchange = unit + u64::from(form.partial_bytes);
        let tile = u64::from(packing.b_panel_bytes);
        Self { unit, tile, contribute: exchange, collect: exchange, least: LEAST_PART }
    }

    /// A tile of several block rows, whose units are the block columns of their union: what one loads on average, in bytes.
    pub fn of_union(shared: &SharedColumns, form: &SplitForm) -> Self {
        let unit = u64::from(shared.b_bytes + shared.block_bytes).max(1);
        let exchange = unit + u64::from(form.partial_bytes);
        Self { unit, tile: unit, contribute: exchange, collect: exchange, least: LEAST_PART }
    }

    /// A tile of an SDDMM, perhaps of half the width, whose units are stages.
    pub fn of_sddmm(half: bool) -> Self {
        let stage = if half { SDDMM_HALF_STAGE } else { STAGE };
        let [contribute, collect] = [SDDMM_CONTRIBUTE_STAGES, SDDMM_COLLECT_STAGES].map(|stages| stages * STAGE);
        Self { unit: stage, tile: stage, contribute, collect, least: LEAST_PART }
    }

    /// A tile with so many units.
    pub fn whole(&self, units: u32) -> u64 {
        u64::from(units) * self.unit + self.tile
    }
}

/// A tile that loads so many bytes in the records of its stage metadata, in KiB: with one more B panel for its prologue and
/// drain.
pub fn record_tile(packing: &StagePacking, bytes: u64) -> u64 {
    (bytes + u64::from(packing.b_panel_bytes)) >> 10
}

/// A tile of several blocks of a product of two sparse factors that loads so many blocks of A and of B, in bytes: with one more
/// of each, because the pipeline is not full between two tiles.
pub fn pairs_tile(form: &SharedPairs, [of_a, of_b]: [u64; 2]) -> u64 {
    (of_a + 1) * u64::from(form.bytes.0) + (of_b + 1) * u64::from(form.bytes.1)
}

/// A tile of several block rows with so many block columns in their union, and so many blocks, in bytes: with one more tile of
/// B, because the pipeline is not full between two tiles.
pub fn union_tile(shared: &SharedColumns, columns: u64, blocks: u64) -> u64 {
    (columns + 1) * u64::from(shared.b_bytes) + blocks * u64::from(shared.block_bytes)
}
