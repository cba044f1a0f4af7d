//! `mma_sync` and `wmma` with epilogues: every kind of parameter, every type and layout of C, ends of lines, roles of warps.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of, shapes_around};

use Blocks::Pattern;

#[test]
fn epilogues_of_warps() {
    run_table("epilogues of warps", &cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("epilogues of warps", &cases(), 11);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![cases()]
}

/// Every kind of parameter, by types; functions; results that forget the sum.
const EPILOGUES: [&str; 12] = [
    "|bias: Rows<f32>| acc + bias",
    "|bias: Cols<f16>| gelu(acc + bias)",
    "|bias: Rows<bf16>, alpha: f32| silu(alpha * acc + bias)",
    "|a: Rows<f16>, b: Cols<bf16>| (acc + a) * b",
    "|a: Cols<f32>, b: Rows<f32>| a * exp(b) - acc",
    "|res: Dense<f32>| relu(acc) + res",
    "|res: Dense<f16>, bias: Cols<f32>| acc * res + bias",
    "|res: Dense<bf16>, scale: Rows<f32>| if acc < res { acc } else { scale * res }",
    "|alpha: f32, beta: f32| max(alpha * acc, beta)",
    "|| tanh(acc) + sigmoid(abs(acc))",
    "|bias: Cols<f32>| bias + 0.5",
    "|| acc",
];

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for family in ["mma = mma_sync", "mma = wmma"] {
        let mut add = |sizes: &str, rest: &str, shape| {
            cases.push(Case::new(&format!("{sizes}, {family}, {rest}"), shape, Pattern("random:0.5")));
        };
        for epilogue in EPILOGUES {
            for layout in ["row", "col"] {
                let rest = format!("c_layout = {layout}, epilogue = \"{epilogue}\"");
                add("bm = 32, bn = 48, bk = 32", &rest, (101, 69, 130));
            }
        }
        for out in ["f16", "bf16", "f32"] {
            for layout in ["row", "col"] {
                add(
                    "bm = 64, bn = 64, bk = 32",
                    &format!("out = {out}, c_layout = {layout}, beta = on"),
                    (211, 133, 130),
                );
            }
        }
        for dtype in ["bf16", "f16"] {
            add(
                "bm = 64, bn = 96, bk = 48",
                &format!("dtype = {dtype}, out = e4m3, arch = sm_89, {}", of("acc + bias")),
                (133, 99, 200),
            );
        }
        for rest in ["load = producer", "load = tma", "load = tma, warps = (2, 2), c_layout = col", "arch = sm_90a"] {
            if family.contains("wmma") && rest.contains("tma") {
                continue;
            }
            for epilogue in ["acc + bias", "bias * silu(acc)"] {
                add("bm = 64, bn = 128, bk = 64", &format!("{rest}, {}", of(epilogue)), (70, 141, 170));
            }
            add("bm = 64, bn = 128, bk = 64", &format!("{rest}, beta = on"), (70, 144, 170));
        }
        let text = format!("bm = 32, bn = 32, bk = 32, {family}, {}", of("relu(acc + bias)"));
        cases.extend(shapes_around(&text));
        cases.extend(patterns_of(&text, (300, 70)));
    }
    for dtype in
        ["e4m3, out = bf16", "i8, out = f32", "e5m2, out = e4m3", "f32, tf32 = on", "f32, tf32 = on, c_layout = col"]
    {
        let spec = format!("bm = 32, bn = 32, bk = 32, mma = mma_sync, dtype = {dtype}, {}", of("0.5 * acc + bias"));
        cases.push(Case::new(&spec, (101, 69, 130), Pattern("random:0.5")));
    }
    for scale in ["tensor", "row_col"] {
        for rest in
            ["dtype = e4m3", "dtype = e5m2, out = e4m3", "dtype = i8, out = f32", "dtype = e4m3, out = f16, beta = on"]
        {
            for layout in ["row", "col"] {
                let spec =
                    format!("bm = 32, bn = 64, bk = 48, mma = mma_sync, {rest}, scale = {scale}, c_layout = {layout}");
                cases.push(Case::new(&spec, (101, 69, 130), Pattern("random:0.5")));
            }
        }
    }
    for shape in ["m32n8k16", "m8n32k16"] {
        let spec = format!("bm = 64, bn = 64, bk = 32, mma = wmma, shape = {shape}, {}", of("acc + bias"));
        cases.push(Case::new(&spec, (101, 69, 130), Pattern("random:0.5")));
    }
    for rest in ["beta = on", "epilogue = \"|bias: Cols<f32>| silu(acc + bias)\""] {
        let spec = format!("bm = 64, bn = 64, bk = 32, mma = wmma, arch = sm_70, {rest}");
        cases.push(Case::new(&spec, (101, 69, 130), Pattern("random:0.5")));
    }
    cases
}

fn of(expression: &str) -> String {
    format!("epilogue = \"|bias: Cols<f32>| {expression}\"")
}
