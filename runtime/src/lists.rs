//! Lists of work that kernels make where the pattern is: which memory they take, which kernels run in which order, and what
//! the launch then reads. A GPU runs them on its stream, the simulator in its memory.

use arrayvec::ArrayVec;
use bsr_codegen::lists::{
    AttentionLists, LengthLists, ListKernel, ListRequest, PairLists, PairRequest, PartialFlags, SddmmShape, Shape,
    ShapeError, SharedLists, SplitLists,
};
use bsr_codegen::{Plan, Schedule, TileScheduler};

use crate::error::KernelError;
use crate::gpu::{CheckedIndex, PatternShape};
use crate::machine::{Lists, Work};
use crate::schedule;

/// Most pointers of a kernel that makes lists.
const MOST_POINTERS: usize = 11;

/// Whether the lists of a plan are made of its pattern's transposed index.
pub(crate) fn reads_block_columns(plan: &Plan) -> bool {
    plan.tile_scheduler().reads_index() && plan.reads_block_columns()
}

/// Whether a plan's kernel reads lists that are made on the GPU, as it must for a matrix whose pattern lives there.
///
/// # Errors
/// [`KernelError::DevicePattern`] with the key that stands in the way.
pub(crate) fn takes_device_pattern(plan: &Plan) -> Result<(), KernelError> {
    match plan.listed_by_host() {
        Some((why, help)) => Err(KernelError::DevicePattern { why, help }),
        None => Ok(()),
    }
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
        group: schedule::group_of_columns(plan, values, cols, n),
        clusters,
        tile_bytes: if plan.split_form().is_some() { 32 } else { 16 },
    }
}

/// What the lists of a product of two sparse factors are asked for, of patterns A and B, and C where it is in blocks.
pub(crate) fn request_of_pairs(
    plan: &Plan,
    [a, b]: [&PatternShape; 2],
    c: Option<&PatternShape>,
    clusters: u32,
) -> PairRequest {
    let stored = [a, b].map(|of| of.capacity * of.block.0 * of.block.1);
    PairRequest {
        tile: plan.cluster_tile(),
        rows: a.rows,
        depth: b.block_rows(),
        block_columns: b.block_cols(),
        width: b.block.1 as u32,
        capacities: [a.capacity, b.capacity],
        of_c: c.map(|c| c.capacity),
        group: schedule::columns_of_wave(stored, (a.block_rows(), b.block_cols()), clusters),
        clusters,
        balanced: plan.spec().schedule != Some(Schedule::Strided),
    }
}

/// What a kernel that makes lists is given as a pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pointer {
    /// First block and number of blocks of every row of the pattern, or the keys of every problem.
    Rows,
    /// The block columns of the pattern.
    Columns,
    /// The rows of the pattern of this number, of several: A, B and C of a product of two sparse factors.
    RowsOf(usize),
    /// Its block columns.
    ColumnsOf(usize),
    /// Which blocks of the pattern are partial.
    Partial,
    /// The piece of this number of the lists' own memory.
    Memory(usize),
}

/// A launch of a kernel that makes lists.
#[derive(Debug)]
struct Step {
    kernel: ListKernel,
    /// CTAs, and bytes of shared memory of each.
    grid: (u32, u32),
    pointers: ArrayVec<Pointer, MOST_POINTERS>,
    numbers: Vec<u32>,
}

/// How the lists of one pattern for one extent that it does not say are made: the memory that they take, and the launches.
#[derive(Debug)]
pub(crate) struct Table {
    /// Words of each piece of memory.
    memory: Vec<usize>,
    steps: Vec<Step>,
    /// Clusters that get work.
    pub(crate) clusters: u32,
    /// Bytes in which CTAs pass on partial sums.
    pub(crate) workspace_bytes: usize,
    heads: Pointer,
    tiles: Pointer,
    /// The steps of an attention, the blocks of B of all pairs.
    columns: Pointer,
    /// The blocks of A of all pairs.
    blocks: Option<Pointer>,
    /// The unions of block rows that share tiles.
    unions: Option<Pointer>,
}

impl Table {
    fn new(clusters: u32) -> Self {
        Self {
            memory: vec![],
            steps: vec![],
            clusters,
            workspace_bytes: 0,
            heads: Pointer::Memory(0),
            tiles: Pointer::Memory(0),
            columns: Pointer::Columns,
            blocks: None,
            unions: None,
        }
    }

    /// That of the lists that `request` asks for, of a pattern of so many block rows with room for so many blocks.
    ///
    /// # Errors
    /// [`ShapeError`] for a product whose lists cannot be made where the pattern is.
    pub(crate) fn of(
        plan: &Plan,
        request: &ListRequest,
        (block_rows, capacity): (usize, usize),
    ) -> Result<Self, ShapeError> {
        Ok(match (plan.tile_scheduler(), plan.sddmm_tiles()) {
            (TileScheduler::SharedColumns(shared), _) => {
                Self::shared(&SharedLists::new(shared, request, plan.spec().bk as usize)?).0
            }
            (_, Some(tiles)) => {
                let (k, ctas) = (request.n as u32, request.clusters);
                let shape = SddmmShape { tiles, block_rows: block_rows as u32, k, ctas, capacity: capacity as u32 };
                Self::sddmm(&shape.checked()?)
            }
            _ => match SplitLists::parts(plan.spec().split, request) {
                Some(parts) => {
                    let lists = SplitLists::new(request, parts)?;
                    let workspace_bytes =
                        lists.places() * plan.split_form().map_or(0, |form| form.partial_bytes as usize);
                    Self { workspace_bytes, ..Self::split(&lists) }
                }
                None => Self::whole(&Shape::new(request)?),
            },
        })
    }

    /// Of tiles that have all of K of a block row, or of a slice of it.
    pub(crate) fn whole(shape: &Shape) -> Self {
        let mut table = Self::new(shape.clusters);
        [table.heads, table.tiles, _] = table.assign(shape, [Pointer::Rows, Pointer::Columns]);
        table
    }

    /// Of tiles whose K is divided.
    pub(crate) fn split(lists: &SplitLists) -> Self {
        let mut table = Self::new(lists.clusters());
        let (heads, tiles) = (table.alloc(lists.head_words()), table.alloc(lists.work_bytes().div_ceil(4)));
        // Rows of parts of tiles, and these as they are assigned.
        let [own, others] = [&lists.own, &lists.others].map(|shape| {
            let rows = table.alloc(2 * shape.tile_rows as usize);
            [[rows, Pointer::Columns].as_slice(), &table.assignment(shape)].concat()
        });
        let (by_row, assign, by_tile) = (ListKernel::SplitRows, ListKernel::AssignParts, ListKernel::SplitTiles);
        let grid = (by_row.grid(lists.rows().0, 1), 0);
        table.step(by_row, grid, &[Pointer::Rows, own[0], others[0]], &lists.row_numbers());
        table.step(assign, lists.assign_grid(), &[&own[..], &others].concat(), &lists.assign_numbers());
        let written = [Pointer::Rows, others[2], others[3], own[2], own[3], heads, tiles];
        table.step(by_tile, (lists.clusters(), 0), &written, &lists.tile_numbers());
        Self { heads, tiles, ..table }
    }

    /// Of tiles of several block rows; and where the block rows of every group are, and where the union of their columns
    /// begins with what its tiles cost.
    pub(crate) fn shared(lists: &SharedLists) -> (Self, [Pointer; 2]) {
        let (mut table, groups) = (Self::new(lists.assign.clusters), lists.groups() as usize);
        let tiles = table.alloc(lists.work_bytes().div_ceil(4));
        // A bit for each block column of every block row.
        let bits = table.alloc(lists.bit_words());
        let members = table.alloc(4 * groups);
        let [ends, costs] = [2 * groups; 2].map(|words| table.alloc(words));
        let unions = table.alloc(lists.union_words());
        let own = [Pointer::Rows, Pointer::Columns, bits];
        table.step(ListKernel::SharedBits, lists.bit_grid(), &own, &lists.bit_numbers());
        table.step(ListKernel::SharedGroups, lists.group_grid(), &[bits, members], &lists.group_numbers());
        let by_union = [bits, members, ends, costs, unions];
        table.step(ListKernel::SharedUnions, lists.union_grid(), &by_union, &lists.union_numbers());
        let [heads, assigned, _] = table.assign(&lists.assign, [costs, unions]);
        let by_tile = [heads, assigned, Pointer::Rows, members, ends, unions, tiles];
        table.step(ListKernel::SharedTiles, (lists.assign.clusters, 0), &by_tile, &lists.tile_numbers());
        (Self { heads, tiles, unions: Some(unions), ..table }, [members, costs])
    }

    /// Of the tiles of an SDDMM.
    pub(crate) fn sddmm(shape: &SddmmShape) -> Self {
        let mut table = Self::new(shape.ctas);
        let (heads, tiles) = (table.alloc(shape.ctas as usize), table.alloc(shape.work_bytes().div_ceil(4)));
        let first_tiles = table.alloc(shape.block_rows as usize);
        if shape.block_rows > 0 {
            let (by_rows, by_tiles, numbers) = (ListKernel::SddmmRows, ListKernel::SddmmTiles, shape.numbers());
            table.step(by_rows, (1, 128), &[Pointer::Rows, first_tiles, heads, tiles], &numbers);
            let grid = (by_tiles.grid(shape.block_rows, 1), 0);
            table.step(by_tiles, grid, &[Pointer::Rows, Pointer::Columns, first_tiles, tiles], &numbers);
        }
        Self { heads, tiles, ..table }
    }

    /// Of an attention. All of its memory is zero before the first launch.
    pub(crate) fn attention(lists: &AttentionLists, flags: PartialFlags) -> Self {
        let (mut table, rows) = (Self::new(lists.ctas()), lists.rows() as usize);
        // Steps that have a place so far; 0 between two listings.
        let room = table.alloc(2);
        // {first step, steps, steps of each consumer} of every row of tiles, and the first two alone.
        let [records, step_rows] = [AttentionLists::RECORD_WORDS * rows, 2 * rows].map(|words| table.alloc(words));
        // Tiles by their rows and columns: how many each CTA gets, which, and what the kernel notes.
        let assigned = table.assignment(&lists.assign);
        let steps = table.alloc(lists.slots());
        let heads = table.alloc(lists.ctas() as usize + 1);
        let tiles = table.alloc(lists.work_bytes().div_ceil(4));
        let grid = |kernel: ListKernel, shared| (kernel.grid(lists.rows(), lists.ctas()), shared);
        let (by_steps, by_tiles) = (ListKernel::AttentionSteps, ListKernel::AttentionTiles);
        let read = [Pointer::Rows, Pointer::Columns, Pointer::Partial, room, steps, records, step_rows];
        table.step(by_steps, grid(by_steps, lists.steps_shared_bytes()), &read, &lists.steps_numbers(flags));
        table.assign_to(&lists.assign, [step_rows, steps], assigned);
        let by_tile = [assigned[0], assigned[1], records, room, heads, tiles];
        table.step(by_tiles, grid(by_tiles, 64), &by_tile, &lists.tiles_numbers());
        Self { heads, tiles, columns: steps, ..table }
    }

    /// Of an attention whose K and V are in pages, by the keys of each problem. Steps are in no list.
    pub(crate) fn by_length(lists: &LengthLists) -> Self {
        let ctas = lists.request().ctas;
        let mut table = Self::new(ctas);
        let (heads, tiles) = (table.alloc(ctas as usize + 1), table.alloc(lists.work_words()));
        let kernel = ListKernel::LengthTiles;
        let grid = (kernel.grid(0, ctas), lists.tiles_shared_bytes());
        table.step(kernel, grid, &[Pointer::Rows, heads, tiles], &lists.tiles_numbers());
        Self { heads, tiles, workspace_bytes: lists.workspace_bytes(), ..table }
    }

    /// Of the pairs of blocks of two patterns: those of A and of B, and of C where it is in blocks.
    pub(crate) fn pairs(lists: &PairLists, is_sparse: bool) -> Self {
        let mut table = Self::new(lists.clusters());
        let words = [lists.head_words(), lists.work_words(), lists.pair_room(), lists.pair_room()];
        let [heads, tiles, b_blocks, a_blocks] = words.map(|words| table.alloc(words));
        let words = [lists.mark_words(), lists.sum_words(), lists.start_words()];
        let [marks, sums, starts] = words.map(|words| table.alloc(words));
        let [placed, costs] = [4, 1].map(|words| table.alloc(words * lists.tile_room()));
        // Of a dense C no pattern is read: any address serves.
        let c = if is_sparse { 2 } else { 0 };
        let read =
            [Pointer::RowsOf(0), Pointer::ColumnsOf(0), marks, Pointer::RowsOf(c), Pointer::ColumnsOf(c), sums, starts];
        table.marks([Pointer::RowsOf(1), Pointer::ColumnsOf(1), marks], lists.marks_grid(), &lists.mark_numbers());
        table.step(ListKernel::PairCounts, lists.row_grid(), &read, &lists.numbers());
        table.step(ListKernel::PairScan, lists.scan_grid(), &[sums], &lists.scan_numbers());
        let written = [&read[..], &[placed, costs, b_blocks, a_blocks]].concat();
        table.step(ListKernel::PairLists, lists.row_grid(), &written, &lists.numbers());
        // Tiles are assigned to lists, unless they are in turn, and these to clusters.
        let words = [lists.tile_room(), 2 * lists.span_lists(), lists.last_words(), lists.span_lists()];
        let [places, span_lists, last, list_clusters] = words.map(|words| table.alloc(words));
        let numbers = lists.wave_numbers();
        let spans = [sums, costs, places, span_lists, last];
        if lists.is_balanced() {
            table.step(ListKernel::PairSpans, lists.span_grid(), &spans, &numbers);
        }
        let dealt = [sums, span_lists, last, places, list_clusters, heads, tiles];
        table.step(ListKernel::PairDeal, lists.deal_grid(), &dealt, &numbers);
        let written = [sums, placed, places, list_clusters, b_blocks, heads, tiles];
        table.step(ListKernel::PairWrite, lists.write_grid(), &written, &numbers);
        Self { heads, tiles, columns: b_blocks, blocks: Some(a_blocks), ..table }
    }

    /// Marks the blocks of a factor, if it has rows.
    fn marks(&mut self, pointers: [Pointer; 3], grid: (u32, u32), numbers: &[u32]) {
        if grid.0 > 0 {
            self.step(ListKernel::PairMarks, grid, &pointers, numbers);
        }
    }

    fn alloc(&mut self, words: usize) -> Pointer {
        self.memory.push(words);
        Pointer::Memory(self.memory.len() - 1)
    }

    fn step(&mut self, kernel: ListKernel, grid: (u32, u32), pointers: &[Pointer], numbers: &[u32]) {
        let pointers = pointers.iter().copied().collect();
        self.steps.push(Step { kernel, grid, pointers, numbers: numbers.to_vec() });
    }

    /// Memory for heads and tiles that are assigned, and for where each tile goes while they are.
    fn assignment(&mut self, shape: &Shape) -> [Pointer; 3] {
        [shape.head_words(), shape.work_bytes().div_ceil(4), shape.tiles() as usize].map(|words| self.alloc(words))
    }

    /// Assigns the tiles of rows and columns: their heads, the tiles, and where each tile goes.
    fn assign(&mut self, shape: &Shape, read: [Pointer; 2]) -> [Pointer; 3] {
        let assigned = self.assignment(shape);
        self.assign_to(shape, read, assigned);
        assigned
    }

    fn assign_to(&mut self, shape: &Shape, [rows, columns]: [Pointer; 2], [heads, tiles, notes]: [Pointer; 3]) {
        let grid = (shape.ctas(), shape.shared_bytes());
        self.step(ListKernel::Assign, grid, &[rows, columns, heads, tiles, notes], &shape.numbers());
    }
}

/// The lists of one pattern for one extent that it does not say, at addresses `A`.
#[derive(Debug)]
pub(crate) struct Listing<A> {
    pub(crate) table: Table,
    memory: Vec<A>,
}

impl<A: Copy> Listing<A> {
    /// Takes the memory of a table: `alloc` gives an address of so many words.
    ///
    /// # Errors
    /// Those of `alloc`.
    pub(crate) fn new<E>(table: Table, alloc: impl FnMut(usize) -> Result<A, E>) -> Result<Self, E> {
        let memory = table.memory.iter().copied().map(alloc).collect::<Result<_, _>>()?;
        Ok(Self { table, memory })
    }

    /// Launches the kernels that make the lists: each in so many CTAs with so much shared memory, on addresses and numbers.
    /// `partial` is where the partial blocks of a mask are. Nothing is allocated.
    ///
    /// # Errors
    /// Those of `launch`.
    pub(crate) fn run<E>(
        &self,
        index: &[CheckedIndex<A>],
        partial: Option<A>,
        mut launch: impl FnMut(ListKernel, (u32, u32), &[A], &[u32]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.table.steps.iter().try_for_each(|Step { kernel, grid, pointers, numbers }| {
            let addresses: ArrayVec<A, MOST_POINTERS> =
                pointers.iter().map(|pointer| self.address(*pointer, index, partial)).collect();
            launch(*kernel, *grid, &addresses, numbers)
        })
    }

    /// Where a kernel's pointer points to, of the pattern or of all patterns that are listed together.
    pub(crate) fn address(&self, pointer: Pointer, index: &[CheckedIndex<A>], partial: Option<A>) -> A {
        match pointer {
            Pointer::Rows => index[0].rows,
            Pointer::Columns => index[0].columns,
            Pointer::RowsOf(number) => index[number].rows,
            Pointer::ColumnsOf(number) => index[number].columns,
            // Where none is said to be partial, any address serves.
            Pointer::Partial => partial.unwrap_or(index[0].columns),
            Pointer::Memory(number) => self.memory[number],
        }
    }

    /// Clusters that get work, and what the launch reads.
    pub(crate) fn lists(&self, index: &[CheckedIndex<A>]) -> Work<A> {
        let Table { clusters, heads, tiles, columns, blocks, unions, .. } = self.table;
        let at = |pointer| self.address(pointer, index, None);
        let [heads, tiles, columns] = [heads, tiles, columns].map(|pointer| Some(at(pointer)));
        let lists = Lists { heads, tiles, columns, stage_metadata: unions.map(at), ..Lists::default() };
        ([clusters, 1], Lists { blocks: Some(blocks.map_or(index[0].blocks, at)), ..lists })
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
