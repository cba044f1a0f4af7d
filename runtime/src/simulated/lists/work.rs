//! The lists of a product, made of its pattern.

use bsr_codegen::lists::SddmmShape;

use super::*;
use crate::bind::Lists;
use crate::gpu::CheckedIndex;
use crate::kernel::KernelError;
use crate::lists::{self, Assigned, Listing, Sddmm, Shared, Split};
use crate::simulated::SimulatedError;

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
        let words = |list: &[i32]| list.iter().map(|word| word.cast_unsigned()).collect::<Vec<_>>();
        let (block_rows, block_columns) = (structure.block_rows(), structure.block_cols());
        let capacity = structure.nnzb() + SPARE;
        let (row_ptr, col_idx) = (self.upload(words(structure.row_ptr())), words(structure.col_idx()));
        let col_idx = self.upload(col_idx.into_iter().chain([u32::MAX; SPARE]));
        let error = self.upload([u32::MAX; 2]);
        let [rows, values] = [0; 2].map(|_| self.alloc(2 * block_rows));
        let [columns, row_of, blocks] = [0; 3].map(|_| self.alloc(capacity));
        let kernel = ListKernel::Check(IndexWidth::I32);
        let sizes = [block_rows as u32, block_columns as u32, capacity as u32];
        let pointers = [row_ptr, col_idx, rows, columns, error, values];
        self.launch(kernel, (kernel.grid(sizes[0], 1), 0), &pointers, &sizes)?;
        let mut index = CheckedIndex { rows, columns, blocks };
        if lists::reads_block_columns(plan) {
            let (counts, by_columns) = (self.alloc(4 * block_columns), self.alloc(2 * block_columns));
            self.transpose([rows, columns, counts, by_columns, row_of, blocks], sizes, CTAS)?;
            index = CheckedIndex { rows: by_columns, columns: row_of, blocks };
        }
        let request = request(plan, structure, n, clusters);
        let alloc = |words| Ok::<_, KernelError>(self.alloc(words));
        let listing = Listing::new(plan, &request, (block_rows, capacity), alloc)?;
        listing.run(&index, |kernel, grid, pointers, numbers| self.launch(kernel, grid, pointers, numbers))?;
        let (grid, lists) = listing.lists(&index);
        Ok((grid, lists, listing.workspace_bytes(plan)))
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
        let assigned = Assigned::new(*shape, &mut |words| Ok(self.alloc(words)))?;
        assigned.run(read, &mut |kernel, grid, pointers, numbers| self.launch(kernel, grid, pointers, numbers))?;
        Ok((assigned.heads, assigned.tiles))
    }

    /// Lists tiles of several block rows.
    ///
    /// # Errors
    /// As [`ListKernels::launch`].
    pub fn shared(&mut self, lists: &SharedLists, read: (BufferId, BufferId)) -> Result<SharedWork, LaunchError> {
        let shared = Shared::new(*lists, &mut |words| Ok(self.alloc(words)))?;
        shared.run(read, &mut |kernel, grid, pointers, numbers| self.launch(kernel, grid, pointers, numbers))?;
        let Shared { tiles: work, unions, members, costs, assigned, .. } = shared;
        Ok(SharedWork { heads: assigned.heads, work, unions, members, costs })
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
        let split = Split::new(*lists, &mut |words| Ok(self.alloc(words)))?;
        split.run(read, &mut |kernel, grid, pointers, numbers| self.launch(kernel, grid, pointers, numbers))?;
        Ok((split.heads, split.tiles))
    }

    /// Lists the tiles of an SDDMM: heads and tiles.
    pub(super) fn sddmm(
        &mut self,
        shape: SddmmShape,
        read: (BufferId, BufferId),
    ) -> Result<(BufferId, BufferId), LaunchError> {
        let sddmm = Sddmm::new(shape, &mut |words| Ok(self.alloc(words)))?;
        sddmm.run(read, &mut |kernel, grid, pointers, numbers| self.launch(kernel, grid, pointers, numbers))?;
        Ok((sddmm.heads, sddmm.tiles))
    }
}
