//! Problems with their values on the simulator, and what came of a run.

mod findings;
mod kernel;
pub(crate) mod product;

use bsr_runtime::simulated::{Options, Report};

use crate::Failure;
use crate::verify::{Expected, Tolerance, Verdict};
pub use findings::{MAX_STEPS, findings_in_full, findings_in_words, order, schedule};
use findings::{stopped, wrong};
pub use kernel::SimulatedKernel;

/// The values of a problem, or of several that one launch computes, and what the results must be.
pub trait Drawn: Send + Sync {
    /// What each result must be.
    fn expected(&self) -> Vec<&Expected>;

    /// Runs a kernel once and compares; of several results the worst.
    ///
    /// # Errors
    /// A kernel of another operation, and those of the simulator.
    fn run(&self, kernel: &SimulatedKernel, options: &Options) -> Result<Ran, Failure>;

    /// The bounds of right results: those that are asked for, or else the widest of all.
    fn tolerance(&self, asked: Option<f64>) -> Tolerance {
        let widest = self.expected().iter().map(|expected| expected.want.tolerance).fold(0.0, f64::max);
        asked.map_or(Tolerance::strict(widest), Tolerance::norm)
    }
}

/// What came of a run.
pub struct Ran {
    /// The result beside the reference.
    pub verdict: Verdict,
    /// What the simulator found.
    pub report: Report,
}

impl Ran {
    /// The result with the second one, of a run without findings.
    pub(crate) fn new(
        verdict: Verdict,
        second: Option<&[f32]>,
        expected: &Expected,
        report: Report,
    ) -> Result<Self, Failure> {
        let verdict = if report.is_clean() { verdict.with_second(second, expected)? } else { verdict };
        Ok(Self { verdict, report })
    }

    /// Whether there are no findings, and the result is right.
    ///
    /// # Errors
    /// Wrong: the findings, and what is wrong with the result.
    pub fn verify(&self, kernel: &crate::Planned, tolerance: Tolerance) -> Result<(), Failure> {
        if self.report.is_clean() {
            return self.verdict.verify(kernel.ptx.entry(), tolerance);
        }
        let mut report = format!("{} in {}", findings_in_words(&self.report.findings), kernel.ptx.entry());
        report.push_str(&findings_in_full(&self.report.findings));
        if let Some(wrong) = self.wrong(tolerance, &kernel.plan) {
            report.push_str(&format!("\n  {wrong}"));
        }
        Err(Failure::wrong(report))
    }

    /// Whether it ended before C was complete, which says nothing of the numbers.
    pub fn is_stopped(&self) -> bool {
        stopped(&self.verdict, &self.report)
    }

    /// A wrong result in words; none of a run that was stopped.
    pub fn wrong(&self, tolerance: Tolerance, plan: &bsr_codegen::Plan) -> Option<String> {
        wrong(&self.verdict, &self.report, tolerance, plan)
    }
}

/// The worst of the verdicts on a list, of which there is at least one.
///
/// # Errors
/// The first one of theirs.
pub(crate) fn worst(verdicts: impl Iterator<Item = Result<Verdict, Failure>>) -> Result<Verdict, Failure> {
    let worst = verdicts.reduce(|one, other| Ok(one?.worse(other?)));
    worst.unwrap_or_else(|| Err(Failure::wrong("a list without products has no result")))
}
