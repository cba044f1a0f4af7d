//! Patterns of workloads.

use std::path::Path;

use bsr_codegen::KernelSpec;
use bsr_runtime::read::{self, Sparse};
use bsr_runtime::{Pattern, Structure};

use super::Trouble;
use crate::{Source, Verdict, Workload};

/// A spec with the facts of a workload.
pub(super) fn spec_of(workload: &Workload) -> KernelSpec {
    workload.facts.spec(64)
}

/// Rows and columns of the sparse operand as it is stored.
pub(crate) fn stored_shape(workload: &Workload) -> (usize, usize) {
    workload.stored_shape()
}

/// The pattern of a workload whose source is one.
pub(super) fn pattern(words: &str) -> Result<Pattern, Trouble> {
    words.parse().map_err(refused)
}

/// A matrix of a file: the one called `name`, or the only one.
pub(super) fn load(workload: &Workload, path: &Path, name: Option<&str>) -> Result<Sparse, Trouble> {
    let sparse = read::load_array(path, name, workload.seed).map_err(refused)?;
    let (rows, cols) = stored_shape(workload);
    if (sparse.rows(), sparse.cols()) != (rows, cols) {
        return Err(refused(format!(
            "{} is {} x {}, the workload says {rows} x {cols}\n  help: has the file changed since the sweep began?",
            path.display(),
            sparse.rows(),
            sparse.cols()
        )));
    }
    Ok(sparse)
}

/// The sparse operand of a workload without its values, as it is stored.
///
/// # Errors
/// [`Verdict::Refused`]: words that are no pattern, a file that cannot be read, or a matrix of the program that asked.
pub fn structure(workload: &Workload) -> Result<Structure, Trouble> {
    let block = workload.facts.block();
    if let Some(drawn) = workload.pattern() {
        return drawn.map_err(refused);
    }
    match &workload.source {
        Source::Pattern(_) | Source::Mask { .. } => Err(refused("a pattern that cannot be drawn")),
        Source::File(path) => load(workload, path, None)?.structure(block).map_err(refused),
        Source::Tensor { file, name } => load(workload, file, Some(name))?.structure(block).map_err(refused),
        Source::Given => Err(refused("a matrix of another program cannot be drawn again")),
    }
}

/// A workload that cannot be had here.
pub(super) fn refused(error: impl std::fmt::Display) -> Trouble {
    Trouble { verdict: Verdict::Refused, candidate: None, message: error.to_string(), lost: false }
}
