//! The work of a sampled product: which CTA computes which stored blocks.
//!
//! A tile is rows of one block row, or of a few small ones, by a few of their stored blocks. Tiles are listed along the
//! block rows, so that those that run at the same time share rows of one factor and, all of them walking K alike, find
//! the other one's columns in L2; they are dealt in that order to whichever CTA would be free first. What then is left
//! over by some and missed by others is shared: see [`share`].

mod share;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bsr_codegen::{Plan, Schedule as Order, SddmmTiles};

use crate::Structure;

/// A row, column or block beyond all others: TMA reads zeros there and writes nothing.
const OUTSIDE: u32 = 1 << 30;

/// The tiles of a sampled product, dealt to CTAs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledWork {
    tiles: SddmmTiles,
    /// The items of each CTA, in the order in which it takes them.
    lists: Vec<Vec<Item>>,
    /// Places in the workspace.
    places: u32,
}

/// A tile, or a part of its K.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    row: u32,
    /// The number of its problem in a batch.
    problem: u32,
    /// First stage of K, and how many.
    first: u32,
    stages: u32,
    half: bool,
    /// There is no K: what is multiplied lies outside, and is zero.
    outside: bool,
    /// First row within the block.
    in_block: u32,
    slots: Vec<Slot>,
    role: Role,
}

/// How much of its tile's sums an item computes, and where the others are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// All of them.
    Whole,
    /// A part, for another CTA: it goes to this place in the workspace.
    Contributes { place: u32 },
    /// A part, to which those in so many places from `place` on are added.
    Collects { parts: u32, place: u32 },
}

/// Columns of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    /// First column in the factor, and in the block.
    column: u32,
    in_block: u32,
    /// The stored blocks, one for each block row of the tile.
    blocks: Vec<u32>,
}

impl SampledWork {
    /// Lists and deals the tiles of a product whose stored blocks are those of `structure`, over `k` elements of K, to
    /// at most `ctas` CTAs. None of them is idle, unless there is no block at all.
    ///
    /// The structure's rows are those of the stored matrix: of C^T for a kernel with `transpose = on`. `None` for a
    /// kernel of another operation.
    pub fn new(plan: &Plan, structure: &Structure, k: usize, ctas: u32) -> Option<Self> {
        let tiles = plan.sddmm_tiles()?;
        let items = list(&tiles, structure, k, 0);
        Some(match plan.spec().schedule {
            Some(Order::Balanced) => {
                let (lists, places) = share::share(deal(items, ctas.max(1) as usize));
                Self { tiles, lists, places }
            }
            order => Self::whole(tiles, items, order, ctas),
        })
    }

    /// Lists and deals the tiles of a batch: of problems that are a structure and elements of K each, one after the other,
    /// so that tiles that run at the same time are mostly of one problem. `None` for a kernel of another operation.
    pub fn batch(plan: &Plan, problems: &[(&Structure, usize)], ctas: u32) -> Option<Self> {
        let tiles = plan.sddmm_tiles()?;
        let of = |(number, (structure, k)): (usize, &(&Structure, usize))| list(&tiles, structure, *k, number as u32);
        let items = problems.iter().enumerate().flat_map(of).collect();
        Some(Self::whole(tiles, items, plan.spec().schedule, ctas))
    }

    /// Deals whole tiles.
    fn whole(tiles: SddmmTiles, items: Vec<Item>, order: Option<Order>, ctas: u32) -> Self {
        let lists = match order {
            Some(Order::Strided) => {
                let ctas = (ctas as usize).min(items.len()).max(1);
                let mut lists = vec![vec![]; ctas];
                items.into_iter().enumerate().for_each(|(i, item)| lists[i % ctas].push(item));
                lists
            }
            // CTAs that share K finish together on paper, and on an H200 later: 356 TFLOP/s against 488 (benches/LOG.md, 21).
            _ => {
                let mut lists = deal(items, ctas.max(1) as usize);
                lists.retain(|list| !list.is_empty());
                lists
            }
        };
        Self { tiles, lists, places: 0 }
    }

    /// CTAs that have work; 0 if no block is stored.
    pub fn ctas(&self) -> u32 {
        self.lists.iter().filter(|list| !list.is_empty()).count() as u32
    }

    /// Bytes of the kernel's workspace.
    pub fn workspace(&self) -> usize {
        self.places as usize * self.tiles.partial_bytes as usize
    }

    /// The kernel's `work_head`: the number of items of every CTA.
    pub fn heads(&self) -> Vec<u32> {
        self.lists.iter().map(|list| list.len() as u32).collect()
    }

    /// The kernel's `work`: item `i` of CTA `c` is item number `i * ctas + c`. Short lists are padded with zeros.
    pub fn words(&self) -> Vec<u32> {
        let (ctas, size) = (self.lists.len(), self.tiles.tile_words as usize);
        let rounds = self.lists.iter().map(Vec::len).max().unwrap_or(0);
        let mut words = vec![0; rounds * ctas * size];
        for (cta, list) in self.lists.iter().enumerate() {
            for (round, item) in list.iter().enumerate() {
                item.write(&self.tiles, &mut words[(round * ctas + cta) * size..][..size]);
            }
        }
        words
    }
}

impl Item {
    /// Writes the item as the kernel reads it; see `bsr_codegen`'s plan of sampled products.
    fn write(&self, tiles: &SddmmTiles, words: &mut [u32]) {
        let (parts, place) = match self.role {
            Role::Whole => (0, 0),
            Role::Contributes { place } => (SddmmTiles::CONTRIBUTES, place),
            Role::Collects { parts, place } => (parts, place),
        };
        let k = if self.outside { OUTSIDE } else { self.first * tiles.k_step };
        words[..8].copy_from_slice(&[
            self.row,
            k,
            self.stages,
            u32::from(self.half),
            self.in_block,
            self.problem,
            parts,
            place,
        ]);
        let (columns, stores) = words[SddmmTiles::HEADER as usize..].split_at_mut(tiles.column_groups as usize);
        columns.fill(OUTSIDE);
        stores.fill(OUTSIDE);
        let size = 1 + tiles.pack as usize;
        for (at, slot) in self.slots.iter().enumerate() {
            columns[at] = slot.column;
            stores[at * size] = slot.in_block;
            stores[at * size + 1..][..slot.blocks.len()].copy_from_slice(&slot.blocks);
        }
    }
}

/// The tiles of problem `problem`, along the block rows, each over `k` elements of K.
fn list(tiles: &SddmmTiles, structure: &Structure, k: usize, problem: u32) -> Vec<Item> {
    let stages = (k as u64).div_ceil(u64::from(tiles.k_step)).max(1) as u32;
    let (bm, bk) = structure.block();
    let pack = tiles.pack as usize;
    let mut items = vec![];
    for first in (0..structure.block_rows()).step_by(pack) {
        let rows = first..(first + pack).min(structure.block_rows());
        let slots = slots(tiles, structure, rows, bk);
        for slice in 0..tiles.slices {
            let (row, in_block) = ((first * bm) as u32 + slice * tiles.rows, slice * tiles.rows);
            // The last block row may hang over the end of the matrix by whole tiles, whose elements are zeros.
            items.extend(slots.chunks(tiles.column_groups as usize).map(|slots| Item {
                row,
                problem,
                first: 0,
                stages,
                half: tiles.half.is_some_and(|half| slots.len() <= half as usize),
                outside: k == 0,
                in_block,
                slots: slots.to_vec(),
                role: Role::Whole,
            }));
        }
    }
    items
}

/// The slots of some block rows: the parts of every block column in which one of them has a block.
fn slots(tiles: &SddmmTiles, structure: &Structure, rows: std::ops::Range<usize>, bk: usize) -> Vec<Slot> {
    let mut stored: Vec<(i32, usize, usize)> = rows
        .clone()
        .flat_map(|row| structure.blocks_of(row).map(move |block| (row, block)))
        .map(|(row, block)| (structure.col_idx()[block], row - rows.start, block))
        .collect();
    stored.sort_unstable();
    let mut slots = vec![];
    for column in stored.chunk_by(|one, next| one.0 == next.0) {
        let mut blocks = vec![OUTSIDE; tiles.pack as usize];
        column.iter().for_each(|&(_, row, block)| blocks[row] = block as u32);
        let first = (column[0].0 as usize * bk) as u32;
        slots.extend((0..tiles.groups_per_block).map(|part| Slot {
            column: first + part * tiles.group_columns,
            in_block: part * tiles.group_columns,
            blocks: blocks.clone(),
        }));
    }
    slots
}

/// Deals the items in their order, each to the CTA that would be free first. There may be CTAs without items.
fn deal(items: Vec<Item>, ctas: usize) -> Vec<Vec<Item>> {
    let mut lists = vec![vec![]; ctas];
    let mut free: BinaryHeap<Reverse<(u64, usize)>> = (0..ctas).map(|cta| Reverse((0, cta))).collect();
    for item in items {
        let Reverse((busy, cta)) = free.pop().unwrap_or(Reverse((0, 0)));
        free.push(Reverse((busy + share::cost(&item), cta)));
        lists[cta].push(item);
    }
    lists
}

#[cfg(test)]
mod tests;
