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

/// An exception of work that is done with the types of a kernel, which may be refused with words of the library.
pub(crate) struct Failed(pub(crate) PyErr);

impl From<bsr::Refusal> for Failed {
    fn from(refusal: bsr::Refusal) -> Self {
        Self(refused(refusal))
    }
}

/// The same of an error of the library.
pub(crate) fn failed(error: impl Display) -> Failed {
    Failed(refused(error))
}
