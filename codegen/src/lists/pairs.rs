//! What a launch of the kernels for products of two block-sparse matrices lists, in numbers.

use super::{ListKernel, Shape, ShapeError};
use crate::{ClusterTile, TileScheduler};

/// A product of two matrices whose patterns are on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairRequest {
    /// The output tile of a cluster, which is a slice of one block of C.
    pub tile: ClusterTile,
    /// Rows of C, in elements.
    pub rows: usize,
    /// Columns of blocks of A, which are the rows of blocks of B.
    pub depth: usize,
    /// Columns of blocks of C.
    pub block_columns: usize,
    /// Columns of a block of C.
    pub width: u32,
    /// The most blocks of A and of B that are ever stored.
    pub capacities: [usize; 2],
    /// The same of C, if it is in blocks.
    pub of_c: Option<usize>,
    /// Columns of blocks that are computed together.
    pub group: usize,
    /// Clusters that run at the same time.
    pub clusters: u32,
    /// Tiles are assigned in waves with balanced loads, not in turn.
    pub balanced: bool,
}

/// The launches that list the pairs of stored blocks `A[i, k]` and `B[k, j]` of each block of C, ascending by k, and assign the tiles
/// of C to clusters in waves.
///
/// [`ListKernel::PairMarks`] marks the block columns of B, [`ListKernel::PairCounts`] counts the pairs of each row of blocks of C and its
/// tiles, [`ListKernel::PairScan`] sums these up, [`ListKernel::PairLists`] lists the pairs and the tiles in the order in which they
/// are computed. [`ListKernel::PairSpans`] assigns the tiles of some waves to lists, [`ListKernel::PairDeal`] these lists and the last
/// tiles to clusters, and [`ListKernel::PairWrite`] writes the tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLists {
    request: PairRequest,
    block_rows: u32,
    groups: u32,
    pair_room: u32,
    tile_room: u32,
    clusters: u32,
}

impl PairLists {
    /// The numbers of the kernel that marks block columns, in the order of its parameters.
    pub const MARKS: [&'static str; 2] = ["block_rows", "words"];
    /// Those of the kernels that count and list pairs.
    pub const NUMBERS: [&'static str; 15] = [
        "block_rows",
        "block_columns",
        "words",
        "group",
        "groups",
        "is_sparse",
        "slices",
        "last_slices",
        "pair_room",
        "tile_room",
        "tile_height",
        "block_height",
        "tile_width",
        "stages_a_block",
        "blocks_a_stage",
    ];
    /// Those of the kernel that marks the blocks of a product.
    pub const MASK: [&'static str; 3] = ["block_rows", "block_columns", "words"];
    /// Those of the kernels that assign tiles.
    pub const WAVES: [&'static str; 6] =
        ["sums_length", "block_rows", "tile_room", "clusters", "is_balanced", "block_height"];
    /// Tiles that are assigned one by one, in waves.
    pub const LAST_WAVES: u32 = 2;
    /// Waves that are assigned together.
    pub const SPAN: u32 = 8;
    /// Shares of a wave have so many bits below a unit of cost.
    pub const SHARE_BITS: u32 = 16;
    /// Bits of the number of a cluster.
    pub(super) const CLUSTER_BITS: u32 = Shape::CLUSTER_BITS;
    /// The most tiles that are assigned one by one: fewer than those of one more wave.
    pub(super) const MOST_LAST: u32 = (Self::LAST_WAVES + 1) << Self::CLUSTER_BITS;
    /// Bits of the number of such a tile.
    pub(super) const LAST_BITS: u32 = Self::MOST_LAST.ilog2() + 1;
    /// The most stages of a tile, as a power of two. What two clusters have had of their shares differs by less than four such tiles.
    pub(super) const COST_BITS: u32 = 19;
    /// The most words of the marks of a matrix.
    const MOST_MARKS: u64 = 1 << 27;
    const HELP: &'static str = "host `Structure`s, or larger blocks";

    /// The launches for a request.
    ///
    /// # Errors
    /// [`ShapeError`] for more of something than the kernels count.
    pub fn new(request: &PairRequest) -> Result<Self, ShapeError> {
        let PairRequest { tile, rows, depth, block_columns, capacities, of_c, group, clusters, .. } = *request;
        let limit = |what, value: u64, most: u64| match value > most {
            true => Err(ShapeError { what, value, most, help: Self::HELP }),
            false => Ok(value as u32),
        };
        let block_rows = rows.div_ceil(tile.block_rows as usize).max(1) as u64;
        let marks = Self::marks_of(depth, block_columns) as u64;
        limit("words that mark the blocks of B", marks, Self::MOST_MARKS)?;
        // A block of A has at most a row of B as partners, one of B at most a column of A, one of C at most the blocks of K.
        let [of_a, of_b] = capacities.map(|capacity| capacity as u64);
        let pairs = (of_a * block_columns as u64).min(of_b * block_rows);
        let pairs = of_c.map_or(pairs, |of_c| pairs.min(of_c as u64 * depth as u64));
        limit("rows of all pairs of blocks", pairs * u64::from(tile.block_rows), u32::MAX.into())?;
        let slices = u64::from(tile.block_rows / tile.rows);
        let tiles = match of_c {
            Some(of_c) => of_c as u64 * slices,
            None => rows.div_ceil(tile.rows as usize) as u64 * block_columns as u64,
        };
        limit("tiles of a product of patterns on the GPU", tiles, 1 << 26)?;
        let (steps, _) = tile.stages_per_block;
        limit("stages of a tile", depth as u64 * u64::from(steps) + 1, 1 << Self::COST_BITS)?;
        limit("stages of all tiles", (pairs * slices + tiles) * u64::from(steps) + tiles, 1 << 31)?;
        let group = group.clamp(1, block_columns.max(1));
        let groups = block_columns.div_ceil(group).max(1) as u64;
        limit("rows of blocks of C x groups of columns", block_rows * (groups + 1), 1 << 28)?;
        Ok(Self {
            request: PairRequest { group, ..*request },
            block_rows: block_rows as u32,
            groups: groups as u32,
            pair_room: pairs as u32,
            tile_room: tiles as u32,
            clusters: u64::from(clusters.clamp(1, Shape::MOST_CLUSTERS)).min(tiles).max(1) as u32,
        })
    }

    /// Words that mark the blocks of a matrix with so many rows and columns of blocks: two for every 32 columns of a row.
    pub fn marks_of(block_rows: usize, block_columns: usize) -> usize {
        2 * block_rows * Self::words_of(block_columns)
    }

    /// Groups of 32 columns.
    pub fn words_of(block_columns: usize) -> usize {
        block_columns.div_ceil(32).max(1)
    }

    /// Grid and bytes of shared memory of the kernel that marks a matrix with so many rows and columns of blocks.
    pub fn grid_of(block_rows: usize, block_columns: usize) -> (u32, u32) {
        let kernel = ListKernel::PairMarks;
        let bytes = kernel.threads() / 32 * 4 * Self::words_of(block_columns) as u32;
        (kernel.grid(block_rows as u32, 1), bytes)
    }

    /// The same of B.
    pub fn marks_grid(&self) -> (u32, u32) {
        Self::grid_of(self.request.depth, self.request.block_columns)
    }

    /// Clusters that get work.
    pub fn clusters(&self) -> u32 {
        self.clusters
    }

    /// Pairs that there can be.
    pub fn pair_room(&self) -> usize {
        self.pair_room as usize
    }

    /// Tiles that there can be.
    pub fn tile_room(&self) -> usize {
        self.tile_room as usize
    }

    /// Words of the marks of B.
    pub fn mark_words(&self) -> usize {
        Self::marks_of(self.request.depth, self.request.block_columns)
    }

    /// Numbers that are summed up: the pairs of each row of blocks of C, then its tiles under each group of columns.
    fn sums_length(&self) -> u32 {
        self.block_rows * (1 + self.groups)
    }

    /// Words of these numbers, of their sum, and of what all tiles cost.
    pub fn sum_words(&self) -> usize {
        self.sums_length() as usize + 2
    }

    /// Words that say where each group of columns begins in each row of C.
    pub fn start_words(&self) -> usize {
        (self.block_rows * self.groups) as usize
    }

    /// Words of `work_head`: the lengths, and the first 32 blocks of every cluster.
    pub fn head_words(&self) -> usize {
        (1 + TileScheduler::HEAD_COLUMNS) as usize * self.clusters as usize
    }

    /// Words of `work`: the whole waves, and as many rows as all last tiles need where one cluster gets them.
    pub fn work_words(&self) -> usize {
        let rows = self.tile_room / self.clusters + (Self::LAST_WAVES + 1) * self.clusters;
        4 * rows as usize * self.clusters as usize
    }

    /// Grid and bytes of shared memory of the kernels that count and list pairs.
    pub fn row_grid(&self) -> (u32, u32) {
        (self.block_rows, 128)
    }

    /// The same of the kernel that sums up.
    pub fn scan_grid(&self) -> (u32, u32) {
        (1, 128)
    }

    /// Tiles are assigned by their costs, not in turn.
    pub fn is_balanced(&self) -> bool {
        self.request.balanced
    }

    /// Spans of waves that there can be.
    fn spans(&self) -> u32 {
        (self.tile_room / self.clusters).saturating_sub(Self::LAST_WAVES).div_ceil(Self::SPAN)
    }

    /// Numbers of the lists of all spans: one for each cluster.
    pub fn span_lists(&self) -> usize {
        self.spans() as usize * self.clusters as usize
    }

    /// Words of the sorted last tiles.
    pub fn last_words(&self) -> usize {
        2 * Self::MOST_LAST as usize
    }

    /// Grid and bytes of shared memory of the kernel that assigns the tiles of spans, and sorts the last ones.
    pub fn span_grid(&self) -> (u32, u32) {
        (1 + self.spans(), 8 * Self::MOST_LAST)
    }

    /// The same of the kernel that assigns their lists to clusters.
    pub fn deal_grid(&self) -> (u32, u32) {
        (1, DEAL_BYTES)
    }

    /// The same of the kernel that writes tiles: a warp for each.
    pub fn write_grid(&self) -> (u32, u32) {
        (ListKernel::PairWrite.grid(self.tile_room, 1), 0)
    }

    /// The values of [`PairLists::MARKS`].
    pub fn mark_numbers(&self) -> [u32; 2] {
        [self.request.depth as u32, Self::words_of(self.request.block_columns) as u32]
    }

    /// The values of [`PairLists::NUMBERS`].
    pub fn numbers(&self) -> [u32; 15] {
        let PairRequest { tile, rows, block_columns, width, of_c, group, .. } = self.request;
        let slices = tile.block_rows / tile.rows;
        let last_rows = rows as u32 - (self.block_rows - 1) * tile.block_rows;
        let last_slices = if of_c.is_some() { slices } else { last_rows.div_ceil(tile.rows) };
        [
            self.block_rows,
            block_columns as u32,
            Self::words_of(block_columns) as u32,
            group as u32,
            self.groups,
            of_c.is_some().into(),
            slices,
            last_slices,
            self.pair_room,
            self.tile_room,
            tile.rows,
            tile.block_rows,
            width,
            tile.stages_per_block.0,
            tile.stages_per_block.1,
        ]
    }

    /// The number of [`ListKernel::PairScan`].
    pub fn scan_numbers(&self) -> [u32; 1] {
        [self.sums_length()]
    }

    /// The values of [`PairLists::WAVES`].
    pub fn wave_numbers(&self) -> [u32; 6] {
        let PairRequest { tile, balanced, .. } = self.request;
        let length = self.sums_length();
        [length, self.block_rows, self.tile_room, self.clusters, balanced.into(), tile.block_rows]
    }
}

/// Keys that a thread compares with at the same time; behind those of all clusters there are as many that are larger than all.
pub(super) const KEYS_AT_ONCE: u32 = 8;
/// Bytes of the keys of all clusters.
pub(super) const SIDE_BYTES: u32 = 4 * ((1 << PairLists::CLUSTER_BITS) + KEYS_AT_ONCE);
/// Where the kernels that assign tiles have pairs of a number and a cost in shared memory: behind two sets of keys.
pub(super) const SORTED_AT: u32 = 2 * SIDE_BYTES;
/// Where the kernel that assigns lists has the sums of its warps: behind two sets of pairs.
pub(super) const TOTALS_AT: u32 = SORTED_AT + (16 << PairLists::CLUSTER_BITS);
const DEAL_BYTES: u32 = TOTALS_AT + 256;
