//! `bsr check` of an attention: problems of many kinds in orders of many kinds, on the simulator.

use std::cmp::Reverse;
use std::io::Write;
use std::sync::Arc;

use bsr::attention::{Problem, SimulatedAttention, Trial, fault_of_lists, trials};
use bsr::simulated::lists::ListKernels;
use bsr::simulated::{Coverage, Options, Statement};
use bsr::{Dtype, KernelSpec, Plan, bf16, f16};
use bsr_runtime::typed::Number;

use super::super::exit::{Exit, Failure};
use super::super::line;
use super::super::parallel::in_parallel;
use super::super::problem::ProblemArgs;
use super::super::progress::Progress;
use super::super::simulate::{findings_in_full, order};
use super::super::spec::Planned;
use super::problem::{Defaults, asked};

/// What a check without a fault has seen.
pub(in super::super) struct Checked {
    pub(in super::super) runs: usize,
    /// The greatest relative error.
    pub(in super::super) worst: f64,
    /// The kernel's instructions with whether a problem executed them, where problems of all kinds ran.
    pub(in super::super) statements: Option<Vec<(Statement, bool)>>,
}

/// Runs the kernel of `text` on problems of every kind, or on `count` of them, or on the one that the flags ask for, and prints a
/// line for each kind.
///
/// # Errors
/// Wrong: a finding or a wrong result. Bad input: a problem that cannot be had, PTX that cannot be read.
pub(in super::super) fn check(
    planned: &Planned,
    text: &str,
    lists: &Arc<ListKernels>,
    (args, count): (&ProblemArgs, Option<u32>),
    schedules: &[Options],
    out: &mut dyn Write,
) -> Result<Checked, Failure> {
    let (plan, progress) = (&planned.plan, Progress::new());
    let trials = match args.asks() {
        true => vec![Trial::new(asked(args, planned.spec(), Defaults::SIMULATOR)?)],
        false => in_rounds(plan, args.seed(), count.map(|count| count as usize))?,
    };
    let kernel = SimulatedAttention::new(plan, text, planned.ptx.entry())?;
    // The longest first, so that all cores have work to the end.
    let mut order: Vec<usize> = (0..trials.len()).collect();
    order.sort_by_key(|index| Reverse(trials[*index].all_effort(plan, schedules)));
    let done = in_parallel(&order, &progress, |index| checked(&kernel, lists, &trials[index], schedules));
    let (mut coverage, mut groups) = (Coverage::default(), Vec::<Group>::new());
    for (number, (Trial { name, problem, .. }, result)) in trials.iter().zip(done).enumerate() {
        let words = format!("{}; {}", problem.words(), problem.mask_words());
        let Some(result) = result else { continue };
        let (error, executed) = result.map_err(|failure| {
            let last = if args.asks() { String::new() } else { format!(" (the last of --problems {})", number + 1) };
            Failure::reported(Exit::Wrong, format!("{}\n  {name}: {words}{last}", failure.into_report()))
        })?;
        coverage.merge(&executed);
        match groups.iter_mut().find(|group| group.name == *name) {
            Some(group) => (group.more, group.worst) = (group.more + 1, group.worst.max(error)),
            None => groups.push(Group { name, first: words, more: 0, worst: error }),
        }
    }
    progress.hide(|| groups.iter().try_for_each(|group| line(out, group.name, group.words())))?;
    progress.done();
    let worst = groups.iter().fold(0.0, |worst: f64, group| worst.max(group.worst));
    let statements = (!args.asks()).then(|| kernel.statements(&coverage));
    let runs = trials.iter().map(|trial| trial.schedules(plan, schedules).len()).sum();
    Ok(Checked { runs, worst, statements })
}

/// A kernel on one problem, in as many of the schedules as that is worth: the greatest relative error, and what was executed. Of a
/// problem that was made for the check, work that kernels list must be the host's.
///
/// # Errors
/// Wrong: a finding or a wrong result.
pub(in super::super) fn checked(
    kernel: &SimulatedAttention,
    lists: &Arc<ListKernels>,
    trial: &Trial,
    schedules: &[Options],
) -> Result<(f64, Coverage), Failure> {
    let (plan, Problem { shape, mask, .. }) = (kernel.plan(), &trial.problem);
    let tiles = plan.attention_tiles().filter(|_| trial.name != Trial::ASKED);
    let fault = tiles.map(|tiles| fault_of_lists(lists, &tiles, shape, mask, trial.ctas)).transpose()?.flatten();
    if let Some(fault) = fault {
        return Err(Failure::new(Exit::Wrong, format!("the work of a mask on the GPU is listed wrongly\n  {fault}")));
    }
    let kernel = kernel.clone().with_ctas(trial.ctas);
    let kernel = if trial.sums { kernel } else { kernel.without_lse() };
    let kernel = if trial.listed { kernel.with_device_mask(Arc::clone(lists)) } else { kernel };
    let few = trial.schedules(plan, schedules);
    match plan.spec().a {
        Dtype::BF16 => in_every_schedule::<bf16>(&kernel, plan.spec(), &trial.problem, &few),
        _ => in_every_schedule::<f16>(&kernel, plan.spec(), &trial.problem, &few),
    }
}

/// Problems of every kind, or so many; beyond that the kinds come again in other sizes.
fn in_rounds(plan: &Plan, seed: u64, count: Option<usize>) -> Result<Vec<Trial>, Failure> {
    let mut all = trials(plan, seed, 0)?;
    let count = count.unwrap_or(all.len());
    let mut round = 1;
    while all.len() < count {
        all.extend(trials(plan, seed, round)?);
        round += 1;
    }
    all.truncate(count);
    Ok(all)
}

/// The problems of one kind: the first of them in words, how many others there are, the greatest error.
struct Group {
    name: &'static str,
    first: String,
    more: usize,
    worst: f64,
}

impl Group {
    fn words(&self) -> String {
        let more = if self.more > 0 { format!(" and {} more", self.more) } else { String::new() };
        format!("{}{more}: clean, relative error {:.1e}", self.first, self.worst)
    }
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
        let sums = if kernel.gives_lse() { &sums[..] } else { &[] };
        let verified = wanted.verify(&output, sums);
        worst = worst
            .max(verified.map_err(|wrong| Failure::new(Exit::Wrong, format!("{wrong}; schedule {}", order(options))))?);
    }
    Ok((worst, coverage))
}
