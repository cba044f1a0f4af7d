//! The work of kernels whose tiles have several block rows: which rows go together, and the union of their columns.

use bsr_codegen::{Plan, Schedule as Order, SharedColumns, SplitForm, SplitK};

use super::alike::together;
use super::assign::assign;
use super::split_k::{self, Costs, Divisible, Role};
use super::split_rows::long;
use super::{BlockIndex, divide_long, group, in_rows, tile_columns};
use crate::Structure;

/// A row or a column beyond all others: TMA reads zeros there and writes nothing.
const OUTSIDE: u32 = 1 << 30;
/// Block rows that a work tile has room for.
const MOST: usize = SharedColumns::MASK_BITS as usize;
/// Columns of the union that the head of a CTA holds of its first tile.
const HEAD_COLUMNS: usize = 32;
/// What a tile costs in addition to its loads, in bytes: the pipeline is not full between two tiles.
const TILE_STAGES: u64 = 1;
/// Words of the smallest part of a union.
const LEAST: u32 = 4;

/// The lists of one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedWork {
    lists: Vec<Vec<SharedTile>>,
    /// The unions of all tiles of the first column of tiles, one behind another.
    columns: Vec<u32>,
    places: Option<u32>,
}

/// Some block rows under one column of tiles, or a part of their K.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SharedTile {
    c_col: u32,
    /// Its words of the unions.
    first: u32,
    count: u32,
    c_rows: [u32; MOST],
    a_rows: [u32; MOST],
    role: Role,
}

impl SharedTile {
    fn words(&self) -> [u32; SharedColumns::WORDS] {
        let mut words = [0; SharedColumns::WORDS];
        words[..3].copy_from_slice(&[self.c_col, self.first, self.count]);
        words[4..8].copy_from_slice(&self.c_rows);
        words[8..12].copy_from_slice(&self.a_rows);
        words[12..14].copy_from_slice(&self.role.words());
        words
    }
}

/// Block rows that share a tile.
struct Group {
    tile: SharedTile,
    cost: u64,
}

impl SharedWork {
    pub(super) fn new(plan: &Plan, form: &SharedColumns, structure: &Structure, n: usize, clusters: u32) -> Self {
        let index = BlockIndex::new(plan, structure);
        let mut columns = vec![];
        let groups = groups(form, &index, &mut columns);
        let tile_columns = tile_columns(&plan.cluster_tile(), n);
        let together = group(plan, structure.stored(), index.cols);
        let mut tiles = vec![];
        for (number, some) in tile_columns.chunks(together).enumerate() {
            for i in 0..groups.len() {
                let group = &groups[if number % 2 == 0 { i } else { groups.len() - 1 - i }];
                tiles.extend(some.iter().map(|c_col| (SharedTile { c_col: *c_col, ..group.tile.clone() }, group.cost)));
            }
        }
        let clusters = clusters.max(1) as usize;
        let (lists, places) = match plan.split_form() {
            Some(split) => {
                let splittable = |tile: &SharedTile| SplitTile::new(form, &split, &columns, tile.clone());
                let column = || groups.iter().map(|group| splittable(&group.tile)).collect();
                let (lists, places) = match long(plan, structure, column, tile_columns.len(), clusters as u32) {
                    Some(limit) => {
                        let all: Vec<SplitTile<'_>> = tiles.iter().map(|(tile, _)| splittable(tile)).collect();
                        divide_long(&all, limit, clusters)
                    }
                    None => divided(plan, &tiles, splittable, clusters),
                };
                let lists = lists.into_iter().map(|list| list.into_iter().map(|tile| tile.tile).collect()).collect();
                (lists, Some(places))
            }
            None => (assigned(plan, &tiles, clusters.min(tiles.len()).max(1)), None),
        };
        Self { lists: if lists.is_empty() { vec![vec![]] } else { lists }, columns, places }
    }

    pub(super) fn ctas(&self) -> u32 {
        self.lists.len() as u32
    }

    /// The kernel's `work_head`: the number of tiles of every CTA, then the first words of each one's first union.
    pub(super) fn heads(&self) -> Vec<u32> {
        let mut words: Vec<u32> = self.lists.iter().map(|list| list.len() as u32).collect();
        for list in &self.lists {
            let mut head = [0; HEAD_COLUMNS];
            if let Some(tile) = list.first() {
                let union = &self.columns[tile.first as usize..][..tile.count as usize];
                head.iter_mut().zip(union).for_each(|(to, word)| *to = *word);
            }
            words.extend(head);
        }
        words
    }

    /// The kernel's `work`: tile `i` of CTA `c` is number `i * CTAs + c`.
    pub(super) fn words(&self) -> Vec<u32> {
        in_rows(self.lists.iter().map(Vec::as_slice), SharedTile::words)
    }

    /// The kernel's `columns`.
    pub(super) fn into_columns(self) -> Vec<u32> {
        self.columns
    }

    /// Bytes of the kernel's workspace.
    pub(super) fn workspace(&self, plan: &Plan) -> usize {
        self.places.unwrap_or(0) as usize * plan.split_form().map_or(0, |form| form.partial_bytes) as usize
    }
}

fn groups(form: &SharedColumns, index: &BlockIndex<'_>, columns: &mut Vec<u32>) -> Vec<Group> {
    let groups = together(index, form.pack as usize);
    groups.iter().map(|rows| group_of(form, index, rows, columns)).collect()
}

/// The block columns of some rows, with a bit for each row that has a block there.
fn union(index: &BlockIndex<'_>, rows: &[usize]) -> Vec<u32> {
    let mut stored: Vec<u32> = vec![];
    for (member, row) in rows.iter().enumerate() {
        let blocks = index.row_ptr[*row] as usize..index.row_ptr[row + 1] as usize;
        stored.extend(
            index.col_idx[blocks].iter().map(|column| (*column as u32) << SharedColumns::MASK_BITS | 1 << member),
        );
    }
    stored.sort_unstable();
    stored.dedup_by(|next, word| {
        let same = *next >> SharedColumns::MASK_BITS == *word >> SharedColumns::MASK_BITS;
        if same {
            *word |= *next;
        }
        same
    });
    stored
}

fn group_of(form: &SharedColumns, index: &BlockIndex<'_>, rows: &[usize], columns: &mut Vec<u32>) -> Group {
    let mut union = union(index, rows);
    let blocks: u64 = rows.iter().map(|row| (index.row_ptr[row + 1] - index.row_ptr[*row]) as u64).sum();
    if union.is_empty() {
        union.push((OUTSIDE / index.block.1 as u32) << SharedColumns::MASK_BITS);
    }
    let (mut c_rows, mut a_rows) = ([OUTSIDE; MOST], [0; MOST]);
    for (member, row) in rows.iter().enumerate() {
        c_rows[member] = *row as u32 * form.rows;
        a_rows[member] = index.row_ptr[*row] as u32 * form.rows;
    }
    let cost = (union.len() as u64 + TILE_STAGES) * u64::from(form.b_bytes) + blocks * u64::from(form.block_bytes);
    let tile = SharedTile {
        c_col: 0,
        first: columns.len() as u32,
        count: union.len() as u32,
        c_rows,
        a_rows,
        role: Role::Whole,
    };
    columns.extend(union);
    Group { tile, cost }
}

fn assigned(plan: &Plan, tiles: &[(SharedTile, u64)], ctas: usize) -> Vec<Vec<SharedTile>> {
    let balanced = plan.spec().schedule != Some(Order::Strided);
    // Numbers are assigned, since tiles are no small values.
    let numbered: Vec<(usize, u64)> = tiles.iter().enumerate().map(|(number, (_, cost))| (number, *cost)).collect();
    let lists = if numbered.is_empty() { vec![] } else { assign(&numbered, ctas, balanced) };
    lists.into_iter().map(|list| list.into_iter().map(|number| tiles[number].0.clone()).collect()).collect()
}

/// A tile whose K can be divided.
#[derive(Clone)]
struct SplitTile<'u> {
    tile: SharedTile,
    columns: &'u [u32],
    /// Rows of a block.
    rows: u32,
    costs: Costs,
}

impl<'u> SplitTile<'u> {
    fn new(form: &SharedColumns, split: &SplitForm, columns: &'u [u32], tile: SharedTile) -> Self {
        // Bytes are the unit of cost; an average column of a union has that many.
        let unit = u64::from(form.b_bytes + form.block_bytes);
        let exchange = unit + u64::from(split.partial_bytes);
        let costs = Costs { unit, tile: unit, contribute: exchange, collect: exchange, least: LEAST };
        Self { tile, columns, rows: form.rows, costs }
    }
}

impl Divisible for SplitTile<'_> {
    fn units(&self) -> u32 {
        self.tile.count
    }

    fn costs(&self) -> Costs {
        self.costs
    }

    fn role(&self) -> Role {
        self.tile.role
    }

    fn part(&self, first: u32, units: u32, role: Role) -> Self {
        let skipped = &self.columns[self.tile.first as usize..][..first as usize];
        let mut a_rows = self.tile.a_rows;
        for (member, row) in a_rows.iter_mut().enumerate() {
            *row += self.rows * skipped.iter().filter(|word| **word >> member & 1 == 1).count() as u32;
        }
        let tile = SharedTile { first: self.tile.first + first, count: units, a_rows, role, ..self.tile.clone() };
        Self { tile, ..self.clone() }
    }
}

fn divided<'u>(
    plan: &Plan,
    tiles: &[(SharedTile, u64)],
    splittable: impl Fn(&SharedTile) -> SplitTile<'u>,
    ctas: usize,
) -> (Vec<Vec<SplitTile<'u>>>, u32) {
    match plan.spec().split {
        SplitK::Parts(parts) => split_k::divide(tiles.iter().map(|(tile, _)| splittable(tile)), parts, ctas),
        SplitK::Auto | SplitK::Long | SplitK::Off => {
            let lists = assigned(plan, tiles, ctas.min(tiles.len()).max(1));
            let mut lists: Vec<Vec<SplitTile<'_>>> =
                lists.iter().map(|list| list.iter().map(&splittable).collect()).collect();
            lists.resize(lists.len().max(ctas), vec![]);
            split_k::split(lists)
        }
    }
}
