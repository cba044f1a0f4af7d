//! The `bsr` command, which `python -m bsr_gemm` is.

use std::ffi::OsString;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Runs the `bsr` command and returns its exit code. `program` starts it once more: a sweep measures in processes of its
/// own.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, program: Vec<OsString>, args: Vec<OsString>) -> i32 {
    let code = py.detach(|| bsr::cli::run(program, args));
    // `ExitCode` does not tell its number: every code of the command is compared with it.
    (0..=255).find(|number| ExitCode::from(*number) == code).map_or(1, i32::from)
}
