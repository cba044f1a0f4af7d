//! The kernels on the simulator.

use std::sync::OnceLock;

use bsr_codegen::lists::{ListKernel, Shape, ptx};
use bsr_simulator::{BufferId, GlobalMemory, Launch, Module, Options, Param, parse, simulate};

use crate::model;
use crate::shapes::{plan, rows, shape, structure};

fn module() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| parse(ptx()).unwrap())
}

/// Launches a kernel, and wants the simulator to find nothing.
pub(crate) fn launch(
    memory: &mut GlobalMemory,
    kernel: ListKernel,
    (grid, shared_bytes): (u32, u32),
    pointers: &[BufferId],
    numbers: &[u32],
) {
    let params = pointers.iter().map(|id| Param::Buffer(*id)).chain(numbers.iter().map(|number| Param::U32(*number)));
    let launch = Launch {
        grid: [grid, 1, 1],
        cluster: [1; 3],
        block: [kernel.threads(), 1, 1],
        shared_bytes,
        params: params.collect(),
    };
    let report = simulate(module(), kernel.entry(), &launch, memory, &Options::default()).unwrap();
    assert!(report.findings.is_empty(), "{}: {:#?}", kernel.entry(), report.findings);
}

pub(crate) fn words(memory: &GlobalMemory, id: BufferId) -> Vec<u32> {
    memory.bytes(id).chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

pub(crate) fn upload(memory: &mut GlobalMemory, words: impl IntoIterator<Item = u32>) -> BufferId {
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    if bytes.is_empty() { memory.alloc(16, 256) } else { memory.upload(bytes, 256) }
}

/// Assigns tiles on the simulator, and returns the heads and the tiles.
fn assign(shape: &Shape, rows: &[(u32, u32)], columns: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut memory = GlobalMemory::new();
    let rows = upload(&mut memory, rows.iter().flat_map(|(first, blocks)| [*first, *blocks]));
    let columns = upload(&mut memory, columns.iter().copied());
    let heads = memory.alloc(4 * shape.head_words(), 256);
    let work = memory.alloc(shape.work_bytes(), 256);
    let dealt = memory.alloc(4 * shape.tiles() as usize, 256);
    let pointers = [rows, columns, heads, work, dealt];
    launch(&mut memory, ListKernel::Assign, (1, shape.shared_bytes()), &pointers, &shape.numbers());
    (words(&memory, heads), words(&memory, work))
}

#[test]
fn the_lists_are_those_of_the_model() {
    for (spec, size, n, pattern, clusters) in [
        ("bm = 128, bn = 256, bk = 128, cluster = 2", (1024, 1024), 1024, "random:0.25", 6),
        ("bm = 128, bn = 256, bk = 128", (1024, 1024), 1000, "window:0.3", 5),
        ("bm = 64, bn = 64, bk = 64, split = auto", (2000, 1024), 1500, "powerlaw:0.2", 33),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", (8192, 4096), 4096, "powerlaw:0.06", 66),
        ("bm = 64, bn = 256, bk = 64, cluster = 2", (1536, 16384), 2048, "one long row", 66),
        ("bm = 512, bn = 128, bk = 112", (4096, 3584), 2048, "causal", 132),
        ("bm = 64, bn = 128, bk = 64, op = dds", (2048, 2048), 128, "random:0.1", 20),
        ("bm = 64, bn = 64, bk = 64", (4096, 2048), 512, "random:0.2", 264),
        ("bm = 64, bn = 64, bk = 64", (64, 64), 30, "random:1.0", 132),
    ] {
        let plan = plan(spec);
        let structure = structure(&plan, size, pattern, 1);
        let shape = shape(&plan, &structure, n, clusters);
        let rows = rows(&plan, &structure);
        let columns: Vec<u32> = (0..structure.nnzb() as u32).map(|block| 1000 + block).collect();
        let (heads, tiles) = assign(&shape, &rows, &columns);
        let model = model::lists(&shape, &rows);
        let context = format!("{spec}, {pattern}, {shape:?}");
        assert_eq!(heads[..shape.clusters as usize], model.lengths, "{context}");
        let size = shape.tile_bytes as usize / 4;
        for (slot, tile) in model.tiles.iter().enumerate() {
            if let Some(tile) = tile {
                assert_eq!(tiles[slot * size..][..4], *tile, "slot {slot}: {context}");
                assert!(tiles[slot * size + 4..(slot + 1) * size].iter().all(|word| *word == 0), "{context}");
            }
        }
        for (cluster, head) in heads[shape.clusters as usize..].chunks(32).enumerate() {
            let [.., a_row, blocks] = model.tiles[cluster].unwrap();
            let first = a_row / shape.block_rows;
            let column = |lane: u32| if lane < blocks { 1000 + first + lane } else { 0 };
            assert_eq!(head, (0..32).map(column).collect::<Vec<_>>(), "cluster {cluster}: {context}");
        }
    }
}
