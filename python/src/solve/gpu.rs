//! Solvers on a GPU, which the Python half keeps for a matrix.

use std::sync::{Mutex, PoisonError};

use bsr::gpu::{Device, DeviceBsr, DeviceBuffer, Plain};
use bsr::solve::{self, Method, Options, Preconditioner, SolveError};
use bsr::{Bsr, Element, Structure};
use pyo3::prelude::*;

use super::{Ended, LimitsArgument, Listeners, MethodArgument, OfKinds, method, of_kinds, run, slice};
use crate::array::Kind;
use crate::errors::refused;
use crate::gpu::Gpu;
use crate::pattern::Pattern;

/// A solver on a GPU: the matrix, the vectors of an iteration, and their CUDA graph.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct Solver {
    solver: Mutex<Box<dyn Solves>>,
    /// The stored blocks on the diagonal alone.
    diagonal: Structure,
}

#[pymethods]
impl Solver {
    /// Loads the kernels of a method. `vectors` are the addresses of b, which a solve overwrites with the residual, and of x, and
    /// their type. With a preconditioner, [`Solver::set_diagonal`] goes before the first solve.
    ///
    /// Every address must be of contiguous memory of this GPU which the caller keeps alive with the solver, for values as long as
    /// they are not set anew.
    #[new]
    fn new(
        py: Python<'_>,
        gpu: &Gpu,
        pattern: &Pattern,
        values: (usize, String, usize),
        vectors: (usize, usize, String),
        method: MethodArgument,
    ) -> PyResult<Self> {
        let (b, x, vectors) = vectors;
        let kinds = (Kind::parse(&values.1)?, Kind::parse(&vectors)?);
        let (device, structure, request) = (gpu.device(), &pattern.structure, self::method(method)?);
        let diagonal = on_diagonal(structure).map_err(refused)?;
        let what = NewSolver { device, structure, values: values.0 as u64, vectors: [b as u64, x as u64], request };
        Ok(Self { solver: Mutex::new(py.detach(|| of_kinds(kinds.0, kinds.1, what))?), diagonal })
    }

    /// Takes values at another address, for as long as none are set anew. Nothing is done where they are there already.
    fn set_values(&self, py: Python<'_>, values: usize) -> PyResult<()> {
        // SAFETY: the Python half keeps the tensor alive, of as many elements as the pattern says.
        py.detach(|| unsafe { self.lock().set_values(values as u64) }).map_err(refused)
    }

    /// Preconditions with the inverses of the diagonal blocks: the address of the stored ones on the host, row by row.
    fn set_diagonal(&self, py: Python<'_>, diagonal: usize) -> PyResult<()> {
        // SAFETY: the Python half keeps the array alive and gathered as many blocks as this structure has.
        py.detach(|| unsafe { self.lock().set_diagonal(&self.diagonal, diagonal) })
    }

    /// Solves A x = b, in the memory that both are in. Nothing else that uses it may be under way.
    #[pyo3(signature = (limits, tell=None, look=None))]
    fn run(
        &self,
        py: Python<'_>,
        limits: LimitsArgument,
        tell: Option<Py<PyAny>>,
        look: Option<Py<PyAny>>,
    ) -> PyResult<Ended> {
        let listeners = Listeners { tell, look };
        // The caller has x where it is.
        py.detach(|| run(limits, &listeners, |_| {}, |options| self.lock().run(options)))
    }
}

impl Solver {
    fn lock(&self) -> std::sync::MutexGuard<'_, Box<dyn Solves>> {
        self.solver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A solver for values and vectors of any types.
trait Solves: Send {
    /// # Safety
    /// As [`DeviceBsr::from_raw`].
    unsafe fn set_values(&mut self, values: u64) -> Result<(), SolveError>;
    /// # Safety
    /// The values of this structure must be at the address, on the host.
    unsafe fn set_diagonal(&mut self, structure: &Structure, values: usize) -> PyResult<()>;
    fn run(&mut self, options: &mut Options<'_>) -> Result<(usize, f64, bool), SolveError>;
}

impl<T: Element + Plain, V: Element + Plain> Solves for solve::Solver<T, V> {
    unsafe fn set_values(&mut self, values: u64) -> Result<(), SolveError> {
        // SAFETY: as the caller vouches.
        unsafe { self.set_values(values) }
    }

    unsafe fn set_diagonal(&mut self, structure: &Structure, values: usize) -> PyResult<()> {
        // SAFETY: as the caller vouches.
        let values = unsafe { slice::<V>(values, structure.stored()) };
        let a = Bsr::from_structure(structure.clone(), values.to_vec()).map_err(refused)?;
        self.set_inverse(&solve::inverses::<V, T>(&a).map_err(refused)?).map_err(refused)
    }

    fn run(&mut self, options: &mut Options<'_>) -> Result<(usize, f64, bool), SolveError> {
        self.run(options)
    }
}

struct NewSolver<'s> {
    device: &'s Device,
    structure: &'s Structure,
    values: u64,
    vectors: [u64; 2],
    request: (Method, Preconditioner),
}

impl OfKinds for NewSolver<'_> {
    type Output = Box<dyn Solves>;

    fn call<V: Element + Plain, T: Element + Plain>(self) -> PyResult<Self::Output> {
        let Self { device, structure, values, vectors, request: (method, preconditioner) } = self;
        let (side, rows) = (structure.block().0, structure.rows());
        let inverse = match preconditioner {
            Preconditioner::None => None,
            Preconditioner::BlockJacobi => {
                let elements = structure.block_rows() * side * side;
                Some(DeviceBuffer::<T>::zeroed(device, elements).map_err(refused)?)
            }
        };
        // SAFETY: the Python half keeps the tensors alive, and waits for the stream that wrote them.
        let (a, vectors) = unsafe {
            let a = DeviceBsr::<V>::from_raw(device, structure, values).map_err(refused)?;
            (a, vectors.map(|at| DeviceBuffer::<T>::foreign(device, at, rows)))
        };
        let solver = solve::Solver::<T, V>::of_buffers(device, a, method, inverse, vectors).map_err(refused)?;
        Ok(Box::new(solver))
    }
}

/// The stored blocks on the diagonal alone.
fn on_diagonal(structure: &Structure) -> Result<Structure, bsr::Refusal> {
    let (mut row_ptr, mut col_idx) = (vec![0], vec![]);
    for row in 0..structure.block_rows() {
        let is_stored = structure.blocks_of(row).any(|block| structure.col_idx()[block] as usize == row);
        col_idx.extend(is_stored.then_some(row as i32));
        row_ptr.push(col_idx.len() as i64);
    }
    Structure::new(structure.rows(), structure.cols(), structure.block(), row_ptr, col_idx)
}
