//! Kernels on the simulator.

use bsr::simulated::{Options, Report, Simulated};
use bsr::{Bsr, Dense, Element, Inputs, Layout, bf16, f16};
use bsr_codegen::Operand;
use bsr_runtime::extents::sparse_operand;
use bsr_runtime::typed::{Number, Typed, with_types};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::{ArrayArgument, Kind, Strided};
use crate::errors::{Failed, failed, refused};
use crate::pattern::Pattern;
use crate::plan::Kernel;
use crate::threads::detached;

/// The result's bytes - row by row, or block after block - the second result, what is wrong with the kernel, and its cost:
/// warp instructions, floating-point operations, bytes copied, cycles by the simulator's model.
pub(crate) type Simulation<R> = (Py<PyBytes>, R, Vec<String>, (u64, u64, u64, u64));

/// The operands of a simulation, without their types.
struct Operands<'a> {
    kernel: &'a Kernel,
    pattern: &'a Pattern,
    a: Strided,
    b: Strided,
    inputs: Inputs,
    options: Options,
}

/// Runs a kernel's PTX on the CPU. Of `a` and `b` the sparse factor is given by its values: `nnzb * bm` rows of `bk`.
///
/// Every address must be that of memory which the caller keeps alive, as large as its shape says.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    kernel: &Kernel,
    pattern: &Pattern,
    a: ArrayArgument,
    b: ArrayArgument,
    inputs: Vec<(String, ArrayArgument)>,
    seed: u64,
) -> PyResult<Simulation<Option<Vec<f32>>>> {
    let operands = Operands {
        kernel,
        pattern,
        a: Strided::new(a)?,
        b: Strided::new(b)?,
        inputs: given(kernel, pattern, inputs)?,
        options: Options { seed, ..Options::default() },
    };
    Ok(described(py, detached(py, || with_types(kernel.plan.spec(), &operands))?.map_err(|Failed(error)| error)?))
}

/// A simulation as Python gets it.
pub(crate) fn described<R>(py: Python<'_>, (bytes, rows, report): (Vec<u8>, R, Report)) -> Simulation<R> {
    let findings = report.findings.iter().map(ToString::to_string).collect();
    let cost = report.cost;
    (PyBytes::new(py, &bytes).unbind(), rows, findings, (cost.steps, cost.flops, cost.bytes_copied, cost.cycles))
}

pub(crate) type Outcome = Result<(Vec<u8>, Option<Vec<f32>>, Report), Failed>;

impl Typed for &Operands<'_> {
    type Output = (Vec<u8>, Option<Vec<f32>>, Report);
    type Error = Failed;

    /// Types are those of the sparse factor, of the dense one, and of C.
    fn run<S: Number, D: Number, C: Number>(self) -> Outcome {
        let Operands { kernel, pattern, a, b, inputs, options } = self;
        let (plan, structure) = (&kernel.plan, &pattern.structure);
        let (a_layout, b_layout) = (plan.spec().a_layout, plan.spec().b_layout);
        let simulated = Simulated::new(plan, kernel.ptx.text(), kernel.ptx.entry()).map_err(failed)?;
        let (results, report) = match sparse_operand(plan.spec().op) {
            Operand::C => {
                let (a, b) = (dense::<S>(a, a_layout), dense::<D>(b, b_layout));
                let run = simulated.multiply::<C, _>((&a, &b, structure, inputs), options);
                let (results, report) = run.map_err(failed)?;
                return Ok((C::to_bytes(&results.c), results.rows, report));
            }
            Operand::B => {
                let b = Bsr::from_structure(structure.clone(), values::<S>(b))?;
                simulated.multiply::<C, _>((&dense::<D>(a, a_layout), &b, inputs), options)
            }
            _ => {
                let a = Bsr::from_structure(structure.clone(), values::<S>(a))?;
                simulated.multiply::<C, _>((&a, &dense::<D>(b, b_layout), inputs), options)
            }
        }
        .map_err(failed)?;
        Ok((C::to_bytes(&by_rows(&results.c)), results.rows, report))
    }
}

/// The elements of a matrix, row by row.
pub(crate) fn by_rows<C: Element>(c: &Dense<C>) -> Vec<C> {
    (0..c.rows()).flat_map(|row| (0..c.cols()).map(move |col| c.get(row, col).unwrap_or(C::POISON))).collect()
}

/// A copy of a matrix of the caller's.
fn dense<T: Element>(matrix: &Strided, layout: Layout) -> Dense<T> {
    // SAFETY: the Python half keeps the array alive for the call, and it is as large as it says.
    Dense::from_fn(matrix.rows, matrix.cols, layout, |row, col| T::from_f64(unsafe { matrix.get(row, col) }))
}

/// The elements of a matrix of the caller's, row by row.
pub(crate) fn values<T: Element>(matrix: &Strided) -> Vec<T> {
    let places = (0..matrix.rows).flat_map(|row| (0..matrix.cols).map(move |col| (row, col)));
    // SAFETY: the Python half keeps the array alive for the call, and it is as large as it says.
    places.map(|(row, col)| T::from_f64(unsafe { matrix.get(row, col) })).collect()
}

/// The further operands by what the kernel's parameters are: blocks of a pattern. Vectors and numbers come as matrices with strides of 0.
pub(crate) fn given(kernel: &Kernel, pattern: &Pattern, arguments: Vec<(String, ArrayArgument)>) -> PyResult<Inputs> {
    let mut inputs = Inputs::new();
    for (name, argument) in arguments {
        let matrix = Strided::new(argument)?;
        let program = kernel.plan.spec().epilogue.map(|epilogue| epilogue.program());
        let parameter = program.iter().flat_map(|program| program.inputs()).find(|input| input.name == name);
        let kind = parameter.map(|input| input.kind.words()).unwrap_or_default();
        inputs = match (kind.split('<').next(), matrix.kind) {
            // SAFETY: the Python half keeps the number alive for the call.
            (Some("f32" | ""), _) => inputs.scalar(&name, unsafe { matrix.get(0, 0) } as f32),
            (_, Kind::F64) => of_type::<f64>(inputs, &name, &kind, &matrix, kernel, pattern)?,
            (_, Kind::F16) => of_type::<f16>(inputs, &name, &kind, &matrix, kernel, pattern)?,
            (_, Kind::BF16) => of_type::<bf16>(inputs, &name, &kind, &matrix, kernel, pattern)?,
            _ => of_type::<f32>(inputs, &name, &kind, &matrix, kernel, pattern)?,
        };
    }
    Ok(inputs)
}

fn of_type<T: Element>(
    inputs: Inputs,
    name: &str,
    kind: &str,
    matrix: &Strided,
    kernel: &Kernel,
    pattern: &Pattern,
) -> PyResult<Inputs>
where
    bsr_runtime::epilogue::Numbers: From<Vec<T>>,
    bsr_runtime::epilogue::Matrix: From<Dense<T>>,
    bsr_runtime::epilogue::Blocks: From<Bsr<T>>,
{
    Ok(if kind.starts_with("Rows") {
        inputs.vector(name, values::<T>(&Strided { cols: 1, ..*matrix }))
    } else if kind.starts_with("Cols") {
        inputs.vector(name, values::<T>(&Strided { rows: 1, ..*matrix }))
    } else if kind.starts_with("Bsr") {
        let blocks = Bsr::from_structure(pattern.structure.clone(), values::<T>(matrix)).map_err(refused)?;
        inputs.blocks(name, blocks)
    } else {
        inputs.matrix(name, dense::<T>(matrix, kernel.plan.spec().c_layout))
    })
}
