//! What the kernels that list an attention are told, in numbers.

use super::{ListRequest, Shape, ShapeError};
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
    /// Steps that all rows of tiles together can have.
    fn most_steps(&self) -> u64 {
        let Self { tiles, capacity, .. } = *self;
        let halves = if tiles.uniform { tiles.block.0 / tiles.rows } else { 2 * tiles.block.0 / tiles.rows };
        u64::from(capacity) * u64::from(tiles.block.1 / tiles.step) * u64::from(halves.max(1))
    }
}

/// The launches that list an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionLists {
    request: AttentionRequest,
    /// The launch that assigns tiles, by their rows and columns.
    pub assign: Shape,
}

impl AttentionLists {
    /// The numbers of the kernel that lists steps, in the order of its parameters.
    pub const STEPS: [&'static str; 11] = [
        "tile_rows",
        "tile_queries",
        "other_queries",
        "block_rows",
        "block_queries",
        "block_columns",
        "queries",
        "parts",
        "key_steps",
        "slots",
        "flags",
    ];
    /// Those of the kernel that writes work tiles.
    pub const TILES: [&'static str; 9] = [
        "ctas",
        "tile_rows",
        "tile_queries",
        "heads",
        "heads_a_key_head",
        "tile_heads",
        "of_list",
        "of_column",
        "tile_bytes",
    ];
    /// The most columns of blocks: as many bits fit shared memory.
    const MOST_COLUMNS: u64 = 1 << 15;
    /// Bytes beside the bits: sums of the warps.
    const SUMS_BYTES: u32 = 256;

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
        // Rows of blocks are listed for two consumers, block by block.
        let listed = |what, value: u32, most: u32, help| match value > most {
            true => Err(ShapeError { what, value: value.into(), most: most.into(), help }),
            false => Ok(()),
        };
        listed("consumers of a kernel with a mask on the GPU", tiles.consumers, 2, "consumers = 2")?;
        listed("blocks in a step of a kernel with a mask on the GPU", tiles.blocks, 1, "a k_step that divides bk")?;
        let lists = if by.0 { u64::from(heads) } else { 1 } * if by.1 { u64::from(batch) } else { 1 };
        let rows = lists * u64::from(queries.div_ceil(tiles.rows));
        limit("rows of tiles of patterns on the GPU", rows, Shape::MOST_TILE_ROWS.into())?;
        limit("columns of blocks", keys.div_ceil(tiles.block.1).into(), Self::MOST_COLUMNS)?;
        limit("steps of all tiles", request.most_steps(), 1 << 31)?;
        let columns = u64::from(batch) * u64::from(heads / tiles.heads()) / lists.max(1);
        let assign = Shape::new(&ListRequest {
            tile: ClusterTile { rows: 1, columns: 1, block_rows: 1, stages_per_block: (1, 1) },
            rows: rows as usize,
            block_columns: keys.div_ceil(tiles.step) as usize,
            n: columns as usize,
            group: if by.0 { 1 } else { together as usize },
            clusters: ctas,
            tile_bytes: 16,
        })?;
        Ok(Self { request: *request, assign })
    }

    /// Rows of tiles of all patterns.
    pub fn rows(&self) -> u32 {
        self.assign.tile_rows
    }

    /// CTAs that get work.
    pub fn ctas(&self) -> u32 {
        self.assign.clusters
    }

    /// Steps that all rows of tiles together can have.
    pub fn slots(&self) -> u32 {
        self.request.most_steps() as u32
    }

    /// Bytes of the work tiles.
    pub fn work_bytes(&self) -> usize {
        self.assign.tiles() as usize * 4 * self.request.tiles.tile_words as usize
    }

    /// Bytes of shared memory of the kernel that lists steps: 6 words for every 32 columns of blocks.
    pub fn steps_shared_bytes(&self) -> u32 {
        6 * 4 * self.block_columns().div_ceil(32) + Self::SUMS_BYTES
    }

    fn block_columns(&self) -> u32 {
        self.request.keys.div_ceil(self.request.tiles.block.1)
    }

    /// The values of [`AttentionLists::STEPS`].
    pub fn steps_numbers(&self, flags: PartialFlags) -> [u32; 11] {
        let AttentionRequest { tiles, queries, keys, .. } = self.request;
        [
            queries.div_ceil(tiles.rows),
            tiles.rows,
            if tiles.uniform { 0 } else { tiles.rows / 2 },
            queries.div_ceil(tiles.block.0),
            tiles.block.0,
            self.block_columns(),
            queries,
            tiles.block.1 / tiles.step,
            keys.div_ceil(tiles.step),
            self.slots(),
            flags as u32,
        ]
    }

    /// The values of [`AttentionLists::TILES`].
    pub fn tiles_numbers(&self) -> [u32; 9] {
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
        ]
    }
}
