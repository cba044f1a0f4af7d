//! Memory, which is asked for before it is taken.

use bsr::read::memory_available;
use pyo3::prelude::*;

use crate::errors::refused;

/// Bytes that are taken without a question: to look costs more than a small product.
const FEW: u64 = 1 << 26;

/// Makes sure that this machine has so many bytes for `what`: a system that promises more than it has ends the process when the
/// memory is written.
///
/// # Errors
/// More than the machine, the limits of the process or its control group leave.
#[pyfunction]
pub(crate) fn ask_for(bytes: u64, what: &str) -> PyResult<()> {
    match memory_available().filter(|_| bytes > FEW) {
        Some(available) if bytes > available => Err(refused(format!(
            "{what} takes {} of memory, and {} are available\n  help: split the matrix and compute the parts one after the other",
            in_words(bytes),
            in_words(available)
        ))),
        _ => Ok(()),
    }
}

/// Bytes as people read them: the largest unit of which there is at least one.
fn in_words(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6)];
    let (unit, size) = units.into_iter().find(|(_, size)| bytes as f64 >= *size).unwrap_or(("KB", 1e3));
    format!("{:.1} {unit}", bytes as f64 / size)
}
