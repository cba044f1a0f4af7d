//! Matrices of scientific fields.

use bsr::Field;
use bsr::gpu::Fingerprint;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::errors::refused;
use crate::pattern::Pattern;

/// The pattern and the values, in f64 block after block, of what a field solves with: `elasticity:16x16x16` for instance.
#[pyfunction]
pub(crate) fn field<'py>(py: Python<'py>, text: &str, seed: u64) -> PyResult<(Pattern, Bound<'py, PyByteArray>)> {
    let field: Field = text.parse().map_err(refused)?;
    let a = py.detach(|| field.matrix(seed)).map_err(refused)?;
    let structure = a.structure().clone();
    // SAFETY: every byte of an f64 is a byte; the slice is as long as the values.
    let bytes = unsafe { std::slice::from_raw_parts(a.values().as_ptr().cast::<u8>(), size_of_val(a.values())) };
    Ok((Pattern { fingerprint: Fingerprint::of(&structure), structure }, PyByteArray::new(py, bytes)))
}
