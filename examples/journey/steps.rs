//! The steps: one attribute each.

use std::error::Error;

use bsr::arguments::{Nothing, Single};
use bsr::operation::Dsd;
use bsr::{Kernel, Layout, bsr_kernel, e4m3, f16};

/// Blocks of every step.
pub(crate) const BLOCK: (usize, usize) = (512, 112);

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

/// What goes the way: a GPU, or the simulator, with factors of one type.
pub(crate) trait Walk<T> {
    /// One step: its name, and what was reported for an H100.
    ///
    /// # Errors
    /// A kernel that cannot run, or is wrong.
    fn step<S>(&mut self, name: &'static str, reported: Option<f64>) -> Result<(), Box<dyn Error>>
    where
        S: Kernel<Op = Dsd, A = T, B = T, Further = Nothing, Returns = Single>;
}

/// The layout of B in f16, and in FP8.
pub(crate) const B_LAYOUTS: [Layout; 2] = [Wgmma::SPEC.b_layout, Fp8::SPEC.b_layout];

/// The steps in f16.
pub(crate) fn half(walk: &mut impl Walk<f16>) -> Result<(), Box<dyn Error>> {
    walk.step::<Atomic>("scalar, atomics", Some(30.7))?;
    walk.step::<Register>("scalar, registers", Some(61.5))?;
    walk.step::<Vectorised>("scalar, vectorised", Some(68.8))?;
    walk.step::<Wmma>("WMMA", Some(110.0))?;
    walk.step::<WmmaWarps>("WMMA, 8 warps", Some(128.0))?;
    walk.step::<WmmaAsync>("WMMA, cp.async", Some(230.0))?;
    walk.step::<WmmaTile>("WMMA, the best tile", Some(607.0))?;
    walk.step::<MmaSync>("mma.sync", None)?;
    walk.step::<Wgmma>("WGMMA", None)
}

/// The steps in FP8.
pub(crate) fn eighth(walk: &mut impl Walk<e4m3>) -> Result<(), Box<dyn Error>> {
    walk.step::<Fp8>("WGMMA, FP8", None)
}
