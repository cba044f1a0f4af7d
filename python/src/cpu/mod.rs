//! Products on the CPU: the same sums as on a GPU, in f32 (of f64 in f64, of integers in i32), rounded once.

mod fused;
mod product;
mod run;
mod sddmm;
mod tile;

use pyo3::prelude::*;

use crate::array::{ArrayArgument, Kind, Strided};
use crate::errors::refused;
use crate::pattern::Pattern;
use crate::threads::detached;
use fused::Fused;
use product::Product;
use run::{Target, Tiles};
use sddmm::Sddmm;

/// An epilogue's text, and what its parameters are given.
pub(crate) type EpilogueArgument = (String, Vec<(String, ArrayArgument)>);

fn shapes(operands: &str, fits: bool, words: impl FnOnce() -> String) -> PyResult<()> {
    match fits {
        true => Ok(()),
        false => Err(refused(format!("the shapes of {operands} do not fit: {}", words()))),
    }
}

/// Computes the tiles of a matrix of `shape` into `out`, summed in what elements of `kind` are summed in.
///
/// # Safety
/// As [`Target::fill`], but that what the epilogue reads, and where its second result goes, are compared here.
unsafe fn compute<T: Tiles>(
    py: Python<'_>,
    (tiles, kind): (impl FnOnce() -> T + Send, Kind),
    (out, shape): (Strided, (usize, usize)),
    epilogue: Option<EpilogueArgument>,
    second: Option<ArrayArgument>,
) -> PyResult<()> {
    let fused = epilogue.map(|(text, given)| Fused::new(&text, given)).transpose()?;
    let second = second.map(Strided::new).transpose()?;
    fused.as_ref().map_or(Ok(()), |fused| fused.check(shape, (out.rows, out.cols)))?;
    shapes("C and its second result", second.is_none_or(|second| second.rows >= shape.0), || {
        format!("{} rows have {} places", shape.0, second.map_or(0, |second| second.rows))
    })?;
    let target = Target { out, shape, fused: fused.as_ref(), second };
    detached(py, || {
        let tiles = tiles();
        // SAFETY: as the caller vouches.
        unsafe {
            match kind {
                Kind::F64 => target.fill::<f64>(&tiles),
                Kind::I8 | Kind::I32 => target.fill::<i32>(&tiles),
                _ => target.fill::<f32>(&tiles),
            }
        }
    })
}

/// C = A B, or A^T B with `transpose`, where A has its blocks at `values`: address, element type, number of elements.
///
/// Every address must be that of memory which the caller keeps alive, as large as its shape says.
#[pyfunction]
#[pyo3(signature = (pattern, transpose, values, dense, out, epilogue=None, second=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn multiply(
    py: Python<'_>,
    pattern: &Pattern,
    transpose: bool,
    values: (usize, String, usize),
    dense: ArrayArgument,
    out: ArrayArgument,
    epilogue: Option<EpilogueArgument>,
    second: Option<ArrayArgument>,
) -> PyResult<()> {
    let structure = &pattern.structure;
    let (dense, out) = (Strided::new(dense)?, Strided::new(out)?);
    let (nnzb, (bm, bk)) = (structure.nnzb(), structure.block());
    shapes("A and its pattern", values.2 == structure.stored(), || {
        format!("{} values, and {nnzb} blocks of {bm} x {bk} are {}", values.2, structure.stored())
    })?;
    let index = if transpose { Some(pattern.by_columns()?) } else { None };
    let values = (values.0, Kind::parse(&values.1)?);
    let (m, k) = match transpose {
        false => (structure.rows(), structure.cols()),
        true => (structure.cols(), structure.rows()),
    };
    shapes("A, B and C", (dense.rows, out.rows, out.cols) == (k, m, dense.cols), || {
        let (rows, cols) = (dense.rows, dense.cols);
        format!(
            "{m} x {k} times {rows} x {cols} into {} x {}\n  help: B has {k} rows, and C is {m} x {cols}",
            out.rows, out.cols
        )
    })?;
    let product = || Product::new(structure, index, values, dense);
    // SAFETY: the Python half keeps the arrays alive for the call and made `out` for it; the shapes were compared.
    unsafe { compute(py, (product, values.1), (out, (m, out.cols)), epilogue, second) }
}

/// The stored blocks of C = A B at `out`: `nnzb * bm` rows of `bk`.
///
/// Every address must be that of memory which the caller keeps alive, as large as its shape says.
#[pyfunction]
#[pyo3(signature = (pattern, a, b, out, epilogue=None, second=None))]
pub(crate) fn multiply_sddmm(
    py: Python<'_>,
    pattern: &Pattern,
    a: ArrayArgument,
    b: ArrayArgument,
    out: ArrayArgument,
    epilogue: Option<EpilogueArgument>,
    second: Option<ArrayArgument>,
) -> PyResult<()> {
    let structure = &pattern.structure;
    let (a, b, out) = (Strided::new(a)?, Strided::new(b)?, Strided::new(out)?);
    let (rows, cols, (bm, bk)) = (structure.rows(), structure.cols(), structure.block());
    shapes("A, B and the pattern", (a.rows, b.cols) == (rows, cols) && a.cols == b.rows, || {
        format!(
            "{} x {} times {} x {} at the blocks of a {rows} x {cols} matrix\n  \
             help: A has {rows} rows, B has {cols} columns, and A's columns are B's rows",
            a.rows, a.cols, b.rows, b.cols
        )
    })?;
    shapes("the stored blocks", (out.rows, out.cols) == (structure.nnzb() * bm, bk), || {
        format!("{} blocks of {bm} x {bk} into {} x {} values", structure.nnzb(), out.rows, out.cols)
    })?;
    let product = || Sddmm::new(structure, a, b);
    // SAFETY: the Python half keeps the arrays alive for the call and made `out` for it; the shapes were compared.
    unsafe { compute(py, (product, a.kind), (out, (rows, cols)), epilogue, second) }
}
