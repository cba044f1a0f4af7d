//! The problems of `bsr check` for a kernel, each with its operands and its reference, so that many variants of the kernel's
//! text can be verified on them.

use std::sync::Arc;

use bsr_codegen::Plan;
use bsr_runtime::simulated::lists::ListKernels;
use bsr_runtime::simulated::{Coverage, Options};
use bsr_trial::kinds::Trial;
use bsr_trial::reasons;
use bsr_trial::simulate::{Drawn, Ran, SimulatedKernel, schedule};
use bsr_trial::subject;
use bsr_trial::verify::RowChoice;

/// Schedules for each problem, as `bsr check` has them by default.
const SCHEDULES: u32 = 4;

/// A problem with its operands.
pub(crate) struct Problem {
    trial: Box<dyn Trial>,
    drawn: Box<dyn Drawn>,
}

/// The default problems of a kernel.
pub(crate) fn problems(plan: &Plan) -> Vec<Problem> {
    subject::trials(plan, 0, None).unwrap().into_iter().map(Problem::new).collect()
}

/// What a check finds wrong with a text: the kind of problem, and the first finding or `wrong result`.
pub(crate) fn check(plan: &Plan, text: &str, entry: &str, problems: &[Problem]) -> Option<String> {
    let kernel = match SimulatedKernel::of_text(plan, text, entry) {
        Ok(kernel) => kernel,
        Err(error) => return Some(format!("unreadable: {error}")),
    };
    problems.iter().find_map(|problem| problem.fault(&kernel, &mut Coverage::default()))
}

/// What a check finds wrong with a plan's own kernel: as [`check`], or an instruction that no problem executes, if it is not
/// known why. Beside it the lines that no problem can execute, each with the reason.
pub(crate) fn check_all(plan: &Plan, problems: &[Problem]) -> (Option<String>, Vec<(u32, &'static str)>) {
    let kernel = own(plan);
    let mut coverage = Coverage::default();
    let fault = problems.iter().find_map(|problem| problem.fault(&kernel, &mut coverage));
    let statements = kernel.statements(&coverage);
    let missed = reasons::missed(&statements, plan);
    let unknown = missed.iter().find(|(_, why)| why.is_none());
    let fault = fault.or_else(|| unknown.map(|(at, _)| format!("not executed: line {}: {}", at.line, at.text)));
    (fault, missed.iter().filter_map(|(at, why)| Some((at.line, (*why)?))).collect())
}

/// The problem of a kernel whose work kernels list.
pub(crate) fn listed(plan: &Plan) -> Problem {
    let trials = subject::trials(plan, 0, None).unwrap();
    Problem::new(trials.into_iter().find(|trial| trial.is_listed()).unwrap())
}

/// What [`listed`] finds wrong with kernels that list work.
pub(crate) fn check_lists(plan: &Plan, problem: &Problem, lists: &Arc<ListKernels>) -> Option<String> {
    let kernel = problem.trial.prepare(&own(plan), lists).unwrap();
    problem.fault_of(&problem.drawn.run(&kernel, &schedule(0, 0)).unwrap(), plan)
}

/// A plan's own kernel.
pub(crate) fn own(plan: &Plan) -> SimulatedKernel {
    let ptx = plan.ptx();
    SimulatedKernel::of_text(plan, ptx.text(), ptx.entry()).unwrap()
}

impl Problem {
    pub(crate) fn new(trial: Box<dyn Trial>) -> Self {
        Self { drawn: trial.draw(RowChoice::All).unwrap(), trial }
    }

    /// The problem with each of its schedules.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&Self, Options)> {
        let all: Vec<Options> = (0..SCHEDULES).map(|number| schedule(0, number)).collect();
        self.trial.schedules(&all).into_iter().map(move |options| (self, options))
    }

    /// Runs the kernel once, which must be right: the warp instructions that it took.
    pub(crate) fn steps(&self, kernel: &SimulatedKernel, options: &Options) -> u64 {
        let ran = self.drawn.run(&self.prepared(kernel), options).unwrap();
        assert_eq!(self.fault_of(&ran, kernel.plan()), None, "{}", self.trial.name());
        ran.report.cost.steps
    }

    fn prepared(&self, kernel: &SimulatedKernel) -> SimulatedKernel {
        self.trial.prepare(kernel, &ListKernels::own().unwrap()).unwrap()
    }

    fn fault(&self, kernel: &SimulatedKernel, coverage: &mut Coverage) -> Option<String> {
        let kernel = self.prepared(kernel);
        self.runs().find_map(|(_, options)| {
            let fault = match self.drawn.run(&kernel, &options) {
                Ok(ran) => {
                    coverage.merge(&ran.report.coverage);
                    self.fault_of(&ran, kernel.plan())
                }
                Err(failure) => Some(format!("refused: {failure}")),
            };
            fault.map(|fault| format!("{}: {fault}", self.trial.name()))
        })
    }

    fn fault_of(&self, ran: &Ran, plan: &Plan) -> Option<String> {
        let wrong = ran.verdict.verify(plan.spec().op.as_str(), self.drawn.tolerance(None)).is_err();
        let wrong = wrong.then(|| "wrong result".to_owned());
        ran.report.findings.first().map(|finding| format!("{:?}", finding.kind)).or(wrong)
    }
}
