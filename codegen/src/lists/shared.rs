//! What the kernels that list tiles of several block rows are told, in numbers.

use super::{ListRequest, SddmmShape, Shape, ShapeError};
use crate::{ClusterTile, SharedColumns};

/// The launches that list the work of a kernel with
/// [`TileScheduler::SharedColumns`](crate::TileScheduler::SharedColumns): neighbouring block rows share a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLists {
    shared: SharedColumns,
    block_rows: u32,
    block_columns: u32,
    /// A column of blocks outside the matrix.
    no_column: u32,
    /// The launch that assigns tiles, by their groups of block rows and their columns.
    pub assign: Shape,
}

impl SharedLists {
    /// The numbers of the kernel that lists unions of block columns, in the order of its parameters.
    pub const UNIONS: [&'static str; 5] = ["block_rows", "pack", "block_columns", "stride", "no_column"];
    /// Those of the kernel that writes work tiles.
    pub const TILES: [&'static str; 4] = ["clusters", "block_rows", "pack", "block_height"];
    /// The most columns of blocks: for each block row as many bits fit shared memory.
    const MOST_COLUMNS: u64 = 1 << 15;
    /// The most words of all unions.
    const MOST_WORDS: u64 = 1 << 30;
    /// Bytes of the sums of the warps.
    pub(super) const SUMS_BYTES: u32 = 4 * 32;

    /// The launches for a request whose blocks have so many columns.
    ///
    /// # Errors
    /// [`ShapeError`] for more of something than the kernels count.
    pub fn new(shared: SharedColumns, request: &ListRequest, block_width: usize) -> Result<Self, ShapeError> {
        let limit = |what, value: u64, most: u64| match value > most {
            true => Err(ShapeError { what, value, most, help: "larger blocks, or a host Structure" }),
            false => Ok(()),
        };
        let block_rows = request.rows.div_ceil(shared.rows as usize);
        let groups = block_rows.div_ceil(shared.pack as usize).max(1);
        let columns = request.block_columns as u64;
        limit("columns of blocks of a pattern on the GPU whose rows share tiles", columns, Self::MOST_COLUMNS)?;
        limit("words for the columns of rows that share tiles", groups as u64 * columns.max(1), Self::MOST_WORDS)?;
        let tile = ClusterTile { rows: 1, columns: request.tile.columns, block_rows: 1, stages_per_block: (1, 1) };
        let assign = Shape::new(&ListRequest { tile, rows: groups, tile_bytes: 16, ..*request })?;
        let no_column = SddmmShape::OUTSIDE / block_width.max(1) as u32;
        Ok(Self { shared, block_rows: block_rows as u32, block_columns: columns as u32, no_column, assign })
    }

    /// Groups of block rows that share tiles: CTAs of the kernel that lists unions.
    pub fn groups(&self) -> u32 {
        self.assign.tile_rows
    }

    /// Words of the unions of all groups: each has room for all columns.
    pub fn union_words(&self) -> usize {
        self.groups() as usize * self.stride() as usize
    }

    /// Bytes of the work tiles.
    pub fn work_bytes(&self) -> usize {
        self.assign.work_bytes() / self.assign.tile_bytes as usize * 4 * SharedColumns::WORDS
    }

    /// Bytes of shared memory of the kernel that lists unions.
    pub fn union_shared_bytes(&self) -> u32 {
        Self::SUMS_BYTES + 4 * SharedColumns::MASK_BITS * self.block_columns.div_ceil(32)
    }

    fn stride(&self) -> u32 {
        self.block_columns.max(1)
    }

    /// The values of [`SharedLists::UNIONS`].
    pub fn union_numbers(&self) -> [u32; 5] {
        [self.block_rows, self.shared.pack, self.block_columns, self.stride(), self.no_column]
    }

    /// The values of [`SharedLists::TILES`].
    pub fn tile_numbers(&self) -> [u32; 4] {
        [self.assign.clusters, self.block_rows, self.shared.pack, self.shared.rows]
    }
}
