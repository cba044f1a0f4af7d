//! Kernels with epilogues of their own: planned, rendered, assembled, refused.
#![allow(clippy::unwrap_used)]

use bsr_codegen::{KernelSpec, Plan};

fn plan(text: &str) -> Plan {
    let spec: KernelSpec = text.parse().unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&spec).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

#[test]
fn dump() {
    for (at, text) in [
        "bm = 128, bn = 256, bk = 128, epilogue = \"|bias: Rows<f32>| relu(acc + bias)\"",
        "bm = 128, bn = 256, bk = 128, dtype = bf16, epilogue = \"|bias: Cols<bf16>, alpha: f32| gelu(alpha * acc + bias)\"",
        "bm = 128, bn = 256, bk = 128, dtype = bf16, epilogue = \"|bias: Cols<f32>, res: Dense<bf16>, alpha: f32| gelu(alpha * acc + bias) + res\"",
        "bm = 128, bn = 256, bk = 128, out = f32, epilogue = \"|bias: Rows<bf16>, res: Dense<f32>| (gelu_erf(acc + bias) + res, row_max(acc))\"",
        "bm = 128, bn = 256, bk = 128, out = f32, c_layout = col, epilogue = \"|bias: Rows<bf16>, res: Dense<f32>| (tanh(acc + bias) + res, row_sum(acc))\"",
        "bm = 128, bn = 256, bk = 128, epilogue = \"|bias: Rows<f32>, gate: Cols<f32>, s: f32| { let x = acc / s; (if x < bias { silu(x) } else { x as bf16 / gate }, row_sum(x * x)) }\"",
        "bm = 128, bn = 256, bk = 64, dtype = bf16, epilogue = \"|bias: Rows<f32>, res: Dense<bf16>, alpha: f32| gelu(alpha * acc + bias) + res\"",
    ]
    .iter()
    .enumerate()
    {
        std::fs::write(format!("/tmp/epi_{at}.ptx"), plan(text).ptx().text()).unwrap();
    }
}
