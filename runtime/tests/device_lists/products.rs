//! Whole products on the simulator: the kernels that check and list a pattern, and the kernel that multiplies by their
//! lists, one after the other in one memory.

use bsr_codegen::lists::{IndexWidth, ListKernel, SddmmShape};
use bsr_codegen::{Argument, Operand, Plan, Problem, TensorMap};
use bsr_runtime::{Bsr, Dense, Element, Layout, Scales, Structure, reference};
use bsr_simulator::{
    BufferId, GlobalMemory, Launch, Options, Param, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};
use half::f16;

use crate::arrays::transpose;
use crate::shapes::{plan, shape, shared, split, structure};
use crate::simulate::{launch, upload};

/// Places for blocks that no block has; their values are NaN.
const SPARE: usize = 2;

/// A pattern in the simulator's memory, and what the kernels have made of it.
struct Listed {
    memory: GlobalMemory,
    rows: BufferId,
    columns: BufferId,
    blocks: BufferId,
    capacity: u32,
    workspace: Option<BufferId>,
}

impl Listed {
    /// Checks a pattern, and transposes it where the plan's kernel reads block columns.
    fn new(plan: &Plan, structure: &Structure) -> Self {
        let mut memory = GlobalMemory::new();
        let words = |list: &[i32]| list.iter().map(|word| *word as u32).collect::<Vec<_>>();
        let capacity = (structure.nnzb() + SPARE) as u32;
        let (block_rows, block_columns) = (structure.block_rows() as u32, structure.block_cols() as u32);
        let row_ptr = upload(&mut memory, words(structure.row_ptr()));
        let col_idx = upload(&mut memory, words(structure.col_idx()).into_iter().chain([u32::MAX; SPARE]));
        let mut alloc = |words: u32| memory.alloc(4 * words as usize, 256);
        let (rows, columns, values) = (alloc(2 * block_rows), alloc(capacity), alloc(2 * block_rows));
        let (counts, by_columns) = (alloc(4 * block_columns), alloc(2 * block_columns));
        let (row_of, block_of) = (alloc(capacity), alloc(capacity));
        let error = upload(&mut memory, [u32::MAX; 2]);
        let kernel = ListKernel::Check(IndexWidth::I32);
        let sizes = [block_rows, block_columns, capacity];
        let pointers = [row_ptr, col_idx, rows, columns, error, values];
        launch(&mut memory, kernel, (kernel.grid(block_rows, 1), 0), &pointers, &sizes);
        if !plan.reads_block_columns() {
            return Self { memory, rows, columns, blocks: block_of, capacity, workspace: None };
        }
        let pointers = [rows, columns, counts, by_columns, row_of, block_of];
        transpose(&mut memory, pointers, sizes, 3);
        Self { memory, rows: by_columns, columns: row_of, blocks: block_of, capacity, workspace: None }
    }

    /// Lists the work, and returns the grid, the heads and the tiles.
    fn list(&mut self, plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> (u32, BufferId, BufferId) {
        let memory = &mut self.memory;
        if let Some(tiles) = plan.sddmm_tiles() {
            let (block_rows, k) = (structure.block_rows() as u32, n as u32);
            let shape = SddmmShape { tiles, block_rows, k, ctas: clusters, capacity: self.capacity }.checked().unwrap();
            let (heads, work) = (memory.alloc(4 * clusters as usize, 256), memory.alloc(shape.work_bytes(), 256));
            let first = memory.alloc(4 * block_rows as usize, 256);
            let numbers = shape.numbers();
            launch(memory, ListKernel::SddmmRows, (1, 128), &[self.rows, first, heads, work], &numbers);
            let (kernel, pointers) = (ListKernel::SddmmTiles, [self.rows, self.columns, first, work]);
            launch(memory, kernel, (kernel.grid(block_rows, 1), 0), &pointers, &numbers);
            return (clusters, heads, work);
        }
        if let Some(lists) = shared(plan, structure, n, clusters) {
            let made = crate::shared::list(memory, &lists, (self.rows, self.columns));
            // The kernel reads unions in the place of columns.
            self.columns = made.unions;
            return (lists.assign.clusters, made.heads, made.work);
        }
        if let Some(lists) = split(plan, structure, n, clusters) {
            let (heads, work) = crate::split::list(memory, &lists, (self.rows, self.columns));
            let place_bytes = plan.split_form().unwrap().partial_bytes as usize;
            self.workspace = Some(memory.upload(vec![0; lists.places() * place_bytes], 256));
            return (lists.clusters(), heads, work);
        }
        let shape = shape(plan, structure, n, clusters);
        let heads = memory.alloc(4 * shape.head_words(), 256);
        let work = memory.alloc(shape.work_bytes(), 256);
        let dealt = memory.alloc(4 * shape.tiles() as usize, 256);
        let pointers = [self.rows, self.columns, heads, work, dealt];
        launch(memory, ListKernel::Assign, (shape.ctas(), shape.shared_bytes()), &pointers, &shape.numbers());
        (shape.clusters, heads, work)
    }
}

/// Multiplies, and returns the bytes of C.
fn multiply(
    (plan, clusters): (&Plan, u32),
    structure: &Structure,
    [a, b, c]: [Vec<u8>; 3],
    (n, problem): (usize, Problem),
) -> Vec<u8> {
    let mut listed = Listed::new(plan, structure);
    let (grid, heads, work) = listed.list(plan, structure, n, clusters);
    let Listed { mut memory, columns, blocks, capacity, workspace, .. } = listed;
    let operands = [(Operand::A, a), (Operand::B, b), (Operand::C, c)]
        .map(|(operand, bytes)| (operand, memory.upload(bytes, 256)));
    let place =
        |operand: Operand| operands.iter().find(|(one, _)| *one == operand).map_or(operands[2].1, |(_, id)| *id);
    let shape = plan.launch(&Problem { nnzb: capacity.into(), ..problem }, [grid, 1]);
    let param = |argument: &Argument| match argument {
        Argument::Map(map) => Param::TensorMap(described(map, place(map.operand))),
        Argument::Pointer(operand) => Param::Buffer(place(*operand)),
        // Where block rows share tiles, `columns` are their unions.
        Argument::ColIdx | Argument::StageMetadata => Param::Buffer(columns),
        Argument::BlockIdx => Param::Buffer(blocks),
        Argument::WorkHead => Param::Buffer(heads),
        Argument::Work => Param::Buffer(work),
        Argument::Number(number) => Param::U32(*number),
        Argument::Workspace => workspace.map_or(Param::U64(0), Param::Buffer),
        _ => Param::U64(0),
    };
    let launch = Launch {
        grid: [shape.grid[0], shape.grid[1], 1],
        cluster: [shape.cluster, 1, 1],
        block: [shape.block, 1, 1],
        shared_bytes: shape.shared_bytes,
        params: shape.parameters.iter().map(|parameter| param(&parameter.argument)).collect(),
    };
    let ptx = plan.ptx();
    let report = simulate(&parse(ptx.text()).unwrap(), ptx.entry(), &launch, &mut memory, &Options::default()).unwrap();
    assert!(report.findings.is_empty(), "{}: {:#?}", plan.spec(), report.findings);
    memory.bytes(place(Operand::C)).to_vec()
}

fn described(map: &TensorMap, buffer: BufferId) -> TensorMapDesc {
    let rank = map.rank as usize;
    TensorMapDesc {
        buffer,
        offset: map.offset_bytes,
        element: TensorElement::F16,
        dims: map.dims[..rank].to_vec(),
        strides: map.strides_bytes[..rank - 1].to_vec(),
        box_dims: map.box_dims[..rank].to_vec(),
        element_strides: vec![1; rank],
        swizzle: Swizzle::from_span(map.swizzle_bytes).unwrap_or(Swizzle::None),
        fill_nan: false,
    }
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(2).map(|two| f16::from_le_bytes([two[0], two[1]]).to_f64()).collect()
}

fn bytes(values: &[f16]) -> Vec<u8> {
    f16::to_bytes(values)
}

#[test]
fn products_with_these_lists_are_right() {
    for (spec, (rows, cols), n, pattern, clusters) in [
        ("bm = 64, bn = 64, bk = 64", (256, 320), 136, "random:0.4", 3),
        ("bm = 128, bn = 64, bk = 64, cluster = 2, split = auto", (320, 256), 256, "powerlaw:0.4", 2),
        ("bm = 64, bn = 64, bk = 64, op = dds", (256, 320), 72, "causal", 4),
        // Every tile in parts, of rows that have fewer units, too.
        ("bm = 64, bn = 64, bk = 64, split = 3", (320, 512), 136, "powerlaw:0.4", 6),
        ("bm = 128, bn = 64, bk = 64, cluster = 2, split = 2", (320, 512), 256, "random:0.3", 4),
        ("bm = 64, bn = 64, bk = 64, op = dds, split = 4", (512, 320), 72, "random:0.3", 4),
        // Neighbouring block rows share tiles; some have no neighbour, some no block.
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", (320, 256), 136, "random:0.4", 3),
        ("bm = 64, bn = 64, bk = 64, pack = 3, swap = off, cluster = 2", (448, 320), 200, "powerlaw:0.3", 2),
        ("bm = 128, bn = 64, bk = 32, pack = 2, swap = off, split = auto", (640, 256), 72, "random:0.1", 4),
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", (320, 256), 72, "random:0", 3),
    ] {
        let plan = plan(spec);
        let a = Bsr::<f16>::normal(structure(&plan, (rows, cols), pattern, 4), 1);
        let block = a.block().0 * a.block().1;
        let mut values = a.values().to_vec();
        values.resize(values.len() + SPARE * block, f16::NAN);
        let is_dds = spec.contains("dds");
        let (dense, result) = if is_dds { ((n, rows), (n, cols)) } else { ((cols, n), (rows, n)) };
        let dense = Dense::<f16>::normal(dense.0, dense.1, Layout::RowMajor, 2);
        let (c, ld) = (vec![0xFF; 2 * result.0 * result.1], dense.ld() as u64);
        let problem = Problem {
            m: result.0 as u64,
            n: result.1 as u64,
            k: if is_dds { rows } else { cols } as u64,
            lda: ld,
            ldb: ld,
            ldc: result.1 as u64,
            ldt: result.1 as u64,
            ..Problem::default()
        };
        let (sparse, other) = (bytes(&values), bytes(dense.data()));
        let factors = if is_dds { [other, sparse, c] } else { [sparse, other, c] };
        let got = numbers(&multiply((&plan, clusters), a.structure(), factors, (n, problem)));
        let want = reference::product(plan.spec(), &a, &dense, &Scales::NONE).unwrap();
        let error = reference::relative_error(&got, &want);
        assert!(error < 2e-3, "{spec}: relative error {error}");
    }
}

#[test]
fn sddmms_with_these_lists_are_right_also_on_ctas_without_a_tile() {
    let plan = plan("op = sdd, bm = 64, bn = 64, bk = 64");
    for (pattern, ctas) in [("random:0.4", 3), ("random:0.1", 9), ("random:0", 2)] {
        let structure = structure(&plan, (256, 320), pattern, 4);
        let (a, b) = (Dense::<f16>::normal(256, 96, Layout::RowMajor, 1), Dense::normal(96, 320, Layout::RowMajor, 2));
        let problem = Problem { m: 256, n: 320, k: 96, lda: 96, ldb: 320, ..Problem::default() };
        let c = vec![0xFF; 2 * 64 * 64 * (structure.nnzb() + SPARE)];
        let got = multiply((&plan, ctas), &structure, [bytes(a.data()), bytes(b.data()), c], (96, problem));
        let (stored, spare) = got.split_at(2 * 64 * 64 * structure.nnzb());
        assert!(spare.iter().all(|byte| *byte == 0xFF), "{pattern}: what is no block was written");
        let want = reference::sddmm(&a, &b, &structure).unwrap();
        let error = if want.is_empty() { 0.0 } else { reference::relative_error(&numbers(stored), &want) };
        assert!(error < 2e-3, "{pattern}: relative error {error}");
    }
}
