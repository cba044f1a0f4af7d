//! The numbers that are passed to the kernels that check a page table and list an attention by its problems' numbers of keys.

use super::{ListKernel, ShapeError};
use crate::AttentionTiles;

/// What is wrong with a problem of a page table. The number is what the check records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrongPages {
    /// The number of keys is negative, or beyond those for which the table has room.
    Length = 1,
    /// A page that has keys is negative, or beyond the last one.
    Page = 2,
}

impl WrongPages {
    /// By the number that the check records.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Length, Self::Page].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// An attention whose K and V are in pages: each problem has a number of keys, which lives on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthRequest {
    /// How the kernel divides its work.
    pub tiles: AttentionTiles,
    /// Problems.
    pub batch: u32,
    /// Heads of Q and O.
    pub heads: u32,
    /// Heads of K and V.
    pub key_heads: u32,
    /// Queries of a problem.
    pub queries: u32,
    /// Entries of a row of the page table.
    pub width: u32,
    /// Pages that K and V have.
    pub pages: u32,
    /// CTAs that run at the same time.
    pub ctas: u32,
}

/// The launches that check a page table and list the work of an attention.
///
/// The steps of all tiles follow each other: problem by problem, in each by head, then by query. Every CTA gets an equal
/// share of them, so that tiles are divided where a share ends; of a kernel without `split` a tile belongs to the share that
/// its first step is in. A CTA begins with what it passes on, if the last one of its tiles goes on in the next CTA, and ends
/// with the tile that it adds up for the CTAs before it. It waits for CTAs of lower numbers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthLists {
    request: LengthRequest,
}

impl LengthLists {
    /// The numbers of the kernel that checks, in the order of its parameters.
    pub const CHECK: [&'static str; 4] = ["problems", "width", "pages", "page"];
    /// Those of the kernel that writes work tiles.
    pub const TILES: [&'static str; 15] = [
        "problems",
        "tiles",
        "tile_rows",
        "tile_queries",
        "share_queries",
        "queries",
        "heads_a_key_head",
        "tile_heads",
        "consumers",
        "keys_of_step",
        "least",
        "splits",
        "ctas",
        "tile_bytes",
        "part_bytes",
    ];
    /// The most problems: their steps are summed up in shared memory.
    const MOST_PROBLEMS: u64 = 1 << 12;
    /// Keys of the smallest share of a CTA, unless there are tiles for more CTAs.
    const LEAST_KEYS: u32 = 256;
    /// The most parts of a tile that one CTA adds up alone. Of more, the first of each group adds up its group.
    pub const FLAT: u32 = 4;

    /// The launches for a request of a kernel with pages.
    ///
    /// # Errors
    /// [`ShapeError`] for more of something than the kernels count.
    pub fn new(request: &LengthRequest) -> Result<Self, ShapeError> {
        let lists = Self { request: *request };
        let help = "several launches";
        let limit = |what, value: u64, most: u64| match value > most {
            true => Err(ShapeError { what, value, most, help }),
            false => Ok(()),
        };
        limit("problems of a page table", request.batch.into(), Self::MOST_PROBLEMS)?;
        let keys = u64::from(request.width) * u64::from(request.tiles.page.unwrap_or(1));
        limit("keys of a row of a page table", keys, 1 << 30)?;
        let tiles = u64::from(request.batch) * u64::from(lists.tiles_of_problem());
        limit("steps of all tiles", tiles * keys.div_ceil(request.tiles.step.into()).max(1), 1 << 31)?;
        Ok(lists)
    }

    /// What it was made for.
    pub fn request(&self) -> &LengthRequest {
        &self.request
    }

    /// Tiles of one head, or of those that share them.
    fn tile_rows(&self) -> u32 {
        self.request.queries.div_ceil(self.request.tiles.rows)
    }

    fn tiles_of_problem(&self) -> u32 {
        self.request.heads / self.request.tiles.heads() * self.tile_rows()
    }

    /// Work tiles that there can be: each CTA may divide one.
    fn most_tiles(&self) -> usize {
        let LengthRequest { batch, ctas, .. } = self.request;
        batch as usize * self.tiles_of_problem() as usize + ctas as usize
    }

    /// Words of the list of work tiles.
    pub fn work_words(&self) -> usize {
        self.most_tiles() * self.request.tiles.tile_words as usize
    }

    /// Bytes of the workspace: a place for each CTA, which passes on the sums of one tile at most.
    pub fn workspace_bytes(&self) -> usize {
        self.request.tiles.split.map_or(0, |split| split.place_bytes as usize * self.request.ctas as usize)
    }

    /// Bytes of shared memory of the kernel that writes work tiles: the steps before each problem, and sums of warps.
    pub fn tiles_shared_bytes(&self) -> u32 {
        4 * (self.request.batch + 1 + ListKernel::LengthTiles.threads() / 32)
    }

    /// The values of [`LengthLists::CHECK`].
    pub fn check_numbers(&self) -> [u32; 4] {
        let LengthRequest { tiles, batch, width, pages, .. } = self.request;
        [batch, width, pages, tiles.page.unwrap_or(1)]
    }

    /// The values of [`LengthLists::TILES`].
    pub fn tiles_numbers(&self) -> [u32; 15] {
        let LengthRequest { tiles, batch, heads, key_heads, queries, ctas, .. } = self.request;
        let part_words = if tiles.split.is_some() { 4 } else { 0 };
        [
            batch,
            self.tiles_of_problem(),
            self.tile_rows(),
            tiles.rows,
            if tiles.uniform { 0 } else { tiles.rows / tiles.consumers },
            queries,
            heads / tiles.heads() / key_heads.max(1),
            tiles.heads(),
            tiles.consumers,
            tiles.step,
            (Self::LEAST_KEYS / tiles.step).max(1),
            u32::from(tiles.split.is_some()),
            ctas,
            4 * tiles.tile_words,
            4 * (tiles.tile_words - part_words),
        ]
    }
}
