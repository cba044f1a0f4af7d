//! `bsr run` on the simulator: the same PTX, problem and judgement as on a GPU; findings, and no speed.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use bsr::simulated::{DEFAULT_CLUSTERS, Finding, Options, ParseError, Report, Schedule, Simulated};
use bsr::{KernelSpec, Op, Plan};
use bsr_runtime::typed::{Number, Typed, with_types};

use super::exit::{Exit, Failure};
use super::operands::scales;
use super::problem::DrawnProblem;
use super::product::{self, Ran};
use super::progress::Progress;
use super::sampled;
use super::spec::Planned;
use super::verdict::{CheckArgs, Rows, Tolerance, Verdict, fused_tolerance};
use super::{line, output, say};

/// Operations on stored blocks that the simulator does in a second on two cores, roughly.
const FLOPS_PER_SECOND: f64 = 5e8;
/// Seconds of simulation that are announced.
const SLOW: f64 = 15.0;
/// Findings that are printed whole.
const MOST_PRINTED: usize = 4;

/// Multiplies once and compares; `flops` are those of the stored blocks.
///
/// # Errors
/// Wrong: a wrong result or a finding. Bad input: a problem that cannot be had, a trace that cannot be written.
pub(super) fn run(
    planned: &Planned,
    problem: &DrawnProblem,
    flops: u64,
    check: &CheckArgs,
    trace: Option<&Path>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    if let Some(warning) = warning(flops) {
        say(warning);
    }
    let schedule = if trace.is_some() { Schedule::Timed } else { Schedule::Scrambled };
    let options = Options { schedule, seed: problem.seed, trace: trace.is_some(), ..Options::default() };
    let kernel = loaded(planned)?;
    let done = multiply(kernel, problem, check, &options)?;
    let words = format!(
        "the simulator: this PTX on the CPU, at most {DEFAULT_CLUSTERS} clusters, schedule {}",
        order(&options)
    );
    line(out, "device", words)?;
    line(out, "checked", format_args!("{} against the f64 reference", done.rows))?;
    let tolerance = check.tolerance(planned.spec(), done.longest, done.tolerance);
    match stopped(&done.verdict, &done.report) {
        true => {
            line(out, "result", "incomplete: a cluster is stopped where it cannot go on, or has too many findings")?
        }
        false => line(out, "result", done.verdict.words(tolerance))?,
    }
    line(out, "findings", findings_in_words(&done.report.findings))?;
    line(
        out,
        "time",
        format_args!(
            "{:.2} s of the simulator for {} warp instructions; it says nothing of a GPU's",
            done.took.as_secs_f64(),
            done.report.cost.steps
        ),
    )?;
    if let (Some(path), Some(text)) = (trace, &done.report.trace) {
        output::write_text(path, text)?;
        let what = format!("{} B written to {}, for ui.perfetto.dev", text.len(), path.display());
        line(out, "trace", format_args!("{what}; {} cycles, each shown as 1 us", done.report.cost.cycles))?;
    }
    done.judge(planned, tolerance).map(|()| Exit::Done)
}

/// The kernel as the simulator reads it.
///
/// # Errors
/// Bad input: what the simulator does not model.
pub(super) fn loaded(planned: &Planned) -> Result<Simulated, Failure> {
    Simulated::new(&planned.plan, planned.ptx.text(), planned.ptx.entry())
        .map_err(|error| unreadable(planned.origin(), &error))
}

/// Multiplies once and compares.
///
/// # Errors
/// Bad input: a problem that cannot be had.
pub(super) fn multiply(
    kernel: Simulated,
    problem: &DrawnProblem,
    check: &CheckArgs,
    options: &Options,
) -> Result<Done, Failure> {
    let (spec, progress) = (*kernel.plan().spec(), Progress::new());
    let done = with_types(&spec, Multiply { kernel, problem, check, options, progress: &progress })?;
    progress.done();
    Ok(done)
}

/// What is said before a problem that takes long.
pub(super) fn warning(flops: u64) -> Option<String> {
    let seconds = flops as f64 / FLOPS_PER_SECOND;
    (seconds > SLOW).then(|| {
        format!(
            "warning: the simulator will take about {:.1} minutes: {:.1} GFLOP at roughly {:.1} GFLOP/s; a smaller --m, \
             --n or --k shows the same",
            seconds / 60.0,
            flops as f64 / 1e9,
            FLOPS_PER_SECOND / 1e9
        )
    })
}

/// Whether a run ended before C was complete, which says nothing of the numbers.
fn stopped(verdict: &Verdict, report: &Report) -> bool {
    !report.is_clean() && verdict.is_incomplete()
}

/// A wrong result in words; none of a run that was stopped.
pub(super) fn wrong(verdict: &Verdict, report: &Report, tolerance: Tolerance, plan: &Plan) -> Option<String> {
    let wrong = !stopped(verdict, report) && !verdict.keeps(tolerance);
    wrong.then(|| {
        let shape = verdict.shape_words(tile(plan));
        format!("wrong result: {}{shape}", verdict.words(tolerance))
    })
}

/// Rows and columns of C that a cluster computes at a time, where C is one matrix.
fn tile(plan: &Plan) -> Option<(usize, usize)> {
    let tile = plan.cluster_tile();
    let (rows, columns) = (tile.rows as usize, tile.columns as usize);
    match plan.spec().op {
        Op::Dsd => Some((rows, columns)),
        Op::Dds => Some((columns, rows)),
        Op::Sdd | Op::Attention => None,
    }
}

/// PTX that the simulator cannot read, with its place: `spmm.ptx:12:5: ...`.
pub(super) fn unreadable(name: &str, error: &ParseError) -> Failure {
    Failure::bad_input(format!("{name}:{error}"))
}

/// The order in which a run lets asynchronous work complete.
pub(super) fn order(options: &Options) -> String {
    match options.schedule {
        Schedule::Early => "early".to_owned(),
        Schedule::Late => "late".to_owned(),
        Schedule::Scrambled => format!("scrambled by seed {}", options.seed),
        Schedule::Timed => "timed by the cost model".to_owned(),
    }
}

/// How many there are.
pub(super) fn findings_in_words(findings: &[Finding]) -> String {
    match findings.len() {
        0 => "none: no race, no misused barrier, no deadlock".to_owned(),
        1 => "1 finding".to_owned(),
        many => format!("{many} findings"),
    }
}

/// The findings with the PTX lines of both sides, each on lines of its own.
pub(super) fn findings_in_full(findings: &[Finding]) -> String {
    let mut text: String =
        findings.iter().take(MOST_PRINTED).map(|finding| format!("\n  {}", finding_in_full(finding))).collect();
    if findings.len() > MOST_PRINTED {
        text.push_str(&format!("\n  and {} more", findings.len() - MOST_PRINTED));
    }
    text
}

/// Sides of a finding that are printed: a deadlock has one for every group of threads that waits.
const MOST_SIDES: usize = 6;

fn finding_in_full(finding: &Finding) -> String {
    let left_out = finding.sides.len().saturating_sub(MOST_SIDES);
    let mut shown = finding.clone();
    shown.sides.truncate(MOST_SIDES);
    match left_out {
        0 => shown.to_string(),
        left_out => format!("{shown}\n    and {left_out} more groups of threads"),
    }
}

struct Multiply<'r> {
    kernel: Simulated,
    problem: &'r DrawnProblem,
    check: &'r CheckArgs,
    options: &'r Options,
    progress: &'r Progress,
}

/// What came of it.
pub(super) struct Done {
    verdict: Verdict,
    rows: Rows,
    /// The most products that an element of C sums.
    pub(super) longest: usize,
    /// The greatest error of a right result, where the kernel has an epilogue.
    pub(super) tolerance: Option<f64>,
    report: Report,
    took: Duration,
}

impl Done {
    /// # Errors
    /// Wrong: a second result that is not right.
    fn new(ran: Ran, rows: &Rows, (longest, tolerance): (usize, Option<f64>), took: Duration) -> Result<Self, Failure> {
        let Ran { verdict, report, second } = ran;
        match second {
            Some(wrong) => Err(wrong),
            None => Ok(Self { verdict, rows: rows.clone(), longest, tolerance, report, took }),
        }
    }

    /// # Errors
    /// Wrong: a wrong result or a finding.
    pub(super) fn judge(&self, planned: &Planned, tolerance: Tolerance) -> Result<(), Failure> {
        if self.report.is_clean() {
            return self.verdict.judge(planned.ptx.entry(), tolerance);
        }
        let mut report = format!("{} in {}", findings_in_words(&self.report.findings), planned.ptx.entry());
        report.push_str(&findings_in_full(&self.report.findings));
        if let Some(wrong) = wrong(&self.verdict, &self.report, tolerance, &planned.plan) {
            report.push_str(&format!("\n  {wrong}"));
        }
        Err(Failure::wrong(report))
    }
}

impl Typed for Multiply<'_> {
    type Output = Done;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Done, Failure> {
        let spec = *self.kernel.plan().spec();
        if spec.op == Op::Sdd {
            return self.sampled::<A, B, C>(&spec);
        }
        self.progress.step("drawing A and B, and the reference in f64");
        let drawn = |problem: &DrawnProblem| {
            let (a, sizes) = (problem.sparse::<A>(&spec)?.0, problem.sizes(&spec));
            let scales = scales::<A, B>(spec.scale, a.structure(), sizes.along, problem.seed)?;
            let rows = Rows::choose(&spec, a.structure(), &sizes, self.check.rows);
            product::Drawn::new(&spec, a, problem.dense::<B>(&spec), problem.inputs(&spec).scales(scales), rows)
        };
        let problems = self.problem.list(&spec)?.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        self.progress.step("simulating");
        let start = Instant::now();
        let ran = product::simulate::<A, B, C>(&self.kernel, &problems, self.options)?;
        let product::Drawn { rows, longest, want, .. } = &problems[0];
        Done::new(ran, rows, (*longest, fused_tolerance(&spec, want)), start.elapsed())
    }
}

impl Multiply<'_> {
    /// The same of a sampled product.
    fn sampled<A: Number, B: Number, C: Number>(&self, spec: &KernelSpec) -> Result<Done, Failure> {
        self.progress.step("drawing A and B, and the reference in f64");
        let drawn = |problem: &DrawnProblem| {
            let (structure, seed) = (problem.facts(spec)?.structure, problem.seed);
            let factors = (problem.dense_a::<A>(spec), problem.dense::<B>(spec));
            sampled::Drawn::new(spec, factors, structure, seed, self.check.rows)
        };
        let problems = self.problem.list(spec)?.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        self.progress.step("simulating");
        let start = Instant::now();
        let ran = sampled::simulate::<A, B, C>(&self.kernel, &problems, self.options)?;
        let first = &problems[0];
        Done::new(ran, &first.rows, (first.longest(), fused_tolerance(spec, &first.want)), start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use bsr::simulated::{FindingKind, Side};

    use super::*;

    #[test]
    fn only_what_takes_long_is_announced() {
        assert_eq!(warning(1 << 30), None);
        assert!(warning(1 << 40).is_some_and(|text| text.starts_with("warning: ") && text.contains("36.7 minutes")));
    }

    #[test]
    fn a_deadlock_of_a_thousand_threads_is_no_thousand_lines() {
        let waits = Side {
            line: 7,
            text: "bar.sync 0;".to_owned(),
            section: None,
            cta: 0,
            warp: 0,
            lanes: 1,
            does: "waits".to_owned(),
        };
        let finding = Finding {
            kind: FindingKind::Deadlock,
            message: "nobody can proceed".to_owned(),
            sides: vec![waits; 100],
            addresses: None,
            cluster: 0,
            seed: 3,
            times: 1,
        };
        let text = findings_in_full(&vec![finding; 9]);
        assert_eq!(text.matches("line 7: ").count(), MOST_PRINTED * MOST_SIDES);
        assert!(text.contains("and 94 more groups of threads") && text.ends_with("\n  and 5 more"), "{text}");
    }
}
