//! What a card could do at best with a product: the lower of its tensor peak and what its memory lets through.

use bsr_codegen::Dtype;
use bsr_runtime::bench::Work;

use crate::{DeviceId, DeviceKind, Heads, TuningProblem, Workload};

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
    pub fn of(problem: &TuningProblem, device: &DeviceId) -> Option<Self> {
        if device.kind != DeviceKind::Gpu {
            return None;
        }
        let card = Peaks::of(&device.name)?;
        let work = work(problem);
        let peak = card.rate(work.a)?;
        let flops = problem.executed_flops() as f64;
        let bytes = match problem.workload.facts.is_attention() {
            true => attention_bytes(problem),
            false => work.compulsory_bytes(),
        };
        let through_memory = flops / bytes.max(1) as f64 * card.hbm_tbs;
        Some(match through_memory < peak {
            true => Self { tflops: through_memory, bound: Bound::Memory },
            false => Self { tflops: peak, bound: Bound::Tensor },
        })
    }
}

/// Q, K, V and O of an attention.
fn attention_bytes(problem: &TuningProblem) -> u64 {
    let Workload { facts, m, n, source, .. } = &problem.workload;
    let (spec, Heads { batch, heads, key_heads }) = (facts.spec(64), source.heads());
    let columns = u64::from(spec.score_depth() + spec.bn);
    let rows = (batch * heads * m + batch * key_heads * n) as u64;
    rows * columns * u64::from(spec.a.bytes())
}

fn work(problem: &TuningProblem) -> Work {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_runtime::Pattern;

    use super::*;
    use crate::Source;

    fn problem(facts: &str, [m, n, k]: [usize; 3], pattern: &str) -> TuningProblem {
        let facts: crate::Facts = facts.parse().unwrap();
        let structure = pattern.parse::<Pattern>().unwrap().structure(m, k, facts.block(), 0).unwrap();
        TuningProblem::new(
            Workload { facts, m, n, k, source: Source::Pattern(pattern.to_owned()), seed: 0 },
            &structure,
        )
    }

    fn h200(kind: DeviceKind) -> DeviceId {
        DeviceId { kind, name: "NVIDIA H200".to_owned(), driver: String::new() }
    }

    #[test]
    fn wide_products_are_bound_by_arithmetic_and_narrow_ones_by_memory() {
        let wide = problem("bm = 512, bk = 112", [8192, 8192, 8288], "topk:16");
        assert_eq!(Roof::of(&wide, &h200(DeviceKind::Gpu)), Some(Roof { tflops: 989.5, bound: Bound::Tensor }));
        let fp8 = problem("bm = 128, bk = 128, dtype = e4m3", [8192, 8192, 8192], "random:0.25");
        assert_eq!(Roof::of(&fp8, &h200(DeviceKind::Gpu)).unwrap().tflops, 1979.0);

        let narrow = problem("bm = 64, bk = 64", [4096, 64, 4096], "topk:8");
        let blocks = 64.0 * 8.0;
        let bytes = 2.0 * blocks * 64.0 * 64.0 + 4.0 * (blocks + 65.0) + 2.0 * 2.0 * 4096.0 * 64.0;
        let expected = 2.0 * blocks * 64.0 * 64.0 * 64.0 / bytes * 4.8;
        let roof = Roof::of(&narrow, &h200(DeviceKind::Gpu)).unwrap();
        assert_eq!(roof.bound, Bound::Memory);
        assert!((roof.tflops - expected).abs() < 1e-9 * expected, "{} against {expected}", roof.tflops);
    }

    #[test]
    fn nothing_stands_over_a_model_or_an_unknown_card() {
        let wide = problem("bm = 512, bk = 112", [8192, 8192, 8288], "topk:16");
        assert_eq!(Roof::of(&wide, &h200(DeviceKind::Sim)), None);
        let unknown = DeviceId { name: "NVIDIA H20000".to_owned(), ..h200(DeviceKind::Gpu) };
        assert_eq!(Roof::of(&wide, &unknown), None);
    }
}
