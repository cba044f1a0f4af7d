//! The tables, by family: block sizes, types and layouts, shapes, patterns, tile counts, knobs.
//!
//! Every family has the same two tests beside its tables: each row can be launched, and each kernel is right on the
//! simulator.

mod batch;
mod dds;
mod doubles;
mod drawn;
mod epilogue;
mod epilogue_warp;
mod fp8;
mod half_sums;
mod int8;
mod load;
mod packed;
mod permuted;
mod scalar;
mod sdd;
mod sdd_fused;
mod small_blocks;
mod spgemm;
mod split;
mod split_swap_ab;
mod swap_ab;
mod tf32;
mod transposed;
mod warp;
mod warp_products;
mod warp_sdd;
mod wgmma;

use bsr_codegen::{Argument, Problem};
use bsr_runtime::gpu::tensor_map;

use crate::case::{Blocks, Case, block_as_read, parse, shape_of};
use crate::run::run_table;

use Blocks::{FullRows, Lengths, Pattern};

/// A few small kernels of different make, of every family, for
/// `compute-sanitizer --tool memcheck TEST_BINARY sanitizer_sample`.
#[test]
fn sanitizer_sample() {
    run_table("sanitizer sample", &sample_cases());
}

#[test]
fn the_sample_can_be_launched() {
    assert_launchable(&[sample_cases()]);
}

fn sample_cases() -> Vec<Case> {
    [
        ("bm = 512, bn = 128, bk = 112", (600, 130, 300)),
        ("bm = 512, bn = 128, bk = 112, cluster = 2", (600, 130, 300)),
        ("bm = 64, bn = 64, bk = 16, dtype = bf16, out = f32", (130, 70, 100)),
        ("bm = 128, bn = 128, bk = 64, b_layout = col, c_layout = col", (200, 150, 200)),
        ("bm = 64, bn = 128, bk = 32, cluster = 2, out = f32, c_layout = col", (130, 300, 100)),
        ("bm = 192, bn = 192, bk = 48, consumers = 3", (200, 260, 200)),
        ("bm = 128, bn = 16, bk = 80, dtype = bf16, c_layout = col", (200, 1, 200)),
        ("bm = 512, bn = 128, bk = 112, dtype = e4m3", (600, 130, 300)),
        ("bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = block", (200, 150, 300)),
        ("bm = 64, bn = 64, bk = 48, a = e5m2, b = e4m3, out = e4m3, scale = row_col, c_layout = col", (130, 70, 200)),
        ("bm = 128, bn = 128, bk = 128, dtype = i8", (200, 150, 300)),
        ("bm = 112, bn = 128, bk = 512, transpose = on, cluster = 2", (600, 130, 300)),
        ("bm = 24, bn = 64, bk = 64, transpose = on, b_layout = col, out = f32", (130, 70, 100)),
        ("bm = 128, bn = 128, bk = 64, op = dds", (200, 150, 200)),
        ("bm = 128, bn = 64, bk = 40, op = dds, transpose = on, c_layout = col", (200, 150, 200)),
        ("bm = 128, bn = 128, bk = 72", (200, 150, 200)),
        ("bm = 32, bn = 128, bk = 32", (130, 150, 200)),
        ("bm = 24, bn = 64, bk = 40, transpose = on, c_layout = col, out = f32", (130, 70, 100)),
        ("bm = 96, bn = 64, bk = 80, op = dds", (200, 150, 200)),
        ("bm = 64, bn = 128, bk = 64, mma = mma_sync", (130, 150, 200)),
        ("bm = 96, bn = 64, bk = 80, mma = mma_sync, dtype = bf16, b_layout = col, c_layout = col", (200, 70, 200)),
        ("bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3", (130, 70, 200)),
        ("bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, arch = sm_90a", (130, 70, 200)),
        ("bm = 64, bn = 64, bk = 64, mma = mma_sync, load = producer", (130, 70, 200)),
        ("bm = 64, bn = 64, bk = 64, mma = mma_sync, load = tma", (130, 70, 200)),
        ("bm = 64, bn = 64, bk = 32, mma = wmma, load = producer", (130, 70, 200)),
        ("bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f32, tf32 = on", (130, 70, 200)),
        ("bm = 64, bn = 64, bk = 32, dtype = f32, tf32 = on, b_layout = col", (130, 70, 200)),
        ("bm = 48, bn = 64, bk = 112, mma = wmma", (130, 70, 300)),
        ("bm = 32, bn = 64, bk = 32, mma = wmma, arch = sm_70, out = f32", (130, 70, 100)),
        ("bm = 64, bn = 64, bk = 32, mma = scalar, accumulate = atomic, out = f32", (130, 70, 100)),
        ("bm = 3, bn = 1, bk = 3, mma = scalar, dtype = f64", (130, 1, 200)),
        ("bm = 48, bn = 64, bk = 80, mma = scalar, accumulate = register, vector = 8", (130, 70, 200)),
        (
            "bm = 128, bn = 64, bk = 64, epilogue = \"|bias: Rows<f32>, res: Dense<f16>| (relu(acc + bias) + res, row_sum(acc))\"",
            (200, 150, 200),
        ),
        ("bm = 128, bn = 128, bk = 64, op = dds, epilogue = \"|bias: Cols<f32>| (acc + bias, row_max(acc))\"", (200, 150, 200)),
        (
            "bm = 24, bn = 64, bk = 40, epilogue = \"|bias: Cols<f32>, res: Dense<f16>| (acc + bias + res, row_max(acc))\"",
            (130, 70, 200),
        ),
        ("bm = 128, bn = 128, bk = 64, permute = on", (200, 150, 200)),
        ("bm = 32, bn = 64, bk = 32, permute = on", (130, 70, 200)),
        ("bm = 64, bn = 32, bk = 16, split = 3", (130, 70, 500)),
        ("bm = 32, bn = 64, bk = 32, split = 3", (130, 70, 500)),
        ("bm = 64, bn = 64, bk = 64, swap = off, pack = 3", (300, 70, 500)),
        ("bm = 128, bn = 128, bk = 64, swap = off, pack = 2, split = auto", (400, 150, 700)),
        ("bm = 64, bn = 64, bk = 64, cluster = 2, swap = off, pack = 2, split = auto", (300, 150, 500)),
        ("bm = 128, bn = 64, bk = 64, pdl = early", (300, 150, 700)),
        ("bm = 128, bn = 128, bk = 64, cluster = 2, split = auto", (300, 150, 700)),
    ]
    .map(|(spec, shape)| Case::new(spec, shape, Lengths(&[2, 0, 3])))
    .to_vec()
}

/// Needs no GPU: a misspelt row shows here, and a row that cannot be planned or addressed.
///
/// # Panics
/// With all rows that cannot be launched.
fn assert_launchable(tables: &[Vec<Case>]) {
    let mut wrong = vec![];
    for case in tables.iter().flatten() {
        let checked = case.plan().and_then(|plan| {
            let nnzb = case.structure()?.nnzb() as u64;
            let (m, n, k) = (case.m as u64, case.n as u64, case.k as u64);
            let ld = m.max(n).max(k).next_multiple_of(16);
            let launch = plan.launch(&Problem { m, n, k, nnzb, lda: ld, ldb: ld, ldc: ld, ldt: ld }, [1, 1]);
            for parameter in &launch.parameters {
                if let Argument::Map(map) = &parameter.argument {
                    tensor_map::validate(4096, map)?;
                }
            }
            Ok(())
        });
        wrong.extend(checked.err().map(|error| format!("{case}\n    {error}")));
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// M, N and K at and around the sizes of tiles and blocks, one at a time.
fn shapes_around(text: &str) -> Vec<Case> {
    let spec = parse(text);
    let ((bm, bk), bn) = (block_as_read(&spec), spec.bn as usize);
    let (m, n, k) = (2 * bm + 5, bn / 2 + 6, 3 * bk + 7);
    let mut shapes = vec![(1, 1, 1)];
    shapes.extend([1, 3, 8, 17, bn - 1, bn, bn + 1, 2 * bn + 8, 1000].map(|n| (m, n, k)));
    shapes.extend([1, 8, 63, bm - 1, bm, bm + 1, 3 * bm, 3 * bm + 17].map(|m| (m, n, k)));
    shapes.extend([1, 8, 15, 16, bk - 1, bk, bk + 1, 4 * bk, 9 * bk + 9].map(|k| (m, n, k)));
    shapes.into_iter().map(|shape| Case::new(text, shape_of(&spec, shape), Pattern("random:0.7"))).collect()
}

/// Empty rows, full rows, no blocks at all, rows around the 32 block columns that are fetched at a time.
fn patterns_of(text: &str, (m, n): (usize, usize)) -> Vec<Case> {
    let shared: [Blocks; 17] = [
        Pattern("random:0.02"),
        Pattern("random:0.3"),
        Pattern("random:1"),
        Pattern("topk:1"),
        Pattern("topk:7"),
        Pattern("window:0.3"),
        Pattern("causal"),
        Pattern("powerlaw:0.2"),
        Pattern("random:0"),
        Lengths(&[0, 1, 2, 3]),
        Lengths(&[3, 0]),
        Lengths(&[1, 0, 0, 0, 0, 0, 0, 9]),
        Lengths(&[8, 4, 5, 9]),
        FullRows(&[0]),
        FullRows(&[2]),
        FullRows(&[7]),
        FullRows(&[0, 3, 4]),
    ];
    let spec = parse(text);
    let (_, bk) = block_as_read(&spec);
    let shape = |k| shape_of(&spec, (m, n, k));
    let mut cases: Vec<Case> = shared.into_iter().map(|blocks| Case::new(text, shape(20 * bk + 5), blocks)).collect();
    for lengths in [&[31, 32, 33, 0, 63, 64, 65, 101], &[96, 1, 95, 97, 0, 0, 34, 30]] {
        cases.push(Case::new(text, shape(101 * bk - 3), Lengths(lengths)));
    }
    cases
}

/// Fewer tiles than multiprocessors, as many, many more; even and uneven rows.
fn tile_counts_of(text: &str) -> Vec<Case> {
    let spec = parse(text);
    let (bm, bn) = (block_as_read(&spec).0, spec.bn as usize);
    let counts = [
        (1, 1, Pattern("topk:3")),
        (1, 2, Pattern("topk:3")),
        (3, 7, Pattern("random:0.5")),
        (4, 32, Pattern("random:0.5")),
        (4, 33, Pattern("topk:4")),
        (7, 19, Pattern("powerlaw:0.3")),
        (4, 200, Pattern("powerlaw:0.3")),
        (2, 301, FullRows(&[1])),
    ];
    let shape = |rows: usize, columns: usize| shape_of(&spec, (rows * bm - 3, columns * bn - 5, 500));
    counts.into_iter().map(|(rows, columns, blocks)| Case::new(text, shape(rows, columns), blocks)).collect()
}

/// Every pair of these sizes of blocks that falls on a diagonal of three, so that each size meets several of the other
/// kind: on shapes that are no multiples of anything, with each of these tiles and types in turn.
fn block_sizes_of(bms: &[usize], bks: &[usize], kinds: &[(usize, &str)]) -> Vec<Case> {
    let mut cases = vec![];
    for (i, bm) in bms.iter().enumerate() {
        for (j, bk) in bks.iter().enumerate() {
            if (i + j) % 3 == 0 {
                let (bn, rest) = kinds[(i + 2 * j) % kinds.len()];
                let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}{rest}");
                cases.push(Case::new(&spec, (2 * bm + 37, bn + 45, 5 * bk + 13), Pattern("random:0.6")));
            }
        }
    }
    cases
}
