//! The process that is profiled: it checks a kernel and launches it again.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bsr::Op;
use bsr::bench::{InterleaveOptions, interleave};
use bsr::gpu::Device;

use super::super::attention;
use super::super::case::Case;
use super::super::exit::{Exit, Failure};
use super::super::operands::Operands;
use super::super::problem::{Defaults, DrawnProblem, ProblemArgs};
use super::super::progress::Progress;
use super::super::spec::Planned;
use super::super::verdict::CheckArgs;

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
pub(super) fn launch(device: &Device, planned: Planned, args: &ProblemArgs) -> Result<Exit, Failure> {
    let options = InterleaveOptions {
        warmup: Duration::ZERO,
        min_repeats: 1,
        max_repeats: 1,
        cold: false,
        ..InterleaveOptions::default()
    };
    if planned.spec().op == Op::Attention {
        attention::launch(device, &planned, args, &options)?;
        return Ok(Exit::Done);
    }
    let problem = Rc::new(DrawnProblem::new(args, Defaults::GPU)?);
    let check = CheckArgs::default();
    let mut operands = Operands::new(&problem, device, check.rows, &Progress::new());
    let mut case = Case::new(planned, &mut operands)?;
    let tolerance = check.tolerance(case.planned.spec(), case.longest, case.tolerance);
    case.check()?.judge(case.planned.ptx.entry(), tolerance)?;
    interleave(&mut [case.candidate()], &options, device)?;
    Ok(Exit::Done)
}
