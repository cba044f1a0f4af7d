//! What a card could do at best with a product: the lower of its tensor peak and what its memory lets through.

use bsr_codegen::Dtype;
use bsr_runtime::bench::Work;

use crate::{Device, DeviceKind, Problem};

/// What a card is sold with, from its maker's data sheet: rates of dense products, without structured sparsity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// As the driver names the card.
    pub name: &'static str,
    /// TFLOP/s of f32 on CUDA cores.
    pub f32: f64,
    /// TFLOP/s of the tensor cores on f16 and bf16.
    pub f16: f64,
    /// TFLOP/s of the tensor cores on FP8; none where they have no FP8.
    pub fp8: Option<f64>,
    /// The same on i8.
    pub i8: f64,
    /// TB/s of device memory.
    pub hbm_tbs: f64,
}

/// The cards whose data sheets are known: NVIDIA H200, H100 and A100 Tensor Core GPU.
const CARDS: [Peaks; 4] = [
    Peaks { name: "NVIDIA H200", f32: 67.0, f16: 989.5, fp8: Some(1979.0), i8: 1979.0, hbm_tbs: 4.8 },
    Peaks { name: "NVIDIA H100 80GB HBM3", f32: 67.0, f16: 989.5, fp8: Some(1979.0), i8: 1979.0, hbm_tbs: 3.35 },
    Peaks { name: "NVIDIA H100 PCIe", f32: 51.0, f16: 756.5, fp8: Some(1513.0), i8: 1513.0, hbm_tbs: 2.0 },
    Peaks { name: "NVIDIA A100-SXM4-80GB", f32: 19.5, f16: 312.0, fp8: None, i8: 624.0, hbm_tbs: 2.039 },
];

impl Peaks {
    /// Those of a card by the driver's name for it.
    pub fn of(name: &str) -> Option<&'static Self> {
        CARDS.iter().find(|card| card.name == name)
    }

    fn rate(&self, dtype: Dtype) -> Option<f64> {
        match dtype {
            Dtype::F32 => Some(self.f32),
            dtype if dtype.is_fp8() => self.fp8,
            dtype if dtype.bytes() == 1 => Some(self.i8),
            _ => Some(self.f16),
        }
    }
}

/// Which roof is the lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The tensor cores, or for f32 the CUDA cores.
    Tensor,
    /// Device memory.
    Memory,
}

/// The most that a card could do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roof {
    /// TFLOP/s of executed operations.
    pub tflops: f64,
    /// What limits them.
    pub bound: Bound,
}

impl Roof {
    /// The roof over a product on a GPU whose data sheet is known. Bytes are those that must move once with cold caches
    /// ([`Work::compulsory_bytes`]).
    pub fn of(problem: &Problem, device: &Device) -> Option<Self> {
        if device.kind != DeviceKind::Gpu {
            return None;
        }
        let card = Peaks::of(&device.name)?;
        let work = work(problem);
        let peak = card.rate(work.a)?;
        let flops = problem.executed_flops() as f64;
        let through_memory = flops / work.compulsory_bytes().max(1) as f64 * card.hbm_tbs;
        Some(match through_memory < peak {
            true => Self { tflops: through_memory, bound: Bound::Memory },
            false => Self { tflops: peak, bound: Bound::Tensor },
        })
    }
}

fn work(problem: &Problem) -> Work {
    let workload = &problem.workload;
    let spec = workload.facts.spec(64);
    Work {
        op: spec.op,
        transpose: spec.transpose,
        m: workload.m,
        n: workload.n,
        k: workload.k,
        block: workload.facts.block(),
        nnzb: problem.features.nnzb,
        a: spec.a,
        b: spec.b,
        out: spec.out,
    }
}
