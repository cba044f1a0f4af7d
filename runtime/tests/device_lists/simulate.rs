//! The kernels on the simulator.

use bsr_codegen::lists::{ListKernel, SddmmShape, Shape, specification};
use bsr_codegen::{Plan, TileScheduler};
use bsr_runtime::Structure;
use bsr_runtime::schedule::SddmmWork;
use bsr_runtime::simulated::lists::{ListKernels, Stream};
use bsr_simulator::{BufferId, GlobalMemory, LaunchError};
use proptest::prelude::*;

use crate::shapes::{plan, rows, shape, structure};

/// Launches a kernel, and wants the simulator to find nothing.
pub(crate) fn launch(
    memory: &mut GlobalMemory,
    kernel: ListKernel,
    grid: (u32, u32),
    pointers: &[BufferId],
    numbers: &[u32],
) {
    clean(memory, |stream| stream.launch(kernel, grid, pointers, numbers));
}

/// Launches kernels one after the other, and wants the simulator to find nothing.
pub(crate) fn clean<T>(
    memory: &mut GlobalMemory,
    launches: impl FnOnce(&mut Stream<'_>) -> Result<T, LaunchError>,
) -> T {
    let kernels = ListKernels::own().unwrap();
    let mut stream = Stream::new(&kernels, memory);
    let done = launches(&mut stream).unwrap();
    let findings = stream.findings();
    assert!(findings.is_empty(), "{findings:#?}");
    done
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
    let (heads, work) = clean(&mut memory, |stream| stream.assign(shape, (rows, columns)));
    (words(&memory, heads), words(&memory, work))
}

#[test]
fn the_lists_are_those_of_the_specification() {
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
        // Panels of several columns, the last one with less than a tile for each cluster.
        ("bm = 64, bn = 64, bk = 64", (192, 1024), 6400, "random:0.4", 132),
        // More rows than all threads load together.
        ("bm = 64, bn = 64, bk = 64", (64 * 4500, 640), 128, "random:0.3", 66),
        // Several CTAs write these.
        ("bm = 64, bn = 64, bk = 64", (16384, 512), 1024, "random:0.3", 132),
        ("bm = 64, bn = 64, bk = 64", (16384, 512), 1000, "topk:3", 66),
    ] {
        let plan = plan(spec);
        compare(&plan, &structure(&plan, size, pattern, 1), n, clusters);
    }
}

/// Compares the kernel's lists with those of the specification, word by word.
fn compare(plan: &Plan, structure: &Structure, n: usize, clusters: u32) {
    let shape = shape(plan, structure, n, clusters);
    let rows = rows(plan, structure);
    let columns: Vec<u32> = (0..structure.nnzb() as u32).map(|block| 1000 + block).collect();
    let (heads, tiles) = assign(&shape, &rows, &columns);
    let specified = specification::assign(&shape, &rows);
    let context = format!("{}, {rows:?}, {shape:?}", plan.spec());
    assert_eq!(heads[..shape.clusters as usize], specified.lengths, "{context}");
    let size = shape.tile_bytes as usize / 4;
    for (slot, tile) in specified.tiles.iter().enumerate() {
        if let Some(tile) = tile {
            assert_eq!(tiles[slot * size..][..4], *tile, "slot {slot}: {context}");
            assert!(tiles[slot * size + 4..(slot + 1) * size].iter().all(|word| *word == 0), "{context}");
        }
    }
    for (cluster, head) in heads[shape.clusters as usize..].chunks(32).enumerate() {
        let [.., a_row, blocks] = specified.tiles[cluster].unwrap();
        let first = a_row / shape.tile.block_rows;
        let column = |lane: u32| if lane < blocks { 1000 + first + lane } else { 0 };
        assert_eq!(head, (0..32).map(column).collect::<Vec<_>>(), "cluster {cluster}: {context}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rows of any lengths, few of them long: the kernel and the specification list the same, every tile once, and every cluster
    /// has a tile.
    #[test]
    fn rows_of_any_lengths_are_listed_as_specified(
        spec in prop::sample::select(vec![
            "bm = 64, bn = 64, bk = 64",
            "bm = 192, bn = 128, bk = 32, cluster = 2",
            "bm = 64, bn = 64, bk = 16, split = auto",
        ]),
        lengths in prop::collection::vec(prop_oneof![0_usize..4, 0_usize..40, 0_usize..400], 1..70),
        n in 1_usize..2000,
        clusters in 1_u32..140,
    ) {
        let plan = plan(spec);
        let (bm, bk) = (plan.spec().bm as usize, plan.spec().bk as usize);
        let row_ptr = lengths.iter().scan(0, |at, length| { *at += *length as i32; Some(*at) });
        let row_ptr = std::iter::once(0).chain(row_ptr).collect();
        let col_idx = lengths.iter().flat_map(|length| 0..*length as i32).collect();
        let structure = Structure::new(lengths.len() * bm, 400 * bk, (bm, bk), row_ptr, col_idx).unwrap();
        compare(&plan, &structure, n, clusters);
    }
}

#[test]
fn the_lists_of_an_sddmm_are_those_of_the_host() {
    for (spec, size, k, pattern, ctas) in [
        ("op = sdd, bm = 128, bn = 128, bk = 128, schedule = strided", (1024, 1024), 512, "random:0.4", 5),
        ("op = sdd, bm = 64, bn = 64, bk = 64, schedule = strided", (1280, 2048), 100, "powerlaw:0.2", 7),
        ("op = sdd, bm = 512, bn = 128, bk = 112, schedule = strided", (2000, 2000), 64, "causal", 20),
        ("op = sdd, bm = 64, bn = 64, bk = 64, schedule = strided", (256, 256), 0, "random:0.3", 132),
        // Tiles of several blocks, also of half the width; blocks of several column groups.
        ("op = sdd, bm = 64, bn = 256, bk = 64, schedule = strided", (1280, 2048), 512, "random:0.4", 7),
        ("op = sdd, bm = 128, bn = 192, bk = 32, schedule = strided", (1280, 1024), 512, "powerlaw:0.3", 9),
        ("op = sdd, bm = 128, bn = 128, bk = 256, schedule = strided", (1280, 2048), 512, "random:0.3", 9),
    ] {
        let plan = plan(spec);
        let structure = structure(&plan, size, pattern, 1);
        let host = SddmmWork::new(&plan, &structure, k, ctas).unwrap();
        let shape = SddmmShape {
            tiles: plan.sddmm_tiles().unwrap(),
            block_rows: structure.block_rows() as u32,
            k: k as u32,
            ctas,
            capacity: structure.nnzb() as u32 + 3,
        };
        let shape = shape.checked().unwrap();
        let mut memory = GlobalMemory::new();
        let ends = structure.row_ptr().windows(2);
        let rows = upload(&mut memory, ends.flat_map(|ends| [ends[0] as u32, (ends[1] - ends[0]) as u32]));
        let columns = upload(&mut memory, structure.col_idx().iter().map(|column| *column as u32));
        let first = memory.alloc(4 * shape.block_rows as usize, 256);
        let heads = memory.alloc(4 * ctas as usize, 256);
        let work = memory.alloc(shape.work_bytes(), 256);
        launch(&mut memory, ListKernel::SddmmRows, (1, 128), &[rows, first, heads, work], &shape.numbers());
        let grid = (ListKernel::SddmmTiles.grid(shape.block_rows, 1), 0);
        launch(&mut memory, ListKernel::SddmmTiles, grid, &[rows, columns, first, work], &shape.numbers());
        let (heads, words) = (words(&memory, heads), words(&memory, work));
        let (own, size) = (host.ctas() as usize, shape.tiles.tile_words as usize);
        assert_eq!(heads[..own], host.heads(), "{spec}");
        assert!(heads[own..].iter().all(|tiles| *tiles == 1), "{spec}");
        let (host_words, tiles) = (host.words(), host.heads().iter().sum::<u32>() as usize);
        assert_eq!(words[..tiles * size], host_words[..tiles * size], "{spec}");
        // CTAs without a tile multiply one stage of zeros and store nothing.
        for tile in words[tiles * size..].chunks(size).take((ctas as usize).saturating_sub(tiles)) {
            assert_eq!(tile[..8], [0, TileScheduler::OUTSIDE, 1, 0, 0, 0, 0, 0], "{spec}");
            assert!(tile[8..].iter().all(|word| *word == TileScheduler::OUTSIDE), "{spec}");
        }
    }
}
