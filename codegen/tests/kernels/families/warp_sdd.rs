//! SDDMMs of `mma_sync` and `wmma`: the plans, the refusals, the text, and what ptxas makes of it.

use std::collections::BTreeSet;

use crate::golden::{golden, golden_plans, golden_refusals};
use crate::planning::{joined, plan, try_plan};
use crate::ptxas;
use bsr_codegen::{Argument, Operand, Plan, Problem, TileScheduler};

/// Blocks that are a tile's columns, an even part of them, and several parts; tiles of one group of columns and of eight.
const BLOCKS: [&str; 8] = [
    "bm = 128, bn = 256, bk = 128",
    "bm = 128, bn = 128, bk = 128",
    "bm = 64, bn = 256, bk = 64",
    "bm = 16, bn = 128, bk = 16",
    "bm = 32, bn = 256, bk = 32",
    "bm = 96, bn = 256, bk = 80",
    "bm = 512, bn = 256, bk = 112",
    "bm = 64, bn = 64, bk = 320",
];

const KERNELS: [&str; 12] = [
    "mma = mma_sync",
    "mma = mma_sync, arch = sm_90a, b_layout = col",
    "mma = mma_sync, load = producer, a_layout = col",
    "mma = mma_sync, load = producer, arch = sm_90a, transpose = on",
    "mma = mma_sync, load = tma",
    "mma = mma_sync, load = tma, a_layout = col, b_layout = col, dtype = bf16, out = f32",
    "mma = mma_sync, dtype = e4m3, out = bf16",
    "mma = mma_sync, dtype = i8, load = tma",
    "mma = mma_sync, dtype = f32, tf32 = on, b_layout = col",
    "mma = mma_sync, acc = f16",
    "mma = wmma, transpose = on, b_layout = col",
    "mma = wmma, load = producer, out = f32",
];

/// What else a kernel may do.
const FURTHER: [&str; 6] = [
    "",
    "beta = on",
    "batch = on",
    "schedule = balanced",
    "epilogue = \"|bias: Rows<f32>, gate: Cols<f16>| relu(acc + bias) * gate\"",
    "epilogue = \"|mask: Bsr<f16>, alpha: f32| alpha * acc * mask\"",
];

const REFUSED: [&str; 19] = [
    "op = sdd, bm = 24, bn = 64, bk = 40, mma = mma_sync",
    "op = sdd, bm = 64, bn = 520, bk = 64, mma = mma_sync",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = wmma, arch = sm_75",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f32",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = wmma, dtype = i8",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, a = f16, b = bf16",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3, a_layout = col",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = i8, b_layout = row",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f32, tf32 = on, transpose = on",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, c_layout = col",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3, scale = tensor",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, split = 2",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, batch = on, schedule = balanced",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, batch = on, beta = on",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, k_step = 24",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, permute = on, pack = 2",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, epilogue = \"|| (acc, row_sum(acc))\"",
    "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, epilogue = \"|x: Bsr<f16>, y: Bsr<f16>| acc + x * y\"",
];

/// Every kernel on every block, with one of what else it may do in turn.
fn all() -> Vec<Plan> {
    let of = |(i, block): (usize, &&str)| {
        let kernel = |(j, kernel): (usize, &&str)| {
            try_plan(&joined(&["op = sdd", block, kernel, FURTHER[(i + j) % FURTHER.len()]])).ok()
        };
        KERNELS.iter().enumerate().filter_map(kernel).collect::<Vec<_>>()
    };
    BLOCKS.iter().enumerate().flat_map(of).collect()
}

#[test]
fn plans_accepted() {
    let plans = all();
    let specs: Vec<String> = plans.iter().map(|plan| plan.spec().to_string()).collect();
    assert!(specs.len() > 60, "{} of {} are planned", specs.len(), BLOCKS.len() * KERNELS.len());
    golden_plans("warp_sdd_plans", specs.iter().map(String::as_str), |_| String::new());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "warp_sdd_refused", &REFUSED);
}

#[test]
fn kernels_assemble_without_spills() {
    ptxas::assemble_all(&all(), "warp_sdd");
}

#[test]
fn plan_table() {
    let spec = "op = sdd, bm = 128, bn = 256, bk = 64, mma = mma_sync, load = tma, transpose = on";
    golden("warp_sdd", &plan(spec).to_string());
}

const PROBLEM: Problem = Problem { m: 500, n: 300, k: 700, nnzb: 9, lda: 704, ldb: 720, ldc: 0, ldt: 0 };

/// Tiles are divided as the lists of SDDMM say it, and a tile's work fits the lanes of a warp.
#[test]
fn tiles_are_those_of_the_lists() {
    for plan in all() {
        let (spec, tiles) = (*plan.spec(), plan.sddmm_tiles().expect("an SDDMM"));
        assert_eq!(plan.tile_scheduler(), TileScheduler::Sddmm, "{spec}");
        assert_eq!(tiles.rows * tiles.slices, spec.bm, "{spec}");
        assert_eq!(tiles.group_columns * tiles.groups_per_block, spec.bk, "{spec}");
        assert!(tiles.tile_words <= 32 && tiles.tile_words.is_multiple_of(4), "{spec}: {tiles:?}");
        assert!(tiles.column_groups * tiles.group_columns <= spec.bn, "{spec}: {tiles:?}");
    }
}

/// Under `transpose = on` the factors change places.
#[test]
fn operands_are_those_of_the_stored_matrix() {
    for (transpose, left, numbers) in
        [("off", Operand::A, [500, 300, 704, 720]), ("on", Operand::B, [300, 500, 720, 704])]
    {
        let text = "op = sdd, bm = 64, bn = 64, bk = 64, mma = mma_sync, transpose = ";
        let launch = plan(&format!("{text}{transpose}")).launch(&PROBLEM, [1, 1]);
        let of = |name: &str| {
            let found = launch.parameters.iter().find(|parameter| parameter.name == name);
            found.unwrap_or_else(|| panic!("no {name}")).argument
        };
        assert_eq!(of("a"), Argument::Pointer(left));
        assert_eq!(["m", "n", "lda", "ldb"].map(of), numbers.map(Argument::Number));
    }
}

/// Each word of a key is some kernel's, so that none is drawn by chance alone.
#[test]
fn every_kernel_is_another_one() {
    let texts: BTreeSet<String> = all().iter().map(|plan| plan.ptx().text().to_owned()).collect();
    assert_eq!(texts.len(), all().len());
}
