//! The numbers that are passed to the kernels that list tiles of several block rows.

use super::{ListKernel, ListRequest, Shape, ShapeError};
use crate::{ClusterTile, SharedColumns, TileScheduler};

/// The launches that list the work of a kernel with
/// [`TileScheduler::SharedColumns`](crate::TileScheduler::SharedColumns): block rows share a tile that have many block columns in
/// common, among nearby rows.
///
/// [`ListKernel::SharedBits`] marks the block columns of every row, [`ListKernel::SharedGroups`] finds out which rows go
/// together, [`ListKernel::SharedUnions`] lists their columns, [`ListKernel::Assign`] assigns the tiles and
/// [`ListKernel::SharedTiles`] writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLists {
    shared: SharedColumns,
    block_rows: u32,
    block_columns: u32,
    /// A column of blocks outside the matrix.
    no_column: u32,
    /// What a block costs, where a block column of a union costs [`SharedLists::COLUMN_COST`].
    block_cost: u32,
    /// Groups among which rows are exchanged.
    groups_a_cta: u32,
    /// The launch that assigns tiles, by their groups of block rows and their columns.
    pub assign: Shape,
}

impl SharedLists {
    /// The numbers of the kernel that marks block columns, in the order of its parameters.
    pub const BITS: [&'static str; 2] = ["block_rows", "words"];
    /// Those of the kernel that puts block rows together.
    pub const GROUPS: [&'static str; 5] = ["block_rows", "pack", "words", "groups", "groups_a_cta"];
    /// Those of the kernel that lists unions of block columns.
    pub const UNIONS: [&'static str; 5] = ["groups", "words", "stride", "no_column", "block_cost"];
    /// Those of the kernel that writes work tiles.
    pub const TILES: [&'static str; 2] = ["clusters", "block_height"];
    /// Block rows of a tile that the kernels know.
    pub(super) const PACKS: [u32; 3] = [2, 3, 4];
    /// The number for a block row that a group does not have.
    pub const NO_ROW: u32 = u32::MAX;
    /// What a block column of a union costs by the tile of B that it loads; its blocks of A cost in proportion to their bytes.
    pub const COLUMN_COST: u32 = 8;
    /// Bytes of the groups of a CTA in shared memory, 4 for each.
    pub(super) const PACKED_BYTES: u32 = 4 * Self::MOST_GROUPS;
    /// Rows that a thread compares at the same time, as a power of two. The rows of a CTA are a multiple of it.
    pub(super) const TILE_BITS: u32 = 2;
    /// The most groups among which rows are exchanged: two for each lane of a warp.
    const MOST_GROUPS: u32 = 64;
    /// The most pairs of words that a CTA compares.
    const MOST_COMPARED: u32 = 300_000;
    /// The most bytes of shared memory for it.
    const MOST_BYTES: u32 = 192 << 10;
    /// The most columns of blocks: for so many bits of each row there is room.
    const MOST_COLUMNS: u64 = 1 << 15;
    /// The most words of all unions.
    const MOST_WORDS: u64 = 1 << 30;

    /// The launches for a request whose blocks have so many columns.
    ///
    /// # Errors
    /// [`ShapeError`] for more of something than the kernels count.
    pub fn new(shared: SharedColumns, request: &ListRequest, block_width: usize) -> Result<Self, ShapeError> {
        let limit = |what, value: u64, most: u64| match value > most {
            true => Err(ShapeError { what, value, most, help: "larger blocks, or a host `Structure`" }),
            false => Ok(()),
        };
        let block_rows = request.rows.div_ceil(shared.rows as usize);
        let groups = block_rows.div_ceil(shared.pack as usize).max(1);
        let columns = request.block_columns as u64;
        limit("columns of blocks of a pattern on the GPU whose rows share tiles", columns, Self::MOST_COLUMNS)?;
        limit("words for the columns of rows that share tiles", groups as u64 * columns.max(1), Self::MOST_WORDS)?;
        let b_bytes = shared.b_bytes.max(1);
        let block_cost = (Self::COLUMN_COST * shared.block_bytes + b_bytes / 2) / b_bytes;
        let most_cost = request.block_columns.saturating_mul((Self::COLUMN_COST + shared.pack * block_cost) as usize);
        let tile = ClusterTile { rows: 1, columns: request.tile.columns, block_rows: 1, stages_per_block: (1, 1) };
        let block_columns = most_cost.div_ceil(Self::COLUMN_COST as usize);
        let assign = Shape::new(&ListRequest { tile, rows: groups, block_columns, tile_bytes: 16, ..*request })?;
        let no_column = TileScheduler::OUTSIDE / block_width.max(1) as u32;
        let (block_columns, groups_a_cta) = (columns as u32, Self::MOST_GROUPS);
        let mut lists =
            Self { shared, block_rows: block_rows as u32, block_columns, no_column, block_cost, groups_a_cta, assign };
        while lists.groups_a_cta > 4 && !lists.fits() {
            lists.groups_a_cta /= 2;
        }
        // The same number for every CTA: a multiple of four, so that its rows are one of those that threads compare together.
        let ctas = lists.groups().div_ceil(lists.groups_a_cta);
        lists.groups_a_cta = lists.groups().div_ceil(ctas).next_multiple_of(1 << Self::TILE_BITS);
        Ok(lists)
    }

    /// Whether a CTA can compare so many rows.
    fn fits(&self) -> bool {
        let rows = self.near_rows();
        rows * rows * self.words() <= Self::MOST_COMPARED && self.group_shared_bytes() <= Self::MOST_BYTES
    }

    /// Groups of block rows that share tiles.
    pub fn groups(&self) -> u32 {
        self.assign.tile_rows
    }

    /// Block rows among which each finds others.
    pub fn near_rows(&self) -> u32 {
        self.groups_a_cta * self.shared.pack
    }

    /// Words of a bit for each block column of a row.
    fn words(&self) -> u32 {
        self.block_columns.div_ceil(32).max(1)
    }

    /// Words of the bits of all rows.
    pub fn bit_words(&self) -> usize {
        self.block_rows.max(1) as usize * self.words() as usize
    }

    /// What the tile of a group costs whose union has so many columns, and its rows so many blocks. The launch that assigns tiles takes
    /// it for the number of blocks of a row.
    pub fn cost(&self, columns: u32, blocks: u32) -> u32 {
        (Self::COLUMN_COST * columns + self.block_cost * blocks).div_ceil(Self::COLUMN_COST)
    }

    /// Words of the unions of all groups: each has room for all columns, and behind the last one a head may be read.
    pub fn union_words(&self) -> usize {
        self.groups() as usize * self.stride() as usize + TileScheduler::HEAD_COLUMNS as usize
    }

    /// Bytes of the work tiles.
    pub fn work_bytes(&self) -> usize {
        self.assign.work_bytes() / self.assign.tile_bytes as usize * 4 * SharedColumns::WORDS
    }

    fn stride(&self) -> u32 {
        self.block_columns.max(1)
    }

    /// Grid and bytes of shared memory of the kernel that marks block columns.
    pub fn bit_grid(&self) -> (u32, u32) {
        let kernel = ListKernel::SharedBits;
        (kernel.grid(self.block_rows.max(1), 0), kernel.threads() / 32 * 4 * self.words())
    }

    /// The same of the kernel that puts block rows together.
    pub fn group_grid(&self) -> (u32, u32) {
        (self.groups().div_ceil(self.groups_a_cta), self.group_shared_bytes())
    }

    /// The same of the kernel that lists unions.
    pub fn union_grid(&self) -> (u32, u32) {
        (ListKernel::SharedUnions.grid(self.groups(), 0), 0)
    }

    fn group_shared_bytes(&self) -> u32 {
        let rows = self.near_rows();
        Self::PACKED_BYTES + rows * 16 * (self.words().div_ceil(4) | 1) + rows * 2 * (rows + 2)
    }

    /// The values of [`SharedLists::BITS`].
    pub fn bit_numbers(&self) -> [u32; 2] {
        [self.block_rows, self.words()]
    }

    /// The values of [`SharedLists::GROUPS`].
    pub fn group_numbers(&self) -> [u32; 5] {
        [self.block_rows, self.shared.pack, self.words(), self.groups(), self.groups_a_cta]
    }

    /// The values of [`SharedLists::UNIONS`].
    pub fn union_numbers(&self) -> [u32; 5] {
        [self.groups(), self.words(), self.stride(), self.no_column, self.block_cost]
    }

    /// The values of [`SharedLists::TILES`].
    pub fn tile_numbers(&self) -> [u32; 2] {
        [self.assign.clusters, self.shared.rows]
    }
}
