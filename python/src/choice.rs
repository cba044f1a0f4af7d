//! Which kernel is taken for a product, and why.

use std::sync::Arc;

use bsr::tuner::pick::{Choice, Gpu, Tuner};
use bsr::tuner::{Facts, TuningProblem, Workload};
use bsr::{Epilogue, KernelSpec, Op, Plan};
use pyo3::prelude::*;

use crate::errors::refused;
use crate::pattern::Pattern;

/// Widths of the dense tile that are tried where the chosen kernel has no room for an epilogue.
const NARROWER: [u32; 5] = [256, 128, 64, 32, 16];

/// The kernel for a product of a pattern along `n` (of a sampled product: along its K), and how it was chosen.
pub(crate) fn choose(tuner: &Tuner, pattern: &Pattern, facts: &KernelSpec, n: usize) -> PyResult<Arc<Choice>> {
    let facts = Facts::of(facts);
    let structure = &pattern.structure;
    let spec = facts.spec(64);
    let (rows, cols) = match spec.transpose.is_on() {
        true => (structure.cols(), structure.rows()),
        false => (structure.rows(), structure.cols()),
    };
    // Kernels of neighbouring lengths are the same: a new length needs no new choice.
    let n = n.next_power_of_two();
    let shape = match spec.op {
        Op::Dsd => (rows, n, cols),
        Op::Dds => (n, cols, rows),
        Op::Sdd | Op::Attention => (rows, cols, n),
    };
    let problem = || TuningProblem::new(Workload::given(facts, shape), structure);
    tuner.choose((facts, shape, *pattern.fingerprint.bytes()), problem, None).map_err(refused)
}

/// The plan of a chosen kernel with an epilogue: with a narrower tile where both do not fit.
pub(crate) fn with_epilogue(spec: &KernelSpec, epilogue: Option<Epilogue>) -> PyResult<Plan> {
    let Some(epilogue) = epilogue else { return Plan::new(spec).map_err(refused) };
    let fused = |spec: KernelSpec| Plan::new(&spec.epilogue(epilogue));
    let first = match fused(*spec) {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    let facts = Facts::of(spec);
    let narrower = NARROWER.into_iter().filter(|bn| *bn <= spec.bn);
    narrower.map(|bn| fused(facts.spec(bn))).find_map(Result::ok).ok_or_else(|| refused(first))
}

/// The kernel for a product on a GPU of this name, and why, in words.
#[pyfunction]
pub(crate) fn explain(py: Python<'_>, pattern: &Pattern, facts: &str, n: usize, gpu: String) -> PyResult<String> {
    let spec: KernelSpec = facts.parse().map_err(refused)?;
    let tuner = Tuner::new(Gpu { name: gpu, driver: String::new(), capability: (9, 0) });
    py.detach(|| choose(&tuner, pattern, &spec, n)).map(|choice| choice.to_string())
}
