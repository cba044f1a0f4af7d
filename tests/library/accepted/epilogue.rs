//! The body of a function is its epilogue.

use bsr::prelude::*;

#[bsr_kernel(bm = 128, bn = 256, bk = 64)]
pub fn ffn_up(a: Bsr<bf16>, b: Dense<bf16>, bias: Rows<f32>, res: Dense<bf16>, alpha: f32) -> Dense<bf16> {
    gelu(alpha * acc + bias) + res
}

#[bsr_kernel(bm = 64, bn = 128, bk = 32)]
fn normed(a: Bsr<f16>, b: Dense<f16>, gain: Cols<bf16>) -> (Dense<f16>, Rows<f32>) {
    let x = acc * gain;
    let clipped = if x < -4.0 {
        -4.0
    } else if x > 4.0 {
        4.0
    } else {
        x
    };
    (clipped as f16, row_sum(x * x))
}

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn scaled(a: Bsr<f16>, b: Dense<f16>, alpha: f32) -> Dense<f16> {
    alpha * acc
}

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn plain(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> {
    relu(acc)
}

#[bsr_kernel(bm = 64, bn = 64, bk = 32, epilogue = "|bias: Cols<f32>| silu(acc + bias)")]
struct Linear;

#[bsr_kernel(bm = 64, bn = [64, 128], bk = 32)]
fn family(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>) -> Dense<f16> {
    relu(acc + bias)
}

fn inputs<'a>(
    bias: &'a DeviceVector<f32>,
    res: &'a DeviceDense<bf16>,
    gain: &'a DeviceVector<bf16>,
) -> [DeviceInputs<'a>; 5] {
    [
        ffn_up_inputs { bias, res, alpha: 0.5 }.into(),
        normed_inputs { gain }.into(),
        scaled_inputs { alpha: 2.0 }.into(),
        Linear_inputs { bias }.into(),
        family_inputs { bias }.into(),
    ]
}

#[test]
fn the_body_of_a_function_is_its_epilogue() {
    let _ = inputs;
    let text = |spec: bsr::KernelSpec| spec.epilogue.map(|epilogue| epilogue.text());
    assert_eq!(
        text(ffn_up::SPEC),
        Some("|bias: Rows<f32>, res: Dense<bf16>, alpha: f32| gelu(alpha * acc + bias) + res")
    );
    assert_eq!(
        text(normed::SPEC),
        Some(
            "|gain: Cols<bf16>| { let x = acc * gain; let clipped = if x < -4.0 { -4.0 } else if x > 4.0 { 4.0 } else \
             { x }; (clipped as f16, row_sum(x * x)) }"
        )
    );
    assert_eq!(text(Linear::SPEC), Some("|bias: Cols<f32>| silu(acc + bias)"));
    assert_eq!(family::MEMBERS.len(), 2);
    assert_eq!(ffn_up::plan().ptx().text(), ffn_up::PTX);
}
