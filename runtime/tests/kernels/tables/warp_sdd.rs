//! SDDMMs of `mma_sync` and `wmma`: every way to load, blocks of every class, layouts, types, epilogues, shared K, patterns.

use bsr_codegen::Problem;
use bsr_runtime::schedule::SddmmWork;
use bsr_runtime::simulated::Schedule;
use bsr_runtime::typed::with_types;
use rayon::prelude::*;

use super::sdd::{report, run};
use crate::case::Blocks;
use crate::sddmm::{SddmmCase, Simulate};
use crate::simulate::every_kernel;

use Blocks::{FullRows, Lengths, Pattern};

#[test]
fn block_classes() {
    run("sdd of warps, block classes", &block_cases());
}

#[test]
fn types_and_layouts() {
    run("sdd of warps, types and layouts", &type_cases());
}

#[test]
fn shapes_and_patterns() {
    run("sdd of warps, shapes and patterns", &shape_cases());
}

#[test]
fn epilogues() {
    run("sdd of warps, epilogues", &epilogue_cases());
}

#[test]
fn many_tiles() {
    run("sdd of warps, many tiles", &[large_cases(), part_cases()].concat());
}

#[test]
fn every_row_can_be_launched() {
    let mut wrong = vec![];
    for case in all().iter().chain(&large_cases()) {
        let checked = case.plan().and_then(|plan| {
            let nnzb = case.structure()?.nnzb() as u64;
            let (m, n, k) = (case.m as u64, case.n as u64, case.k as u64);
            let ld = m.max(n).max(k).next_multiple_of(16);
            plan.launch(&Problem { m, n, k, nnzb, lda: ld, ldb: ld, ldc: 0, ldt: 0 }, [1, 1]);
            Ok(())
        });
        wrong.extend(checked.err().map(|error| format!("{case}\n    {error}")));
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Most are stepped over, unless every kernel is asked for.
#[test]
fn simulated() {
    let step = if every_kernel() { 1 } else { 7 };
    let cases: Vec<SddmmCase> = all().into_iter().step_by(step).collect();
    simulate("sdd of warps, simulated", &cases, 3);
}

/// Two CTAs that share three tiles: the end of one tile's K is another CTA's.
#[test]
fn simulated_parts() {
    let cases = part_cases();
    for case in &cases {
        let (plan, structure) = (case.plan().unwrap(), case.structure().unwrap());
        let work = SddmmWork::new(&plan, &structure, case.k, 2).unwrap();
        assert!(work.workspace() > 0, "{case}: nothing is shared");
    }
    simulate("sdd of warps, simulated parts", &cases, 2);
}

fn simulate(name: &str, cases: &[SddmmCase], ctas: u32) {
    let of = |(i, case): (usize, &_)| {
        let case: &SddmmCase = case;
        let schedule = [Schedule::Scrambled, Schedule::Early, Schedule::Late][i % 3];
        with_types(&case.spec, Simulate { case, ctas, schedule })
    };
    let outcomes: Vec<_> = cases.par_iter().enumerate().map(|each| (each.1, of(each))).collect();
    report(name, &outcomes);
}

pub(super) fn all() -> Vec<SddmmCase> {
    [block_cases(), type_cases(), shape_cases(), epilogue_cases()].concat()
}

/// The ways to load and to multiply, for f16.
const KERNELS: [&str; 6] = [
    "mma = mma_sync",
    "mma = mma_sync, load = producer",
    "mma = mma_sync, load = tma",
    "mma = mma_sync, load = producer, arch = sm_90a",
    "mma = wmma",
    "mma = wmma, load = producer",
];

/// Blocks of every class, ragged in M, N and K, in each layout in turn.
fn block_cases() -> Vec<SddmmCase> {
    const BLOCKS: [(usize, usize); 10] =
        [(128, 128), (64, 64), (32, 32), (16, 16), (96, 80), (48, 112), (512, 112), (256, 256), (64, 320), (192, 96)];
    const LAYOUTS: [&str; 5] = [
        "",
        ", a_layout = col",
        ", b_layout = col",
        ", a_layout = col, b_layout = col",
        ", transpose = on, b_layout = col",
    ];
    let mut cases = vec![];
    for (i, (bm, bk)) in BLOCKS.into_iter().enumerate() {
        for (j, kernel) in KERNELS.into_iter().enumerate() {
            let (bn, layout) = ([256, 128, 64][(i + j) % 3], LAYOUTS[(i + 2 * j) % LAYOUTS.len()]);
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, {kernel}{layout}");
            let (rows, cols) = (2 * bm - bm / 3 - 1, (3 * bk).max(150) - bk / 2 - 3);
            let (m, n) = if layout.contains("transpose") { (cols, rows) } else { (rows, cols) };
            cases.push(SddmmCase::new(&spec, (m, n, [333, 70][i % 2]), Pattern("random:0.6")));
        }
    }
    cases
}

/// Every operand type and result type, in each layout that it has.
fn type_cases() -> Vec<SddmmCase> {
    let mut cases = vec![];
    let mut add = |text: String| cases.push(SddmmCase::new(&text, (200, 211, 150), Pattern("random:0.5")));
    for kernel in ["mma = mma_sync", "mma = mma_sync, load = tma", "mma = mma_sync, load = producer"] {
        for layouts in ["", ", a_layout = col", ", b_layout = col", ", a_layout = col, b_layout = col"] {
            add(format!("bm = 64, bn = 128, bk = 64, dtype = bf16, out = f32, {kernel}{layouts}"));
            add(format!("bm = 64, bn = 192, bk = 48, {kernel}, transpose = on{layouts}"));
        }
        for types in [
            "dtype = e4m3, out = f16",
            "a = e5m2, b = e4m3",
            "a = e4m3, b = e5m2, out = e4m3",
            "dtype = i8",
            "dtype = i8, out = f32",
        ] {
            add(format!("bm = 64, bn = 128, bk = 64, {types}, {kernel}"));
            add(format!("bm = 32, bn = 128, bk = 32, {types}, {kernel}, transpose = on"));
        }
        add(format!("bm = 64, bn = 128, bk = 64, dtype = f32, tf32 = on, b_layout = col, {kernel}"));
        add(format!("bm = 64, bn = 128, bk = 64, acc = f16, {kernel}"));
        for knob in [
            "stages = 2",
            "k_step = 32",
            "k_step = 48, stages = 3",
            "schedule = strided",
            "out = bf16",
            "out = e4m3, arch = sm_90a",
        ] {
            add(format!("bm = 64, bn = 128, bk = 64, {kernel}, {knob}"));
        }
    }
    add("bm = 64, bn = 128, bk = 64, dtype = f32, tf32 = on, mma = mma_sync".to_owned());
    add("bm = 64, bn = 128, bk = 64, dtype = f32, tf32 = on, mma = mma_sync, load = producer".to_owned());
    for shape in ["m16n16k16", "m32n8k16", "m8n32k16"] {
        add(format!("bm = 64, bn = 128, bk = 64, mma = wmma, shape = {shape}"));
        add(format!("bm = 32, bn = 64, bk = 32, mma = wmma, dtype = bf16, out = f32, shape = {shape}, transpose = on"));
    }
    for rest in [
        "arch = sm_80, out = bf16",
        "arch = sm_86, acc = f16",
        "arch = sm_89, schedule = strided",
        "arch = sm_90a",
        "arch = sm_120",
    ] {
        add(format!("bm = 64, bn = 128, bk = 64, mma = wmma, {rest}"));
    }
    for rest in
        ["arch = sm_80", "arch = sm_86", "arch = sm_89", "arch = sm_120", "warps = (2, 2)", "cta_m = 32, maxnreg = 128"]
    {
        add(format!("bm = 64, bn = 128, bk = 64, mma = mma_sync, {rest}"));
    }
    cases
}

/// M, N and K at and around the sizes of tiles, blocks and stages; empty rows, full rows, no blocks.
fn shape_cases() -> Vec<SddmmCase> {
    let mut cases = vec![];
    for (i, kernel) in KERNELS.into_iter().take(4).enumerate() {
        let spec = format!("bm = 64, bn = 128, bk = {}, {kernel}", [64, 32][i % 2]);
        for shape in
            [(1, 1, 1), (1, 200, 64), (200, 1, 65), (129, 127, 8), (128, 128, 63), (128, 192, 64), (70, 130, 0)]
        {
            cases.push(SddmmCase::new(&spec, shape, Pattern("random:0.7")));
        }
        for blocks in [
            Pattern("random:0"),
            Pattern("random:1"),
            Pattern("causal"),
            Pattern("powerlaw:0.3"),
            Lengths(&[0, 1, 2, 3]),
            Lengths(&[5, 0, 0]),
            FullRows(&[0]),
            FullRows(&[3]),
        ] {
            cases.push(SddmmCase::new(&spec, (250, 300, 150), blocks));
        }
    }
    cases
}

/// Vectors, full operands, C itself, with results of two and of four bytes.
fn epilogue_cases() -> Vec<SddmmCase> {
    const EPILOGUES: [&str; 6] = [
        "beta = on",
        "beta = on, out = f32",
        "epilogue = \"|| relu(acc)\"",
        "epilogue = \"|bias: Rows<f32>, gate: Cols<bf16>| gelu(acc + bias) * gate\"",
        "epilogue = \"|mask: Bsr<f16>, alpha: f32| alpha * acc * mask\"",
        "out = f32, epilogue = \"|mask: Bsr<f32>, bias: Cols<f16>| exp(acc * 0.1 + bias) * mask\"",
    ];
    let mut cases = vec![];
    for (i, kernel) in KERNELS.into_iter().enumerate() {
        for (j, epilogue) in EPILOGUES.into_iter().enumerate() {
            let (block, rest) =
                (["bm = 64, bk = 64", "bm = 32, bk = 48"][j % 2], ["", ", transpose = on"][(i + j / 2) % 2]);
            let spec = format!("{block}, bn = 128, {kernel}, {epilogue}{rest}");
            cases.push(SddmmCase::new(&spec, (150, 171, 90), Pattern("random:0.6")));
        }
    }
    cases
}

pub(super) fn part_cases() -> Vec<SddmmCase> {
    let of = |(i, text): (usize, &&str)| {
        let text = format!("{text}, schedule = balanced");
        let spec = crate::case::parse(&format!("op = sdd, {text}"));
        let (rows, cols) = (3 * spec.bm as usize - 5, 2 * spec.bk as usize - 3);
        let (m, n) = if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
        SddmmCase::new(&text, (m, n, 1500 + 100 * i), Lengths(&[2]))
    };
    [
        "bm = 64, bn = 128, bk = 64, mma = mma_sync",
        "bm = 64, bn = 64, bk = 32, mma = mma_sync, load = producer, b_layout = col, out = f32",
        "bm = 64, bn = 128, bk = 64, mma = mma_sync, load = tma, a_layout = col, beta = on",
        "bm = 32, bn = 128, bk = 48, mma = wmma, transpose = on",
        "bm = 64, bn = 128, bk = 64, mma = mma_sync, dtype = i8",
        "bm = 64, bn = 128, bk = 64, mma = mma_sync, acc = f16",
    ]
    .iter()
    .enumerate()
    .map(of)
    .collect()
}

/// More tiles than a GPU has multiprocessors, and fewer: too large for the simulator.
fn large_cases() -> Vec<SddmmCase> {
    let mut cases = vec![];
    for (i, kernel) in KERNELS.into_iter().enumerate() {
        let spec = format!("bm = {0}, bn = 256, bk = {0}, {kernel}", [128, 64][i % 2]);
        for (shape, pattern) in [
            ((4096, 4096, 1024), "random:0.25"),
            ((2048, 8192, 512), "powerlaw:0.2"),
            ((1000, 1000, 8192), "random:0.1"),
        ] {
            cases.push(SddmmCase::new(&spec, shape, Pattern(pattern)));
        }
    }
    cases
}
