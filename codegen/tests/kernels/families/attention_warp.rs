//! The kernels of attention by `mma.sync`: their plans, refusals and text, and what ptxas makes of them.

use crate::golden::{golden, golden_plans, golden_refusals};
use crate::planning::{joined, plan};
use crate::ptxas;
use bsr_codegen::{Argument, AttentionProblem, Plan, TensorStrides, TileScheduler};

const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";

/// A vector of every kind, and as many parameters as a score may have.
const MANY: &str = "score = \"|a: Cols<f32>, b: Rows<f32>, x: f32, c: Cols<f16>, e: Cols<f32>, h: Heads<bf16>, y: f32, f: \
                    Cols<bf16>| s * scale + a * b + x * c + e * h + y * f\"";

/// What stands for something: each GPU's shared memory, blocks of one tile and of several, what a spec chooses.
const CHOSEN: [&str; 12] = [
    "bm = 64, bn = 64, bk = 64, stages = 2",
    "bm = 128, bn = 128, bk = 128",
    "bm = 128, bn = 128, bk = 128, arch = sm_86",
    "bm = 128, bn = 128, bk = 128, arch = sm_90a",
    "bm = 64, bn = 128, bk = 64, dtype = bf16, arch = sm_89",
    "bm = 128, bn = 64, bk = 128, arch = sm_120",
    "bm = 128, bn = 64, bk = 128, cta_m = 64",
    "bm = 192, bn = 96, bk = 96, sinks = on",
    "bm = 256, bn = 16, bk = 256, d = 128, stages = 8",
    "bm = 128, bn = 128, bk = 128, k_step = 128, arch = sm_90a",
    "bm = 512, bn = 80, bk = 112, maxnreg = 255",
    "bm = 128, bn = 112, bk = 16, score = \"|| s * scale - abs(i - j)\"",
];

const REFUSED: [&str; 19] = [
    "op = attention, bm = 32, bn = 64, bk = 64, mma = mma_sync",
    "op = attention, bm = 128, bn = 256, bk = 24, mma = mma_sync",
    "op = attention, bm = 128, bn = 64, bk = 1024, mma = mma_sync, d = 200",
    "op = attention, bm = 128, bn = 64, bk = 128, mma = mma_sync, dtype = e4m3",
    "op = attention, bm = 128, bn = 64, bk = 128, mma = mma_sync, dtype = f32, tf32 = on",
    "op = attention, bm = 128, bn = 64, bk = 128, mma = mma_sync, a = f16, b = bf16",
    "op = attention, bm = 128, bn = 64, bk = 128, mma = mma_sync, out = f32",
    "op = attention, bm = 128, bn = 64, bk = 128, mma = mma_sync, split = auto, pack_heads = 4, page = 64",
    "op = attention, bm = 128, bn = 64, bk = 128, mma = mma_sync, warps = (4, 1), shape = m16n16k16",
    "op = attention, bm = 128, bn = 64, bk = 128, mma = mma_sync, b_layout = col, schedule = strided",
    "op = attention, bm = 128, bn = 64, bk = 128, mma = mma_sync, arch = sm_75",
    "op = attention, bm = 64, bn = 64, bk = 128, mma = mma_sync, cta_m = 128, k_step = 48",
    "op = attention, bm = 128, bn = 128, bk = 128, mma = mma_sync, stages = 1",
    "op = attention, bm = 128, bn = 128, bk = 128, mma = mma_sync, k_step = 128, stages = 8",
    "op = attention, bm = 128, bn = 128, bk = 128, mma = mma_sync, arch = sm_86, k_step = 128",
    "op = attention, bm = 128, bn = 128, bk = 128, mma = wmma",
    "op = attention_dq, bm = 128, bn = 128, bk = 128, mma = mma_sync",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, sinks = on",
    "op = attention, bm = 64, bn = 64, bk = 64, mma = mma_sync, score = \"|| (s, row_sum(s))\"",
];

/// The plan of a spec beside operation and instruction.
fn of(text: &str) -> Plan {
    plan(&with(text))
}

fn with(text: &str) -> String {
    format!("op = attention, mma = mma_sync, {text}")
}

#[test]
fn plans_accepted() {
    let specs = CHOSEN.map(with);
    golden_plans("attention_warp_plans", specs.iter().map(String::as_str), |plan| {
        format!("{:?}\n", plan.attention_tiles())
    });
    golden("attention_warp_plan", &of(CHOSEN[1]).to_string());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "attention_warp_refused", &REFUSED);
}

/// A small kernel whole.
#[test]
fn text() {
    golden("attention_warp_whole", of(CHOSEN[0]).ptx().text());
}

/// Tensors are given by address and strides, which are checked as those of a tensor map.
#[test]
fn tensors_follow_the_strides() {
    let plan = of("bm = 128, bn = 80, bk = 64, d = 96");
    assert_eq!(plan.tile_scheduler(), TileScheduler::Attention);
    let strides = |row| TensorStrides { row, head: 96, batch: 1 << 34 };
    let strides = [strides(960), strides(192), strides(200), strides(1000)];
    let problem = AttentionProblem {
        batch: 3,
        heads: 8,
        key_heads: 2,
        queries: 500,
        keys: 300,
        pages: 0,
        strides,
        factors: [0, 0],
    };
    let launch = plan.attention_launch(&problem, 7).unwrap();
    assert_eq!((launch.grid, launch.block, launch.cluster), ([7, 1], 128, 1));
    let of = |name: &str| launch.parameters.iter().find(|parameter| parameter.name == name).unwrap().argument;
    for (name, columns, rows, heads, row) in
        [("q", 96, 500, 8, 1920), ("k", 96, 300, 2, 384), ("v", 80, 300, 2, 400), ("o", 80, 500, 8, 2000)]
    {
        let Argument::Rows(map) = of(name) else { panic!("{name}") };
        assert_eq!((map.dims, map.strides_bytes), ([columns, rows, heads, 3], [row, 192, 1 << 35]));
        assert!(map.tiled().is_ok());
        let passed = ["row", "head", "batch"].map(|stride| of(&format!("{name}_{stride}")));
        assert_eq!(passed, map.strides_bytes.map(Argument::Stride));
    }
}

/// Architectures, blocks, heads, types, scores and choices in turn.
fn matrix() -> Vec<Plan> {
    let archs = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"];
    let scores = ["", CAUSAL, MANY, "sinks = on", "score = \"|cap: f32| cap * tanh(s * scale / cap)\", sinks = on"];
    let blocks = [(128, 128), (64, 64), (64, 128), (128, 64), (192, 96), (256, 256), (512, 16)];
    let mut plans = vec![];
    for (at, arch) in archs.into_iter().enumerate() {
        // What maps of the usual sizes have, under every score.
        for (number, (bn, score)) in
            [64, 96, 128].into_iter().flat_map(|bn| scores.map(|score| (bn, score))).enumerate()
        {
            for (bm, bk) in [(64, 64), (128, 128)] {
                let dtype = ["f16", "bf16"][(at + number) % 2];
                let block = format!("bm = {bm}, bn = {bn}, bk = {bk}, dtype = {dtype}, arch = {arch}");
                plans.push(of(&joined(&[&block, score])));
            }
        }
        for (number, (bm, bk)) in blocks.into_iter().enumerate() {
            let (bn, d) =
                ([16, 32, 48, 80, 112, 64, 128][(at + number) % 7], [128, 64, 96, 16, 80][(2 * at + number) % 5]);
            let block = format!("bm = {bm}, bn = {bn}, bk = {bk}, d = {d}, arch = {arch}");
            let knobs =
                ["", "k_step = 16", "cta_m = 64", "stages = 2", "cta_m = 64, stages = 3"][(at + 3 * number) % 5];
            plans.push(of(&joined(&[&block, scores[(at + number) % 5], knobs])));
        }
    }
    plans
}

#[test]
fn ptxas_assembles_every_kernel_without_spills() {
    ptxas::assemble_all(&matrix(), "attention_warp");
}
