//! The steps: one attribute each.

use std::error::Error;

use bsr::bsr_kernel;
use bsr::gpu::Device;
use bsr::{e4m3, f16};

use crate::measure::{Row, Scene, Step, time};

/// One CTA a stored block, which adds its product to C in memory.
#[bsr_kernel(bm = 512, bn = 64, bk = 112, mma = scalar, accumulate = atomic, out = f32)]
struct Atomic;

/// One CTA a tile of C, which keeps its sums in registers.
#[bsr_kernel(bm = 512, bn = 64, bk = 112, mma = scalar, accumulate = register)]
struct Register;

/// Loads of 16 bytes, multiply-adds of two f16 at a time.
#[bsr_kernel(bm = 512, bn = 128, bk = 112, mma = scalar, accumulate = register, vector = 8)]
struct Vectorised;

/// Tensor cores, four warps, operands staged through registers.
#[bsr_kernel(bm = 512, bn = 64, bk = 112, mma = wmma, arch = sm_70, warps = (2, 2))]
struct Wmma;

/// Eight warps.
#[bsr_kernel(bm = 512, bn = 64, bk = 112, mma = wmma, arch = sm_70, warps = (4, 2))]
struct WmmaWarps;

/// Copies that need no registers, several stages of them in flight.
#[bsr_kernel(bm = 512, bn = 64, bk = 112, mma = wmma, arch = sm_80, warps = (4, 2))]
struct WmmaAsync;

/// A wide tile, its warps left to the planner.
#[bsr_kernel(bm = 512, bn = 256, bk = 112, mma = wmma, arch = sm_80)]
struct WmmaTile;

/// Fragments that are known, not opaque.
#[bsr_kernel(bm = 512, bn = 256, bk = 112, mma = mma_sync)]
struct MmaSync;

/// Hopper: TMA, mbarriers, warpgroups.
#[bsr_kernel(bm = 512, bn = 256, bk = 112)]
struct Wgmma;

/// The same in FP8, summed by the tensor core.
#[bsr_kernel(bm = 512, bn = 256, bk = 112, dtype = e4m3, cluster = 2)]
struct Fp8;

/// Runs every step.
pub(crate) fn run(device: &Device) -> Result<Vec<Row>, Box<dyn Error>> {
    let half = Scene::<f16>::new(device, Wgmma::SPEC.b_layout)?;
    let eighth = Scene::<e4m3>::new(device, Fp8::SPEC.b_layout)?;
    let steps = vec![
        Step::new::<Atomic>("scalar, atomics", Some(30.7), &half)?,
        Step::new::<Register>("scalar, registers", Some(61.5), &half)?,
        Step::new::<Vectorised>("scalar, vectorised", Some(68.8), &half)?,
        Step::new::<Wmma>("WMMA", Some(110.0), &half)?,
        Step::new::<WmmaWarps>("WMMA, 8 warps", Some(128.0), &half)?,
        Step::new::<WmmaAsync>("WMMA, cp.async", Some(230.0), &half)?,
        Step::new::<WmmaTile>("WMMA, the best tile", Some(607.0), &half)?,
        Step::new::<MmaSync>("mma.sync", None, &half)?,
        Step::new::<Wgmma>("WGMMA", None, &half)?,
        Step::new::<Fp8>("WGMMA, FP8", None, &eighth)?,
    ];
    time(device, steps)
}
