//! `bsr check` of an attention: problems of many kinds in orders of many kinds, on the simulator.

use std::cmp::Reverse;
use std::io::Write;

use bsr::attention::SimulatedAttention;
use bsr::simulated::{Coverage, Options, Statement};
use bsr::{Dtype, KernelSpec, bf16, f16};

use super::super::check::in_parallel;
use super::super::dtypes::Number;
use super::super::exit::{Exit, Failure};
use super::super::line;
use super::super::problem::ProblemArgs;
use super::super::progress::Progress;
use super::super::simulate::{findings_in_full, order};
use super::super::spec::Planned;
use super::kinds::{self, Kind};
use super::problem::{Defaults, Problem, tolerance};

/// What a check without a fault has seen.
pub(in super::super) struct Checked {
    pub(in super::super) runs: usize,
    /// The greatest relative error.
    pub(in super::super) worst: f64,
    /// The kernel's instructions with whether a problem executed them, where problems of all kinds ran.
    pub(in super::super) statements: Option<Vec<(Statement, bool)>>,
}

/// Runs the kernel of `text` on problems of every kind, or on the one that the flags ask for, and prints a line for each.
///
/// # Errors
/// Wrong: a finding or a wrong result. Bad input: a problem that cannot be had, PTX that cannot be read.
pub(in super::super) fn check(
    planned: &Planned,
    text: &str,
    args: &ProblemArgs,
    schedules: &[Options],
    out: &mut dyn Write,
) -> Result<Checked, Failure> {
    let (spec, progress) = (planned.spec(), Progress::new());
    let problems = match args.asks() {
        true => vec![Kind::asked(Problem::new(args, spec, Defaults::SIMULATOR)?)],
        false => kinds::all(&planned.plan, args.seed())?,
    };
    let kernel = SimulatedAttention::new(&planned.plan, text, planned.ptx.entry())?;
    // The longest first, so that all cores have work to the end.
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|index| Reverse(problems[*index].all_effort(&planned.plan, schedules)));
    let done = in_parallel(&order, &progress, |index| {
        let Kind { problem, ctas, sums, .. } = &problems[index];
        let kernel = kernel.clone().with_ctas(*ctas);
        let kernel = if *sums { kernel } else { kernel.without_sums() };
        let few = problems[index].schedules(&planned.plan, schedules);
        match spec.a {
            Dtype::BF16 => in_every_schedule::<bf16>(&kernel, spec, problem, &few),
            _ => in_every_schedule::<f16>(&kernel, spec, problem, &few),
        }
    });
    let (mut worst, mut coverage) = (0.0_f64, Coverage::default());
    for (Kind { name, problem, .. }, result) in problems.iter().zip(done) {
        let words = || format!("{}; {}", problem.words(), problem.mask_words());
        let Some(result) = result else { continue };
        let (error, executed) = result.map_err(|failure| {
            let report = format!("{}\n  {name}: {}", failure.into_report(), words());
            Failure::reported(Exit::Wrong, report)
        })?;
        progress.hide(|| line(out, name, format_args!("{}: clean, relative error {error:.1e}", words())))?;
        worst = worst.max(error);
        coverage.merge(&executed);
    }
    progress.done();
    let statements = (!args.asks()).then(|| kernel.statements(&coverage));
    let runs = problems.iter().map(|problem| problem.schedules(&planned.plan, schedules).len()).sum();
    Ok(Checked { runs, worst, statements })
}

/// The greatest relative error, and what was executed.
fn in_every_schedule<T: Number>(
    kernel: &SimulatedAttention,
    spec: &KernelSpec,
    problem: &Problem,
    schedules: &[Options],
) -> Result<(f64, Coverage), Failure> {
    let tensors = problem.tensors::<T>();
    let wanted = problem.wanted(spec, &tensors, usize::MAX);
    let (mut worst, mut coverage) = (0.0_f64, Coverage::default());
    for options in schedules {
        let (output, sums, report) = kernel.run(tensors.each_ref(), &problem.mask, problem.inputs(), options)?;
        if !report.is_clean() {
            let text = format!("schedule {}{}", order(options), findings_in_full(&report.findings));
            return Err(Failure::new(Exit::Wrong, text));
        }
        coverage.merge(&report.coverage);
        let sums = if kernel.gives_sums() { &sums[..] } else { &[] };
        worst = worst.max(wanted.judge(&output, sums, tolerance(T::DTYPE))?);
    }
    Ok((worst, coverage))
}
