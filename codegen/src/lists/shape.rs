//! What a launch of the assigning kernel lists, in numbers.

use super::kernels::ListKernel;
use crate::{ClusterTile, TileScheduler};

/// The request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// The output tile of a cluster.
    pub tile: ClusterTile,
    /// Rows of the sparse operand as its kernel reads it, in elements.
    pub rows: usize,
    /// Columns of blocks of the sparse operand as its kernel reads it.
    pub block_columns: usize,
    /// The extent of C along the dense factor, in elements.
    pub n: usize,
    /// Columns of tiles that are computed together along a block row.
    pub group: usize,
    /// Clusters that run at the same time.
    pub clusters: u32,
    /// Bytes of a work tile: 16, or 32 of a kernel that can divide K.
    pub tile_bytes: u32,
}

/// A launch of the assigning kernel. Rows are those of the sparse operand as its kernel reads it: where that is by block
/// columns, its block columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of tiles.
    pub tile_rows: u32,
    /// Rows of tiles in a block row.
    pub slices: u32,
    /// Columns of tiles.
    pub columns: u32,
    /// Columns of tiles that are computed together along a block row, where all rows have one length.
    pub group: u32,
    /// Columns of tiles of a panel, which are computed together where rows have different lengths.
    pub panel: u32,
    /// Clusters that get work.
    pub clusters: u32,
    /// The output tile of a cluster.
    pub tile: ClusterTile,
    /// Bits of a row's cost that its place in the order does not depend on.
    pub key_shift: u32,
    /// The same of a cluster's load.
    pub load_shift: u32,
    /// Bytes of a work tile.
    pub tile_bytes: u32,
}

/// Names, and the same followed by those of a second list.
macro_rules! once_and_twice {
    ($($name:literal),* $(,)?) => { ([$($name),*], [$($name,)* $(concat!($name, "_of_others")),*]) };
}

pub(super) use once_and_twice;

const NAMES: ([&str; 25], [&str; 50]) = once_and_twice!(
    "tile_rows",
    "slices",
    "tile_columns",
    "group",
    "panel",
    "clusters",
    "tile_height",
    "tile_width",
    "block_height",
    "stages_a_block",
    "blocks_a_stage",
    "key_shift",
    "load_shift",
    "tile_bytes",
    "row_bits",
    "padded",
    "sublane_bits",
    "chunk_bytes",
    "slices_inverse",
    "clusters_inverse",
    "blocks_a_stage_inverse",
    "block_height_inverse",
    "panel_inverse",
    "panel_tiles_inverse",
    "last_panel_inverse",
);

/// A product whose lists the kernel cannot make.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {value} > {most}\n  help: {help}")]
pub struct ShapeError {
    /// What is too large.
    pub what: &'static str,
    /// How large it is.
    pub value: u64,
    /// The most that it may be.
    pub most: u64,
    /// What to do.
    pub help: &'static str,
}

message_as_debug!(ShapeError);

impl Shape {
    /// The most rows of tiles: their keys and costs are in shared memory.
    pub const MOST_TILE_ROWS: u32 = 1 << 14;
    /// The most clusters: a cluster has a number of [`Shape::CLUSTER_BITS`] bits, and all ones are none.
    pub const MOST_CLUSTERS: u32 = (1 << Self::CLUSTER_BITS) - 1;
    /// Bits of a cluster's number in its key.
    pub const CLUSTER_BITS: u32 = 9;
    /// The most that a load counts for in a key.
    pub const MOST_LOAD: u32 = (1 << (32 - Self::CLUSTER_BITS)) - 1;
    /// The most panels of columns.
    pub const PANELS: u32 = 16;
    /// Of two panels whose shares have so many tiles or more, the second one follows the order of the first.
    pub const PAIRED_TURNS: u32 = 6;
    /// If a share costs so many times the average, panels are not distributed in shares.
    pub const UNEVEN: u32 = 2;
    /// The largest load may exceed the average by this quotient if all columns are distributed in panels.
    pub const LEVEL: (u32, u32) = (65, 64);
    /// Otherwise so many tiles of every cluster are assigned one by one.
    pub const FINE_TILES: u32 = 4;
    /// One in so many of the remaining rounds is assigned at once.
    pub const SHARE_OF_LEFT: u32 = 8;
    /// Tiles of a cluster that may be swapped: the last ones assigned to it.
    pub const RECENT: u32 = 8;
    /// How often clusters swap.
    pub const SWAPS: u32 = 2;
    /// The largest difference of two clusters that a swap is made for.
    pub const MOST_GAP: u32 = (1 << 26) - 1;
    /// Groups of columns by which the tiles of a cluster are ordered.
    pub const BUCKETS: u32 = 64;
    /// Bits of a tile's place in its group of columns, where it is kept with the group and the cluster.
    pub const PLACE_BITS: u32 = 17;
    /// The assigning kernel's numbers, in the order of its parameters.
    pub const NUMBERS: [&'static str; 25] = NAMES.0;
    /// Those of the kernel that assigns two of them.
    pub(super) const NUMBERS_OF_TWO: [&'static str; 50] = NAMES.1;
    /// Tiles for each CTA of the assigning kernel, and the most CTAs.
    const TILES_OF_A_CTA: u32 = 1024;
    const MOST_CTAS: u32 = 64;
    /// Shared memory that a CTA may have.
    const MOST_SHARED: u32 = 227 << 10;
    /// Keys that a lane compares with at the same time: an odd number of vectors of four, so that lanes read different banks.
    pub(super) const KEYS_AT_ONCE: u32 = 12;
    /// Words of the counts of one cluster: one more than there are, so that counts of clusters are in different banks.
    pub(super) const BUCKET_STRIDE: u32 = Self::BUCKETS + 1;

    /// The launch for a request.
    ///
    /// # Errors
    /// [`ShapeError`] where there are too many rows of tiles, or sums that do not fit 32 bits.
    pub fn new(request: &ListRequest) -> Result<Self, ShapeError> {
        let ListRequest { tile, rows, block_columns, n, group, clusters, tile_bytes } = *request;
        let help = "a host `Structure`, or a kernel with larger tiles";
        let limit = |what, value: u64, most: u64| match value > most {
            true => Err(ShapeError { what, value, most, help }),
            false => Ok(value as u32),
        };
        let tile_rows = limit(
            "rows of tiles of a pattern on the GPU",
            rows.div_ceil(tile.rows as usize).max(1) as u64,
            Self::MOST_TILE_ROWS.into(),
        )?;
        let columns = limit("columns of tiles", n.div_ceil(tile.columns as usize).max(1) as u64, 1 << 24)?;
        let tiles = u64::from(tile_rows) * u64::from(columns);
        let clusters = (u64::from(clusters.clamp(1, Self::MOST_CLUSTERS))).min(tiles) as u32;
        let rounds = tiles.div_ceil(clusters.into());
        limit("work tiles of a cluster", 4 * rounds, 1 << Self::PLACE_BITS)?;
        let most_cost = tile.cost(block_columns as u64);
        limit("stages of one column of tiles", most_cost * u64::from(tile_rows), 1 << 31)?;
        limit("stages of a cluster", most_cost * 4 * rounds, 1 << 31)?;
        let group = (group as u64).clamp(1, columns.into()) as u32;
        // A panel has a tile for every cluster, and there is room for so many panels.
        let panel = group.max(clusters.div_ceil(tile_rows)).max(columns.div_ceil(Self::PANELS)).min(columns);
        let bits = |value: u64| u64::BITS - value.leading_zeros();
        let shape = Self {
            tile_rows,
            slices: tile.block_rows / tile.rows,
            columns,
            group,
            panel,
            clusters,
            tile,
            key_shift: bits(most_cost).saturating_sub(32 - Self::row_bits_of(tile_rows)),
            load_shift: bits(2 * most_cost * rounds).saturating_sub(32 - Self::CLUSTER_BITS),
            tile_bytes,
        };
        limit("bytes of shared memory", shape.shared_bytes().into(), Self::MOST_SHARED.into())?;
        Ok(shape)
    }

    /// Work tiles of all clusters.
    pub fn tiles(&self) -> u32 {
        self.tile_rows * self.columns
    }

    /// Work tiles that the longest list may have.
    pub fn list_rows(&self) -> u32 {
        4 * (self.tiles().div_ceil(self.clusters) + 1)
    }

    /// CTAs of the assigning kernel, all of which write tiles that are distributed in turn.
    pub fn ctas(&self) -> u32 {
        self.tiles().div_ceil(Self::TILES_OF_A_CTA).clamp(1, Self::MOST_CTAS)
    }

    /// Bytes of `work`.
    pub fn work_bytes(&self) -> usize {
        self.list_rows() as usize * self.clusters as usize * self.tile_bytes as usize
    }

    /// Words of `work_head`: the lengths, and 32 columns of every cluster.
    pub fn head_words(&self) -> usize {
        (1 + TileScheduler::HEAD_COLUMNS) as usize * self.clusters as usize
    }

    /// The shift by which the columns of tiles that are left fall into groups.
    pub fn bucket_shift(columns: u32) -> u32 {
        let bits = u32::BITS - columns.saturating_sub(1).leading_zeros();
        bits.saturating_sub(Self::BUCKETS.trailing_zeros())
    }

    fn row_bits_of(tile_rows: u32) -> u32 {
        tile_rows.next_power_of_two().max(32).trailing_zeros()
    }

    /// Lanes that compare for one cluster, and keys that each of them compares with.
    fn lanes(&self) -> (u32, u32) {
        let lanes = ListKernel::Assign.threads() / self.clusters.next_power_of_two().max(32);
        (lanes, self.clusters.div_ceil(lanes).next_multiple_of(Self::KEYS_AT_ONCE))
    }

    /// Words of the keys of all clusters.
    fn padded(&self) -> u32 {
        let (lanes, chunk) = self.lanes();
        (lanes * chunk).max(ListKernel::Assign.threads() / lanes)
    }

    /// Dynamic shared memory of the assigning kernel.
    pub fn shared_bytes(&self) -> u32 {
        let sorted = 1 << Self::row_bits_of(self.tile_rows);
        let cluster_words = 2 * Self::RECENT + Self::BUCKET_STRIDE;
        4 * (2 * sorted + 3 * self.padded() + self.clusters * cluster_words) + 400
    }

    /// The values of [`Shape::NUMBERS`].
    pub fn numbers(&self) -> [u32; 25] {
        let (lanes, chunk) = self.lanes();
        let inverse = |divisor: u32| u32::MAX / divisor.max(1);
        [
            self.tile_rows,
            self.slices,
            self.columns,
            self.group,
            self.panel,
            self.clusters,
            self.tile.rows,
            self.tile.columns,
            self.tile.block_rows,
            self.tile.stages_per_block.0,
            self.tile.stages_per_block.1,
            self.key_shift,
            self.load_shift,
            self.tile_bytes,
            Self::row_bits_of(self.tile_rows),
            self.padded(),
            lanes.trailing_zeros(),
            4 * chunk,
            inverse(self.slices),
            inverse(self.clusters),
            inverse(self.tile.stages_per_block.1),
            inverse(self.tile.block_rows),
            inverse(self.panel),
            inverse(self.panel * self.tile_rows),
            inverse(self.columns % self.panel),
        ]
    }
}
