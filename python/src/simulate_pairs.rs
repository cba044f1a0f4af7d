//! Kernels on two sparse factors on the simulator.

use bsr::simulated::{Options, Report, Simulated};
use bsr::{Bsr, Inputs};
use bsr_runtime::typed::{Number, Typed, with_types};
use pyo3::prelude::*;

use crate::array::{ArrayArgument, Strided};
use crate::errors::{Failed, failed};
use crate::pattern::Pattern;
use crate::plan::Kernel;
use crate::simulate::{Outcome, Simulation, by_rows, described, given, values};
use crate::threads::detached;

/// The operands of a simulation, without their types.
struct Factors<'a> {
    kernel: &'a Kernel,
    patterns: (&'a Pattern, &'a Pattern, Option<&'a Pattern>),
    a: Strided,
    b: Strided,
    inputs: Inputs,
    options: Options,
}

/// Runs a kernel's PTX on the CPU: the product of two patterns, at the blocks of a third, or whole where there is none. `a` and
/// `b` are the stored values, row by row within a block: `nnzb * bm` rows of `bk`, `nnzb * bk` rows of `bn`.
///
/// Every address must be that of memory which the caller keeps alive, as large as its shape says.
#[pyfunction]
pub(crate) fn simulate_pairs(
    py: Python<'_>,
    kernel: &Kernel,
    patterns: (PyRef<'_, Pattern>, PyRef<'_, Pattern>, Option<PyRef<'_, Pattern>>),
    a: ArrayArgument,
    b: ArrayArgument,
    inputs: Vec<(String, ArrayArgument)>,
    seed: u64,
) -> PyResult<Simulation<Option<Vec<f32>>>> {
    let (of_a, of_b, of_c) = &patterns;
    let patterns = (&**of_a, &**of_b, of_c.as_deref());
    let options = Options { seed, ..Options::default() };
    let inputs = given(kernel, patterns.2.unwrap_or(patterns.0), inputs)?;
    let factors = Factors { kernel, patterns, a: Strided::new(a)?, b: Strided::new(b)?, inputs, options };
    let ran = detached(py, || with_types(kernel.plan.spec(), &factors))?;
    Ok(described(py, ran.map_err(|Failed(error)| error)?))
}

impl Typed for &Factors<'_> {
    type Output = (Vec<u8>, Option<Vec<f32>>, Report);
    type Error = Failed;

    fn run<A: Number, B: Number, C: Number>(self) -> Outcome {
        let Factors { kernel, patterns: (of_a, of_b, of_c), a, b, inputs, options } = self;
        let a = Bsr::from_structure(of_a.structure.clone(), values::<A>(a))?;
        let b = Bsr::from_structure(of_b.structure.clone(), values::<B>(b))?;
        let simulated = Simulated::new(&kernel.plan, kernel.ptx.text(), kernel.ptx.entry()).map_err(failed)?;
        match of_c {
            Some(c) => {
                let run = simulated.multiply::<C, _>((&a, &b, &c.structure, inputs), options);
                let (results, report) = run.map_err(failed)?;
                Ok((C::to_bytes(&results.c), results.rows, report))
            }
            None => {
                let (results, report) = simulated.multiply::<C, _>((&a, &b, inputs), options).map_err(failed)?;
                Ok((C::to_bytes(&by_rows(&results.c)), results.rows, report))
            }
        }
    }
}
