//! Problems with rows much longer than others, whose tiles are divided so that L2 still holds what they read.
//!
//! K is so large that L2 holds one and a half columns of tiles. Long rows stand behind short ones: clusters begin with whole
//! tiles, and parts for others come after them.

use bsr_codegen::{Plan, Refusal, SplitForm};
use bsr_runtime::Structure;
use bsr_runtime::schedule::{WorkLists, columns_held};

use super::Kind;
use super::sizes::stored;

/// Columns of tiles that L2 holds, and columns of the problem.
const HELD: f64 = 1.5;
const COLUMNS: usize = 2;
/// Clusters that share the work.
const CLUSTERS: u32 = 6;
/// Tiles of short rows before the long ones, and behind them, that are tried.
const SHORT: [usize; 3] = [6, 12, 24];
/// Stored blocks of the long rows that are tried.
const LONG: [usize; 5] = [24, 48, 96, 192, 384];

/// Sizes of a problem.
#[derive(Clone, Debug)]
pub(super) struct Long {
    /// Stored blocks of every block row.
    pub(super) lengths: Vec<usize>,
    /// Block columns.
    pub(super) columns: usize,
    pub(super) along: usize,
    pub(super) clusters: u32,
}

impl Long {
    /// The sizes for a kernel whose blocks have these rows and columns as it reads them, `columns` of C a cluster.
    ///
    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    pub(super) fn new(plan: &Plan, block: (usize, usize), columns: usize) -> Result<Self, Refusal> {
        let pack = plan.profile().pack.max(1) as usize;
        let k = (columns_held(plan, 1) / HELD) as usize;
        let sizes = |(long, short): (usize, usize)| {
            let short = std::iter::repeat_n(1, short * pack);
            let lengths: Vec<usize> = short.clone().chain(std::iter::repeat_n(long, pack)).chain(short).collect();
            let along = COLUMNS * columns - columns / 3;
            Self { lengths, columns: k.div_ceil(block.1).max(long), along, clusters: CLUSTERS }
        };
        for tried in LONG.into_iter().flat_map(|long| SHORT.map(|short| (long, short))) {
            let sizes = sizes(tried);
            if sizes.passes_on_late(plan, block)? {
                return Ok(sizes);
            }
        }
        Ok(sizes((LONG[0], SHORT[0])))
    }

    /// Does a cluster compute a part for another one after a tile that it stores?
    pub(super) fn passes_on_late(&self, plan: &Plan, block: (usize, usize)) -> Result<bool, Refusal> {
        let Some(form) = plan.split_form() else { return Ok(false) };
        let (row_ptr, col_idx) = stored(Kind::LongRows, 0, &self.lengths, self.columns);
        let (rows, cols) = (self.lengths.len() * block.0, self.columns * block.1);
        let read = Structure::new(rows, cols, block, row_ptr, col_idx)?;
        let structure = if plan.reads_block_columns() { read.transpose()? } else { read };
        let lists = WorkLists::new(plan, &structure, self.along, self.clusters);
        let (words, role) = (form.tile_words as usize, form.role as usize);
        let passes_on: Vec<bool> =
            lists.tiles.chunks_exact(words).map(|tile| tile[role] == SplitForm::CONTRIBUTES).collect();
        // The next tile of a cluster is as many places further as there are clusters.
        let next = passes_on.iter().skip(lists.grid[0] as usize);
        Ok(passes_on.iter().zip(next).any(|(before, tile)| *tile && !before))
    }
}
