//! `bsr check SPEC`: runs a kernel's PTX on the simulator, on problems of many kinds in orders of many kinds.

mod coverage;
#[cfg(test)]
mod drawn;
mod fault;
mod lists;

use std::cmp::Reverse;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use bsr::simulated::{Coverage, Options};
use bsr_trial::check::check;
use bsr_trial::kinds::Trial;
use bsr_trial::request::Defaults;
use bsr_trial::simulate::{SimulatedKernel, order, schedule};
use bsr_trial::subject::trials;
use bsr_tuner::pick::Gpu;

use super::exit::{Exit, Failure};
use super::parallel::in_parallel;
use super::problem::ProblemArgs;
use super::progress::Progress;
use super::ptx::PtxArgs;
use super::spec::Planned;
use super::{attention, attention_blocks, line, say, simulate};
use fault::Group;
use lists::{lists, patterns};

/// Check a kernel on the simulator: numbers, races, barriers, deadlocks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr check \"bm = 512, bn = 128, bk = 112\"
  bsr check \"bm = 64, bn = 256, bk = 64, dtype = bf16\" --problems 24 --schedules 10
  bsr emit SPEC -o k.ptx; edit k.ptx; bsr check SPEC --ptx k.ptx
  bsr check \"bm = 64, bn = 64, bk = 64\" --matrix layer.safetensors --tensor up.weight --n 64

Needs no GPU. The problems are sized from the kernel's plan: whole and ragged matrices, uneven block rows that fill \
the ring of stages twice, a row with more than two batches of indices, empty block rows, rows of one block each, \
only negative results, no blocks, N = 1, operands whose lines are gigabytes apart, K divided among CTAs, and single \
blocks that end after every few rows and columns of a tile (\"edges\", in one schedule). A kernel with batch = on \
computes two different problems. If a kernel accepts patterns or masks on a GPU, the kernels that check them and \
list their work are run as well. A schedule completes copies and WGMMA in an order that the PTX ISA allows: \
scrambled by the seed, as early as possible, as late as possible, then scrambled by the following seeds. With any of \
--m, --n, --k, --pattern and --matrix, that one problem is checked instead, of an attention with the kernel that `bsr run` \
chooses for it; with --batch, a batch of that many \
products or attentions. --seed is also the seed of the first scrambled schedule. Two accesses without an order \
between them are a finding even if the result is correct. A finding or a wrong result exits with 1, and the command \
that replays it is printed.")]
pub(super) struct Args {
    /// The kernel: `bm = .., bn = .., bk = ..`, or the path of a .toml file.
    spec: String,
    #[command(flatten)]
    ptx: PtxArgs,
    /// Build the work lists of patterns and masks on a GPU with the kernels in this file, in place of the emitted ones, and
    /// test them with right, wrong and large patterns.
    #[arg(long, value_name = "FILE")]
    lists: Option<PathBuf>,
    /// Problems to run; beyond one of each kind, the kinds are repeated in other sizes. [default: one of each kind]
    #[arg(long, conflicts_with_all = ["m", "n", "k", "pattern", "matrix", "heads", "key_heads", "batch"], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    problems: Option<u32>,
    /// Schedules per problem.
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    schedules: u32,
    #[command(flatten)]
    problem: ProblemArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let text = match args.problem.is_any() {
        true => attention_blocks::filled(&args.spec, &args.problem, Defaults::Simulator, Gpu::default())?,
        false => args.spec.clone(),
    };
    let asked = args.ptx.plan(&text)?;
    let spec = *asked.spec();
    let (planned, words) = match chosen(args, &asked)? {
        Some((planned, words)) => (planned, Some(words)),
        None => (asked, None),
    };
    let (kernel, lists) = (SimulatedKernel::new(&planned)?, lists(args.lists.as_deref())?);
    let trials = problems(args, &planned)?;
    let schedules: Vec<Options> = (0..args.schedules).map(|number| schedule(args.problem.seed(), number)).collect();

    line(out, "spec", spec)?;
    if let Some(words) = words {
        line(out, "chosen", words)?;
    }
    line(out, "kernel", planned.words())?;
    budget(&planned, out)?;
    line(out, "schedules", orders(&schedules))?;

    let (start, progress) = (Instant::now(), Progress::new());
    let (mut first_fault, mut coverage) = (None, Coverage::default());
    let (mut worst, mut runs, mut faulty) = (0.0_f64, 0, 0);
    // The longest first, so that all cores have work to the end.
    let mut order: Vec<usize> = (0..trials.len()).collect();
    order.sort_by_key(|index| Reverse(trials[*index].all_effort(&schedules)));
    let mut done = in_parallel(&order, &progress, |index| {
        let trial = &*trials[index];
        Ok((trial.words(), check(&kernel, &lists, trial, &schedules)?))
    });
    let groups = groups(&trials);
    for (name, members) in &groups {
        let mut group = Group::default();
        for &index in members {
            let Some(result) = done[index].take() else { continue };
            let (words, checked) = result?;
            coverage.merge(&checked.coverage);
            group.add(index, words, checked);
            if group.fault.is_some() {
                break;
            }
        }
        progress.hide(|| line(out, name, group.words()))?;
        worst = worst.max(group.worst);
        runs += group.runs;
        faulty += usize::from(group.fault.is_some());
        first_fault = first_fault.or(group.fault);
    }
    progress.done();
    // The emitted ones are what they were when they were tested, whatever the kernel.
    if args.lists.is_some() && first_fault.is_none() && trials.iter().any(|trial| trial.is_listed()) {
        patterns(&lists, out)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let Some((index, fault)) = first_fault else {
        if !args.problem.is_any() {
            coverage::show(&kernel.statements(&coverage), &planned.plan, out)?;
        }
        return passes(out, runs, worst, seconds);
    };
    line(out, "verdict", format_args!("FAILS: {faulty} of {} groups; {seconds:.1} s", groups.len()))?;
    out.flush()?;
    Err(Failure::new(Exit::Wrong, fault::report(&fault, index, trials[index].name(), args, &planned)))
}

/// The kernel that `bsr run` takes for the one problem that the flags ask for, where the spec leaves that open and the text is its
/// own.
fn chosen(args: &Args, planned: &Planned) -> Result<Option<(Planned, String)>, Failure> {
    if !args.problem.is_any() || args.ptx.path().is_some() {
        return Ok(None);
    }
    let subject = args.problem.subject(Defaults::Simulator, planned.spec())?;
    attention::chosen(planned.spec(), &*subject, Gpu::default())
}

/// Problems of every kind, or the one that the flags ask for.
fn problems(args: &Args, planned: &Planned) -> Result<Vec<Box<dyn Trial>>, Failure> {
    if !args.problem.is_any() {
        return Ok(trials(&planned.plan, args.problem.seed(), args.problems.map(|count| count as usize))?);
    }
    let subject = args.problem.subject(Defaults::Simulator, planned.spec())?;
    if let Some(warning) = simulate::warning(subject.about(planned.spec())?.flops) {
        say(warning);
    }
    Ok(vec![subject.trial(&planned.plan, true)?])
}

/// The lines of the answer: a label, and the numbers of its problems.
fn groups(trials: &[Box<dyn Trial>]) -> Vec<(&'static str, Vec<usize>)> {
    let mut groups: Vec<(&'static str, Vec<usize>)> = vec![];
    for (index, trial) in trials.iter().enumerate() {
        match groups.iter_mut().find(|(name, _)| *name == trial.name()) {
            Some((_, members)) => members.push(index),
            None => groups.push((trial.name(), vec![index])),
        }
    }
    groups
}

/// The verdict on a kernel that is right.
fn passes(out: &mut dyn Write, runs: usize, worst: f64, seconds: f64) -> Result<Exit, Failure> {
    let words = format!("{runs} runs without a finding, relative error at most {worst:.1e}; {seconds:.1} s");
    line(out, "verdict", format_args!("passes: {words}"))?;
    Ok(Exit::Done)
}

/// What the kernel takes of a CTA's registers and shared memory, with the arithmetic.
fn budget(planned: &Planned, out: &mut dyn Write) -> Result<(), Failure> {
    for (row, label) in [("registers", "registers"), ("shared memory", "shared")] {
        if let Some([_, value, why]) = planned.plan.rows().into_iter().find(|[what, ..]| what == row) {
            line(out, label, format_args!("{value}: {why}"))?;
        }
    }
    Ok(())
}

/// Schedules that are named one by one.
const NAMED: usize = 5;

fn orders(schedules: &[Options]) -> String {
    let mut words: Vec<String> = schedules.iter().take(NAMED).map(order).collect();
    if schedules.len() > NAMED {
        words.push(format!("and {} more seeds", schedules.len() - NAMED));
    }
    words.join(", ")
}
