//! The tiles of C, and the words of lists of them.

use bsr_codegen::{ClusterTile, TileScheduler};

use super::split_k::Role;

/// One output tile of a cluster: the four 32-bit words that the kernel loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTile {
    /// First row of C, in elements; where B is sparse, first column.
    pub c_row: u32,
    /// First column of C, in elements; where B is sparse, first row.
    pub c_col: u32,
    /// First row of A's values seen as an `[nnzb * bm, bk]` matrix: the row's first block, plus the tile's
    /// offset inside a block. Where the sparse operand is read by block columns, its blocks are in the order of the
    /// transposed index, `bk` rows each.
    pub a_row: u32,
    /// Stored blocks of the block row; 0 writes zeros. With stage metadata, `a_row` is the first record and this is the
    /// number of records.
    pub blocks: u32,
    /// How much of K it is, of a kernel with `split`.
    pub role: Role,
}

impl WorkTile {
    pub(super) fn words(&self) -> [u32; 4] {
        [self.c_row, self.c_col, self.a_row, self.blocks]
    }

    /// As kernels with `split` read it.
    pub(super) fn split_words(&self) -> [u32; 8] {
        let ([c_row, c_col, a_row, blocks], [parts, place]) = (self.words(), self.role.words());
        [c_row, c_col, a_row, blocks, parts, place, 0, 0]
    }
}

/// What becomes of all tiles of lists.
pub(super) fn lists_of<T, U>(lists: Vec<Vec<T>>, of: impl Fn(T) -> U) -> Vec<Vec<U>> {
    lists.into_iter().map(|list| list.into_iter().map(&of).collect()).collect()
}

/// The heads of lists as kernels read them: how many tiles each has, then for each the first columns of its first tile.
pub(super) fn heads<'t, T: 't, C: IntoIterator<Item = u32>>(
    lists: impl Iterator<Item = &'t [T]> + Clone,
    columns: impl Fn(&'t T) -> C,
) -> Vec<u32> {
    let mut words: Vec<u32> = lists.clone().map(|list| list.len() as u32).collect();
    for list in lists {
        let columns = list.first().map(&columns).into_iter().flatten();
        words.extend(columns.chain(std::iter::repeat(0)).take(TileScheduler::HEAD_COLUMNS as usize));
    }
    words
}

/// The words of lists of tiles as kernels read them: tile `i` of each list, then tile `i + 1` of each. Short lists are padded
/// with zeros.
pub(super) fn in_rows<'t, T: 't, W: AsRef<[u32]>>(
    lists: impl Iterator<Item = &'t [T]> + Clone,
    of: impl Fn(&'t T) -> W,
) -> Vec<u32> {
    let (count, rows) = (lists.clone().count(), lists.clone().map(<[T]>::len).max().unwrap_or(0));
    let size = lists.clone().flatten().next().map_or(0, |tile| of(tile).as_ref().len());
    let mut words = vec![0; size * rows * count];
    for (c, list) in lists.enumerate() {
        for (i, tile) in list.iter().enumerate() {
            words[size * (i * count + c)..][..size].copy_from_slice(of(tile).as_ref());
        }
    }
    words
}

/// The tiles of the first column, one a row slice, with their costs.
pub(super) fn tile_rows(cluster_tile: &ClusterTile, row_ptr: &[i64], m: usize) -> Vec<(WorkTile, u64)> {
    let mut tiles = vec![];
    for (block_row, ends) in row_ptr.windows(2).enumerate() {
        let (first, blocks) = (ends[0] as u32, (ends[1] - ends[0]) as u32);
        for slice in (0..cluster_tile.block_rows).step_by(cluster_tile.rows as usize) {
            let c_row = block_row as u32 * cluster_tile.block_rows + slice;
            if (c_row as usize) < m {
                let a_row = first * cluster_tile.block_rows + slice;
                let tile = WorkTile { c_row, c_col: 0, a_row, blocks, role: Role::Whole };
                tiles.push((tile, cluster_tile.cost(blocks.into())));
            }
        }
    }
    tiles
}
