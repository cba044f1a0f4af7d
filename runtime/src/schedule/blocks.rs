//! The work of a kernel that has one CTA for every stored block.

use bsr_codegen::{ClusterTile, Plan};

use super::{Role, WorkTile};
use crate::Structure;

/// One CTA's part of every stored block, in the order of storage: neighbouring CTAs read neighbouring memory.
///
/// Every part is multiplied with every tile of columns, which is the grid's second dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockWork {
    /// `c_row` and `a_row` are as in a [`WorkTile`] of C; `c_col` is the first row of B, `blocks` is 1.
    pub tiles: Vec<WorkTile>,
    /// Tiles along N.
    pub columns: u32,
}

impl BlockWork {
    /// Lists the parts of the blocks of C\[m, n\] = A * B. `n` is in elements.
    pub fn new(plan: &Plan, structure: &Structure, n: usize) -> Self {
        Self::list(&plan.cluster_tile(), structure, n)
    }

    fn list(tile: &ClusterTile, structure: &Structure, n: usize) -> Self {
        let bk = structure.block().1 as u32;
        let mut tiles = Vec::with_capacity(structure.nnzb() * slices(tile) as usize);
        for (block_row, ends) in structure.row_ptr().windows(2).enumerate() {
            for block in ends[0] as usize..ends[1] as usize {
                for slice in (0..tile.block_rows).step_by(tile.rows as usize) {
                    let c_row = block_row as u32 * tile.block_rows + slice;
                    // The last block row may extend beyond the end of the matrix by whole slices.
                    if (c_row as usize) < structure.rows() {
                        let c_col = structure.col_idx()[block] as u32 * bk;
                        let a_row = block as u32 * tile.block_rows + slice;
                        tiles.push(WorkTile { c_row, c_col, a_row, blocks: 1, role: Role::Whole });
                    }
                }
            }
        }
        Self { tiles, columns: n.div_ceil(tile.columns as usize) as u32 }
    }

    /// The kernel's `work`: four words a part.
    pub fn words(&self) -> Vec<u32> {
        self.tiles.iter().flat_map(|tile| tile.words()).collect()
    }
}

/// CTAs that share the rows of one block.
pub(crate) fn slices(tile: &ClusterTile) -> u32 {
    tile.block_rows.div_ceil(tile.rows)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_part_of_every_block_is_listed_once() {
        for (rows, bm, bk) in [(96, 96, 80), (128, 512, 16), (16, 48, 112)] {
            let tile = ClusterTile { rows, columns: 64, block_rows: bm, stages_per_block: (1, 1) };
            let (lengths, height) = ([2, 0, 5, 1], bm as usize);
            let row_ptr: Vec<i64> = [0, 2, 2, 7, 8].to_vec();
            let col_idx: Vec<i32> = lengths.iter().flat_map(|&length| 7 - length..7).collect();
            // The last block row has one row, in its first slice.
            let structure = Structure::new(3 * height + 1, 7 * bk as usize, (height, bk as usize), row_ptr, col_idx);
            let structure = structure.expect("a structure");
            let work = BlockWork::list(&tile, &structure, 1000);
            assert_eq!(work.columns, 16);
            let mut parts = HashSet::new();
            for part in &work.tiles {
                assert!((part.c_row as usize) < structure.rows() && part.blocks == 1);
                let (block, slice) = (part.a_row / bm, part.a_row % bm);
                let row = (part.c_row / bm) as usize;
                assert!((structure.row_ptr()[row]..structure.row_ptr()[row + 1]).contains(&i64::from(block)));
                assert_eq!((slice, slice % rows), (part.c_row % bm, 0));
                assert_eq!(part.c_col, structure.col_idx()[block as usize] as u32 * bk);
                assert!(parts.insert((block, slice)), "block {block}, row {slice}: twice");
            }
            assert_eq!(parts.len() as u32, 7 * slices(&tile) + 1);
            assert_eq!(work.words().len(), 4 * work.tiles.len());
            assert_eq!(work.words()[..4], [0, 5 * bk, 0, 1]);
        }
    }
}
