//! The lists of a product, made of its pattern.

use bsr_codegen::lists::SddmmShape;

use super::*;
use crate::error::KernelError;
use crate::error::SimulatedError;
use crate::gpu::CheckedIndex;
use crate::lists::{self, Listing, Table};
use crate::machine::Lists;

/// The tiles of several block rows, and what they were made of.
#[derive(Clone, Copy, Debug)]
pub struct SharedWork {
    /// The lengths of all lists, and the first words of each.
    pub heads: BufferId,
    /// The tiles.
    pub work: BufferId,
    /// Block columns of every group, with a bit for each block row.
    pub unions: BufferId,
    /// The block rows of every group.
    pub members: BufferId,
    /// Where the union of every group begins, and what its tiles cost.
    pub costs: BufferId,
}

/// Places for blocks that no block has.
pub(in super::super) const SPARE: usize = 2;

impl Stream<'_> {
    /// Checks a pattern, transposes it where the plan's kernel reads block columns, and lists its work for an extent `n`
    /// along the dense factor, which is K of an SDDMM: clusters, what the launch reads, bytes of the workspace.
    pub(in super::super) fn list(
        &mut self,
        plan: &Plan,
        structure: &Structure,
        n: usize,
        clusters: u32,
    ) -> Result<([u32; 2], Lists<BufferId>, usize), SimulatedError> {
        let (block_rows, block_columns) = (structure.block_rows(), structure.block_cols());
        let capacity = structure.nnzb() + SPARE;
        let mut index = self.check_pattern(structure, capacity)?;
        if lists::reads_block_columns(plan) {
            let CheckedIndex { rows, columns, .. } = index;
            let [row_of, blocks] = [0; 2].map(|_| self.alloc(capacity));
            let sizes = [block_rows as u32, block_columns as u32, capacity as u32];
            let (counts, by_columns) = (self.alloc(4 * block_columns), self.alloc(2 * block_columns));
            self.transpose([rows, columns, counts, by_columns, row_of, blocks], sizes, CTAS)?;
            index = CheckedIndex { rows: by_columns, columns: row_of, blocks };
        }
        let request = request(plan, structure, n, clusters);
        let table = Table::of(plan, &request, (block_rows, capacity)).map_err(KernelError::from)?;
        let workspace = table.workspace_bytes;
        let listing = self.run(table, &[index])?;
        let (grid, lists) = listing.lists(&[index]);
        Ok((grid, lists, workspace))
    }

    /// Launches the kernels of a table on a pattern, or on several that are listed together.
    pub(super) fn run(
        &mut self,
        table: Table,
        index: &[CheckedIndex<BufferId>],
    ) -> Result<Listing<BufferId>, LaunchError> {
        let listing = Listing::new(table, |words| Ok::<_, LaunchError>(self.alloc(words)))?;
        listing.run(index, None, |kernel, grid, pointers, numbers| self.launch(kernel, grid, pointers, numbers))?;
        Ok(listing)
    }

    /// The heads and the tiles that the kernels of a table list of rows and columns.
    fn tiles(
        &mut self,
        table: Table,
        (rows, columns): (BufferId, BufferId),
    ) -> Result<(BufferId, BufferId), LaunchError> {
        let index = CheckedIndex { rows, columns, blocks: columns };
        let (_, lists) = self.run(table, &[index])?.lists(&[index]);
        Ok((lists.heads.unwrap_or(rows), lists.tiles.unwrap_or(rows)))
    }
}

/// CTAs that transpose an index.
const CTAS: u32 = 3;

impl Stream<'_> {
    /// Assigns tiles of rows: the heads and the tiles.
    ///
    /// # Errors
    /// As [`ListKernels::launch`].
    pub fn assign(&mut self, shape: &Shape, read: (BufferId, BufferId)) -> Result<(BufferId, BufferId), LaunchError> {
        self.tiles(Table::whole(shape), read)
    }

    /// Lists tiles of several block rows.
    ///
    /// # Errors
    /// As [`ListKernels::launch`].
    pub fn shared(
        &mut self,
        lists: &SharedLists,
        (rows, columns): (BufferId, BufferId),
    ) -> Result<SharedWork, LaunchError> {
        let index = CheckedIndex { rows, columns, blocks: columns };
        let (table, made) = Table::shared(lists);
        let listing = self.run(table, &[index])?;
        let [members, costs] = made.map(|pointer| listing.address(pointer, &[index], None));
        let Lists { heads, tiles, stage_metadata, .. } = listing.lists(&[index]).1;
        let [heads, work, unions] = [heads, tiles, stage_metadata].map(|list| list.unwrap_or(rows));
        Ok(SharedWork { heads, work, unions, members, costs })
    }

    /// Lists tiles whose K is divided: the heads and the tiles.
    ///
    /// # Errors
    /// As [`ListKernels::launch`].
    pub fn split(
        &mut self,
        lists: &SplitLists,
        read: (BufferId, BufferId),
    ) -> Result<(BufferId, BufferId), LaunchError> {
        self.tiles(Table::split(lists), read)
    }

    /// Lists the tiles of an SDDMM: heads and tiles.
    pub(super) fn sddmm(
        &mut self,
        shape: &SddmmShape,
        read: (BufferId, BufferId),
    ) -> Result<(BufferId, BufferId), LaunchError> {
        self.tiles(Table::sddmm(shape), read)
    }
}
