//! The numbers that are passed to the kernels that list an attention.

use super::{ListKernel, ListRequest, Shape, ShapeError};
use crate::{AttentionTiles, ClusterTile};

/// Which blocks of a pattern are partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialFlags {
    /// None.
    None = 0,
    /// All.
    All = 1,
    /// Those of which a byte is not 0: one for every stored block, in their order.
    ByBlock = 2,
    /// Those of which a byte is more than 1: one for every block, row of blocks by row of blocks.
    ByPlace = 3,
}

/// An attention whose patterns are on the GPU: one below the other, each with the same rows of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionRequest {
    /// How the kernel divides its work.
    pub tiles: AttentionTiles,
    /// Problems, heads of Q, heads of K.
    pub batch: u32,
    /// Heads of Q and O.
    pub heads: u32,
    /// Heads of K and V.
    pub key_heads: u32,
    /// Queries of a problem.
    pub queries: u32,
    /// Keys of a problem.
    pub keys: u32,
    /// One pattern for each head, and one for each problem. Heads that share a tile have one pattern.
    pub by: (bool, bool),
    /// The most blocks that all patterns together ever have.
    pub capacity: u32,
    /// CTAs that run at the same time.
    pub ctas: u32,
    /// Heads of Q whose tiles are computed together, since K and V of these fit L2.
    pub together: u32,
}

impl AttentionRequest {
    /// Tiles that have consumers in one row of blocks. Both begin at multiples of the queries of a consumer.
    fn tiles_of_a_row(&self) -> u64 {
        let AttentionTiles { block, rows, consumers, uniform, .. } = self.tiles;
        let tiles = if uniform { block.0 / rows } else { (block.0 + rows - rows / consumers).div_ceil(rows) };
        tiles.max(1).into()
    }

    /// Steps of so many runs of one tile, or of several. Runs of one step are stored by the same consumers.
    fn steps_of(&self, runs: u64, tiles: u64) -> u64 {
        let sets = (1 << self.tiles.consumers) - 1;
        match self.tiles.blocks {
            1 => runs,
            _ => runs.min((runs + sets * tiles).div_ceil(2)),
        }
    }

    /// Steps that all rows of tiles together can have, of which there are so many.
    fn most_steps(&self, rows: u64) -> u64 {
        let runs = u64::from(self.capacity) * u64::from(self.tiles.block.1 / self.tiles.run());
        self.steps_of(runs * self.tiles_of_a_row(), rows)
    }
}

/// The launches that list an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionLists {
    request: AttentionRequest,
    slots: u32,
    /// The launch that assigns tiles, by their rows and columns.
    pub assign: Shape,
}

impl AttentionLists {
    /// The numbers of the kernel that lists steps, in the order of its parameters.
    pub const STEPS: [&'static str; 13] = [
        "tile_rows",
        "tile_queries",
        "consumers",
        "share_queries",
        "block_rows",
        "block_queries",
        "block_columns",
        "queries",
        "parts",
        "key_runs",
        "blocks",
        "slots",
        "flags",
    ];
    /// Those of the kernel that writes work tiles.
    pub const TILES: [&'static str; 10] = [
        "ctas",
        "tile_rows",
        "tile_queries",
        "heads",
        "heads_a_key_head",
        "tile_heads",
        "of_list",
        "of_column",
        "tile_bytes",
        "part_bytes",
    ];
    /// Words that the kernel that lists steps keeps of every row of tiles: {first step, steps, steps of each consumer}.
    pub const RECORD_WORDS: usize = 8;
    /// Sets of consumers take turns in rounds of at most so many steps.
    pub const ROUND: u32 = 3;
    /// Steps in which no rounds are found, at most, before they are, and the sets after whose last steps others are looked for.
    const BEFORE_ROUNDS: u32 = 2;
    const SETS: u32 = 7;
    /// Bytes of the entries of one set of consumers, of 16 each, and of all sets: their numbers are below 8.
    pub(super) const ENTRIES_BYTES: u32 = 16 * Self::SETS * (Self::BEFORE_ROUNDS + 1);
    pub(super) const ORDER_BYTES: u32 = (Self::SETS + 1) * Self::ENTRIES_BYTES;
    /// The most columns of blocks: as many bits fit shared memory.
    const MOST_COLUMNS: u64 = 1 << 15;
    /// Bytes of the sums of the warps, of 16 each, and of the room that a tile has.
    pub(super) const SUMS_BYTES: u32 = ListKernel::AttentionSteps.threads() / 2 + 16;

    /// The launches for a request.
    ///
    /// # Errors
    /// [`ShapeError`] for more of something than the kernels count.
    pub fn new(request: &AttentionRequest) -> Result<Self, ShapeError> {
        let AttentionRequest { tiles, batch, heads, queries, keys, by, ctas, together, .. } = *request;
        let help = "larger blocks, or a mask on the host";
        let limit = |what, value: u64, most: u64| match value > most {
            true => Err(ShapeError { what, value, most, help }),
            false => Ok(()),
        };
        limit("neighbouring blocks of a step", tiles.joined().into(), 1)?;
        let lists = if by.0 { u64::from(heads) } else { 1 } * if by.1 { u64::from(batch) } else { 1 };
        let rows = lists * u64::from(queries.div_ceil(tiles.rows));
        limit("rows of tiles of patterns on the GPU", rows, Shape::MOST_TILE_ROWS.into())?;
        limit("columns of blocks", keys.div_ceil(tiles.block.1).into(), Self::MOST_COLUMNS)?;
        let slots = request.most_steps(rows);
        limit("runs of keys of all tiles", slots * u64::from(tiles.blocks), 1 << 31)?;
        let runs = u64::from(keys.div_ceil(tiles.run()));
        let columns = u64::from(batch) * u64::from(heads / tiles.heads()) / lists.max(1);
        let assign = Shape::new(&ListRequest {
            tile: ClusterTile { rows: 1, columns: 1, block_rows: 1, stages_per_block: (1, 1) },
            rows: rows as usize,
            block_columns: request.steps_of(runs, 1) as usize,
            n: columns as usize,
            group: if by.0 { 1 } else { together as usize },
            clusters: ctas,
            tile_bytes: 16,
        })?;
        Ok(Self { request: *request, slots: slots as u32, assign })
    }

    /// Rows of tiles of all patterns.
    pub fn rows(&self) -> u32 {
        self.assign.tile_rows
    }

    /// CTAs that get work.
    pub fn ctas(&self) -> u32 {
        self.assign.clusters
    }

    /// Runs of keys that the steps of all rows of tiles together can have: the words of the list.
    pub fn slots(&self) -> usize {
        self.slots as usize * self.request.tiles.blocks as usize
    }

    /// Bytes of the work tiles.
    pub fn work_bytes(&self) -> usize {
        self.assign.tiles() as usize * 4 * self.request.tiles.tile_words as usize
    }

    /// Bytes of shared memory of the kernel that lists steps: for every 32 columns of blocks 6 words, and 8 numbers of 16 bits.
    pub fn steps_shared_bytes(&self) -> u32 {
        (6 * 4 + 8 * 2) * self.block_columns().div_ceil(32) + Self::ORDER_BYTES + Self::SUMS_BYTES
    }

    fn block_columns(&self) -> u32 {
        self.request.keys.div_ceil(self.request.tiles.block.1)
    }

    /// The values of [`AttentionLists::STEPS`].
    pub fn steps_numbers(&self, flags: PartialFlags) -> [u32; 13] {
        let AttentionRequest { tiles, queries, keys, .. } = self.request;
        [
            queries.div_ceil(tiles.rows),
            tiles.rows,
            tiles.consumers,
            if tiles.uniform { 0 } else { tiles.rows / tiles.consumers },
            queries.div_ceil(tiles.block.0),
            tiles.block.0,
            self.block_columns(),
            queries,
            tiles.block.1 / tiles.run(),
            keys.div_ceil(tiles.run()),
            tiles.blocks,
            self.slots,
            flags as u32,
        ]
    }

    /// The values of [`AttentionLists::TILES`].
    pub fn tiles_numbers(&self) -> [u32; 10] {
        let AttentionRequest { tiles, heads, key_heads, queries, by, .. } = self.request;
        let heads = heads / tiles.heads();
        let (of_list, of_column) = match by {
            (false, false) => (0, 1),
            (true, false) => (1, heads),
            (false, true) => (heads, 1),
            (true, true) => (1, 0),
        };
        [
            self.ctas(),
            queries.div_ceil(tiles.rows),
            tiles.rows,
            heads,
            heads / key_heads.max(1),
            tiles.heads(),
            of_list,
            of_column,
            4 * tiles.tile_words,
            4 * (6 + tiles.consumers).next_multiple_of(4),
        ]
    }
}
