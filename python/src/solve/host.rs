//! Solves on the CPU.

use bsr::gpu::Plain;
use bsr::solve::{self, Method, Preconditioner};
use bsr::{Bsr, Element, Structure};
use pyo3::prelude::*;

use super::{Ended, LimitsArgument, Listeners, MethodArgument, OfKinds, method, of_kinds, run, slice};
use crate::array::Kind;
use crate::errors::refused;
use crate::pattern::Pattern;
use crate::threads::detached;

/// Solves A x = b on the CPU: from the `x` that is there, into it. `vectors` are the addresses of b and x, and their type.
///
/// Every address must be that of contiguous memory which the caller keeps alive: of the pattern's values, and of a vector of its
/// rows.
#[pyfunction]
#[pyo3(signature = (pattern, values, vectors, method, limits, tell=None, look=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn solve_on_host(
    py: Python<'_>,
    pattern: &Pattern,
    values: (usize, String, usize),
    vectors: (usize, usize, String),
    method: MethodArgument,
    limits: LimitsArgument,
    tell: Option<Py<PyAny>>,
    look: Option<Py<PyAny>>,
) -> PyResult<Ended> {
    let (b, x, vectors) = vectors;
    let kinds = (Kind::parse(&values.1)?, Kind::parse(&vectors)?);
    let places = Places { values: values.0, b, x };
    let what = OnHost {
        structure: &pattern.structure,
        places,
        request: self::method(method)?,
        limits,
        listeners: Listeners { tell, look },
    };
    detached(py, || of_kinds(kinds.0, kinds.1, what))?
}

/// Values of blocks, b and x: addresses of contiguous memory.
struct Places {
    values: usize,
    b: usize,
    x: usize,
}

struct OnHost<'s> {
    structure: &'s Structure,
    places: Places,
    request: (Method, Preconditioner),
    limits: LimitsArgument,
    listeners: Listeners,
}

impl OfKinds for OnHost<'_> {
    type Output = Ended;

    fn call<V: Element + Plain, T: Element + Plain>(self) -> PyResult<Ended> {
        let Self { structure, places, request, limits, listeners } = self;
        let rows = structure.rows();
        // SAFETY: the Python half keeps the arrays alive, of the lengths that the pattern says, and made x for this call.
        let values = unsafe { slice::<V>(places.values, structure.stored()) };
        // SAFETY: the same.
        let (b, mut x) = unsafe { (slice::<T>(places.b, rows), slice::<T>(places.x, rows).to_vec()) };
        let a = Bsr::from_structure(structure.clone(), values.to_vec()).map_err(refused)?;
        // SAFETY: x has `rows` elements, and no view of them is used.
        let to_caller = |x: &[T]| unsafe { std::ptr::copy_nonoverlapping(x.as_ptr(), places.x as *mut T, rows) };
        let show = |x: &[f64]| to_caller(&x.iter().map(|x| T::from_f64(*x)).collect::<Vec<_>>());
        let ended = run(limits, &listeners, show, |options| solve::on_host_into(&a, request, (b, &mut x), options));
        to_caller(&x);
        ended
    }
}
