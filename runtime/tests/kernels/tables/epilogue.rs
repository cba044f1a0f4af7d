//! Hopper's family with epilogues: every kind of parameter, every function, every type and layout of C.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn epilogue_parameters() {
    run_table("epilogue parameters", &parameter_cases());
}

#[test]
fn epilogue_functions() {
    run_table("epilogue functions", &function_cases());
}

#[test]
fn epilogue_operands() {
    run_table("epilogues and operands", &operand_cases());
}

#[test]
fn epilogue_shapes() {
    run_table("epilogue shapes", &shape_cases());
}

#[test]
fn epilogue_swapped() {
    run_table("epilogues of swap-AB", &swap_ab_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
    assert_launchable(&[swap_ab_cases()]);
}

#[test]
fn simulated() {
    simulate_table("epilogue", &all().concat(), 13);
}

#[test]
fn simulated_swapped() {
    simulate_table("epilogues of swap-AB", &swap_ab_cases(), 7);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![parameter_cases(), function_cases(), operand_cases(), shape_cases()]
}

/// A spec with an epilogue.
fn with(spec: &str, epilogue: &str) -> String {
    format!("{spec}, epilogue = \"{epilogue}\"")
}

/// What `OUT` stands for, in every type of C.
fn in_type(text: &str, out: &str) -> String {
    text.replace("OUT", out)
}

/// Vectors, scalars, a full operand, C itself, a second result, alone and together; every type and layout of C, on tiles
/// that are stored late and at once, in one pass and in several.
const PARAMETERS: [&str; 12] = [
    "|| relu(acc)",
    "|bias: Rows<f32>| relu(acc + bias)",
    "|bias: Cols<f32>| acc + bias",
    "|bias: Cols<bf16>, alpha: f32| gelu(alpha * acc + bias)",
    "|low: Rows<f16>, high: Cols<f16>| clamp(acc, min(low, high), max(low, high))",
    "|res: Dense<OUT>| acc - res",
    "|bias: Rows<f32>, res: Dense<OUT>, alpha: f32| gelu(alpha * acc + bias) + res",
    "|bias: Cols<f32>, gate: Dense<OUT>| (silu(acc + bias) * gate, row_sum(acc * acc))",
    "|c: Dense<OUT>, beta: f32| acc + beta * c",
    "|bias: Rows<bf16>| (acc + bias, row_sum(acc))",
    "|bias: Cols<f32>| { let x = acc + bias; (tanh(x), row_max(x)) }",
    "|divisor: Rows<f32>, s: f32| if acc > s { acc / (2 + divisor * divisor) } else { acc as bf16 / s }",
];

fn parameter_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (at, epilogue) in PARAMETERS.into_iter().enumerate() {
        for (out, layout) in
            [("f16", "row"), ("bf16", "col"), ("f32", "row"), ("f32", "col"), ("bf16", "row"), ("f16", "col")]
        {
            let sizes =
                ["bm = 128, bn = 128, bk = 64", "bm = 64, bn = 256, bk = 64", "bm = 128, bn = 64, bk = 32"][at % 3];
            let spec = format!("{sizes}, a = bf16, b = bf16, out = {out}, c_layout = {layout}");
            cases.push(Case::new(&with(&spec, &in_type(epilogue, out)), (411, 333, 521), Pattern("random:0.4")));
        }
    }
    // 8-bit results have no full operand beside them.
    for epilogue in PARAMETERS.into_iter().filter(|epilogue| !epilogue.contains("OUT")) {
        for layout in ["row", "col"] {
            let spec = format!("bm = 64, bn = 64, bk = 64, dtype = e4m3, out = e4m3, c_layout = {layout}");
            cases.push(Case::new(&with(&spec, epilogue), (211, 133, 321), Pattern("random:0.4")));
        }
    }
    cases
}

/// Every function, on sums from far below to far above 1.
fn function_cases() -> Vec<Case> {
    let functions = [
        "fma(acc, 0.5, -1)",
        "min(acc, 1.5)",
        "max(-acc, 0.25)",
        "clamp(acc, -2, 3)",
        "abs(acc)",
        "exp(acc / 8)",
        "log(abs(acc) + 1)",
        "sqrt(abs(acc))",
        "rsqrt(1 + acc * acc)",
        "sin(acc / 16)",
        "cos(acc / 16)",
        "floor(acc)",
        "tanh(acc / 16)",
        "sigmoid(acc / 4)",
        "silu(acc)",
        "gelu(acc)",
        "gelu_erf(acc)",
        "relu(acc)",
        "select(acc < 0, acc * 0.01, acc)",
        "1 / (1 + acc * acc)",
        "acc as f16 - 1",
    ];
    let case = |function: &&str| {
        let spec = "bm = 64, bn = 64, bk = 32, out = f32";
        Case::new(&with(spec, &format!("|| {function}")), (150, 100, 200), Pattern("random:0.6"))
    };
    functions.iter().map(case).collect()
}

/// Other operands, sums, scales, tiles: what stands before the epilogue.
fn operand_cases() -> Vec<Case> {
    let bias = "|bias: Rows<f32>, more: Cols<f32>| relu(acc + bias) * more";
    let full = "|bias: Cols<f32>, res: Dense<bf16>, alpha: f32| gelu(alpha * acc + bias) + res";
    let second = "|bias: Rows<f32>| (acc * bias, row_max(acc))";
    let mut cases = vec![];
    for epilogue in [bias, full, second] {
        for spec in [
            "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = tensor",
            "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = row_col",
            "bm = 128, bn = 128, bk = 64, dtype = e4m3, scale = block",
            "bm = 64, bn = 128, bk = 64, a = e5m2, b = e4m3, accumulate = promoted",
            "bm = 128, bn = 128, bk = 64, dtype = i8, out = bf16",
            "bm = 64, bn = 64, bk = 48, dtype = i8, out = bf16, scale = row_col",
            "bm = 512, bn = 128, bk = 112, dtype = bf16, cluster = 2",
            "bm = 64, bn = 64, bk = 64, dtype = bf16, cluster = 2",
            "bm = 128, bn = 256, bk = 128, dtype = bf16",
            "bm = 192, bn = 192, bk = 64, dtype = bf16, consumers = 3",
            "bm = 64, bn = 32, bk = 16, dtype = bf16, consumers = 1",
            "bm = 64, bn = 512, bk = 64, dtype = bf16",
            "bm = 64, bn = 16, bk = 16, dtype = bf16",
        ] {
            let (m, n) = if spec.contains("512, bn") { (1111, 300) } else { (411, 549) };
            cases.push(Case::new(&with(spec, epilogue), (m, n, 700), Pattern("random:0.4")));
        }
    }
    cases.extend(mirrored_cases());
    cases.extend(collected_cases());
    cases
}

/// A sparse right factor, whose kernels compute the transposed C, and sparse factors that are transposed.
fn mirrored_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (at, epilogue) in PARAMETERS.into_iter().enumerate() {
        for (out, layout, transpose) in [("bf16", "row", "off"), ("f32", "col", "on"), ("f16", "col", "off")] {
            let operation = match at % 4 {
                0 => "op = dds, a_layout = col, transpose = on",
                _ => &format!("op = dds, transpose = {transpose}"),
            };
            let sizes = ["bm = 64, bn = 128, bk = 128", "bm = 128, bn = 64, bk = 64"][at % 2];
            let spec = format!("{sizes}, a = bf16, b = bf16, out = {out}, c_layout = {layout}, {operation}");
            cases.push(Case::new(&with(&spec, &in_type(epilogue, out)), (411, 333, 521), Pattern("random:0.4")));
        }
    }
    cases
}

/// Second results of a sparse right factor, whose rows are columns of the tile, and of a transposed sparse factor: stored
/// late and at once, in one pass and in several, in tiles of one and of more row groups, at shapes around those of tiles.
fn collected_cases() -> Vec<Case> {
    let late = "|bias: Cols<f32>| (relu(acc + bias), row_sum(acc * acc + 1))";
    let full = "|bias: Rows<f32>, res: Dense<OUT>| (acc + res, row_max(acc + bias))";
    let mut cases = vec![];
    for (spec, out) in [
        ("bm = 128, bn = 128, bk = 64, out = bf16", "bf16"),
        ("bm = 64, bn = 64, bk = 256, out = f32, c_layout = col", "f32"),
        ("bm = 128, bn = 256, bk = 128, out = f16", "f16"),
        ("bm = 64, bn = 64, bk = 192, consumers = 1, out = f16", "f16"),
    ] {
        for epilogue in [late, full] {
            let text = with(&format!("op = dds, a = bf16, b = bf16, {spec}"), &in_type(epilogue, out));
            cases.extend(shapes_around(&text));
        }
    }
    for epilogue in [late, full] {
        let spec = with("bm = 128, bn = 128, bk = 64, dtype = bf16, transpose = on", &in_type(epilogue, "bf16"));
        cases.push(Case::new(&spec, (411, 333, 521), Pattern("random:0.4")));
    }
    cases
}

/// M, N and K at and around the sizes of tiles and blocks; few and many tiles; empty rows.
fn shape_cases() -> Vec<Case> {
    let late = with(
        "bm = 128, bn = 128, bk = 64, dtype = bf16",
        "|bias: Rows<f32>, more: Cols<bf16>| gelu(acc + bias) + more",
    );
    let full = with(
        "bm = 64, bn = 64, bk = 64, dtype = bf16, c_layout = col",
        "|bias: Rows<f32>, res: Dense<bf16>| (relu(acc + bias) + res, row_sum(acc))",
    );
    let again = "bm = 64, bn = 256, bk = 32, beta = on".to_owned();
    let mut cases: Vec<Case> = [&late, &full, &again].into_iter().flat_map(|spec| shapes_around(spec)).collect();
    cases.extend(patterns_of(&full, (1000, 200)));
    cases.extend(tile_counts_of(&full));
    cases.extend(tile_counts_of(&again));
    cases
}

/// Swap-AB: every kind of parameter by every type and layout of C, for sparse left and right factors, in blocks
/// of one slice and of several, one block row a tile and many; at ragged edges and with rows that are empty or full.
fn swap_ab_cases() -> Vec<Case> {
    const SIZES: [&str; 6] = [
        "bm = 32, bn = 128, bk = 32",
        "bm = 24, bn = 64, bk = 40, pack = 1",
        "bm = 8, bn = 192, bk = 16",
        "bm = 200, bn = 256, bk = 48",
        "op = dds, bm = 16, bn = 128, bk = 40",
        "op = dds, bm = 48, bn = 64, bk = 8, transpose = on",
    ];
    let mut cases = vec![];
    for (at, epilogue) in PARAMETERS.into_iter().enumerate() {
        for (kind, (out, layout)) in
            [("f16", "row"), ("bf16", "col"), ("f32", "row"), ("f32", "col"), ("bf16", "row"), ("f16", "col")]
                .into_iter()
                .enumerate()
        {
            for step in [0, 3] {
                let sizes = SIZES[(at + kind + step) % SIZES.len()];
                let spec = format!("{sizes}, swap = on, a = bf16, b = bf16, out = {out}, c_layout = {layout}");
                cases.push(Case::new(&with(&spec, &in_type(epilogue, out)), (211, 333, 221), Pattern("random:0.4")));
            }
        }
    }
    let beside = "|bias: Rows<f32>, res: Dense<bf16>| (relu(acc + bias) + res, row_max(acc))";
    for spec in [
        "bm = 32, bn = 64, bk = 64, dtype = e4m3",
        "bm = 32, bn = 64, bk = 24, transpose = on, dtype = bf16, b_layout = col",
        "bm = 112, bn = 128, bk = 200, dtype = bf16, c_layout = col",
        "op = dds, bm = 40, bn = 64, bk = 40, a_layout = col, dtype = bf16",
    ] {
        cases.push(Case::new(&with(spec, beside), (211, 149, 321), Pattern("random:0.4")));
    }
    let packed = with("bm = 24, bn = 64, bk = 32, dtype = bf16, pack = 4", beside);
    let again = "bm = 16, bn = 128, bk = 32, out = f32, beta = on".to_owned();
    cases.extend([&packed, &again].into_iter().flat_map(|spec| shapes_around(spec)));
    cases.extend(patterns_of(&packed, (500, 100)));
    cases.extend(tile_counts_of(&again));
    cases
}
