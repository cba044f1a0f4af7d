//! A kernel on one problem, in one schedule after the other, until something is wrong.

use std::collections::BTreeSet;
use std::sync::Arc;

use bsr_runtime::simulated::lists::ListKernels;
use bsr_runtime::simulated::{Coverage, Finding, Options};

use crate::kinds::Trial;
use crate::simulate::{Drawn, SimulatedKernel};
use crate::verify::RowChoice;
use crate::{Failure, writers};

/// What is wrong with one run.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The schedule.
    pub options: Options,
    /// How many schedules lead to it.
    pub schedules: usize,
    /// The problem in words.
    pub problem: String,
    /// What the simulator found.
    pub findings: Vec<Finding>,
    /// A wrong result, or a wrong list, in words.
    pub wrong: Option<String>,
}

impl Fault {
    /// The kinds of what is wrong.
    pub fn kinds(&self) -> String {
        let different: BTreeSet<_> = self.findings.iter().map(|finding| finding.kind).collect();
        let mut kinds: Vec<String> = different.into_iter().map(|kind| format!("{kind:?}")).collect();
        kinds.extend(self.wrong.as_ref().map(|_| "wrong result".to_owned()));
        kinds.join(", ")
    }
}

/// What came of a check on one problem.
#[derive(Debug, Default)]
pub struct Checked {
    /// How many schedules were run.
    pub runs: usize,
    /// The greatest relative error.
    pub worst: f64,
    /// The instructions that were executed.
    pub coverage: Coverage,
    /// What is wrong.
    pub fault: Option<Fault>,
}

/// Checks a kernel on one problem, in as many of the schedules as that is worth.
///
/// # Errors
/// Bad input: a problem that does not exist, a kernel of another operation.
pub fn check(
    kernel: &SimulatedKernel,
    lists: &Arc<ListKernels>,
    trial: &dyn Trial,
    schedules: &[Options],
) -> Result<Checked, Failure> {
    let schedules = trial.schedules(schedules);
    if let Some(fault) = trial.fault_of_lists(lists)? {
        let wrong = Some(format!("the work of a mask on the GPU is listed wrongly\n  {fault}"));
        let options = schedules.into_iter().next().unwrap_or_default();
        let fault = Fault { options, schedules: 1, problem: trial.words(), findings: vec![], wrong };
        return Ok(Checked { fault: Some(fault), ..Checked::default() });
    }
    run(kernel, lists, (trial, &*trial.draw(RowChoice::All)?), &schedules)
}

/// The same of values that are drawn already.
///
/// # Errors
/// Bad input: a kernel of another operation.
pub fn run(
    kernel: &SimulatedKernel,
    lists: &Arc<ListKernels>,
    (trial, drawn): (&dyn Trial, &dyn Drawn),
    schedules: &[Options],
) -> Result<Checked, Failure> {
    let (kernel, tolerance, mut checked) = (trial.prepare(kernel, lists)?, drawn.tolerance(None), Checked::default());
    for options in schedules {
        let ran = drawn.run(&kernel, options)?;
        checked.runs += 1;
        checked.coverage.merge(&ran.report.coverage);
        checked.worst = checked.worst.max(ran.verdict.comparison.relative);
        let mut wrong = ran.wrong(tolerance, kernel.plan());
        if let Some(words) = &mut wrong
            && !ran.verdict.far_off().is_empty()
        {
            // The same run again, which now notes who writes what.
            let again = drawn.run(&kernel, &Options { writers: true, ..options.clone() })?;
            words.push_str(&writers::words(&again.report.writers, ran.verdict.far_off(), kernel.plan()));
        }
        if !ran.report.is_clean() || wrong.is_some() {
            checked.fault = Some(Fault {
                options: options.clone(),
                schedules: checked.runs,
                problem: trial.words(),
                findings: ran.report.findings,
                wrong,
            });
            break;
        }
    }
    Ok(checked)
}
