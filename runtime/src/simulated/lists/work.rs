//! The lists of a product, made of its pattern.

use super::*;
use crate::kernel::KernelError;
use crate::simulated::SimulatedError;
use bsr_codegen::lists::SddmmShape;

/// What a launch reads that was made of a pattern.
pub(in super::super) struct Listed {
    pub(in super::super) grid: [u32; 2],
    pub(in super::super) heads: BufferId,
    pub(in super::super) work: BufferId,
    /// Block columns, or the unions of block rows that share tiles.
    pub(in super::super) columns: BufferId,
    pub(in super::super) blocks: BufferId,
    /// Bytes of the workspace.
    pub(in super::super) workspace: usize,
    pub(in super::super) findings: Vec<Finding>,
}

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

impl Listed {
    /// Places for blocks that no block has.
    pub(in super::super) const SPARE: usize = 2;

    /// Checks a pattern, transposes it where the plan's kernel reads block columns, and lists its work for an extent `n`
    /// along the dense factor, which is K of an SDDMM.
    pub(in super::super) fn new(
        plan: &Plan,
        structure: &Structure,
        n: usize,
        clusters: u32,
        kernels: &ListKernels,
        memory: &mut GlobalMemory,
    ) -> Result<Self, SimulatedError> {
        let mut stream = Stream::new(kernels, memory);
        let words = |list: &[i32]| list.iter().map(|word| word.cast_unsigned()).collect::<Vec<_>>();
        let spare = [u32::MAX; Self::SPARE];
        let (block_rows, block_columns) = (structure.block_rows(), structure.block_cols());
        let capacity = structure.nnzb() + spare.len();
        let (row_ptr, col_idx) = (stream.upload(words(structure.row_ptr())), words(structure.col_idx()));
        let col_idx = stream.upload(col_idx.into_iter().chain(spare));
        let error = stream.upload([u32::MAX; 2]);
        let [rows, values] = [0; 2].map(|_| stream.alloc(2 * block_rows));
        let [columns, row_of, block_of] = [0; 3].map(|_| stream.alloc(capacity));
        let kernel = ListKernel::Check(IndexWidth::I32);
        let sizes = [block_rows as u32, block_columns as u32, capacity as u32];
        let pointers = [row_ptr, col_idx, rows, columns, error, values];
        stream.launch(kernel, (kernel.grid(sizes[0], 1), 0), &pointers, &sizes)?;
        let (mut read, mut workspace) = ((rows, columns), 0);
        if plan.reads_block_columns() {
            let (counts, by_columns) = (stream.alloc(4 * block_columns), stream.alloc(2 * block_columns));
            stream.transpose([rows, columns, counts, by_columns, row_of, block_of], sizes, CTAS)?;
            read = (by_columns, row_of);
        }
        let request = || request(plan, structure, n, clusters);
        let (grid, heads, work) = match plan.tile_scheduler() {
            TileScheduler::SharedColumns(shared) => {
                let lists = SharedLists::new(shared, &request(), plan.spec().bk as usize).map_err(KernelError::from)?;
                let made = stream.shared(&lists, read)?;
                // The kernel reads unions in the place of columns.
                read.1 = made.unions;
                (lists.assign.clusters, made.heads, made.work)
            }
            TileScheduler::Sddmm => stream.sddmm(plan, sizes, (n, clusters), read)?,
            _ => match SplitLists::parts(plan.spec().split, &request()) {
                Some(parts) => {
                    let lists = SplitLists::new(&request(), parts).map_err(KernelError::from)?;
                    let (heads, work) = stream.split(&lists, read)?;
                    workspace = lists.places() * plan.split_form().map_or(0, |form| form.partial_bytes as usize);
                    (lists.clusters(), heads, work)
                }
                None => {
                    let shape = Shape::new(&request()).map_err(KernelError::from)?;
                    let (heads, work) = stream.assign(&shape, read)?;
                    (shape.clusters, heads, work)
                }
            },
        };
        let findings = stream.findings();
        Ok(Self { grid: [grid, 1], heads, work, columns: read.1, blocks: block_of, workspace, findings })
    }
}

/// CTAs that transpose an index.
const CTAS: u32 = 3;

impl Stream<'_> {
    /// Assigns tiles of rows: the heads and the tiles.
    ///
    /// # Errors
    /// As [`ListKernels::launch`].
    pub fn assign(
        &mut self,
        shape: &Shape,
        (rows, columns): (BufferId, BufferId),
    ) -> Result<(BufferId, BufferId), LaunchError> {
        let (heads, work) = (self.alloc(shape.head_words()), self.alloc(shape.work_bytes().div_ceil(4)));
        let notes = self.alloc(shape.tiles() as usize);
        let (grid, pointers) = ((shape.ctas(), shape.shared_bytes()), [rows, columns, heads, work, notes]);
        self.launch(ListKernel::Assign, grid, &pointers, &shape.numbers())?;
        Ok((heads, work))
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
        let (assign, groups) = (&lists.assign, lists.groups() as usize);
        let (bits, members) = (self.alloc(lists.bit_words()), self.alloc(4 * groups));
        let (ends, costs, unions) = (self.alloc(2 * groups), self.alloc(2 * groups), self.alloc(lists.union_words()));
        let work = self.alloc(lists.work_bytes().div_ceil(4));
        self.launch(ListKernel::SharedBits, lists.bit_grid(), &[rows, columns, bits], &lists.bit_numbers())?;
        self.launch(ListKernel::SharedGroups, lists.group_grid(), &[bits, members], &lists.group_numbers())?;
        let by_union = [bits, members, ends, costs, unions];
        self.launch(ListKernel::SharedUnions, lists.union_grid(), &by_union, &lists.union_numbers())?;
        let (heads, assigned) = self.assign(assign, (costs, unions))?;
        let pointers = [heads, assigned, rows, members, ends, unions, work];
        self.launch(ListKernel::SharedTiles, (assign.clusters, 0), &pointers, &lists.tile_numbers())?;
        Ok(SharedWork { heads, work, unions, members, costs })
    }

    /// Lists tiles whose K is divided: the heads and the tiles.
    ///
    /// # Errors
    /// As [`ListKernels::launch`].
    pub fn split(
        &mut self,
        lists: &SplitLists,
        (rows, columns): (BufferId, BufferId),
    ) -> Result<(BufferId, BufferId), LaunchError> {
        let (heads, work) = (self.alloc(lists.head_words()), self.alloc(lists.work_bytes().div_ceil(4)));
        let [others, own] = [&lists.others, &lists.own].map(|shape| {
            let (of_rows, notes) = (self.alloc(2 * shape.tile_rows as usize), self.alloc(shape.tiles() as usize));
            [of_rows, self.alloc(shape.head_words()), self.alloc(shape.work_bytes().div_ceil(4)), notes]
        });
        let kernel = ListKernel::SplitRows;
        let grid = (kernel.grid(lists.rows().0, 1), 0);
        self.launch(kernel, grid, &[rows, own[0], others[0]], &lists.row_numbers())?;
        let assigned = [own, others].map(|of| [of[0], columns, of[1], of[2], of[3]]).concat();
        self.launch(ListKernel::AssignParts, lists.assign_grid(), &assigned, &lists.assign_numbers())?;
        let pointers = [rows, others[1], others[2], own[1], own[2], heads, work];
        self.launch(ListKernel::SplitTiles, (lists.clusters(), 0), &pointers, &lists.tile_numbers())?;
        Ok((heads, work))
    }

    /// Lists the tiles of an SDDMM: CTAs, heads and tiles.
    pub(super) fn sddmm(
        &mut self,
        plan: &Plan,
        [block_rows, _, capacity]: [u32; 3],
        (k, ctas): (usize, u32),
        (rows, columns): (BufferId, BufferId),
    ) -> Result<(u32, BufferId, BufferId), SimulatedError> {
        let Some(tiles) = plan.sddmm_tiles() else { return Err(KernelError::Batch { batch: false }.into()) };
        let shape =
            SddmmShape { tiles, block_rows, k: k as u32, ctas, capacity }.checked().map_err(KernelError::from)?;
        let (heads, work) = (self.alloc(ctas as usize), self.alloc(shape.work_bytes().div_ceil(4)));
        let first = self.alloc(block_rows as usize);
        let (by_rows, by_tiles) = (ListKernel::SddmmRows, ListKernel::SddmmTiles);
        self.launch(by_rows, (1, 128), &[rows, first, heads, work], &shape.numbers())?;
        let grid = (by_tiles.grid(block_rows, 1), 0);
        self.launch(by_tiles, grid, &[rows, columns, first, work], &shape.numbers())?;
        Ok((ctas, heads, work))
    }
}
