//! The process that is profiled: it checks a kernel and launches it again.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bsr::bench::{InterleaveOptions, interleave};
use bsr::gpu::Device;
use bsr_trial::subject::Subject;
use bsr_trial::verify::RowChoice;

use super::super::exit::{Exit, Failure};
use super::super::progress::Progress;
use super::super::spec::Planned;

/// The machine code that the command which started this one has made.
///
/// # Errors
/// Bad input: it cannot be read.
pub(super) fn machine_code(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error| Failure::bad_input(format!("cannot read {}: {error}", path.display()));
    std::fs::read(path).map_err(cannot)
}

/// # Errors
/// Wrong: a wrong result, which has no profile. Those of the device and of the problem.
pub(super) fn launch(device: &Device, planned: Planned, subject: Rc<dyn Subject>) -> Result<Exit, Failure> {
    let options = InterleaveOptions {
        warmup: Duration::ZERO,
        min_repeats: 1,
        max_repeats: 1,
        cold: false,
        ..InterleaveOptions::default()
    };
    let mut case = subject.on(device, RowChoice::Auto, &Progress::new().steps()).case(planned)?;
    let tolerance = case.tolerance(None);
    case.run()?.verify(case.planned.ptx.entry(), tolerance)?;
    interleave(&mut [case.candidate()], &options, device)?;
    Ok(Exit::Done)
}
