//! Iterative solves, on the CPU and on a GPU.

mod gpu;
mod host;

use std::cell::RefCell;

use bsr::Element;
use bsr::gpu::Plain;
use bsr::solve::{Method, Options, Preconditioner, SolveError};
use half::{bf16, f16};
use pyo3::prelude::*;

use crate::array::Kind;
use crate::errors::refused;

pub(crate) use gpu::Solver;
pub(crate) use host::solve_on_host;

/// The method, the iterations of a cycle of GMRES, and whether block Jacobi preconditions it.
pub(crate) type MethodArgument = (String, u32, bool);

/// rtol, atol and most iterations.
pub(crate) type LimitsArgument = (f64, f64, Option<usize>);

/// Iterations, and 0 for a solution, 1 where they were not enough, or the number of a breakdown, below zero.
pub(crate) type Ended = (usize, i32);

fn method((method, restart, is_preconditioned): MethodArgument) -> PyResult<(Method, Preconditioner)> {
    let method = match method.as_str() {
        "cg" => Method::Cg,
        "bicgstab" => Method::Bicgstab,
        "gmres" => Method::Gmres { restart },
        other => return Err(refused(format!("`{other}` is no method of a solve\n  help: cg, bicgstab or gmres"))),
    };
    Ok((method, if is_preconditioned { Preconditioner::BlockJacobi } else { Preconditioner::None }))
}

/// Who hears of a solve.
struct Listeners {
    /// Is told the norm of each residual.
    tell: Option<Py<PyAny>>,
    /// Looks at x, where the caller has it, after each iteration, of GMRES after each cycle.
    look: Option<Py<PyAny>>,
}

/// Runs a solve with these options; `show` brings x to where the caller has it. The first exception of a listener is raised when
/// the solve is over.
fn run(
    (rtol, atol, max_iterations): LimitsArgument,
    listeners: &Listeners,
    mut show: impl FnMut(&[f64]),
    solve: impl FnOnce(&mut Options<'_>) -> Result<(usize, f64, bool), SolveError>,
) -> PyResult<Ended> {
    let raised = RefCell::new(None);
    let call = |of: &Option<Py<PyAny>>, norm: Option<f64>| {
        let is_over = raised.borrow().is_some();
        if let Some(of) = of.as_ref().filter(|_| !is_over) {
            let called = Python::attach(|py| norm.map_or_else(|| of.call0(py), |norm| of.call1(py, (norm,))));
            raised.replace(called.err());
        }
    };
    let mut tell = |norm: f64| call(&listeners.tell, Some(norm));
    let mut look = |x: &[f64]| {
        show(x);
        call(&listeners.look, None);
    };
    let mut options = Options { rtol, atol, max_iterations, ..Options::default() };
    options.callback = listeners.tell.as_ref().map(|_| &mut tell as &mut dyn FnMut(f64));
    options.watch = listeners.look.as_ref().map(|_| &mut look as &mut dyn FnMut(&[f64]));
    let solved = solve(&mut options);
    raised.into_inner().map_or(Ok(()), Err)?;
    match solved {
        Ok((iterations, _, converged)) => Ok((iterations, i32::from(!converged))),
        Err(SolveError::Breakdown(breakdown)) => Ok((breakdown.iteration, breakdown.info())),
        Err(error) => Err(refused(error)),
    }
}

/// What is done with a type of values and a type of vectors.
trait OfKinds {
    type Output;

    fn call<V: Element + Plain, T: Element + Plain>(self) -> PyResult<Self::Output>;
}

/// Does it with values and vectors of these types.
///
/// # Errors
/// Values that are wider than the vectors, and other types.
fn of_kinds<C: OfKinds>(values: Kind, vectors: Kind, what: C) -> PyResult<C::Output> {
    match (values, vectors) {
        (Kind::F64, Kind::F64) => what.call::<f64, f64>(),
        (Kind::F32, Kind::F64) => what.call::<f32, f64>(),
        (Kind::F16, Kind::F64) => what.call::<f16, f64>(),
        (Kind::BF16, Kind::F64) => what.call::<bf16, f64>(),
        (Kind::F32, Kind::F32) => what.call::<f32, f32>(),
        (Kind::F16, Kind::F32) => what.call::<f16, f32>(),
        (Kind::BF16, Kind::F32) => what.call::<bf16, f32>(),
        _ => Err(refused("vectors of a solve are of f64 or f32, and values of no wider type\n  help: b of f64")),
    }
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
