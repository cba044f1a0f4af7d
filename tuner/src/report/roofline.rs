//! What a card could do at best with a product, whatever the kernel: the lower of its tensor cores' rate and of what its memory
//! lets through.

use bsr_runtime::roofs::{Origin, Roofs};

use crate::{DeviceId, DeviceKind, TuningProblem};

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
    /// Where the figure is from.
    pub origin: Origin,
}

impl Roof {
    /// The roof over a product on a GPU whose roofs are known. Bytes are those that must move once with cold caches
    /// (`operation::Operation::least_bytes`).
    pub fn of(problem: &TuningProblem, device: &DeviceId, roofs: &Roofs) -> Option<Self> {
        if device.kind != DeviceKind::Gpu {
            return None;
        }
        let workload = &problem.workload;
        let spec = workload.facts.spec(64);
        let peak = if spec.tf32.is_on() { roofs.tf32() } else { roofs.tensor(spec.a) };
        let (peak, memory) = (peak?, roofs.hbm_read?);
        let flops = problem.executed_flops() as f64;
        let bytes = problem.least_bytes();
        let through_memory = flops / bytes.max(1) as f64 * memory.value;
        Some(match through_memory < peak.value {
            true => Self { tflops: through_memory, bound: Bound::Memory, origin: memory.origin },
            false => Self { tflops: peak.value, bound: Bound::Tensor, origin: peak.origin },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_runtime::Pattern;

    use super::*;
    use crate::{Source, Workload};

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

    fn sheet() -> Roofs {
        Roofs::new("NVIDIA H200", None)
    }

    #[test]
    fn wide_products_are_bound_by_arithmetic_and_narrow_ones_by_memory() {
        let wide = problem("bm = 512, bk = 112", [8192, 8192, 8288], "topk:16");
        let of = |problem: &TuningProblem| Roof::of(problem, &h200(DeviceKind::Gpu), &sheet());
        let roof = Roof { tflops: 989.5, bound: Bound::Tensor, origin: Origin::DataSheet };
        assert_eq!(of(&wide), Some(roof));
        let fp8 = problem("bm = 128, bk = 128, dtype = e4m3", [8192, 8192, 8192], "random:0.25");
        assert_eq!(of(&fp8).unwrap().tflops, 1979.0);

        let narrow = problem("bm = 64, bk = 64", [4096, 64, 4096], "topk:8");
        let blocks = 64.0 * 8.0;
        let bytes = 2.0 * blocks * 64.0 * 64.0 + 4.0 * (blocks + 65.0) + 2.0 * 2.0 * 4096.0 * 64.0;
        let expected = 2.0 * blocks * 64.0 * 64.0 * 64.0 / bytes * 4.8;
        let roof = of(&narrow).unwrap();
        assert_eq!(roof.bound, Bound::Memory);
        assert!((roof.tflops - expected).abs() < 1e-9 * expected, "{} against {expected}", roof.tflops);
    }

    #[test]
    fn nothing_stands_over_a_model_or_an_unknown_card() {
        let wide = problem("bm = 512, bk = 112", [8192, 8192, 8288], "topk:16");
        assert_eq!(Roof::of(&wide, &h200(DeviceKind::Sim), &sheet()), None);
        let unknown = DeviceId { name: "NVIDIA H20000".to_owned(), ..h200(DeviceKind::Gpu) };
        assert_eq!(Roof::of(&wide, &unknown, &Roofs::new(&unknown.name, None)), None);
    }
}
