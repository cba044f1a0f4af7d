//! The kernels of attention with Q, K and V of 8 bits: their plans, refusals, maps and text, and what ptxas makes of them.

use std::fmt::Write;

use crate::golden::golden;
use crate::planning::{joined, plan};
use crate::ptxas;
use bsr_codegen::{Argument, AttentionProblem, AttentionTiles, KernelSpec, Operand, Plan, StridedMap, TensorStrides};

const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";
const DOCUMENTS: &str = "score = \"|of_query: Rows<f32>, of_key: Cols<f32>, slopes: Heads<f16>, bias: Cols<bf16>| if of_query == \
                         of_key { s * scale - slopes * abs(i - j) + bias } else { -inf }\"";

const REFUSED: [&str; 13] = [
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e5m2",
    "op = attention, bm = 128, bn = 128, bk = 128, a = e4m3, b = bf16",
    "op = attention, bm = 128, bn = 128, bk = 128, a = f16, b = e4m3",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3, out = f32",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3, acc = f16",
    "op = attention, bm = 128, bn = 80, bk = 48, dtype = e4m3",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3, d = 80",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3, page = 16",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3, page = 64, scale = block",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = row_col",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3, k_step = 48",
    "op = attention, bm = 128, bn = 128, bk = 128, dtype = bf16, scale = tensor",
    "op = attention_dq, bm = 128, bn = 128, bk = 128, dtype = e4m3",
];

#[test]
fn plans_by_hand() {
    let mut text = String::new();
    for spec in [
        "op = attention, bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = tensor",
        "op = attention, bm = 64, bn = 64, bk = 64, dtype = e4m3, out = f16",
        "op = attention, bm = 128, bn = 256, bk = 128, dtype = e4m3",
    ] {
        writeln!(text, "{}\n", plan(spec)).unwrap();
    }
    golden("attention_fp8_plans", &text);
}

/// A small kernel whole.
#[test]
fn whole_kernel() {
    let spec = "op = attention, bm = 64, bn = 64, bk = 32, k_step = 32, consumers = 1, stages = 2, dtype = e4m3, scale = tensor";
    golden("attention_fp8_whole", plan(&joined(&[spec, CAUSAL])).ptx().text());
}

#[test]
fn refusals() {
    let mut text = String::new();
    for spec in REFUSED {
        let why = match spec.parse::<KernelSpec>() {
            Ok(read) => Plan::new(&read).expect_err(spec).to_string(),
            Err(errors) => errors.to_string(),
        };
        writeln!(text, "{spec}\n{why}\n").unwrap();
    }
    golden("attention_fp8_refusals", &text);
}

/// V has rows of keys, of which a box has those of a run for all columns; O has 16 bits; factors are found by head and problem.
#[test]
fn maps_and_factors() {
    let plan = plan("op = attention, bm = 64, bn = 64, bk = 64, dtype = e4m3, consumers = 2, scale = tensor");
    let strides = [
        TensorStrides::heads_first(4, 500, 64),
        TensorStrides::heads_first(2, 301, 64),
        TensorStrides::heads_first(2, 64, 304),
        TensorStrides::heads_first(4, 500, 64),
    ];
    let problem = AttentionProblem {
        batch: 3,
        heads: 4,
        key_heads: 2,
        queries: 500,
        keys: 301,
        pages: 0,
        strides,
        factors: [1, 2],
    };
    let launch = plan.attention_launch(&problem, 7).unwrap();
    let argument = |name: &str| launch.parameters.iter().find(|parameter| parameter.name == name).unwrap().argument;
    let map = |name: &str| -> StridedMap {
        let Argument::Strided(map) = argument(name) else { panic!("{name}") };
        map
    };
    let (q, v, o) = (map("map_q"), map("map_v"), map("map_o"));
    assert_eq!((q.dims, q.strides_bytes[0], q.box_dims, q.swizzle_bytes), ([64, 500, 4, 3], 64, [64, 128, 1, 1], 64));
    assert_eq!((v.dims, v.strides_bytes[0], v.box_dims), ([304, 64, 2, 3], 304, [64, 64, 1, 1]));
    assert_eq!((o.dims, o.strides_bytes[0], o.box_dims, o.swizzle_bytes), ([64, 500, 4, 3], 128, [32, 64, 1, 1], 64));
    for (name, operand) in
        [("factors_q", Operand::ScaleA), ("factors_k", Operand::ScaleB), ("factors_v", Operand::ScaleV)]
    {
        assert_eq!(argument(name), Argument::Pointer(operand));
    }
    assert_eq!([argument("factor_head"), argument("factor_problem")], [1, 2].map(Argument::Number));
    assert_eq!([0, 1, 16, 17].map(AttentionTiles::places), [16, 16, 16, 32]);
}

fn matrix() -> Vec<Plan> {
    let blocks = [(128, 128), (64, 64), (64, 128), (128, 64), (192, 96), (256, 256), (512, 32)];
    let columns = [128, 64, 256, 96, 32, 192, 160, 224];
    let scores = ["", CAUSAL, "score = \"|cap: f32| cap * tanh(s * scale / cap)\"", DOCUMENTS];
    let mut plans = vec![];
    for (at, (bm, bk)) in blocks.into_iter().enumerate() {
        for (number, columns) in columns.into_iter().enumerate() {
            let knobs = ["", "stages = 2", "split = auto", "k_step = 32", "sinks = on", "out = f16", "pack_heads = 4"];
            let knobs = knobs[(at + number) % 7];
            let knobs = if columns > 176 && knobs.starts_with("split") { "" } else { knobs };
            let score = scores[(at + number / 2) % 4];
            let score = if knobs.starts_with("pack") { "" } else { score };
            let scale = ["scale = tensor", ""][(at + number / 3) % 2];
            let block = format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}, dtype = e4m3");
            plans.push(plan(&joined(&[&block, scale, score, knobs])));
        }
    }
    // Three consumers have the fewest registers, scores of two blocks in a step the most instructions.
    for (bm, bk, columns) in [(128, 128, 64), (64, 64, 64), (64, 64, 128), (128, 128, 128)] {
        let block = format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}, dtype = e4m3, scale = tensor");
        plans.extend(scores.iter().map(|score| plan(&joined(&[&block, score]))));
        plans.push(plan(&format!("{block}, consumers = 1")));
        plans.push(plan(&format!("{block}, d = 192")));
    }
    // Factors of blocks, and pages.
    for (bm, bk, columns) in [(128, 128, 128), (64, 64, 64), (192, 96, 64), (128, 128, 256), (256, 256, 192)] {
        let block = format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}, dtype = e4m3, scale = block");
        plans.extend(scores.iter().map(|score| plan(&joined(&[&block, score]))));
        plans.push(plan(&format!("{block}, sinks = on, k_step = 32")));
        plans.push(plan(&format!("{block}, pack_heads = 8")));
        for page in [32, 64, 128, 256] {
            let keys = format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}, dtype = e4m3, page = {page}");
            plans.extend(scores[..3].iter().map(|score| plan(&joined(&[&keys, score]))));
        }
    }
    plans.push(plan("op = attention, bm = 64, bn = 64, bk = 64, dtype = e4m3, scale = block, consumers = 1"));
    plans.push(plan("op = attention, bm = 64, bn = 64, bk = 64, dtype = e4m3, scale = block, split = auto"));
    plans
}

#[test]
fn ptxas_assembles_every_kernel_without_spills() {
    ptxas::assemble_all(&matrix(), "attention-fp8");
}
