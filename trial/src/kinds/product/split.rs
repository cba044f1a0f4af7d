//! Problems whose clusters share the K of a tile.
//!
//! Whether a tile scheduler divides a tile depends on what each cluster has to do, so that sizes are tried until the lists
//! have a tile of the wanted width that is made of several parts.

use bsr_codegen::{Plan, Refusal, SplitForm, SplitK, TileScheduler};
use bsr_runtime::Structure;
use bsr_runtime::schedule::{BatchLists, WorkLists};

use super::sddmm;

/// Stages of K in a tile that is divided.
const STAGES: usize = 40;
/// Stages of K in each part, where every tile is divided.
const STAGES_A_PART: usize = 6;
/// Clusters that are tried, the best first.
const CLUSTERS: [u32; 5] = [4, 3, 5, 6, 2];
/// Tiles of rows that are tried.
const MOST_ROWS: usize = 8;

/// Sizes of a problem: every block row has as many blocks, in the same block columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub(super) block_rows: usize,
    pub(super) blocks_a_row: usize,
    pub(super) along: usize,
    pub(super) clusters: u32,
}

/// Which tiles are to be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Full,
    Half,
}

impl Split {
    /// The sizes for a kernel whose blocks have these rows and columns as it reads them, `columns` of C a cluster.
    ///
    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    pub(super) fn new(plan: &Plan, block: (usize, usize), columns: usize, width: Width) -> Result<Self, Refusal> {
        let (pack, blocks_a_row, along) = extents(plan, columns, width);
        let mut best: Option<(u32, Self)> = None;
        for clusters in CLUSTERS {
            for rows in 1..=MOST_ROWS {
                let sizes = Self { block_rows: rows * pack, blocks_a_row, along, clusters };
                let parts = sizes.most_parts(plan, block, width)?;
                if best.is_none_or(|(most, _)| parts.min(2) > most.min(2)) {
                    best = Some((parts, sizes));
                }
            }
        }
        Ok(best.map_or(Self { block_rows: pack, blocks_a_row, along, clusters: CLUSTERS[0] }, |(_, sizes)| sizes))
    }

    /// The structure as the kernel reads it.
    fn structure(&self, block: (usize, usize)) -> Result<Structure, Refusal> {
        let row_ptr = (0..=self.block_rows).map(|row| (row * self.blocks_a_row) as i32).collect();
        let col_idx = (0..self.block_rows).flat_map(|_| 0..self.blocks_a_row as i32).collect();
        Structure::new(self.block_rows * block.0, self.blocks_a_row * block.1, block, row_ptr, col_idx)
    }

    /// The most parts that a cluster adds to its own sums of one tile.
    fn most_parts(&self, plan: &Plan, block: (usize, usize), width: Width) -> Result<u32, Refusal> {
        let read = self.structure(block)?;
        let structure = if plan.reads_block_columns() { read.transpose()? } else { read };
        // A batch has a second problem of as many tiles.
        let tiles = match plan.spec().batch.is_on() && plan.split_form().is_some() {
            true => BatchLists::new(plan, &[(&structure, self.along); 2], self.clusters).tiles,
            false => WorkLists::new(plan, &structure, self.along, self.clusters).tiles,
        };
        let of_split = || plan.split_form().map(|form| (form.tile_words as usize, form.role as usize, None));
        let Some((words, parts, half)) = sddmm::tile_words(plan).or_else(of_split) else { return Ok(0) };
        let wanted = |tile: &&[u32]| half.is_none_or(|half| (tile[half] == 1) == (width == Width::Half));
        let collected = tiles.chunks_exact(words).filter(wanted).map(|tile| tile[parts]);
        Ok(collected.filter(|parts| *parts != SplitForm::CONTRIBUTES).max().unwrap_or(0))
    }
}

/// Block rows of a tile, blocks of each row, and the extent along the dense factor.
fn extents(plan: &Plan, columns: usize, width: Width) -> (usize, usize, usize) {
    if let Some((rows, blocks, k)) = sddmm::extents(plan, width) {
        return (rows, blocks, STAGES * k);
    }
    let stages = match plan.spec().split {
        SplitK::Parts(parts) => STAGES_A_PART * parts as usize,
        SplitK::Auto | SplitK::Long | SplitK::Off => STAGES,
    };
    let blocks = match plan.tile_scheduler() {
        // Every block row has a block in every column: a stage takes as many columns as all of these fit.
        TileScheduler::StageMetadata(packing) => {
            let panels = (packing.blocks / packing.pack).clamp(1, packing.b_panels) as usize;
            (stages * panels).div_ceil(packing.k_slices as usize)
        }
        _ => {
            let (steps, gathered) = plan.cluster_tile().stages_per_block;
            (stages * gathered as usize).div_ceil(steps as usize)
        }
    };
    (plan.profile().pack.max(1) as usize, blocks, columns)
}
