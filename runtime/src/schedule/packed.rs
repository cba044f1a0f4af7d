//! The work of a kernel whose tiles hold several block rows: the pattern as records, a stage each, and tiles of them.
//!
//! A tile walks the union of its block rows' columns. The records of a tile are the same under every tile of columns,
//! so the pattern is packed once, and an item says where its records are.

use bsr_codegen::StagePacking;

use super::{Tile, Walked, WorkItem};

/// Words of a record: two for each lane of a warp.
const RECORD: usize = 64;
/// The lane that knows the totals of a stage.
const TOTALS: usize = 31;

/// A pattern as stages of a tile's pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// The records, [`RECORD`] words each.
    pub(super) words: Vec<u32>,
    /// First record of every group of block rows; one more entry than there are groups.
    pub(super) groups: Vec<u32>,
}

/// A stored block and where it stands.
#[derive(Clone, Copy)]
struct Stored {
    column: u32,
    /// Block row within the tile.
    row: u32,
    number: u32,
}

impl Packed {
    /// Words of a record.
    pub(super) const WORDS: usize = RECORD;

    pub(super) fn new(packing: &StagePacking, walked: &Walked<'_>) -> Self {
        let mut packed = Self { words: vec![], groups: vec![0] };
        let block_rows: Vec<&[i32]> = walked.row_ptr.windows(2).collect();
        for rows in block_rows.chunks(packing.pack as usize) {
            let mut stored: Vec<Stored> = vec![];
            for (row, ends) in rows.iter().enumerate() {
                stored.extend((ends[0] as usize..ends[1] as usize).map(|place| Stored {
                    column: walked.col_idx[place] as u32,
                    row: row as u32,
                    number: walked.block_idx.map_or(place as u32, |numbers| numbers[place] as u32),
                }));
            }
            stored.sort_unstable_by_key(|block| (block.column, block.row));
            packed.push_group(packing, &stored);
            packed.groups.push((packed.words.len() / RECORD) as u32);
        }
        packed
    }

    /// The records of one tile: slabs in ascending order of K, as many to a stage as fit with their blocks. Where a stage
    /// is full in the middle of a column, the next one begins with the same slab. A tile without blocks has one record
    /// without work.
    fn push_group(&mut self, packing: &StagePacking, stored: &[Stored]) {
        let mut stage = Stage::new(packing);
        for column in stored.chunk_by(|a, b| a.column == b.column) {
            for chunk in 0..packing.k_slices {
                for part in column.chunks(packing.blocks as usize) {
                    if !stage.has_room(part.len()) {
                        self.words.extend(stage.finish());
                    }
                    stage.push(part, chunk);
                }
            }
        }
        if stage.slabs > 0 || stored.is_empty() {
            self.words.extend(stage.finish());
        }
    }

    /// The tiles of the first column: one for every group of block rows and row slice.
    pub(super) fn tiles(&self, packing: &StagePacking, rows: usize) -> Vec<Tile> {
        let mut tiles = vec![];
        let group_rows = packing.pack * packing.rows * packing.slices;
        for (group, ends) in self.groups.windows(2).enumerate() {
            let cost = self.cost(packing, ends[0], ends[1]);
            for slice in 0..packing.slices {
                let c_row = group as u32 * group_rows + slice * packing.rows;
                if (c_row as usize) < rows {
                    let item = WorkItem { c_row, c_col: 0, a_row: ends[0], blocks: ends[1] - ends[0] };
                    tiles.push(Tile { item, cost });
                }
            }
        }
        tiles
    }

    /// What a tile costs: the kibibytes that its stages load, and as much again as a slab for its beginning and end.
    fn cost(&self, packing: &StagePacking, first: u32, end: u32) -> u64 {
        let bytes = |record: u32| u64::from(self.words[record as usize * RECORD + 2 * TOTALS]);
        ((first..end).map(bytes).sum::<u64>() + u64::from(packing.b_panel_bytes)) >> 10
    }
}

/// A record in the making.
struct Stage<'p> {
    packing: &'p StagePacking,
    words: [u32; RECORD],
    slabs: u32,
    /// Block row, number and note of every block.
    blocks: Vec<[u32; 3]>,
}

impl<'p> Stage<'p> {
    fn new(packing: &'p StagePacking) -> Self {
        Self { packing, words: [0; RECORD], slabs: 0, blocks: vec![] }
    }

    fn has_room(&self, blocks: usize) -> bool {
        self.slabs < self.packing.b_panels && self.blocks.len() + blocks <= self.packing.blocks as usize
    }

    /// A slab and the blocks that it is multiplied with.
    fn push(&mut self, column: &[Stored], chunk: u32) {
        let p = self.packing;
        let place = chunk * p.k_slice;
        let at = if p.by_block { column[0].column } else { column[0].column * p.depth + place };
        self.lane(self.slabs, [at, place << 16]);
        let slab = self.slabs;
        self.blocks.extend(column.iter().map(|block| [block.row, block.number, place << 16 | slab << 8 | block.row]));
        self.slabs += 1;
    }

    fn lane(&mut self, lane: u32, words: [u32; 2]) {
        self.words[2 * lane as usize..][..2].copy_from_slice(&words);
    }

    /// The record, blocks in the order of their block rows; the stage begins anew.
    fn finish(&mut self) -> [u32; RECORD] {
        let Self { packing, slabs, .. } = *self;
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.sort_by_key(|[row, ..]| *row);
        for (p, [_, number, note]) in blocks.iter().enumerate() {
            self.lane(packing.b_panels + p as u32, [*number, *note]);
        }
        let count = blocks.len() as u32;
        let bytes = slabs * packing.b_panel_bytes + count * packing.block_bytes;
        self.lane(TOTALS as u32, [bytes, slabs << 8 | count]);
        std::mem::replace(self, Self::new(packing)).words
    }
}
