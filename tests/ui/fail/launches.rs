//! Calls that do not fit their kernel do not compile.

use bsr::prelude::*;

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn plain(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn biased(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>) -> Dense<f16> {
    acc + bias
}

#[bsr_kernel(bm = 64, bn = 64, bk = 32)]
fn normed(a: Bsr<f16>, b: Dense<f16>) -> (Dense<f16>, Rows<f32>) {
    (acc, row_sum(acc * acc))
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn sddmm(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;

fn launches(
    stream: &Stream,
    device: &Device,
    (a, b, c): (&DeviceBsr<f16>, &DeviceDense<f16>, &mut DeviceDense<f16>),
    bias: &DeviceVector<f32>,
    scales: &DeviceScales,
) -> Result<(), bsr::KernelError> {
    // The factors the other way round.
    plain::load(device)?.launch(stream, (b, a), &mut *c)?;
    // An operand of the epilogue is missing, or of another element type, or given to a kernel that reads none.
    biased::load(device)?.launch(stream, (a, b), &mut *c)?;
    let halves: &DeviceVector<f16> = &DeviceVector::zeros(device, 64)?;
    biased::load(device)?.launch(stream, (a, b, biased_inputs { bias: halves }), &mut *c)?;
    plain::load(device)?.launch(stream, (a, b, biased_inputs { bias }), &mut *c)?;
    biased::load(device)?.launch(stream, (a, b, scales), &mut *c)?;
    // No place for the second result.
    normed::load(device)?.launch(stream, (a, b), &mut *c)?;
    // A dense result where blocks are stored.
    sddmm::load(device)?.launch(stream, (b, b), &mut *c)
}

fn products(device: &Device, b: &Dense<f16>) -> Result<(), bsr::KernelError> {
    // The pattern is missing.
    let _ = sddmm::load(device)?.multiply((b, b))?;
    Ok(())
}

fn main() {}
