//! Stage metadata: the pattern as a kernel of several block rows a tile takes it, one record for every pipeline stage,
//! and the tiles that are made of these records.
//!
//! A tile computes with the union of the block columns of its block rows. The records of a tile are the same under
//! every column of tiles, so the metadata is made once for a pattern, and a work tile says where its records are.

use bsr_codegen::StagePacking;

use super::{BlockIndex, Role, WorkTile, record_tile};

/// Words of a record: two for each lane of a warp.
const RECORD: usize = 64;
/// The lane that has the totals of a stage.
const TOTALS: usize = 31;

/// The stage metadata of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StageMetadata {
    /// The records, [`RECORD`] words each.
    pub(super) words: Vec<u32>,
    /// First record of every group of block rows; one more entry than there are groups.
    pub(super) groups: Vec<u32>,
}

/// A stored block and where it stands.
#[derive(Clone, Copy)]
struct StoredBlock {
    column: u32,
    /// Block row within the tile.
    row: u32,
    number: u32,
}

impl StageMetadata {
    /// Words of a record.
    pub(super) const WORDS: usize = RECORD;

    pub(super) fn new(packing: &StagePacking, index: &BlockIndex<'_>) -> Self {
        let mut metadata = Self { words: vec![], groups: vec![0] };
        let block_rows: Vec<&[i64]> = index.row_ptr.windows(2).collect();
        for rows in block_rows.chunks(packing.pack as usize) {
            let mut stored: Vec<StoredBlock> = vec![];
            for (row, ends) in rows.iter().enumerate() {
                stored.extend((ends[0] as usize..ends[1] as usize).map(|place| StoredBlock {
                    column: index.col_idx[place] as u32,
                    row: row as u32,
                    number: index.block_idx.map_or(place as u32, |numbers| numbers[place] as u32),
                }));
            }
            stored.sort_unstable_by_key(|block| (block.column, block.row));
            metadata.push_group(packing, &stored);
            metadata.groups.push((metadata.words.len() / RECORD) as u32);
        }
        metadata
    }

    /// The records of one tile. A stage takes B panels in ascending order of K, as many as fit together with their
    /// blocks. Where a stage is full in the middle of a column, the next one begins with the same B panel. A tile
    /// without blocks has one record without work.
    fn push_group(&mut self, packing: &StagePacking, stored: &[StoredBlock]) {
        let mut stage = StageRecord::new(packing);
        for column in stored.chunk_by(|a, b| a.column == b.column) {
            for k_slice in 0..packing.k_slices {
                for part in column.chunks(packing.blocks as usize) {
                    if !stage.takes(part.len()) {
                        self.words.extend(stage.finish());
                    }
                    stage.push(part, k_slice);
                }
            }
        }
        if stage.b_panels > 0 || stored.is_empty() {
            self.words.extend(stage.finish());
        }
    }

    /// The tiles of the first column with their costs: one for every group of block rows and row slice.
    pub(super) fn tiles(&self, packing: &StagePacking, rows: usize) -> Vec<(WorkTile, u64)> {
        let mut tiles = vec![];
        let group_rows = packing.pack * packing.rows * packing.slices;
        for (group, ends) in self.groups.windows(2).enumerate() {
            let cost = record_tile(packing, self.bytes(ends[0], ends[1]));
            for slice in 0..packing.slices {
                let c_row = group as u32 * group_rows + slice * packing.rows;
                if (c_row as usize) < rows {
                    let (a_row, blocks) = (ends[0], ends[1] - ends[0]);
                    let tile = WorkTile { c_row, c_col: 0, a_row, blocks, role: Role::Whole };
                    tiles.push((tile, cost));
                }
            }
        }
        tiles
    }

    /// The bytes that some records load.
    pub(super) fn bytes(&self, first: u32, end: u32) -> u64 {
        (first..end).map(|record| u64::from(self.words[record as usize * RECORD + 2 * TOTALS])).sum()
    }
}

/// The record of a stage while it is filled.
struct StageRecord<'p> {
    packing: &'p StagePacking,
    words: [u32; RECORD],
    b_panels: u32,
    /// Block row of every block, its number, and the word that describes it.
    blocks: Vec<[u32; 3]>,
}

impl<'p> StageRecord<'p> {
    fn new(packing: &'p StagePacking) -> Self {
        Self { packing, words: [0; RECORD], b_panels: 0, blocks: vec![] }
    }

    fn takes(&self, blocks: usize) -> bool {
        self.b_panels < self.packing.b_panels && self.blocks.len() + blocks <= self.packing.blocks as usize
    }

    /// Adds a B panel and the blocks that it is multiplied with.
    fn push(&mut self, column: &[StoredBlock], k_slice: u32) {
        let p = self.packing;
        let offset = k_slice * p.k_slice;
        let at = if p.by_block { column[0].column } else { column[0].column * p.depth + offset };
        self.lane(self.b_panels, [at, offset << 16]);
        let b_panel = self.b_panels;
        self.blocks
            .extend(column.iter().map(|block| [block.row, block.number, offset << 16 | b_panel << 8 | block.row]));
        self.b_panels += 1;
    }

    fn lane(&mut self, lane: u32, words: [u32; 2]) {
        self.words[2 * lane as usize..][..2].copy_from_slice(&words);
    }

    /// The finished record, with blocks in the order of their block rows. An empty record takes its place.
    fn finish(&mut self) -> [u32; RECORD] {
        let Self { packing, b_panels, .. } = *self;
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.sort_by_key(|[row, ..]| *row);
        for (p, [_, number, description]) in blocks.iter().enumerate() {
            self.lane(packing.b_panels + p as u32, [*number, *description]);
        }
        let count = blocks.len() as u32;
        let bytes = b_panels * packing.b_panel_bytes + count * packing.block_bytes;
        self.lane(TOTALS as u32, [bytes, b_panels << 8 | count]);
        std::mem::replace(self, Self::new(packing)).words
    }
}
