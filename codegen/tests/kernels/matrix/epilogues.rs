//! Kernels with epilogues that press hardest on registers.

use bsr_codegen::{KernelSpec, Plan};

/// Everything that needs registers at a tile's end, on the widest tiles.
const HEAVY: [&str; 8] = [
    "|bias: Rows<f32>| relu(acc + bias)",
    "|bias: Rows<f32>, alpha: f32| gelu(alpha * acc + bias)",
    "|bias: Cols<f32>| gelu(acc + bias)",
    "|bias: Cols<bf16>, gate: Cols<f32>, s: f32| gelu_erf(acc * s + bias) * gate",
    "|bias: Rows<bf16>, more: Cols<f32>| { let x = acc + bias; (tanh(x) * more, row_sum(x * x)) }",
    "|bias: Cols<f32>| (silu(acc + bias), row_max(acc))",
    "|bias: Rows<f32>, res: Dense<OUT>, alpha: f32| gelu(alpha * acc + bias) + res",
    "|bias: Cols<f32>, c: Dense<OUT>, beta: f32| (gelu_erf(acc + bias) + beta * c, row_max(acc))",
];

/// The plans of tiles, layouts and types with each of the epilogues.
pub(crate) fn plans() -> Vec<Plan> {
    let tiles = [
        ("bm = 128, bn = 256, bk = 64, dtype = bf16", "bf16"),
        ("bm = 128, bn = 256, bk = 64, c_layout = col", "f16"),
        ("bm = 128, bn = 128, bk = 128, out = f32", "f32"),
        ("bm = 256, bn = 128, bk = 112, out = f32, c_layout = col", "f32"),
        ("bm = 192, bn = 192, bk = 64, consumers = 3", "f16"),
        ("bm = 64, bn = 512, bk = 64, dtype = bf16, cluster = 2", "bf16"),
        ("bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted", "bf16"),
        ("bm = 128, bn = 256, bk = 128, dtype = e4m3, scale = row_col", "bf16"),
        ("bm = 128, bn = 256, bk = 128, dtype = i8, out = bf16", "bf16"),
        ("bm = 64, bn = 16, bk = 16, dtype = bf16", "bf16"),
    ];
    tiles
        .into_iter()
        .flat_map(|(tile, out)| HEAVY.map(|epilogue| plan(tile, &epilogue.replace("OUT", out))))
        .chain(transposed())
        .chain(swap_ab())
        .chain(divided())
        .chain([plan("bm = 128, bn = 256, bk = 128, dtype = e4m3, out = e4m3, scale = tensor", HEAVY[3])])
        .collect()
}

/// Sparse right factors, whose kernels compute the transposed C: rows are collected along the tile's columns.
fn transposed() -> impl Iterator<Item = Plan> {
    let tile = "op = dds, bm = 128, bn = 256, bk = 128, dtype = bf16";
    HEAVY.into_iter().flat_map(move |epilogue| {
        let epilogue = epilogue.replace("OUT", "bf16");
        ["c_layout = row", "c_layout = col, transpose = on"].map(|layout| plan(&format!("{tile}, {layout}"), &epilogue))
    })
}

/// Divided K with swap-AB, on the tiles with the most accumulators and with both orders of C.
fn divided() -> impl Iterator<Item = Plan> {
    let tiles = [
        ("bm = 32, bn = 256, bk = 32, dtype = bf16, split = auto", "bf16"),
        ("bm = 40, bn = 256, bk = 24, dtype = bf16, out = f32, c_layout = col, split = 2", "f32"),
        ("op = dds, bm = 32, bn = 256, bk = 32, dtype = bf16, split = auto", "bf16"),
    ];
    tiles.into_iter().flat_map(|(tile, out)| HEAVY.map(|epilogue| plan(tile, &epilogue.replace("OUT", out))))
}

/// Swap-AB, for sparse left and right factors.
fn swap_ab() -> impl Iterator<Item = Plan> {
    let tiles = [
        ("bm = 32, bn = 256, bk = 32, dtype = bf16", "bf16"),
        ("bm = 16, bn = 256, bk = 16, c_layout = col", "f16"),
        ("bm = 96, bn = 128, bk = 80, out = f32", "f32"),
        ("bm = 40, bn = 256, bk = 24, dtype = bf16, out = f32, c_layout = col", "f32"),
        ("bm = 200, bn = 192, bk = 64, transpose = on, dtype = bf16", "bf16"),
        ("op = dds, bm = 32, bn = 256, bk = 32, dtype = bf16", "bf16"),
        ("op = dds, bm = 24, bn = 128, bk = 48, transpose = on, out = f32, c_layout = col", "f32"),
        ("bm = 8, bn = 64, bk = 32, dtype = e4m3", "bf16"),
    ];
    tiles.into_iter().flat_map(|(tile, out)| {
        HEAVY.map(|epilogue| plan(&format!("{tile}, swap = on"), &epilogue.replace("OUT", out)))
    })
}

fn plan(base: &str, epilogue: &str) -> Plan {
    let spec: KernelSpec =
        format!("{base}, epilogue = \"{epilogue}\"").parse().unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&spec).unwrap_or_else(|errors| panic!("{base}: {epilogue}\n{errors}"))
}
