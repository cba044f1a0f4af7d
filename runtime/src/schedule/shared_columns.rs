//! The work of kernels whose tiles have several block rows: groups of similar rows, and the union of their columns.

use bsr_codegen::{Plan, SharedColumns, SplitForm, TileScheduler};

use super::columns::{columns_held, columns_together};
use super::tile::{heads, in_rows, lists_of};
use super::tiles::{policy, tile_columns};
use super::{
    BlockIndex, Costs, Divisible, Place, Role, TileGrid, assign, divide_k, group_similar_rows, longest_part, union_tile,
};
use crate::Structure;

/// Block rows that a work tile has room for.
pub(super) const MOST: usize = SharedColumns::MASK_BITS as usize;

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
pub(super) struct SharedTile {
    pub(super) c_col: u32,
    /// Its words of the unions.
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) c_rows: [u32; MOST],
    pub(super) a_rows: [u32; MOST],
    pub(super) role: Role,
}

impl SharedTile {
    pub(super) fn words(&self) -> [u32; SharedColumns::WORDS] {
        let mut words = [0; SharedColumns::WORDS];
        words[..3].copy_from_slice(&[self.c_col, self.first, self.count]);
        words[4..8].copy_from_slice(&self.c_rows);
        words[8..12].copy_from_slice(&self.a_rows);
        words[12..14].copy_from_slice(&self.role.words());
        words
    }
}

impl SharedWork {
    pub(super) fn new(plan: &Plan, form: &SharedColumns, structure: &Structure, n: usize, clusters: u32) -> Self {
        let index = BlockIndex::new(plan, structure);
        let mut columns = vec![];
        let (groups, costs): (Vec<SharedTile>, Vec<u64>) = groups(form, &index, &mut columns).into_iter().unzip();
        let tile_columns = tile_columns(&plan.cluster_tile(), n);
        let group = columns_together(plan, &index, n, clusters as usize);
        let grid = TileGrid { costs: &costs, columns: tile_columns.len(), group };
        let at = |place: Place| {
            let c_col = tile_columns[place.column as usize];
            SharedTile { c_col, ..groups[place.row as usize].clone() }
        };
        let clusters = clusters.max(1) as usize;
        let whole = || {
            let places: Vec<Place> = grid.order().collect();
            let clusters = clusters.min(places.len()).max(1);
            assign(places, policy(plan), |place| grid.cost(place), clusters)
        };
        let (lists, places) = match plan.split_form() {
            Some(split) => {
                let splittable = |tile: SharedTile| SplitTile::new(form, &split, &columns, tile);
                let column = || groups.iter().cloned().map(splittable).collect();
                let limit = longest_part(plan, column, tile_columns.len(), columns_held(plan, index.cols), clusters);
                let all = grid.order().map(|place| splittable(at(place)));
                let whole = || lists_of(whole(), |place| splittable(at(place)));
                let (lists, places) = divide_k(plan.spec().split, limit, all, whole, clusters);
                (lists_of(lists, |tile| tile.tile), Some(places))
            }
            None => (lists_of(whole(), at), None),
        };
        Self { lists: if lists.is_empty() { vec![vec![]] } else { lists }, columns, places }
    }

    pub(super) fn ctas(&self) -> u32 {
        self.lists.len() as u32
    }

    /// The kernel's `work_head`: the number of tiles of every CTA, then the first words of each one's first union.
    pub(super) fn heads(&self) -> Vec<u32> {
        let union = |tile: &SharedTile| self.columns[tile.first as usize..][..tile.count as usize].iter().copied();
        heads(self.lists.iter().map(Vec::as_slice), union)
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

/// The tiles of the first column with their costs.
fn groups(form: &SharedColumns, index: &BlockIndex<'_>, columns: &mut Vec<u32>) -> Vec<(SharedTile, u64)> {
    let groups = group_similar_rows(index, form.pack as usize);
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

fn group_of(form: &SharedColumns, index: &BlockIndex<'_>, rows: &[usize], columns: &mut Vec<u32>) -> (SharedTile, u64) {
    let mut union = union(index, rows);
    let blocks: u64 = rows.iter().map(|row| (index.row_ptr[row + 1] - index.row_ptr[*row]) as u64).sum();
    if union.is_empty() {
        union.push((TileScheduler::OUTSIDE / index.block.1 as u32) << SharedColumns::MASK_BITS);
    }
    let (mut c_rows, mut a_rows) = ([TileScheduler::OUTSIDE; MOST], [0; MOST]);
    for (member, row) in rows.iter().enumerate() {
        c_rows[member] = *row as u32 * form.rows;
        a_rows[member] = index.row_ptr[*row] as u32 * form.rows;
    }
    let cost = union_tile(form, union.len() as u64, blocks);
    let tile = SharedTile {
        c_col: 0,
        first: columns.len() as u32,
        count: union.len() as u32,
        c_rows,
        a_rows,
        role: Role::Whole,
    };
    columns.extend(union);
    (tile, cost)
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
        Self { tile, columns, rows: form.rows, costs: Costs::of_union(form, split) }
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
