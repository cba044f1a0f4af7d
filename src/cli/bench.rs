//! `bsr bench SPEC..`: kernels and the dense library in turn, on equal work, from a cold cache.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bsr::Op;
use bsr::bench::{BenchRecord, Candidate, InterleaveOptions, Subject as Named, Timing, interleave_watched};
use bsr::gpu::Device;
use bsr_trial::gpu::{Case, OnDevice};
use bsr_trial::request::Defaults;
use bsr_trial::subject::{About, Subject};
use bsr_trial::verify::Verdict;

use super::attention;
use super::attention_blocks;
use super::dense::Dense;
use super::device::DeviceChoice;
use super::exit::{Exit, Failure};
use super::output;
use super::problem::ProblemArgs;
use super::progress::Progress;
use super::report::Report;
use super::roofs;
use super::spec::{self, Planned};
use super::work_args::WorkArgs;

/// Check kernels, then time them against the dense library on equal work.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr bench \"bm = 512, bn = 128, bk = 112\" --m 8192 --n 8192 --k 8288 --pattern topk:16
  bsr bench \"bm = 64, bn = 256, bk = 64\" \"bm = 64, bn = 128, bk = 64\" --json rows.jsonl
  bsr bench kernels/linear.toml --matrix weights.npz --n 4096 --time-limit 30
  bsr bench \"bm = 64, bn = 256, bk = 64\" --ptx edited.ptx

Every kernel is compared with an f64 reference before and after it is timed; a wrong one is not reported. Kernels \
and cuBLASLt (the fastest of the algorithms that it proposes, with the same layouts and an equal number of \
operations) are timed in turn, each launch from a cold L2 cache. Only executed operations count: 2 * stored blocks * \
bm * bk * N (M if B is sparse). Attentions are compared only with each other. Of a single one whose spec says nothing but what \
is computed, the cost model chooses the kernel, as `bsr run` does: a note names it. The JSON has one line per kernel; \
docs/src/bench-schema.md describes it. With --ptx, the kernel of the one SPEC and the one in the file are timed in \
turn; the fingerprints of their PTX distinguish them.")]
pub(super) struct Args {
    /// The kernels: `bm = .., bn = .., bk = ..`, or paths of .toml files. Several are timed in one run.
    #[arg(required = true, value_name = "SPEC")]
    specs: Vec<String>,
    /// The GPU: auto, gpu or gpu:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Write the records to this file, one line of JSON per kernel; `-` is standard output, and the table then goes to
    /// standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    timing: TimingArgs,
}

#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Timing")]
struct TimingArgs {
    /// Time exactly this many rounds. [default: 20 to 400, until every median is accurate to 0.5 %]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "ROUNDS")]
    repeats: Option<u32>,
    /// Stop after this many seconds, but not before 20 rounds.
    #[arg(long, value_parser = seconds, default_value = "10", value_name = "SECONDS", conflicts_with = "repeats")]
    time_limit: Duration,
    /// Make the dense library accumulate FP8 products in f32, as accumulate = promoted does. [default: its fastest mode, whatever
    /// the kernel does]
    #[arg(long)]
    precise_dense: bool,
}

impl TimingArgs {
    fn options(self) -> InterleaveOptions {
        let unlimited = InterleaveOptions { time_limit: self.time_limit, ..InterleaveOptions::default() };
        match self.repeats {
            None => unlimited,
            Some(rounds) => {
                let rounds = rounds as usize;
                InterleaveOptions { min_repeats: rounds, max_repeats: rounds, ..unlimited }
            }
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number of seconds above 0, for instance 30 or 2.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let specs = args.specs.iter().map(String::as_str);
    let outputs = args.work.outputs([("--json", args.json.as_ref())], specs)?;
    let out = &mut *outputs.answers(out);
    let filled = args.specs.iter().map(|spec| attention_blocks::filled_on(spec, &args.work.problem, args.device));
    let mut planned = plan_all(&filled.collect::<Result<Vec<_>, _>>()?)?;
    if args.work.ptx.path().is_some() {
        let [emitted] = &planned[..] else {
            let fact = format!("--ptx is the text of one kernel, and there are {} SPECs", planned.len());
            return Err(Failure::bad_input(format!("{fact}\n  help: the SPEC of its first line alone")));
        };
        planned.push(args.work.ptx.read(emitted.clone())?);
    }
    let requested = planned.len();
    let subjects = subjects(&planned, &args.work.problem)?;
    let about = |planned: &Planned| subjects[&planned.spec().op].about(planned.spec());
    let about: Vec<About> = planned.iter().map(about).collect::<Result<_, _>>()?;
    let has_dense = about[0].has_dense;
    if let Some(other) = about.iter().position(|other| other.has_dense != has_dense) {
        let fact = format!("{} and {} are not compared", planned[0].spec(), planned[other].spec());
        return Err(Failure::bad_input(format!("{fact}\n  help: attentions alone in one run, or products")));
    }
    let device = args.device.gpu_for(planned.iter().map(|planned| planned.plan.arch().target))?;
    let chosen = chosen(&mut planned, &subjects, &device)?;

    let (progress, check) = (Progress::new(), args.work.check.verification());
    let on = |subject: &Rc<dyn Subject>| Rc::clone(subject).on(&device, check.rows, &progress.steps());
    let mut operands = subjects.iter().map(|(op, subject)| (*op, on(subject))).collect();
    let mut cases = checked(planned, &mut operands, check.tolerance, &progress)?;
    if cases.is_empty() {
        return Ok(Exit::Wrong);
    }
    let mut dense = Dense::new(&device, args.work.problem.seed(), args.timing.precise_dense);
    if has_dense {
        for case in &cases {
            progress.step("tuning the dense library");
            dense.add(&case.work, case.planned.spec())?;
        }
    }
    progress.step("timing");
    cases.iter_mut().try_for_each(Case::poison)?;
    let mut candidates: Vec<Candidate<'_>> = cases.iter_mut().map(Case::candidate).collect();
    candidates.extend(dense.candidates());
    let (timings, power) = interleave_watched(&mut candidates, &args.timing.options(), &device)?;
    drop(candidates);
    let (ours, theirs) = timings.split_at(cases.len());

    progress.step("comparing again");
    let roofs = roofs::of(&device);
    let mut report = Report::new(about, &device);
    report.watched(power.clone());
    roofs::note(&roofs).into_iter().for_each(|note| report.note(note));
    chosen.into_iter().for_each(|words| report.note(format!("chosen: {words}")));
    let edited = cases.iter().filter(|case| case.planned.file.is_some());
    edited.for_each(|case| report.note(format!("edited: {}", case.planned.words())));
    for (case, timing) in cases.iter().zip(ours) {
        if let Some(verdict) = right(case, case.verdict()?, check.tolerance) {
            let equal = dense.equal(&case.work, case.planned.spec());
            let subject = &*subjects[&case.planned.spec().op];
            let record = record(case, timing, equal.map(|at| (&theirs[at], &dense, at)), &verdict, subject, &device);
            // The model of what is read knows one sparse operand.
            let limit = match case.work.products {
                None => roofs::limit(&case.planned, subject, record.time_us.median, &roofs)?,
                Some(_) => None,
            };
            report.add(case, BenchRecord { limit, power: power.clone(), ..record });
        }
    }
    dense.describe(theirs, &mut report);
    progress.done();
    write(&report, args.json.as_deref(), out)?;
    Ok(if report.records().len() == requested { Exit::Done } else { Exit::Wrong })
}

/// Plans every spec.
///
/// # Errors
/// Bad input: all that is wrong with all of them.
fn plan_all(specs: &[String]) -> Result<Vec<Planned>, Failure> {
    let (mut planned, mut reports) = (Vec::new(), Vec::new());
    for (at, text) in specs.iter().enumerate() {
        let name = if specs.len() == 1 { "spec".to_owned() } else { format!("spec {}", at + 1) };
        match spec::plan_named(text, &name) {
            Ok(plan) => planned.push(plan),
            Err(failure) => reports.push(failure.into_report()),
        }
    }
    match reports.is_empty() {
        true => Ok(planned),
        false => Err(Failure::reported(Exit::BadInput, reports.join("\n\n"))),
    }
}

/// The kernel that the cost model takes in the place of a single one, and why; kernels that are compared are timed as they are.
fn chosen(
    planned: &mut [Planned],
    subjects: &HashMap<Op, Rc<dyn Subject>>,
    device: &Device,
) -> Result<Option<String>, Failure> {
    let [planned] = planned else { return Ok(None) };
    let subject = &*subjects[&planned.spec().op];
    let Some((chosen, words)) = attention::chosen(planned.spec(), subject, device.info().into())? else {
        return Ok(None);
    };
    *planned = chosen;
    Ok(Some(words))
}

/// The problem that is requested, for each operation.
fn subjects(planned: &[Planned], problem: &ProblemArgs) -> Result<HashMap<Op, Rc<dyn Subject>>, Failure> {
    let mut subjects = HashMap::new();
    for planned in planned {
        if let Entry::Vacant(place) = subjects.entry(planned.spec().op) {
            place.insert(problem.subject(Defaults::Gpu, planned.spec())?);
        }
    }
    Ok(subjects)
}

/// The kernels whose results are right; those of the others are reported on stderr.
fn checked(
    planned: Vec<Planned>,
    operands: &mut HashMap<Op, Box<dyn OnDevice>>,
    tolerance: Option<f64>,
    progress: &Progress,
) -> Result<Vec<Case>, Failure> {
    let mut right_ones = Vec::new();
    for planned in planned {
        let Some(operands) = operands.get_mut(&planned.spec().op) else { continue };
        let mut case = operands.case(planned)?;
        progress.step(format!("checking {}", case.planned.ptx.entry()));
        let verdict = case.run()?;
        if right(&case, verdict, tolerance).is_some() {
            right_ones.push(case);
        }
    }
    Ok(right_ones)
}

/// The verdict, if it is a good one; otherwise says what is wrong.
fn right(case: &Case, verdict: Verdict, tolerance: Option<f64>) -> Option<Verdict> {
    let kernel = format!("{} ({})", case.planned.ptx.entry(), case.planned.spec());
    match verdict.verify(&kernel, case.tolerance(tolerance)) {
        Ok(()) => Some(verdict),
        Err(failure) => {
            Failure::from(failure).report();
            None
        }
    }
}

fn record(
    case: &Case,
    timing: &Timing,
    dense: Option<(&Timing, &Dense, usize)>,
    verdict: &Verdict,
    subject: &dyn Subject,
    device: &Device,
) -> BenchRecord {
    let planned = &case.planned;
    let named = Named {
        spec: planned.spec().to_string(),
        pattern: subject.source(planned.spec()),
        seed: subject.workload(planned.spec()).seed,
        plan: planned.fingerprint(),
        ptx: planned.ptx.fingerprint().to_owned(),
        gpu: device.info().name.clone(),
        driver: device.info().driver(),
    };
    let dense = dense.map(|(timing, dense, at)| (timing, dense.k(at), dense.algorithm(at)));
    let record = BenchRecord::new(named, &case.work, timing, dense, Some(verdict.comparison.relative), true);
    let (tflops, hbm_gbs) = (timing.tflops(case.flops), case.hbm_gbs(record.time_us.median));
    BenchRecord { executed_flops: case.flops, tflops, hbm_gbs, ..record }
}

/// The table, and the records where they are asked for.
fn write(report: &Report, json: Option<&Path>, out: &mut dyn Write) -> Result<(), Failure> {
    write!(out, "{report}")?;
    let Some(path) = json else { return Ok(()) };
    let mut lines = String::new();
    for record in report.records() {
        lines.push_str(&record.to_json().map_err(Failure::wrong)?);
        lines.push('\n');
    }
    output::write_text(path, &lines)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_number_of_rounds_is_exact() {
        let ten = Duration::from_secs(10);
        let exact = TimingArgs { repeats: Some(7), time_limit: ten, precise_dense: false }.options();
        assert_eq!((exact.min_repeats, exact.max_repeats), (7, 7));
        assert_eq!(
            TimingArgs { repeats: None, time_limit: ten, precise_dense: false }.options(),
            InterleaveOptions::default()
        );
    }

    #[test]
    fn seconds_are_positive() {
        assert_eq!(seconds("2.5").unwrap(), Duration::from_millis(2500));
        for wrong in ["0", "-1", "nan", "1e300", "x"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_with_several_specs_is_told_at_once() {
        let specs = ["bm = 64, bn = 64", "bm = 64, bn = 64, bk = 64", "bk = 7"].map(String::from);
        let report = plan_all(&specs).unwrap_err().into_report();
        assert!(report.contains("--> spec 1:1") && report.contains("--> spec 3:1"), "{report}");
    }
}
