//! Kernels of attention on the simulator.

use bsr::simulated::{Options, Report};
use bsr::{Dtype, Element, Scale, bf16, e4m3, f16};
use bsr_runtime::attention::{Factors, HostVector, ScoreInputs, SimulatedAttention};
use pyo3::prelude::*;

use super::mask::AttentionMask;
use super::tensor::{Heads, TensorArgument, Vector, VectorArgument};
use crate::errors::refused;
use crate::plan::Kernel;
use crate::simulate::{Simulation, described};
use crate::threads::detached;

/// Runs a kernel's PTX on the CPU: O's bytes, `[batch, heads, queries, columns]`, and the logarithms of the sums.
///
/// Every address must be that of memory which the caller keeps alive, as large as its sizes say. `tensors` are Q, K and V.
#[pyfunction]
#[pyo3(signature = (kernel, mask, tensors, scale, numbers, vectors, seed, sinks=None, factors=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn simulate_attention(
    py: Python<'_>,
    kernel: &Kernel,
    mask: &AttentionMask,
    tensors: [TensorArgument; 3],
    scale: f32,
    numbers: Vec<f32>,
    vectors: Vec<VectorArgument>,
    seed: u64,
    sinks: Option<Vec<f32>>,
    factors: Option<[Vec<f32>; 3]>,
) -> PyResult<Simulation<Vec<f32>>> {
    let [q, k, v] = tensors.map(Heads::new);
    let tensors = [q?, k?, v?];
    let vectors = vectors.into_iter().map(Vector::new).collect::<PyResult<Vec<_>>>()?;
    // SAFETY: the Python half keeps the vectors alive for the call, and they are as long as they say.
    let vectors: Vec<HostVector> = vectors.iter().map(|vector| unsafe { vector.copied() }).collect();
    let made = |[q, k, v]: [Vec<f32>; 3]| match kernel.plan.spec().scale {
        Scale::Block => Factors::of_blocks(q, k, v),
        _ => Factors::new(q, k, v),
    };
    let factors = factors.map(made).transpose().map_err(refused)?;
    let given = ScoreInputs::new(scale).scalars(&numbers).vectors(&vectors).sinks(sinks.as_deref());
    let given = given.factors(factors.as_ref());
    let options = Options { seed, ..Options::default() };
    let outcome = detached(py, || match kernel.plan.spec().a {
        Dtype::F16 => run::<f16, f16>(kernel, mask, tensors, given, &options),
        Dtype::BF16 => run::<bf16, bf16>(kernel, mask, tensors, given, &options),
        Dtype::E4M3 => run::<e4m3, bf16>(kernel, mask, tensors, given, &options),
        other => Err(refused(format!("an attention of {other} is not simulated"))),
    })??;
    Ok(described(py, outcome))
}

fn run<T: Element, O: Element>(
    kernel: &Kernel,
    mask: &AttentionMask,
    [q, k, v]: [Heads; 3],
    given: ScoreInputs<'_>,
    options: &Options,
) -> PyResult<(Vec<u8>, Vec<f32>, Report)> {
    let simulated = SimulatedAttention::new(&kernel.plan, kernel.ptx.text(), kernel.ptx.entry()).map_err(refused)?;
    // SAFETY: the Python half keeps the tensors alive for the call, and they are as large as they say.
    let tensors = unsafe { [q.copied::<T>(), k.copied::<T>(), v.copied::<T>()] };
    let [q, k, v] = tensors;
    let (q, k, v) = (q.map_err(refused)?, k.map_err(refused)?, v.map_err(refused)?);
    let (output, sums, report) =
        simulated.run_into::<T, O>([&q, &k, &v], &mask.mask, given, options).map_err(refused)?;
    Ok((O::to_bytes(output.data()), sums, report))
}
