//! The numbers that are passed to the kernels that divide the K of every tile.

use super::{ListRequest, Shape, ShapeError};
use crate::{ClusterTile, SplitK, TileScheduler};

/// The launches that list the work of a kernel which divides the K of every tile: parts of K for others go to the first clusters, and
/// the tiles that collect them to the others, so that no cluster waits for one of a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitLists {
    parts: u32,
    slices: u32,
    tile: ClusterTile,
    /// Rows of tiles.
    tile_rows: u32,
    /// How parts for others are assigned: rows are those parts of rows of tiles.
    pub others: Shape,
    /// How the tiles are assigned which collect them.
    pub own: Shape,
}

impl SplitLists {
    /// The numbers of the kernel that divides rows, in the order of its parameters.
    pub const ROWS: [&'static str; 4] = ["tile_rows", "slices", "blocks_a_stage", "parts"];
    /// Those of the kernel that writes work tiles.
    pub const TILES: [&'static str; 9] = [
        "contributors",
        "clusters",
        "slices",
        "tile_height",
        "tile_width",
        "block_height",
        "tile_columns",
        "blocks_a_stage",
        "parts",
    ];
    /// The fewest clusters that divide K: one for each kind of tile.
    const LEAST_CLUSTERS: u32 = 2;
    /// The most places of the workspace.
    const MOST_PLACES: u64 = 1 << 31;
    /// Bytes of a work tile.
    pub(super) const TILE_BYTES: u32 = 32;

    /// Parts of every tile, if it is divided: as many as `split` says; or where `split` leaves it open, as many as let each
    /// cluster have one.
    pub fn parts(split: SplitK, request: &ListRequest) -> Option<u32> {
        let ListRequest { tile, rows, n, clusters, .. } = *request;
        let parts = match split {
            SplitK::Off => 1,
            SplitK::Parts(parts) => parts,
            SplitK::Auto | SplitK::Long => {
                let tiles = rows.div_ceil(tile.rows as usize) * n.div_ceil(tile.columns as usize);
                (clusters as usize / tiles.max(1)).min(SplitK::MOST as usize) as u32
            }
        };
        (parts > 1 && clusters >= Self::LEAST_CLUSTERS).then_some(parts)
    }

    /// The launches for a request, of at least two clusters, and tiles in so many [`SplitLists::parts`].
    ///
    /// # Errors
    /// [`ShapeError`] for more of something than the kernels count.
    pub fn new(request: &ListRequest, parts: u32) -> Result<Self, ShapeError> {
        let (tile, contributed) = (request.tile, parts.max(2) - 1);
        let tile_rows = request.rows.div_ceil(tile.rows as usize).max(1);
        let clusters = request.clusters.clamp(Self::LEAST_CLUSTERS, Shape::MOST_CLUSTERS);
        let share = (clusters * contributed / parts).clamp(1, clusters - 1);
        let of = |rows: usize, clusters: u32| {
            let tile = ClusterTile { rows: 1, block_rows: 1, ..tile };
            Shape::new(&ListRequest { tile, rows, clusters, tile_bytes: 16, ..*request })
        };
        let others = of(tile_rows.saturating_mul(contributed as usize), share)?;
        let own = of(tile_rows, clusters - share)?;
        let value = u64::from(others.tile_rows) * u64::from(others.columns);
        if value > Self::MOST_PLACES {
            let help = "a smaller split, or larger tiles";
            return Err(ShapeError { what: "parts of tiles", value, most: Self::MOST_PLACES, help });
        }
        let slices = (tile.block_rows / tile.rows).max(1);
        Ok(Self { parts: contributed + 1, slices, tile, tile_rows: tile_rows as u32, others, own })
    }

    /// Clusters that get work.
    pub fn clusters(&self) -> u32 {
        self.others.clusters + self.own.clusters
    }

    /// Rows of tiles, and parts of them for others.
    pub fn rows(&self) -> (u32, u32) {
        (self.tile_rows, self.tile_rows * (self.parts - 1))
    }

    /// Places of the workspace.
    pub fn places(&self) -> usize {
        self.others.tile_rows as usize * self.others.columns as usize
    }

    /// Bytes of the work tiles.
    pub fn work_bytes(&self) -> usize {
        let rows = self.others.list_rows().max(self.own.list_rows());
        rows as usize * self.clusters() as usize * Self::TILE_BYTES as usize
    }

    /// Words of `work_head`: the lengths, and 32 columns of every cluster.
    pub fn head_words(&self) -> usize {
        (1 + TileScheduler::HEAD_COLUMNS) as usize * self.clusters() as usize
    }

    /// Grid and bytes of shared memory of the launch that assigns both kinds.
    pub fn assign_grid(&self) -> (u32, u32) {
        let (own, others) = (&self.own, &self.others);
        (own.ctas().max(others.ctas()), own.shared_bytes().max(others.shared_bytes()))
    }

    /// Its numbers: those of the tiles that collect, and those of the others.
    pub fn assign_numbers(&self) -> [u32; 50] {
        let (own, others) = (self.own.numbers(), self.others.numbers());
        std::array::from_fn(|at| own.get(at).copied().unwrap_or_else(|| others[at - own.len()]))
    }

    /// The values of [`SplitLists::ROWS`].
    pub fn row_numbers(&self) -> [u32; 4] {
        [self.tile_rows, self.slices, self.tile.stages_per_block.1, self.parts]
    }

    /// The values of [`SplitLists::TILES`].
    pub fn tile_numbers(&self) -> [u32; 9] {
        [
            self.others.clusters,
            self.clusters(),
            self.slices,
            self.tile.rows,
            self.tile.columns,
            self.tile.block_rows,
            self.own.columns,
            self.tile.stages_per_block.1,
            self.parts,
        ]
    }
}
