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

/// Scores whose parameters have gradients: slopes by head, a bias by query, by key and by both, temperatures, a soft cap that is
/// multiplied by one number and moved by another; one of many functions.
const WITH_SUMS: [&str; 7] = [
    "|slope: Heads<f32>| if i >= j { s * scale - slope * abs(i - j) } else { -inf }",
    "|a: Rows<f32>| s * scale + a",
    "|b: Cols<f32>| if i >= j { s * scale + b } else { -inf }",
    "|x: f32, a: Rows<bf16>, b: Cols<f16>| s * scale + x * a * b",
    "|t: Rows<f32>, u: Cols<f32>| s * scale / t * u",
    "|cap: f32, a: Heads<f32>, b: Cols<f32>| a * cap * tanh(s * scale / cap) + b",
    "|x: f32, t: Rows<bf16>, b: Cols<f32>| { let u = s * scale / t; if u > x { silu(u) - exp(-u * u) * b } else { gelu(u) / (2 + u * u) + sin(x * u) } }",
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
            "bm = 128, bn = 128, bk = 128, score_gradients = on, score = \"|a: f32, b: Cols<f32>| s * scale + a * b\"",
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
        "op = attention, bm = 128, bn = 128, bk = 128, score_gradients = on",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, score_gradients = on",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, score_gradients = on, score = \"|a: Cols<f32>| s * scale + a\"",
        "op = attention_dkv, bm = 128, bn = 128, bk = 128, score_gradients = on, score = \"|a: f32| s * scale + a\"",
        "op = attention_dq, bm = 128, bn = 128, bk = 128, score_gradients = on, score = \"|a: f32| s * scale + gelu_erf(a * i)\"",
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

/// Kernels that sum gradients of the score's parameters.
fn with_sums() -> Vec<Plan> {
    let mut plans = vec![];
    for (number, (bm, bk)) in [(128, 128), (64, 64), (64, 128), (128, 64)].into_iter().enumerate() {
        for (at, columns) in [64, 128].into_iter().enumerate() {
            for (which, score) in WITH_SUMS.into_iter().enumerate() {
                let dtype = ["f16", "bf16"][(number + at + which) % 2];
                let spec = format!("op = attention, bm = {bm}, bn = {columns}, bk = {bk}, dtype = {dtype}");
                let spec: KernelSpec = format!("{spec}, score = \"{score}\"").parse().unwrap();
                let specs = spec.gradients_with_score().into_iter().filter(|spec| !spec.score_sums().is_empty());
                plans.extend(specs.map(|spec| Plan::new(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"))));
            }
        }
    }
    plans
}

#[test]
fn ptxas_assembles_every_kernel_without_spills() {
    ptxas::assemble_all(&matrix(), "attention-backward");
}

#[test]
fn ptxas_assembles_kernels_with_gradients_of_scores() {
    ptxas::assemble_all(&with_sums(), "attention-backward-sums");
}

/// A kernel sums what its rows have: gradients of numbers, `Rows` and `Heads` by query, those of `Cols` by key, and none of what
/// only chooses.
#[test]
fn each_kernel_sums_its_own_gradients() {
    let score = "|before: f32, a: Rows<f32>, b: Cols<f32>, c: Heads<f32>, d: f32| if i - j > before { -inf } else { s * d + a * b + c }";
    let spec: KernelSpec = format!("op = attention, bm = 64, bn = 64, bk = 64, score = \"{score}\"").parse().unwrap();
    assert_eq!(spec.gradients_with_score().map(|spec| spec.score_sums()), [vec![1, 3, 4], vec![2]]);
    assert!(spec.gradients().iter().all(|spec| spec.score_sums().is_empty()));
    let bias: KernelSpec =
        "op = attention, bm = 64, bn = 64, bk = 64, score = \"|a: Rows<f32>| s * scale + a\"".parse().unwrap();
    assert_eq!(bias.gradients_with_score()[1], bias.gradients()[1]);
}

/// The loop over pairs, the sums of a head when its steps end, and those of a tile.
#[test]
fn sums_of_a_score() {
    let plan = plan(
        "op = attention_dkv, bm = 64, bn = 64, bk = 64, stages = 2, k_step = 32, score_gradients = on, score = \"|a: Cols<f32>| s * scale + a\"",
    );
    let text = plan.ptx().text().to_owned();
    let from = text.find("    // A partial block").unwrap();
    golden("attention_backward_sums", &text[from..from + text[from..].find("$whole:").unwrap()]);
}
