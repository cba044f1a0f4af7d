//! The work of an SDDMM: which CTA computes which stored blocks.
//!
//! A tile is rows of one block row, or of a few small ones, by a few of their stored blocks. Tiles are listed along the
//! block rows, so that concurrent tiles share rows of one factor. All of them take K in the same order, so that they
//! also find columns of the other factor in L2. In this order each tile is assigned to whichever CTA would be free
//! first. The K of the last tiles can then be divided, so that CTAs finish together: see [`split`].

use bsr_codegen::{Plan, Schedule, SddmmTiles, TileScheduler};

use super::tile::in_rows;
use super::{Costs, Divisible, Policy, Role, assign, split};
use crate::Structure;

/// The tiles of an SDDMM, assigned to CTAs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SddmmWork {
    form: SddmmTiles,
    /// The work tiles of each CTA, in the order in which it takes them.
    lists: Vec<Vec<SddmmWorkTile>>,
    /// Places in the workspace.
    places: u32,
}

/// A tile, or a part of its K.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SddmmWorkTile {
    row: u32,
    /// The number of its problem in a batch.
    problem: u32,
    /// First stage of K, and how many.
    first: u32,
    stages: u32,
    half: bool,
    /// K is 0: the elements that are multiplied lie outside the factors, where TMA reads zeros.
    outside: bool,
    /// First row within the block.
    in_block: u32,
    groups: Vec<ColumnGroup>,
    role: Role,
}

/// Columns of one block column, which a tile gathers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ColumnGroup {
    /// First column in the factor, and in the block.
    column: u32,
    in_block: u32,
    /// The stored blocks, one for each block row of the tile.
    blocks: Vec<u32>,
}

impl SddmmWork {
    /// Lists and assigns the tiles of a product whose stored blocks are those of `structure`, over `k` elements of K,
    /// to at most `ctas` CTAs. No CTA is idle unless no block is stored.
    ///
    /// The structure's rows are those of the stored matrix: of C^T for a kernel with `transpose = on`. `None` for a
    /// kernel of another operation.
    pub fn new(plan: &Plan, structure: &Structure, k: usize, ctas: u32) -> Option<Self> {
        let form = plan.sddmm_tiles()?;
        let tiles = list(&form, structure, k, 0);
        let whole = Self::whole(plan, form, tiles, ctas);
        Some(match plan.spec().schedule {
            Some(Schedule::Balanced) => {
                let mut lists = whole.lists;
                lists.resize(ctas.max(1) as usize, vec![]);
                let (lists, places) = split(lists);
                Self { form, lists, places }
            }
            Some(Schedule::Strided) | None => whole,
        })
    }

    /// Lists and assigns the tiles of a batch, whose problems are a structure and a number of elements of K each. The
    /// tiles of one problem follow those of another, so that concurrent tiles are mostly of one problem. `None` for a
    /// kernel of another operation.
    pub fn batch(plan: &Plan, problems: &[(&Structure, usize)], ctas: u32) -> Option<Self> {
        let form = plan.sddmm_tiles()?;
        let of = |(number, (structure, k)): (usize, &(&Structure, usize))| list(&form, structure, *k, number as u32);
        let tiles = problems.iter().enumerate().flat_map(of).collect();
        Some(Self::whole(plan, form, tiles, ctas))
    }

    /// Assigns tiles with all of their K.
    fn whole(plan: &Plan, form: SddmmTiles, tiles: Vec<SddmmWorkTile>, ctas: u32) -> Self {
        let policy = match plan.spec().schedule {
            Some(Schedule::Strided) => Policy::RoundRobin,
            Some(Schedule::Balanced) | None => Policy::InOrder,
        };
        let mut lists = assign(tiles, policy, Divisible::cost, ctas.max(1) as usize);
        lists.retain(|list| !list.is_empty());
        Self { form, lists, places: 0 }
    }

    /// CTAs that have work; 0 if no block is stored.
    pub fn ctas(&self) -> u32 {
        self.lists.iter().filter(|list| !list.is_empty()).count() as u32
    }

    /// Bytes of the kernel's workspace.
    pub fn workspace(&self) -> usize {
        self.places as usize * self.form.partial_bytes as usize
    }

    /// The kernel's `work_head`: the number of work tiles of every CTA.
    pub fn heads(&self) -> Vec<u32> {
        self.lists.iter().map(|list| list.len() as u32).collect()
    }

    /// The kernel's `work`: work tile `i` of CTA `c` is number `i * ctas + c`. Short lists are padded with zeros.
    pub fn words(&self) -> Vec<u32> {
        in_rows(self.lists.iter().map(Vec::as_slice), |tile| tile.words(&self.form))
    }
}

impl SddmmWorkTile {
    /// As the kernel reads it; see the SDDMM plan of `bsr_codegen`.
    fn words(&self, form: &SddmmTiles) -> Vec<u32> {
        let [parts, place] = self.role.words();
        let k = if self.outside { TileScheduler::OUTSIDE } else { self.first * form.k_step };
        let mut words = vec![self.row, k, self.stages, u32::from(self.half), self.in_block, self.problem, parts, place];
        words.extend(self.groups.iter().map(|group| group.column));
        words.resize((SddmmTiles::HEADER + form.column_groups) as usize, TileScheduler::OUTSIDE);
        for group in &self.groups {
            words.push(group.in_block);
            words.extend(&group.blocks);
        }
        words.resize(form.tile_words as usize, TileScheduler::OUTSIDE);
        words
    }
}

/// The tiles of problem `problem`, along the block rows, each over `k` elements of K.
fn list(form: &SddmmTiles, structure: &Structure, k: usize, problem: u32) -> Vec<SddmmWorkTile> {
    let stages = (k as u64).div_ceil(u64::from(form.k_step)).max(1) as u32;
    let (bm, bk) = structure.block();
    let pack = form.pack as usize;
    let mut tiles = vec![];
    for first in (0..structure.block_rows()).step_by(pack) {
        let rows = first..(first + pack).min(structure.block_rows());
        let groups = column_groups(form, structure, rows, bk);
        for slice in 0..form.slices {
            let (row, in_block) = ((first * bm) as u32 + slice * form.rows, slice * form.rows);
            // The last block row may extend beyond the end of the matrix by whole tiles, whose elements are zeros.
            tiles.extend(groups.chunks(form.column_groups as usize).map(|groups| SddmmWorkTile {
                row,
                problem,
                first: 0,
                stages,
                half: form.half.is_some_and(|half| groups.len() <= half as usize),
                outside: k == 0,
                in_block,
                groups: groups.to_vec(),
                role: Role::Whole,
            }));
        }
    }
    tiles
}

/// The column groups of some block rows: those of every block column in which one of the rows has a block.
fn column_groups(
    form: &SddmmTiles,
    structure: &Structure,
    rows: std::ops::Range<usize>,
    bk: usize,
) -> Vec<ColumnGroup> {
    let mut stored: Vec<(i32, usize, usize)> = rows
        .clone()
        .flat_map(|row| structure.blocks_of(row).map(move |block| (row, block)))
        .map(|(row, block)| (structure.col_idx()[block], row - rows.start, block))
        .collect();
    stored.sort_unstable();
    let mut groups = vec![];
    for column in stored.chunk_by(|one, next| one.0 == next.0) {
        let mut blocks = vec![TileScheduler::OUTSIDE; form.pack as usize];
        column.iter().for_each(|&(_, row, block)| blocks[row] = block as u32);
        let first = (column[0].0 as usize * bk) as u32;
        groups.extend((0..form.groups_per_block).map(|part| ColumnGroup {
            column: first + part * form.group_columns,
            in_block: part * form.group_columns,
            blocks: blocks.clone(),
        }));
    }
    groups
}

impl Divisible for SddmmWorkTile {
    fn units(&self) -> u32 {
        self.stages
    }

    fn costs(&self) -> Costs {
        Costs::of_sddmm(self.half)
    }

    fn role(&self) -> Role {
        self.role
    }

    fn part(&self, first: u32, units: u32, role: Role) -> Self {
        Self { first: self.first + first, stages: units, role, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
