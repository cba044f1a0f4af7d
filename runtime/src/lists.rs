//! Lists of the work of a product or an SDDMM that kernels make where the pattern is: which memory they take, which kernels
//! run in which order, and what the launch then reads. A GPU runs them on its stream, the simulator in its memory.

use arrayvec::ArrayVec;
use bsr_codegen::lists::{ListKernel, ListRequest, SddmmShape, Shape, ShapeError, SharedLists, SplitLists};
use bsr_codegen::{Op, Plan, TileScheduler};

use crate::bind::Lists;
use crate::gpu::CheckedIndex;
use crate::schedule;

/// Whether the lists of a plan are made of its pattern's transposed index.
pub(crate) fn reads_block_columns(plan: &Plan) -> bool {
    plan.spec().op != Op::Sdd && plan.reads_block_columns()
}

/// What the lists of a plan are asked for, of a pattern of so many rows and columns with room for so many values.
pub(crate) fn request(
    plan: &Plan,
    (rows, cols): (usize, usize),
    block: (usize, usize),
    values: usize,
    (n, clusters): (usize, u32),
) -> ListRequest {
    let (rows, cols, width) = if plan.reads_block_columns() { (cols, rows, block.0) } else { (rows, cols, block.1) };
    ListRequest {
        tile: plan.cluster_tile(),
        rows,
        block_columns: cols.div_ceil(width.max(1)),
        n,
        group: schedule::columns_together(plan, values, cols),
        clusters,
        tile_bytes: if plan.split_form().is_some() { 32 } else { 16 },
    }
}

/// The lists of one pattern for one extent that it does not say, at addresses `A`.
#[derive(Debug)]
pub(crate) enum Listing<A> {
    /// Of tiles that have all of K of a block row, or of a slice of it.
    Whole(Assigned<A>),
    /// Of tiles whose K is divided.
    Split(Split<A>),
    /// Of tiles of several block rows.
    Shared(Shared<A>),
    /// Of tiles of an SDDMM.
    Sddmm(Sddmm<A>),
}

impl<A: Copy> Listing<A> {
    /// Takes the memory of the lists that `request` asks for, of a pattern of so many block rows with room for so many
    /// blocks: `alloc` gives an address of so many words.
    ///
    /// # Errors
    /// [`ShapeError`] for a product whose lists cannot be made there; those of `alloc`.
    pub(crate) fn new<E: From<ShapeError>>(
        plan: &Plan,
        request: &ListRequest,
        (block_rows, capacity): (usize, usize),
        mut alloc: impl FnMut(usize) -> Result<A, E>,
    ) -> Result<Self, E> {
        let alloc = &mut alloc;
        match (plan.tile_scheduler(), plan.sddmm_tiles()) {
            (TileScheduler::SharedColumns(shared), _) => {
                Shared::new(SharedLists::new(shared, request, plan.spec().bk as usize)?, alloc).map(Self::Shared)
            }
            (_, Some(tiles)) => {
                let (k, ctas) = (request.n as u32, request.clusters);
                let shape = SddmmShape { tiles, block_rows: block_rows as u32, k, ctas, capacity: capacity as u32 };
                Sddmm::new(shape.checked()?, alloc).map(Self::Sddmm)
            }
            _ => match SplitLists::parts(plan.spec().split, request) {
                Some(parts) => Split::new(SplitLists::new(request, parts)?, alloc).map(Self::Split),
                None => Assigned::new(Shape::new(request)?, alloc).map(Self::Whole),
            },
        }
    }

    /// Launches the kernels that make the lists: each in so many CTAs with so much shared memory, on addresses and numbers.
    ///
    /// # Errors
    /// Those of `launch`.
    pub(crate) fn run<E>(
        &self,
        index: &CheckedIndex<A>,
        mut launch: impl FnMut(ListKernel, (u32, u32), &[A], &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (read, launch) = ((index.rows, index.columns), &mut launch);
        match self {
            Self::Whole(assigned) => assigned.run(read, launch),
            Self::Split(split) => split.run(read, launch),
            Self::Shared(shared) => shared.run(read, launch),
            Self::Sddmm(sddmm) => sddmm.run(read, launch),
        }
    }

    /// Bytes that CTAs pass on partial sums in.
    pub(crate) fn workspace_bytes(&self, plan: &Plan) -> usize {
        match self {
            Self::Split(split) => {
                split.lists.places() * plan.split_form().map_or(0, |form| form.partial_bytes as usize)
            }
            Self::Whole(_) | Self::Shared(_) | Self::Sddmm(_) => 0,
        }
    }

    /// Clusters that get work, and what the launch reads.
    pub(crate) fn lists(&self, index: &CheckedIndex<A>) -> ([u32; 2], Lists<A>) {
        let (columns, blocks) = (Some(index.columns), Some(index.blocks));
        let (clusters, heads, tiles) = match self {
            Self::Whole(assigned) => (assigned.shape.clusters, assigned.heads, assigned.tiles),
            Self::Split(split) => (split.lists.clusters(), split.heads, split.tiles),
            Self::Shared(shared) => (shared.assigned.shape.clusters, shared.assigned.heads, shared.tiles),
            Self::Sddmm(sddmm) => (sddmm.shape.ctas, sddmm.heads, sddmm.tiles),
        };
        let stage_metadata = if let Self::Shared(shared) = self { Some(shared.unions) } else { None };
        let (heads, tiles) = (Some(heads), Some(tiles));
        ([clusters, 1], Lists { heads, tiles, columns, blocks, stage_metadata, ..Lists::default() })
    }
}

/// What the assigning kernel writes.
#[derive(Debug)]
pub(crate) struct Assigned<A> {
    pub(crate) shape: Shape,
    pub(crate) heads: A,
    pub(crate) tiles: A,
    /// Where each tile goes, while the lists are made.
    notes: A,
}

impl<A: Copy> Assigned<A> {
    pub(crate) fn new<E>(shape: Shape, alloc: &mut impl FnMut(usize) -> Result<A, E>) -> Result<Self, E> {
        Ok(Self {
            heads: alloc(shape.head_words())?,
            tiles: alloc(shape.work_bytes().div_ceil(4))?,
            notes: alloc(shape.tiles() as usize)?,
            shape,
        })
    }

    fn places(&self, (rows, columns): (A, A)) -> [A; 5] {
        [rows, columns, self.heads, self.tiles, self.notes]
    }

    pub(crate) fn run<E>(
        &self,
        read: (A, A),
        launch: &mut impl FnMut(ListKernel, (u32, u32), &[A], &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let grid = (self.shape.ctas(), self.shape.shared_bytes());
        launch(ListKernel::Assign, grid, &self.places(read), &self.shape.numbers())
    }
}

/// The lists of tiles whose K is divided.
#[derive(Debug)]
pub(crate) struct Split<A> {
    lists: SplitLists,
    pub(crate) heads: A,
    pub(crate) tiles: A,
    own: Parts<A>,
    others: Parts<A>,
}

/// Rows of parts of tiles, and these as they are assigned.
#[derive(Debug)]
struct Parts<A> {
    rows: A,
    assigned: Assigned<A>,
}

impl<A: Copy> Parts<A> {
    fn new<E>(shape: Shape, alloc: &mut impl FnMut(usize) -> Result<A, E>) -> Result<Self, E> {
        Ok(Self { rows: alloc(2 * shape.tile_rows as usize)?, assigned: Assigned::new(shape, alloc)? })
    }
}

impl<A: Copy> Split<A> {
    pub(crate) fn new<E>(lists: SplitLists, alloc: &mut impl FnMut(usize) -> Result<A, E>) -> Result<Self, E> {
        Ok(Self {
            heads: alloc(lists.head_words())?,
            tiles: alloc(lists.work_bytes().div_ceil(4))?,
            own: Parts::new(lists.own, alloc)?,
            others: Parts::new(lists.others, alloc)?,
            lists,
        })
    }

    pub(crate) fn run<E>(
        &self,
        (rows, columns): (A, A),
        launch: &mut impl FnMut(ListKernel, (u32, u32), &[A], &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { lists, heads, tiles, own, others } = self;
        let (by_row, assign, by_tile) = (ListKernel::SplitRows, ListKernel::AssignParts, ListKernel::SplitTiles);
        let grid = (by_row.grid(lists.rows().0, 1), 0);
        launch(by_row, grid, &[rows, own.rows, others.rows], &lists.row_numbers())?;
        let parts = [own, others].map(|parts| parts.assigned.places((parts.rows, columns)));
        let assigned: ArrayVec<A, 10> = parts.into_iter().flatten().collect();
        launch(assign, lists.assign_grid(), &assigned, &lists.assign_numbers())?;
        let [other, own] = [others, own].map(|parts| [parts.assigned.heads, parts.assigned.tiles]);
        let written = [rows, other[0], other[1], own[0], own[1], *heads, *tiles];
        launch(by_tile, (lists.clusters(), 0), &written, &lists.tile_numbers())
    }
}

/// The lists of tiles of several block rows.
#[derive(Debug)]
pub(crate) struct Shared<A> {
    lists: SharedLists,
    pub(crate) tiles: A,
    /// A bit for each block column of every block row.
    bits: A,
    /// The block rows of every group.
    pub(crate) members: A,
    /// Where the union of their columns begins, and how many there are.
    ends: A,
    /// The same with what its tiles cost.
    pub(crate) costs: A,
    pub(crate) unions: A,
    /// The tiles by their groups and columns, and the heads of the lists.
    pub(crate) assigned: Assigned<A>,
}

impl<A: Copy> Shared<A> {
    pub(crate) fn new<E>(lists: SharedLists, alloc: &mut impl FnMut(usize) -> Result<A, E>) -> Result<Self, E> {
        let groups = lists.groups() as usize;
        Ok(Self {
            tiles: alloc(lists.work_bytes().div_ceil(4))?,
            bits: alloc(lists.bit_words())?,
            members: alloc(4 * groups)?,
            ends: alloc(2 * groups)?,
            costs: alloc(2 * groups)?,
            unions: alloc(lists.union_words())?,
            assigned: Assigned::new(lists.assign, alloc)?,
            lists,
        })
    }

    pub(crate) fn run<E>(
        &self,
        (rows, columns): (A, A),
        launch: &mut impl FnMut(ListKernel, (u32, u32), &[A], &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { lists, tiles, bits, members, ends, costs, unions, assigned } = self;
        launch(ListKernel::SharedBits, lists.bit_grid(), &[rows, columns, *bits], &lists.bit_numbers())?;
        launch(ListKernel::SharedGroups, lists.group_grid(), &[*bits, *members], &lists.group_numbers())?;
        let by_union = [*bits, *members, *ends, *costs, *unions];
        launch(ListKernel::SharedUnions, lists.union_grid(), &by_union, &lists.union_numbers())?;
        assigned.run((*costs, *unions), launch)?;
        let by_tile = [assigned.heads, assigned.tiles, rows, *members, *ends, *unions, *tiles];
        launch(ListKernel::SharedTiles, (lists.assign.clusters, 0), &by_tile, &lists.tile_numbers())
    }
}

/// The lists of an SDDMM.
#[derive(Debug)]
pub(crate) struct Sddmm<A> {
    shape: SddmmShape,
    pub(crate) heads: A,
    pub(crate) tiles: A,
    /// The first tile of each block row.
    first: A,
}

impl<A: Copy> Sddmm<A> {
    pub(crate) fn new<E>(shape: SddmmShape, alloc: &mut impl FnMut(usize) -> Result<A, E>) -> Result<Self, E> {
        Ok(Self {
            heads: alloc(shape.ctas as usize)?,
            tiles: alloc(shape.work_bytes().div_ceil(4))?,
            first: alloc(shape.block_rows as usize)?,
            shape,
        })
    }

    pub(crate) fn run<E>(
        &self,
        (rows, columns): (A, A),
        launch: &mut impl FnMut(ListKernel, (u32, u32), &[A], &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { shape, heads, tiles, first } = self;
        if shape.block_rows == 0 {
            return Ok(());
        }
        let (by_rows, by_tiles, numbers) = (ListKernel::SddmmRows, ListKernel::SddmmTiles, shape.numbers());
        launch(by_rows, (1, 128), &[rows, *first, *heads, *tiles], &numbers)?;
        let grid = (by_tiles.grid(shape.block_rows, 1), 0);
        launch(by_tiles, grid, &[rows, columns, *first, *tiles], &numbers)
    }
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use half::f16;

    use super::*;
    use crate::simulated::lists::ListKernels;
    use crate::simulated::{Options, Simulated};
    use crate::{Dense, Pattern};

    #[test]
    fn a_transposed_result_is_listed_by_the_rows_that_are_stored() {
        let plan = Plan::new(&"op = sdd, bm = 64, bn = 64, bk = 64, transpose = on".parse().unwrap()).unwrap();
        let (ptx, spec) = (plan.ptx(), plan.spec());
        let stored = Pattern::Random(0.5).structure(128, 192, (64, 64), 3).unwrap();
        let a = Dense::<f16>::normal(192, 64, spec.a_layout, 1);
        let b = Dense::<f16>::normal(64, 128, spec.b_layout, 2);
        let host = Simulated::new(&plan, ptx.text(), ptx.entry()).unwrap();
        let there = host.clone().with_device_pattern(ListKernels::own().unwrap()).unwrap();
        let [host, there] = [host, there].map(|kernel| {
            let (results, report) = kernel.multiply::<f16, _>((&a, &b, &stored), &Options::default()).unwrap();
            assert!(report.is_clean(), "{:?}", report.findings);
            results.c
        });
        assert_eq!(host, there);
    }
}
