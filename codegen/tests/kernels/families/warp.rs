//! The kernels of the warp family: their plans, refusals and text, and what ptxas makes of them.

use crate::golden::{golden, golden_plans, golden_refusals, section};
use crate::planning::{joined, plan, try_plan};
use crate::ptxas;
use bsr_codegen::{KernelSpec, Plan};
use proptest::prelude::*;
use proptest::sample::select;

/// Small kernels whose text is kept, part by part.
const KEPT: [&str; 9] = [
    "bm = 32, bn = 32, bk = 32, mma = mma_sync, warps = (1, 1)",
    "bm = 16, bn = 32, bk = 48, mma = mma_sync, dtype = e4m3, warps = (1, 1), stages = 2, c_layout = col",
    "bm = 32, bn = 32, bk = 48, mma = wmma, dtype = bf16, k_step = 32, warps = (1, 1), stages = 2",
    "bm = 16, bn = 32, bk = 32, mma = wmma, arch = sm_70, b_layout = col, warps = (1, 1)",
    "bm = 16, bn = 32, bk = 32, mma = mma_sync, acc = f16, warps = (1, 1), stages = 2, c_layout = col",
    "bm = 16, bn = 32, bk = 32, mma = wmma, acc = f16, warps = (1, 1), stages = 2",
    "bm = 16, bn = 16, bk = 32, mma = mma_sync, dtype = f64, arch = sm_90a, warps = (1, 1), stages = 2, k_step = 32",
    "bm = 8, bn = 16, bk = 16, mma = mma_sync, dtype = f64, warps = (1, 1), stages = 2, b_layout = col, c_layout = col",
    "bm = 16, bn = 32, bk = 16, mma = mma_sync, dtype = f32, tf32 = on, warps = (1, 1), stages = 2",
];

/// What stands for something: the flagship, large tiles, blocks that are gathered, padded or unevenly divided.
const CHOSEN: [&str; 54] = [
    "bm = 128, bn = 128, bk = 128, mma = mma_sync",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, arch = sm_90a",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, arch = sm_90a",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, b_layout = col, c_layout = col",
    "bm = 512, bn = 128, bk = 112, mma = mma_sync",
    "bm = 512, bn = 128, bk = 112, mma = mma_sync, warps = (4, 2)",
    "bm = 512, bn = 512, bk = 112, mma = mma_sync, out = f32",
    "bm = 96, bn = 128, bk = 80, mma = mma_sync, dtype = bf16",
    "bm = 48, bn = 112, bk = 112, mma = mma_sync",
    "bm = 16, bn = 16, bk = 16, mma = mma_sync",
    "bm = 32, bn = 256, bk = 32, mma = mma_sync",
    "bm = 16, bn = 400, bk = 16, mma = mma_sync, b_layout = col",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, dtype = e4m3",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, a = e5m2, b = e4m3, arch = sm_90a",
    "bm = 64, bn = 64, bk = 144, mma = mma_sync, dtype = e4m3, out = e4m3",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = i8",
    "bm = 64, bn = 128, bk = 48, mma = mma_sync, dtype = i8, out = f16, c_layout = col",
    "bm = 128, bn = 128, bk = 128, mma = wmma",
    "bm = 128, bn = 256, bk = 128, mma = wmma, dtype = bf16, arch = sm_90a",
    "bm = 128, bn = 128, bk = 112, mma = wmma, arch = sm_70",
    "bm = 128, bn = 128, bk = 112, mma = wmma, arch = sm_75, b_layout = col",
    "bm = 128, bn = 128, bk = 64, mma = wmma, shape = m32n8k16",
    "bm = 128, bn = 128, bk = 64, mma = wmma, shape = m8n32k16",
    "bm = 8, bn = 32, bk = 16, mma = wmma, shape = m8n32k16",
    "bm = 256, bn = 128, bk = 64, mma = mma_sync, acc = f16, warps = (2, 2)",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, acc = f16, arch = sm_90a",
    "bm = 256, bn = 128, bk = 64, mma = wmma, acc = f16, warps = (2, 2), b_layout = col, c_layout = col",
    "bm = 128, bn = 128, bk = 112, mma = wmma, acc = f16, arch = sm_70",
    "bm = 32, bn = 64, bk = 48, mma = wmma, shape = m32n8k16, acc = f16, c_layout = col",
    "bm = 512, bn = 128, bk = 112, mma = mma_sync, acc = f16, cta_m = 512, warps = (4, 2)",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, cta_m = 32",
    "bm = 128, bn = 128, bk = 64, mma = wmma, cta_m = 64, warps = (2, 2)",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, maxnreg = 224, opt_level = 3",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, arch = sm_90a",
    "bm = 64, bn = 128, bk = 64, mma = mma_sync, dtype = f64, arch = sm_90a",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, dtype = f64, arch = sm_90a, b_layout = col, c_layout = col",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, shape = m16n8k16, k_step = 32",
    "bm = 64, bn = 128, bk = 64, mma = mma_sync, dtype = f64, shape = m16n8k16, b_layout = col",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, shape = m16n8k4",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, shape = m8n8k4, arch = sm_90a, c_layout = col",
    "bm = 8, bn = 32, bk = 16, mma = mma_sync, dtype = f64, arch = sm_90a",
    "bm = 48, bn = 48, bk = 48, mma = mma_sync, dtype = f64, arch = sm_90a, warps = (1, 3)",
    "bm = 32, bn = 64, bk = 16, mma = mma_sync, dtype = f64, arch = sm_90a, k_step = 32",
    "bm = 512, bn = 64, bk = 112, mma = mma_sync, dtype = f64, arch = sm_86, b_layout = col",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, arch = sm_120",
    "bm = 64, bn = 192, bk = 64, mma = mma_sync, dtype = f64, arch = sm_90a",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, dtype = f32, tf32 = on, arch = sm_90a",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = f32, tf32 = on, arch = sm_90a, b_layout = col",
    "bm = 64, bn = 96, bk = 48, mma = mma_sync, dtype = f32, tf32 = on, c_layout = col",
    "bm = 32, bn = 64, bk = 16, mma = mma_sync, dtype = f32, tf32 = on, b_layout = col, c_layout = col",
    "bm = 16, bn = 32, bk = 32, mma = mma_sync, dtype = f32, tf32 = on, out = f16, c_layout = col",
    "bm = 96, bn = 128, bk = 80, mma = mma_sync, dtype = f32, tf32 = on, out = bf16, arch = sm_86",
    "bm = 512, bn = 64, bk = 112, mma = mma_sync, dtype = f32, tf32 = on, warps = (4, 2)",
];

const REFUSED: [&str; 47] = [
    "bm = 100, bn = 128, bk = 112, mma = mma_sync",
    "bm = 128, bn = 100, bk = 112, mma = mma_sync",
    "bm = 128, bn = 128, bk = 24, mma = mma_sync",
    "bm = 4096, bn = 1024, bk = 4096, mma = mma_sync",
    "bm = 16, bn = 128, bk = 64, mma = wmma, shape = m32n8k16",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, dtype = f32",
    "bm = 128, bn = 128, bk = 64, mma = wmma, dtype = i8",
    "bm = 128, bn = 128, bk = 64, mma = wmma, dtype = e4m3",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, a = f16, b = bf16",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, acc = i32",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, cta_m = 96",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, cta_m = 32, warps = (4, 2)",
    "bm = 512, bn = 256, bk = 64, mma = mma_sync, cta_m = 512",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, maxnreg = 256, opt_level = 5",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (4, 4), maxnreg = 168",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, acc = f16, out = f32",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, acc = f16, dtype = e4m3",
    "bm = 128, bn = 128, bk = 64, mma = wmma, acc = f16, dtype = bf16",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, out = i32",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, out = e4m3",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, dtype = e4m3, b_layout = row",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, dtype = e4m3, arch = sm_80",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, arch = sm_75",
    "bm = 128, bn = 128, bk = 64, mma = wmma, dtype = bf16, arch = sm_75",
    "bm = 128, bn = 128, bk = 64, mma = wmma, out = bf16, arch = sm_70",
    "bm = 128, bn = 128, bk = 64, mma = wmma, arch = sm_70, stages = 3",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, stages = 1",
    "bm = 128, bn = 256, bk = 64, mma = mma_sync, stages = 64",
    "bm = 128, bn = 512, bk = 512, mma = mma_sync, k_step = 256",
    "bm = 128, bn = 128, bk = 512, mma = mma_sync, k_step = 512",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, k_step = 40",
    "bm = 128, bn = 128, bk = 48, mma = mma_sync, k_step = 96",
    "bm = 128, bn = 512, bk = 64, mma = mma_sync, warps = (1, 1)",
    "bm = 64, bn = 128, bk = 64, mma = mma_sync, warps = (8, 1)",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (8, 8)",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, shape = m16n16k16, vector = 4",
    "bm = 8, bn = 32, bk = 16, mma = wmma, shape = m8n32k16, out = e4m3, arch = sm_89, c_layout = col",
    "bm = 64, bn = 64, bk = 64, mma = wmma, shape = m8n8k4",
    "bm = 64, bn = 64, bk = 64, mma = wmma, dtype = f64",
    "bm = 64, bn = 64, bk = 24, mma = mma_sync, dtype = f64, shape = m16n16k16",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, shape = m16n8k8, arch = sm_80",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, a = f64, b = f32, acc = f32, out = f32",
    "bm = 8, bn = 64, bk = 64, mma = mma_sync, dtype = f64, shape = m16n8k16",
    "bm = 64, bn = 48, bk = 64, mma = mma_sync, dtype = f32, tf32 = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, tf32 = on",
    "bm = 64, bn = 64, bk = 64, mma = wmma, dtype = f32, tf32 = on",
    "bm = 64, bn = 64, bk = 64, dtype = f32, tf32 = on",
];

#[test]
fn plans_accepted() {
    golden_plans("warp_plans", KEPT.into_iter().chain(CHOSEN), |_| String::new());
    golden("warp_plan", &plan(CHOSEN[0]).to_string());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "warp_refused", &REFUSED);
}

/// One kernel whole, of the others what their types, layouts and architecture change.
#[test]
fn text() {
    golden("warp_whole", plan(KEPT[0]).ptx().text());
    for (text, name) in
        KEPT[1..].iter().zip(["fp8", "wmma", "volta", "f16_sums", "wmma_f16_sums", "f64", "f64_columns", "tf32"])
    {
        let ptx = plan(text).ptx();
        golden(&format!("warp_tiles_{name}"), section(ptx.text(), "Tiles"));
        golden(&format!("warp_epilogue_{name}"), section(ptx.text(), "Epilogue"));
    }
}

#[test]
fn kernels_assemble_without_spills() {
    let plans: Vec<Plan> = KEPT.iter().chain(&CHOSEN).map(|text| plan(text)).chain(varied()).collect();
    ptxas::assemble_all(&plans, "warp");
}

/// Plans that differ from each other in everything: sizes, types, layouts, knobs, stepped through with strides that share no
/// factor. Where a combination cannot be planned, the next one is.
fn varied() -> impl Iterator<Item = Plan> {
    const SIZES: [(u32, u32, u32); 9] = [
        (16, 16, 16),
        (16, 128, 32),
        (32, 96, 48),
        (48, 112, 112),
        (64, 64, 64),
        (96, 80, 80),
        (128, 128, 128),
        (128, 256, 96),
        (256, 128, 240),
    ];
    const TYPES: [&str; 11] = [
        "",
        "dtype = bf16",
        "out = f32",
        "dtype = e4m3",
        "dtype = i8",
        "a = e4m3, b = e5m2, out = f32",
        "arch = sm_90a",
        "dtype = e5m2, out = e4m3",
        "dtype = i8, out = bf16",
        "arch = sm_89, out = e4m3",
        "dtype = bf16, out = f16, arch = sm_90a",
    ];
    const KNOBS: [&str; 7] = [
        "",
        "c_layout = col",
        "b_layout = col",
        "stages = 2",
        "k_step = 32",
        "b_layout = col, c_layout = col",
        "b_layout = col, k_step = 32, stages = 3",
    ];
    (0..63).filter_map(|i| {
        let (bm, bn, bk) = SIZES[i % SIZES.len()];
        (0..TYPES.len()).find_map(|j| {
            let (types, knobs) = (TYPES[(3 * i + j) % TYPES.len()], KNOBS[(2 * i + i / 9) % KNOBS.len()]);
            let mma = if (i + j) % 3 == 0 { "wmma" } else { "mma_sync" };
            let block = format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = {mma}");
            try_plan(&joined(&[&block, types, knobs])).ok()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever is asked, the answer is a kernel within the limits of its architecture, or a reason and a remedy.
    #[test]
    fn any_spec_is_planned_within_limits_or_refused_in_words(text in any_spec()) {
        let spec: KernelSpec = text.parse().unwrap();
        match Plan::new(&spec) {
            Err(errors) => {
                for error in errors.iter() {
                    prop_assert!(!error.to_string().is_empty() && error.help().is_some(), "{text}: {error}");
                }
            }
            Ok(plan) => {
                let (arch, tile) = (plan.arch(), plan.cluster_tile());
                prop_assert!(plan.shared_bytes() <= arch.shared_bytes, "{text}");
                prop_assert!(plan.threads() <= 512 && plan.threads().is_multiple_of(32), "{text}");
                prop_assert!(spec.bm.is_multiple_of(tile.rows) && tile.columns == spec.bn, "{text}");
                let warps = spec.warps.map_or(plan.threads(), |(m, n)| 32 * m * n);
                prop_assert!(plan.threads() == warps, "{text}");
                let resident = resident(plan.ptx().text());
                prop_assert!(resident * plan.threads() <= arch.threads_per_sm, "{text}");
                let shared = resident * (plan.shared_bytes() + arch.shared_bytes_reserved);
                prop_assert!(shared <= arch.shared_bytes_per_sm, "{text}");
            }
        }
    }
}

/// The number behind `.minnctapersm`.
fn resident(ptx: &str) -> u32 {
    let line = ptx.lines().find_map(|line| line.strip_prefix(".minnctapersm ")).unwrap();
    line.parse().unwrap()
}

fn any_spec() -> impl Strategy<Value = String> {
    let size = || prop_oneof![6 => (1u32..=32).prop_map(|i| i * 16), 1 => 1u32..=600];
    let knob = |key: &'static str, values: &'static [&'static str]| {
        let given = select(values).prop_map(move |value| format!(", {key} = {value}"));
        prop_oneof![2 => Just(String::new()), 1 => given]
    };
    let words = (
        select(vec![
            "mma_sync",
            "mma_sync, shape = m16n8k16",
            "wmma",
            "wmma, shape = m32n8k16",
            "wmma, shape = m8n32k16",
        ]),
        knob("dtype", &["f16", "bf16", "e4m3", "e5m2", "i8", "f64", "f32, tf32 = on"]),
        knob("out", &["f16", "bf16", "f32", "e4m3", "i32"]),
        knob("acc", &["f16"]),
        knob("arch", &["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"]),
        knob("b_layout", &["row", "col"]),
        knob("c_layout", &["row", "col"]),
        knob("warps", &["(1, 1)", "(2, 2)", "(4, 2)", "(1, 8)", "(4, 4)", "(3, 1)", "(8, 8)"]),
        knob("stages", &["2", "3", "4", "6", "9"]),
        knob("k_step", &["16", "32", "48", "64", "128", "256"]),
    );
    ((size(), size(), size()), words).prop_map(
        |((bm, bn, bk), (mma, a, out, acc, arch, b, c, warps, stages, k_step))| {
            format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = {mma}{a}{out}{acc}{arch}{b}{c}{warps}{stages}{k_step}")
        },
    )
}
