//! Iterative solves, on the CPU and on a GPU.

use bsr::gpu::{Device, DeviceBsr, DeviceBuffer, Plain};
use bsr::solve::{self, Method, Options, Preconditioner, SolveError, Solver};
use bsr::{Bsr, Element, Structure};
use pyo3::prelude::*;

use crate::array::Kind;
use crate::errors::refused;
use crate::gpu::Gpu;
use crate::pattern::Pattern;
use crate::threads::detached;

/// The method, rtol, atol and most iterations.
pub(crate) type HowArgument = (String, f64, f64, Option<usize>);

/// Iterations, and whether they were enough.
type Ended = (usize, bool);

/// Values of blocks, b and x: addresses of contiguous memory.
#[derive(Clone, Copy)]
struct Places {
    values: usize,
    b: usize,
    x: usize,
}

struct How {
    method: Method,
    preconditioner: Preconditioner,
    rtol: f64,
    atol: f64,
    max_iterations: Option<usize>,
    callback: Option<Py<PyAny>>,
}

impl How {
    fn new(how: HowArgument, is_preconditioned: bool, callback: Option<Py<PyAny>>) -> PyResult<Self> {
        let (method, rtol, atol, max_iterations) = how;
        let method = match method.as_str() {
            "cg" => Method::Cg,
            "bicgstab" => Method::Bicgstab,
            other => return Err(refused(format!("`{other}` is no method of a solve\n  help: cg or bicgstab"))),
        };
        let preconditioner = if is_preconditioned { Preconditioner::BlockJacobi } else { Preconditioner::None };
        Ok(Self { method, preconditioner, rtol, atol, max_iterations, callback })
    }

    /// Runs a solve with these options. The first exception of the callback is raised when the solve is over.
    fn run<T>(&self, solve: impl FnOnce(&mut Options<'_>) -> Result<T, SolveError>) -> PyResult<T> {
        let mut raised = None;
        let mut tell = |norm: f64| {
            if let (Some(callback), None) = (&self.callback, &raised) {
                raised = Python::attach(|py| callback.call1(py, (norm,))).err();
            }
        };
        let &Self { rtol, atol, max_iterations, .. } = self;
        let mut options = Options { rtol, atol, max_iterations, ..Options::default() };
        options.callback = self.callback.as_ref().map(|_| &mut tell as &mut dyn FnMut(f64));
        let solved = solve(&mut options);
        raised.map_or(Ok(()), Err)?;
        solved.map_err(refused)
    }
}

/// Solves A x = b on the CPU: from the `x` that is there, into it.
///
/// Every address must be that of contiguous memory which the caller keeps alive: of the pattern's values, and of a vector of its
/// rows, of one type.
#[pyfunction]
#[pyo3(signature = (pattern, values, b, x, how, is_preconditioned, callback=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn solve_on_host(
    py: Python<'_>,
    pattern: &Pattern,
    values: (usize, String, usize),
    b: usize,
    x: usize,
    how: HowArgument,
    is_preconditioned: bool,
    callback: Option<Py<PyAny>>,
) -> PyResult<Ended> {
    let how = How::new(how, is_preconditioned, callback)?;
    let places = Places { values: values.0, b, x };
    let structure = &pattern.structure;
    let kind = Kind::parse(&values.1)?;
    detached(py, || {
        // SAFETY: the Python half keeps the arrays alive, of the lengths that the pattern says, and made x for this call.
        unsafe {
            match kind {
                Kind::F64 => on_host::<f64>(structure, places, &how),
                _ => on_host::<f32>(structure, places, &how),
            }
        }
    })?
}

/// # Safety
/// The places must be those of as many elements of `T` as the structure says, and nothing else may use x meanwhile.
unsafe fn on_host<T: Element>(structure: &Structure, places: Places, how: &How) -> PyResult<Ended> {
    let rows = structure.rows();
    // SAFETY: as the caller vouches.
    let values = unsafe { slice::<T>(places.values, structure.stored()) };
    // SAFETY: the same.
    let (b, x0) = unsafe { (slice::<T>(places.b, rows), slice::<T>(places.x, rows)) };
    let a = Bsr::from_structure(structure.clone(), values.to_vec()).map_err(refused)?;
    let request = (how.method, how.preconditioner);
    let solution = how.run(|options| solve::on_host(&a, request, (b, Some(x0)), options))?;
    // SAFETY: x has `rows` elements, and the view of them above is used no more.
    unsafe { std::ptr::copy_nonoverlapping(solution.x.as_ptr(), places.x as *mut T, rows) };
    Ok((solution.iterations, solution.converged))
}

/// # Safety
/// `len` elements must be at the address for as long as the slice is used.
unsafe fn slice<'a, T>(address: usize, len: usize) -> &'a [T] {
    match len {
        0 => &[],
        // SAFETY: as the caller vouches.
        _ => unsafe { std::slice::from_raw_parts(address as *const T, len) },
    }
}

/// Solves A x = b on a GPU: from the `x` that is there, into it; b is overwritten with the residual. `diagonal` is the address of
/// the values of the stored diagonal blocks on the host, row by row, where there is a preconditioner.
///
/// Every address but that one must be of contiguous memory of this GPU which the caller keeps alive, of one type, with nothing
/// else under way that uses it.
#[pyfunction]
#[pyo3(signature = (gpu, pattern, values, b, x, how, diagonal, callback=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn solve_on_gpu(
    py: Python<'_>,
    gpu: &Gpu,
    pattern: &Pattern,
    values: (usize, String, usize),
    b: usize,
    x: usize,
    how: HowArgument,
    diagonal: Option<usize>,
    callback: Option<Py<PyAny>>,
) -> PyResult<Ended> {
    let how = How::new(how, diagonal.is_some(), callback)?;
    let places = Places { values: values.0, b, x };
    let (device, structure, kind) = (gpu.device(), &pattern.structure, Kind::parse(&values.1)?);
    py.detach(|| {
        // SAFETY: the Python half keeps the tensors alive and waits for the stream that wrote them.
        unsafe {
            match kind {
                Kind::F64 => on_gpu::<f64>(device, structure, places, &how, diagonal),
                _ => on_gpu::<f32>(device, structure, places, &how, diagonal),
            }
        }
    })
}

/// # Safety
/// As [`on_host`], but that the places are on the device, and the diagonal blocks on the host.
unsafe fn on_gpu<T: Element + Plain>(
    device: &Device,
    structure: &Structure,
    places: Places,
    how: &How,
    diagonal: Option<usize>,
) -> PyResult<Ended> {
    let inverse = diagonal.map(|at| {
        let structure = on_diagonal(structure).map_err(refused)?;
        // SAFETY: as the caller vouches, there are as many values as this structure has.
        let values = unsafe { slice::<T>(at, structure.stored()) };
        let a = Bsr::from_structure(structure, values.to_vec()).map_err(refused)?;
        DeviceBuffer::from_slice(device, &solve::inverses(&a).map_err(refused)?).map_err(refused)
    });
    let inverse = inverse.transpose()?;
    // SAFETY: as the caller vouches.
    let (a, vectors) = unsafe {
        let a = DeviceBsr::<T>::from_raw(device, structure, places.values as u64).map_err(refused)?;
        (a, [places.b, places.x].map(|at| DeviceBuffer::foreign(device, at as u64, structure.rows())))
    };
    let mut solver = Solver::of_buffers(device, a, how.method, inverse, vectors).map_err(refused)?;
    let (iterations, _, converged) = how.run(|options| solver.run(options))?;
    Ok((iterations, converged))
}

/// The stored blocks on the diagonal alone.
fn on_diagonal(structure: &Structure) -> Result<Structure, bsr::Refusal> {
    let (mut row_ptr, mut col_idx) = (vec![0], vec![]);
    for row in 0..structure.block_rows() {
        let is_stored = structure.blocks_of(row).any(|block| structure.col_idx()[block] as usize == row);
        col_idx.extend(is_stored.then_some(row as i32));
        row_ptr.push(col_idx.len() as i32);
    }
    Structure::new(structure.rows(), structure.cols(), structure.block(), row_ptr, col_idx)
}
