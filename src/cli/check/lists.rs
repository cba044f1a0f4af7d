//! The kernels that list work on a GPU, and patterns for them.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bsr::simulated::lists::{ListKernels, faults_of_checks, faults_of_lists};
use bsr_trial::simulate::MAX_STEPS;

use super::super::exit::{Exit, Failure};
use super::super::{input, line};

/// The kernels that list work on a GPU: the file's, or those that a GPU is given.
pub(super) fn lists(path: Option<&Path>) -> Result<Arc<ListKernels>, Failure> {
    let kernels = match path {
        Some(path) => ListKernels::new(&input::text(path)?).map(|kernels| Arc::new(kernels.limited(MAX_STEPS))),
        None => ListKernels::own(),
    };
    let name = path.map_or_else(|| "the kernels that list work".to_owned(), |path| path.display().to_string());
    kernels.map_err(|error| Failure::bad_input(format!("{name}:{error}")))
}

/// Right and wrong patterns, of which the kernels that check them must say what is wrong, and large ones, which kernels must
/// transpose, make of masks and list as the host does.
pub(super) fn patterns(lists: &ListKernels, out: &mut dyn Write) -> Result<(), Failure> {
    let mut faults = faults_of_checks(lists).collect::<Result<Vec<_>, _>>().map_err(Failure::bad_input)?;
    faults.extend(faults_of_lists(lists).collect::<Result<Vec<_>, _>>()?);
    let Some(first) = faults.first() else {
        let words = "each mistake in row pointers and columns is reported by the kernels that check them";
        return Ok(line(out, "patterns", format_args!("{words}; large ones are listed as by the host"))?);
    };
    line(out, "verdict", format_args!("FAILS: {} patterns are checked or listed wrongly", faults.len()))?;
    out.flush()?;
    Err(Failure::new(Exit::Wrong, format!("a pattern on the GPU is checked or listed wrongly\n  {first}")))
}
