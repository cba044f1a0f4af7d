//! Errors of the library as exceptions of Python.

use std::fmt::Display;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pyo3::create_exception!(
    bsr_gemm,
    Error,
    PyValueError,
    "What bsr_gemm refuses: the fact, the arithmetic behind it and the remedy."
);

/// An exception with the words of an error of the library.
pub(crate) fn refused(error: impl Display) -> PyErr {
    Error::new_err(error.to_string())
}
