#![deny(warnings)]
//! The body of SDDMM is its epilogue: vectors, values of blocks, a second result.

use bsr::prelude::*;

#[bsr_kernel(bm = 128, bn = 256, bk = 64)]
pub fn masked(a: Dense<f16>, b: Dense<f16>, bias: Rows<f32>, mask: Bsr<f16>, alpha: f32) -> Bsr<f16> {
    (alpha * acc + bias) * mask
}

#[bsr_kernel(bm = 64, bn = 256, bk = 64, b_layout = col)]
fn scores(a: Dense<bf16>, b: Dense<bf16>, scale: f32) -> (Bsr<bf16>, Rows<f32>) {
    let score = scale * acc;
    (score, row_max(score))
}

#[bsr_kernel(bm = 64, bn = 256, bk = 64, beta = on)]
fn gradient(a: Dense<f16>, b: Dense<f16>) -> Bsr<f32>;

#[bsr_kernel(bm = 64, bn = 256, bk = 64, batch = on)]
fn heads(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;

fn inputs<'a>(bias: &'a DeviceVector<f32>, mask: &'a DeviceBsr<f16>) -> [DeviceInputs<'a>; 2] {
    [masked_inputs { bias, mask, alpha: 0.5 }.into(), scores_inputs { scale: 0.125 }.into()]
}

#[test]
fn the_body_of_sddmm_is_its_epilogue() {
    let _ = inputs;
    let text = |spec: bsr::KernelSpec| spec.epilogue.map(|epilogue| epilogue.text());
    assert_eq!(text(masked::SPEC), Some("|bias: Rows<f32>, mask: Bsr<f16>, alpha: f32| (alpha * acc + bias) * mask"));
    assert_eq!(text(gradient::SPEC), Some("|c: Bsr<f32>, beta: f32| acc + beta * c"));
    assert!(gradient::SPEC.beta().is_on() && heads::SPEC.batch.is_on());
    assert!(masked::ENTRY.starts_with("bsr_sdd_wgmma") && scores::plan().ptx().text() == scores::PTX);
}
