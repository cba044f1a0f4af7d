//! TF32 by WGMMA: the plans, the refusals, the text, and what ptxas makes of it.

use crate::golden::{added, golden, golden_plans, golden_refusals};
use crate::planning::{joined, plan, try_plan};
use crate::ptxas;
use bsr_codegen::{Argument, Conversion, Operand, Plan, Problem};

/// Every family of Hopper that multiplies two factors along K: layouts of C, both operations, ragged K, epilogues, batches.
const CHOSEN: [&str; 36] = [
    "bm = 128, bn = 128, bk = 128, b_layout = col",
    "bm = 128, bn = 256, bk = 128, b_layout = col",
    "bm = 128, bn = 128, bk = 128, b_layout = col, cluster = 2",
    "bm = 128, bn = 256, bk = 128, b_layout = col, cluster = 2",
    "bm = 128, bn = 256, bk = 128, b_layout = col, cluster = 4",
    "bm = 256, bn = 128, bk = 128, b_layout = col, cluster = 2",
    "bm = 512, bn = 128, bk = 112, b_layout = col",
    "bm = 512, bn = 128, bk = 112, b_layout = col, c_layout = col",
    "bm = 512, bn = 128, bk = 112, b_layout = col, out = f16",
    "bm = 128, bn = 256, bk = 64, b_layout = col, out = bf16",
    "bm = 128, bn = 128, bk = 64, b_layout = col, out = f16, c_layout = col",
    "bm = 64, bn = 256, bk = 64, b_layout = col, consumers = 1",
    "bm = 192, bn = 192, bk = 96, b_layout = col, consumers = 3",
    "bm = 64, bn = 16, bk = 4, b_layout = col",
    "bm = 64, bn = 64, bk = 12, b_layout = col",
    "bm = 128, bn = 96, bk = 20, b_layout = col, c_layout = col",
    "bm = 64, bn = 128, bk = 8, b_layout = col, k_step = 32",
    "bm = 128, bn = 512, bk = 32, b_layout = col, stages = 2",
    "bm = 128, bn = 128, bk = 32, b_layout = col, swizzle = 64",
    "bm = 128, bn = 64, bk = 128, b_layout = col, split = auto",
    "bm = 64, bn = 64, bk = 64, b_layout = col, swap = off, pack = 3",
    "bm = 128, bn = 128, bk = 64, b_layout = col, batch = on",
    "bm = 128, bn = 128, bk = 64, b_layout = col, permute = on",
    "bm = 128, bn = 128, bk = 64, b_layout = col, pdl = early, beta = on",
    "bm = 128, bn = 128, bk = 64, b_layout = col, epilogue = \"|bias: Rows<f32>, c: Dense<f32>| relu(acc + bias) + c\"",
    "bm = 128, bn = 128, bk = 128, op = dds, transpose = on",
    "bm = 128, bn = 128, bk = 64, op = dds, transpose = on, c_layout = col, out = f16",
    "bm = 32, bn = 128, bk = 32, b_layout = col",
    "bm = 8, bn = 64, bk = 4, b_layout = col",
    "bm = 24, bn = 128, bk = 40, b_layout = col, c_layout = col",
    "bm = 96, bn = 256, bk = 72, b_layout = col, out = f16",
    "bm = 16, bn = 64, bk = 16, b_layout = col, split = 3",
    "bm = 32, bn = 64, bk = 32, op = dds, transpose = on",
    "bm = 128, bn = 256, bk = 128, op = sdd, b_layout = col",
    "bm = 64, bn = 128, bk = 48, op = sdd, b_layout = col, out = f16",
    "bm = 16, bn = 128, bk = 32, op = sdd, b_layout = col, transpose = on",
];

const REFUSED: [&str; 8] = [
    "bm = 128, bn = 128, bk = 128",
    "bm = 64, bn = 128, bk = 30, b_layout = col",
    "bm = 128, bn = 128, bk = 128, op = dds",
    "bm = 128, bn = 128, bk = 128, op = dds, transpose = on, a_layout = col",
    "bm = 128, bn = 128, bk = 128, transpose = on, b_layout = col",
    "bm = 128, bn = 128, bk = 128, op = sdd",
    "bm = 128, bn = 128, bk = 128, op = dss",
    "bm = 64, bn = 64, bk = 64, op = attention",
];

fn of(text: &str) -> String {
    joined(&[text, "dtype = f32, tf32 = on"])
}

#[test]
fn plans_accepted() {
    let specs = CHOSEN.map(of);
    golden_plans("tf32_plans", specs.iter().map(String::as_str), |_| String::new());
}

#[test]
fn plans_refused() {
    let specs = REFUSED.map(of);
    golden_refusals("snapshots", "tf32_refused", &specs.each_ref().map(String::as_str));
}

/// Beside the kernel of FP8 whose operands take as many bytes: the instruction, and the stages of K.
#[test]
fn text() {
    let (tf32, fp8) = (
        plan(&of("bm = 64, bn = 64, bk = 32, b_layout = col, consumers = 1, out = bf16")),
        plan("bm = 64, bn = 64, bk = 128, dtype = e4m3, consumers = 1"),
    );
    golden("tf32_beside_fp8", &added(tf32.ptx().text(), fp8.ptx().text()));
}

/// WGMMA would cut what TMA rounds.
#[test]
fn factors_are_rounded_on_the_way_to_shared_memory() {
    let problem = Problem { m: 500, n: 300, k: 700, nnzb: 9, lda: 704, ldb: 704, ldc: 704, ldt: 704 };
    for plan in CHOSEN.map(|text| plan(&of(text))) {
        let maps =
            plan.launch(&problem, [1, 1]).parameters.into_iter().filter_map(|parameter| match parameter.argument {
                Argument::Map(map) => Some(map),
                _ => None,
            });
        let maps: Vec<_> = maps.chain(plan.problem_maps(&problem)).collect();
        assert!(maps.iter().filter(|map| map.conversion == Conversion::Tf32).count() >= 2, "{}", plan.spec());
        for map in maps {
            let is_factor = matches!(map.operand, Operand::A | Operand::B);
            assert_eq!(map.conversion == Conversion::Tf32, is_factor, "{} of {:?}", plan.spec(), map.operand);
        }
    }
}

#[test]
fn kernels_assemble_without_spills() {
    let plans: Vec<Plan> = CHOSEN.iter().map(|text| plan(&of(text))).chain(tight()).chain(varied()).collect();
    ptxas::assemble_all(&plans, "tf32");
}

const KNOBS: [&str; 9] = [
    "",
    "cluster = 2",
    "c_layout = col",
    "batch = on",
    "out = f16",
    "stages = 3, schedule = strided",
    "k_step = 16",
    "split = auto",
    "beta = on, cluster = 2",
];

/// Consumers whose copy of a tile leaves the fewest registers, with every knob.
fn tight() -> impl Iterator<Item = Plan> {
    const TILES: [&str; 4] = [
        "bm = 128, bn = 192, bk = 112",
        "bm = 192, bn = 128, bk = 32, consumers = 3",
        "bm = 256, bn = 96, bk = 64",
        "bm = 64, bn = 192, bk = 12, consumers = 1",
    ];
    let texts = TILES.iter().flat_map(|tile| KNOBS.map(|knob| joined(&[tile, "b_layout = col", knob])));
    texts.filter_map(|text| try_plan(&of(&text)).ok())
}

/// Tiles of every width in every depth, with knobs that are stepped through.
fn varied() -> impl Iterator<Item = Plan> {
    const ROWS: [u32; 6] = [64, 128, 192, 256, 320, 512];
    const COLUMNS: [u32; 7] = [16, 64, 96, 128, 192, 256, 512];
    const DEPTHS: [u32; 6] = [8, 16, 36, 64, 112, 256];
    (0..42).filter_map(|i| {
        let block = format!("bm = {}, bn = {}, bk = {}", ROWS[i % 6], COLUMNS[i % 7], DEPTHS[(i + i / 6) % 6]);
        (0..KNOBS.len()).find_map(|j| {
            let text = joined(&[&block, "b_layout = col", KNOBS[(2 * i + j) % KNOBS.len()]]);
            try_plan(&of(&text)).ok()
        })
    })
}
