//! The kernels of an attention's gradient: their plans, refusals and text, and what ptxas makes of them.

use std::fmt::Write;

use bsr_codegen::{KernelSpec, Plan};

use crate::golden::golden;
use crate::planning::plan;
use crate::ptxas;

const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";

/// A soft cap by a number, by head and under a mask; a temperature; a soft cap with a bias, and with documents; one that reads
/// vectors of every kind; one of many functions.
const DIFFERENTIATED: [&str; 7] = [
    "|cap: f32| cap * tanh(s * scale / cap)",
    "|cap: Heads<f32>| if i >= j { cap * tanh(s * scale / cap) } else { -inf }",
    "|t: f32| s / t",
    "|cap: f32, bias: Cols<f32>| cap * tanh(s * scale / cap) + bias",
    "|cap: f32, a: Rows<f32>, b: Cols<f32>| if a != b { -inf } else if i >= j { cap * tanh(s * scale / cap) } else { -inf }",
    "|cap: f32, a: Rows<f32>, b: Cols<f16>, slope: Heads<f32>| if a != b { -inf } else { cap * tanh(s * scale * a / cap) - slope * b }",
    "|x: f32, t: Rows<bf16>| { let u = s * scale / t; if u > x { silu(u) - exp(-u * u) } else { gelu(u) / (2 + u * u) + sin(u) } }",
];

const BOTH: [&str; 2] = ["attention_dq", "attention_dkv"];

#[test]
fn plans_by_hand() {
    let mut text = String::new();
    for op in BOTH {
        for sizes in [
            "bm = 128, bn = 128, bk = 128, dtype = bf16",
            "bm = 64, bn = 128, bk = 64",
            "bm = 64, bn = 64, bk = 128, stages = 3",
            "bm = 192, bn = 96, bk = 256, dtype = bf16",
            "bm = 128, bn = 64, bk = 128, d = 128",
            "bm = 128, bn = 128, bk = 128, score = \"|| if i >= j { s * scale } else { -inf }\"",
            "bm = 128, bn = 128, bk = 128, score = \"|cap: f32| cap * tanh(s * scale / cap)\"",
        ] {
            writeln!(text, "{}\n", plan(&format!("op = {op}, {sizes}"))).unwrap();
        }
    }
    golden("attention_backward_plans", &text);
}

#[test]
fn whole_kernels() {
    for op in BOTH {
        let plan = plan(&format!("op = {op}, bm = 64, bn = 64, bk = 64, stages = 2"));
        golden(&format!("attention_backward_whole_{op}"), plan.ptx().text());
    }
}

#[test]
fn refusals() {
    let mut text = String::new();
    for spec in [
        "op = attention_dq, bm = 96, bn = 128, bk = 128",
        "op = attention_dkv, bm = 128, bn = 80, bk = 32",
        "op = attention_dkv, bm = 128, bn = 256, bk = 128",
        "op = attention_dkv, bm = 128, bn = 192, bk = 128",
        "op = attention_dq, bm = 128, bn = 256, bk = 128",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, score = \"|| gelu_erf(s * scale)\"",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, dtype = e4m3",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, out = f32",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, stages = 3",
        "op = attention_dkv, bm = 128, bn = 128, bk = 128, k_step = 128",
        "op = attention_dkv, bm = 128, bn = 128, bk = 128, k_step = 48",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, consumers = 3",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, pack = 4, split = auto",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, cluster = 2, epilogue = \"|| relu(acc)\"",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, d = 72",
        "op = attention_dkv, bm = 128, bn = 128, bk = 128, mma = mma_sync",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, sinks = on",
        "op = attention_dkv, bm = 128, bn = 128, bk = 128, page = 64",
    ] {
        let read: KernelSpec = spec.parse().unwrap();
        writeln!(text, "{spec}\n{}\n", Plan::new(&read).expect_err(spec)).unwrap();
    }
    golden("attention_backward_refusals", &text);
}

/// Blocks, heads and types in turn.
fn matrix() -> Vec<Plan> {
    let mut plans = vec![];
    for op in BOTH {
        for (number, (bm, bk)) in [(128, 128), (64, 64), (64, 128), (128, 64), (192, 256)].into_iter().enumerate() {
            for columns in [32, 64, 96, 128] {
                let dtype = ["f16", "bf16"][number % 2];
                plans.push(plan(&format!("op = {op}, bm = {bm}, bn = {columns}, bk = {bk}, dtype = {dtype}")));
            }
        }
        for (d, bn) in [(128, 64), (64, 128), (96, 32)] {
            plans.push(plan(&format!("op = {op}, bm = 128, bn = {bn}, bk = 128, d = {d}, dtype = bf16")));
        }
    }
    let slopes = "score = \"|slope: f32| s * scale - slope * (head + 1 + batch) * abs(i - j)\"";
    let documents =
        "score = \"|a: Rows<f32>, b: Cols<f32>| if a != b { -inf } else if i >= j { s * scale } else { -inf }\"";
    let biased = "score = \"|slope: Heads<f32>, a: Rows<bf16>, b: Cols<f16>, c: Cols<f32>| s * scale - slope * abs(i - j) + a * b + c\"";
    plans.extend(differentiated());
    for op in BOTH {
        plans.push(plan(&format!("op = {op}, bm = 128, bn = 160, bk = 128, dtype = bf16")));
        for columns in [96, 160] {
            let sizes = format!("bm = 128, bn = {columns}, bk = 128, dtype = bf16");
            plans.push(plan(&format!("op = {op}, {sizes}, score = \"{}\"", DIFFERENTIATED[1])));
        }
        for (bm, bk, columns) in [(128, 128, 128), (64, 64, 128), (64, 128, 64), (128, 128, 96)] {
            for score in [CAUSAL, slopes, documents, biased] {
                plans.push(plan(&format!("op = {op}, bm = {bm}, bn = {columns}, bk = {bk}, {score}")));
            }
        }
    }
    plans.push(plan("op = attention_dq, bm = 128, bn = 192, bk = 128, dtype = bf16"));
    plans
}

/// Scores whose derivative is not the scale.
fn differentiated() -> Vec<Plan> {
    let mut plans = vec![];
    for op in BOTH {
        for (number, (bm, bk)) in [(128, 128), (64, 64), (64, 128), (128, 64)].into_iter().enumerate() {
            for (at, columns) in [64, 128].into_iter().enumerate() {
                for (which, score) in DIFFERENTIATED.into_iter().enumerate() {
                    let dtype = ["f16", "bf16"][(number + at + which) % 2];
                    let sizes = format!("bm = {bm}, bn = {columns}, bk = {bk}, dtype = {dtype}");
                    plans.push(plan(&format!("op = {op}, {sizes}, score = \"{score}\"")));
                }
            }
        }
    }
    plans
}

#[test]
fn ptxas_assembles_every_kernel_without_spills() {
    ptxas::assemble_all(&matrix(), "attention-backward");
}
