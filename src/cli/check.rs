//! `bsr check SPEC`: runs a kernel's PTX on the simulator, on problems of many kinds in orders of many kinds.

mod coverage;
#[cfg(test)]
mod drawn;
mod problems;
mod reasons;
mod writers;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use bsr::simulated::lists::{ListKernels, faults_of_checks};
use bsr::simulated::{Coverage, Finding, Options, Schedule, Simulated};
use bsr::{Bsr, Dense, Layout, Op};

use super::dtypes::{Number, Typed, with_types};
use super::exit::{Exit, Failure};
use super::input;
use super::line;
use super::operands::{inputs, scales};
use super::problem::ProblemArgs;
use super::product::{self, Ran};
use super::progress::Progress;
use super::ptx::PtxArgs;
use super::sampled;
use super::simulate::{findings_in_full, findings_in_words, loaded, order, unreadable, wrong};
use super::spec::{self, Planned};
use super::trials::{MAX_STEPS, Member, Shape, Trial, schedule};
use super::verdict::{Rows, RowsAsked, Tolerance};
use problems::Problems;

/// Check a kernel on the simulator: numbers, races, barriers, deadlocks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr check \"bm = 512, bn = 128, bk = 112\"
  bsr check \"bm = 64, bn = 256, bk = 64, dtype = bf16\" --problems 24 --schedules 10
  bsr emit SPEC -o k.ptx; edit k.ptx; bsr check SPEC --ptx k.ptx
  bsr check \"bm = 64, bn = 64, bk = 64\" --matrix layer.safetensors --tensor up.weight --n 64

Needs no GPU. Problems are sized by the kernel's plan: whole and ragged ones, uneven block rows that fill the ring \
of stages twice, one row of more than two batches of indices, empty block rows, rows of one block each, only negative \
results, no blocks, N = 1, lines of operands gigabytes apart, K that CTAs share, and single blocks that end after every \
few rows and columns of a tile (\"edges\", in one schedule). A kernel for lists is given two different problems; of one \
that takes patterns on a GPU the kernels that check them and list their work run, too. Schedules complete copies \
and WGMMA as the PTX ISA allows: scrambled by the seed, as early as possible, as \
late as possible, then scrambled by the seeds that follow. Any of --m, --n, --k, --pattern and --matrix asks for one problem \
in place of those; --seed is the seed of the first scrambled schedule too. Two accesses without an order between them are a finding \
even where the result is right. A finding or a wrong result exits with 1, and the command that replays it is told.")]
pub(super) struct Args {
    /// The kernel: `bm = .., bn = .., bk = ..`, or the path of a .toml file.
    spec: String,
    #[command(flatten)]
    ptx: PtxArgs,
    /// List work by the kernels in this file, in place of those that list the work of patterns on a GPU.
    #[arg(long, value_name = "FILE")]
    lists: Option<PathBuf>,
    /// Problems to run [default: one of each kind]; beyond that the kinds come again in other sizes.
    #[arg(long, conflicts_with_all = ["m", "n", "k", "pattern", "matrix", "heads", "key_heads", "batch"], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    problems: Option<u32>,
    /// Schedules for each problem.
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    schedules: u32,
    #[command(flatten)]
    problem: ProblemArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let planned = args.ptx.plan(&args.spec)?;
    if planned.spec().op == Op::Attention {
        return attention(args, &planned, out);
    }
    let kernel = loaded(&planned)?;
    let lists = lists(args.lists.as_deref())?;
    let problems = Problems::new(args, &planned)?;
    let schedules: Vec<Options> = (0..args.schedules).map(|number| problems.schedule(number)).collect();

    line(out, "spec", planned.spec())?;
    line(out, "kernel", planned.words())?;
    budget(&planned, out)?;
    line(out, "schedules", orders(&schedules))?;

    let (start, progress) = (Instant::now(), Progress::new());
    let (mut first_fault, mut coverage) = (None, Coverage::default());
    let (mut worst, mut runs, mut faulty) = (0.0_f64, 0, 0);
    let trials = (0..problems.count()).map(|index| problems.trial(index)).collect::<Result<Vec<_>, _>>()?;
    // The longest first, so that all cores have work to the end.
    let mut order: Vec<usize> = (0..trials.len()).collect();
    order.sort_by_key(|index| Reverse(trials[*index].all_effort(schedules.len())));
    let mut done = in_parallel(&order, &progress, |index| {
        let trial = &trials[index];
        Ok((trial.words(planned.spec()), checked(&kernel, &lists, (&problems, trial), &schedules)?))
    });
    let groups = problems.groups();
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
    if trials.iter().any(|trial| trial.listed) {
        patterns(&lists, out)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let Some((index, fault)) = first_fault else {
        if problems.are_of_all_kinds() {
            coverage::show(&kernel.statements(&coverage), &planned.plan, out)?;
        }
        return passes(out, runs, worst, seconds);
    };
    line(out, "verdict", format_args!("FAILS: {faulty} of {} groups; {seconds:.1} s", groups.len()))?;
    out.flush()?;
    Err(Failure::new(Exit::Wrong, fault.report(index, args, &problems, &planned)))
}

/// A kernel on one problem, in as many of the schedules as that is worth.
fn checked(
    kernel: &Simulated,
    lists: &Arc<ListKernels>,
    (problems, trial): (&Problems<'_>, &Trial),
    schedules: &[Options],
) -> Result<Checked, Failure> {
    let spec = *kernel.plan().spec();
    let kernel = kernel.clone().with_clusters(trial.clusters).with_far_lines(trial.far);
    let kernel = if trial.listed { kernel.with_device_pattern(Arc::clone(lists))? } else { kernel };
    let few = &schedules[..schedules.len().min(trial.schedules)];
    with_types(&spec, Check { kernel: &kernel, problems, trial, schedules: few })
}

/// The same of an attention, whose problems are of other kinds.
fn attention(args: &Args, planned: &Planned, out: &mut dyn Write) -> Result<Exit, Failure> {
    line(out, "spec", planned.spec())?;
    budget(planned, out)?;
    let schedules: Vec<Options> = (0..args.schedules).map(|number| schedule(args.problem.seed(), number)).collect();
    line(out, "schedules", orders(&schedules))?;
    let start = Instant::now();
    let super::attention::Checked { runs, worst, statements } =
        super::attention::check(planned, planned.ptx.text(), (&args.problem, args.problems), &schedules, out)?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(statements) = statements {
        coverage::show(&statements, &planned.plan, out)?;
    }
    passes(out, runs, worst, seconds)
}

/// The verdict on a kernel that is right.
fn passes(out: &mut dyn Write, runs: usize, worst: f64, seconds: f64) -> Result<Exit, Failure> {
    let words = format!("{runs} runs without a finding, relative error at most {worst:.1e}; {seconds:.1} s");
    line(out, "verdict", format_args!("passes: {words}"))?;
    Ok(Exit::Done)
}

/// Calls `work` for the numbers of `order`, which are those below their count, on all cores; the results by number.
pub(super) fn in_parallel<T: Send>(
    order: &[usize],
    progress: &Progress,
    work: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Vec<Option<Result<T, Failure>>> {
    let count = order.len();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<Result<T, Failure>>> = (0..count).map(|_| None).collect();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    if sender.send((index, work(index))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (number, (index, result)) in receiver.iter().enumerate() {
            progress.step(format!("{} of {count} problems are done", number + 1));
            results[index] = Some(result);
        }
    });
    results
}

/// The kernels that list work on a GPU: the file's, or those that a GPU is given.
fn lists(path: Option<&Path>) -> Result<Arc<ListKernels>, Failure> {
    let kernels = match path {
        Some(path) => ListKernels::new(&input::text(path)?).map(|kernels| Arc::new(kernels.limited(MAX_STEPS))),
        None => ListKernels::own(),
    };
    let name = path.map_or_else(|| "the kernels that list work".to_owned(), |path| path.display().to_string());
    kernels.map_err(|error| unreadable(&name, &error))
}

/// Right and wrong patterns, of which the kernels that check them must say what is wrong.
fn patterns(lists: &ListKernels, out: &mut dyn Write) -> Result<(), Failure> {
    let faults = faults_of_checks(lists).map_err(|error| Failure::new(Exit::BadInput, error))?;
    let Some(first) = faults.first() else {
        return Ok(line(
            out,
            "patterns",
            "each mistake in row pointers and columns is reported by the kernels that check them",
        )?);
    };
    line(out, "verdict", format_args!("FAILS: {} patterns are checked wrongly", faults.len()))?;
    out.flush()?;
    Err(Failure::new(Exit::Wrong, format!("a pattern on the GPU is checked wrongly\n  {first}")))
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

/// What is wrong with one run.
struct Fault {
    options: Options,
    /// How many schedules lead to it.
    schedules: usize,
    problem: String,
    findings: Vec<Finding>,
    /// A wrong result in words.
    wrong: Option<String>,
}

impl Fault {
    fn kinds(&self) -> String {
        let different: BTreeSet<_> = self.findings.iter().map(|finding| finding.kind).collect();
        let mut kinds: Vec<String> = different.into_iter().map(|kind| format!("{kind:?}")).collect();
        kinds.extend(self.wrong.as_ref().map(|_| "wrong result".to_owned()));
        kinds.join(", ")
    }

    fn report(&self, index: usize, args: &Args, problems: &Problems<'_>, planned: &Planned) -> String {
        let mut report = match self.findings.is_empty() {
            true => format!("wrong result of {}", planned.ptx.entry()),
            false => format!("{} in {}", findings_in_words(&self.findings), planned.ptx.entry()),
        };
        report.push_str(&format!("\n  {}: {}; schedule {}", problems.name(index), self.problem, order(&self.options)));
        report.push_str(&findings_in_full(&self.findings));
        if let Some(wrong) = &self.wrong {
            report.push_str(&format!("\n  {wrong}"));
        }
        let (schedules, seed) = match self.options.schedule {
            Schedule::Scrambled => (1, self.options.seed),
            _ => (self.schedules, args.problem.seed()),
        };
        let ptx = args.ptx.path().map(|path| format!(" --ptx {}", path.display())).unwrap_or_default();
        report.push_str(&format!(
            "\n  replay: bsr check {}{ptx}{} --schedules {schedules} --seed {seed}",
            spec::in_quotes(&planned.spec().to_string()),
            problems.flags(index)
        ));
        report
    }
}

/// The problems of one kind.
#[derive(Default)]
struct Group {
    problems: Vec<String>,
    runs: usize,
    worst: f64,
    fault: Option<(usize, Fault)>,
}

impl Group {
    fn add(&mut self, index: usize, words: String, checked: Checked) {
        self.problems.push(words);
        self.runs += checked.runs;
        self.worst = self.worst.max(checked.worst);
        self.fault = checked.fault.map(|fault| (index, fault));
    }

    fn words(&self) -> String {
        let more = match self.problems.len() {
            0 | 1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        let problem = self.problems.first().map_or("", String::as_str);
        match &self.fault {
            None => format!("{problem}{more}: clean, relative error {:.1e}", self.worst),
            Some((_, fault)) => {
                format!("{problem}{more}: FAILS, {}; schedule {}", fault.kinds(), order(&fault.options))
            }
        }
    }
}

/// One problem in every schedule, until something is wrong.
struct Check<'r> {
    kernel: &'r Simulated,
    problems: &'r Problems<'r>,
    trial: &'r Trial,
    schedules: &'r [Options],
}

#[derive(Default)]
struct Checked {
    runs: usize,
    worst: f64,
    coverage: Coverage,
    fault: Option<Fault>,
}

impl Typed for Check<'_> {
    type Output = Checked;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Checked, Failure> {
        let spec = self.kernel.plan().spec();
        if spec.op == Op::Sdd {
            return self.sampled::<A, B, C>();
        }
        let drawn = |member: &Member| {
            let Shape { dense, rows, cols } = member.shape(spec);
            let mut b = self.dense::<B>(dense, self.trial.negative, member.seed);
            self.shrink(&mut b);
            let scales = scales::<A, B>(spec.scale, &member.structure, member.n, member.seed)?;
            let inputs = inputs(spec, (rows, cols), None, member.seed).scales(scales);
            product::Drawn::new(spec, self.blocks::<A>(member)?, b, inputs, Rows::all(rows))
        };
        let problems = self.trial.members.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        let tolerance = problems.iter().map(|drawn| drawn.want.tolerance).fold(0.0, f64::max);
        self.in_every_schedule(tolerance, |options| product::simulate::<A, B, C>(self.kernel, &problems, options))
    }
}

impl Check<'_> {
    /// The sparse factor: what the file holds, or drawn; without negative elements where all results are to be negative.
    fn blocks<T: Number>(&self, member: &Member) -> Result<Bsr<T>, Failure> {
        if let Some(file) = self.problems.file() {
            return Ok(file.sparse::<T>(self.kernel.plan().spec())?.0);
        }
        let drawn = Bsr::<T>::normal(member.structure.clone(), member.seed);
        if !self.trial.negative {
            return Ok(drawn);
        }
        let values = drawn.values().iter().map(|value| T::from_f64(value.to_f64().abs())).collect();
        Bsr::from_structure(member.structure.clone(), values).map_err(|error| Failure::new(Exit::BadInput, error))
    }

    /// A dense factor, row-major.
    fn dense<T: Number>(&self, (rows, cols): (usize, usize), negative: bool, seed: u64) -> Dense<T> {
        let mut drawn = Dense::<T>::normal(rows, cols, Layout::RowMajor, seed);
        if negative {
            drawn.data_mut().iter_mut().for_each(|value| *value = T::from_f64(-value.to_f64().abs()));
        }
        drawn
    }

    /// Makes the elements of a dense factor smaller where sums are long; integers stay.
    fn shrink<T: Number>(&self, drawn: &mut Dense<T>) {
        if self.trial.shrink < 1.0 && T::SPREAD == 1.0 {
            drawn.data_mut().iter_mut().for_each(|value| *value = T::from_f64(value.to_f64() * self.trial.shrink));
        }
    }

    /// The same of a sampled product: N of the trial is K, since the structure has M and N.
    fn sampled<A: Number, B: Number, C: Number>(&self) -> Result<Checked, Failure> {
        let spec = self.kernel.plan().spec();
        let drawn = |member: &Member| {
            let Shape { dense, rows, cols } = member.shape(spec);
            let mut a = self.dense::<A>((rows, dense.0), false, member.seed);
            if self.trial.negative {
                a.data_mut().iter_mut().for_each(|value| *value = A::from_f64(value.to_f64().abs()));
            }
            let mut b = self.dense::<B>((dense.0, cols), self.trial.negative, member.seed + 1);
            self.shrink(&mut b);
            sampled::Drawn::new(spec, (a, b), member.structure.clone(), member.seed, RowsAsked::All)
        };
        let problems = self.trial.members.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        let tolerance = problems.iter().map(|drawn| drawn.want.tolerance).fold(0.0, f64::max);
        self.in_every_schedule(tolerance, |options| sampled::simulate::<A, B, C>(self.kernel, &problems, options))
    }

    /// Runs until something is wrong.
    fn in_every_schedule(
        &self,
        tolerance: f64,
        run: impl Fn(&Options) -> Result<Ran, Failure>,
    ) -> Result<Checked, Failure> {
        let mut checked = Checked::default();
        for options in self.schedules {
            let Ran { verdict, report, second } = run(options)?;
            checked.runs += 1;
            checked.coverage.merge(&report.coverage);
            checked.worst = checked.worst.max(verdict.comparison.relative);
            let second = second.map(Failure::into_report);
            let mut wrong = wrong(&verdict, &report, Tolerance::strict(tolerance), self.kernel.plan());
            if let Some(words) = &mut wrong
                && !verdict.far_off().is_empty()
            {
                // The same run again, which now notes who writes what.
                let again = run(&Options { writers: true, ..options.clone() })?;
                words.push_str(&writers::words(&again.report.writers, verdict.far_off(), self.kernel.plan()));
            }
            let wrong = wrong.or(second);
            if !report.is_clean() || wrong.is_some() {
                checked.fault = Some(Fault {
                    options: options.clone(),
                    schedules: checked.runs,
                    problem: self.trial.words(self.kernel.plan().spec()),
                    findings: report.findings,
                    wrong,
                });
                break;
            }
        }
        Ok(checked)
    }
}
