//! `bsr run` on the simulator: the same PTX, problem and verification as on a GPU; findings, and no speed.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use bsr::simulated::lists::ListKernels;
use bsr::simulated::{DEFAULT_CLUSTERS, Options, Schedule};
use bsr_trial::simulate::{Ran, SimulatedKernel, findings_in_words, order};
use bsr_trial::subject::Subject;
use bsr_trial::verify::{Rows, Tolerance, Verification};

use super::exit::{Exit, Failure};
use super::progress::Progress;
use super::spec::Planned;
use super::{line, output, say};

/// Operations on stored blocks that the simulator does in a second on two cores, roughly.
const FLOPS_PER_SECOND: f64 = 5e8;
/// Seconds of simulation that are announced.
const SLOW: f64 = 15.0;

/// Runs the kernel once and compares; `flops` are those of the stored blocks.
///
/// # Errors
/// Wrong: a wrong result or a finding. Bad input: a problem that does not exist, a trace that cannot be written.
pub(super) fn run(
    planned: &Planned,
    subject: &dyn Subject,
    flops: u64,
    check: Verification,
    trace: Option<&Path>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    if let Some(warning) = warning(flops) {
        say(warning);
    }
    let schedule = if trace.is_some() { Schedule::Timed } else { Schedule::Scrambled };
    let seed = subject.workload(planned.spec()).seed;
    let options = Options { schedule, seed, trace: trace.is_some(), ..Options::default() };
    let kernel = SimulatedKernel::new(planned)?;
    let Done { ran, rows, tolerance, seconds } = once(&kernel, subject, check, &options)?;
    let words = format!(
        "the simulator: this PTX on the CPU, at most {DEFAULT_CLUSTERS} clusters, schedule {}",
        order(&options)
    );
    line(out, "device", words)?;
    line(out, "checked", format_args!("{rows} against the f64 reference"))?;
    match ran.is_stopped() {
        true => {
            line(out, "result", "incomplete: a cluster is stopped where it cannot go on, or has too many findings")?
        }
        false => line(out, "result", ran.verdict.words(tolerance))?,
    }
    line(out, "findings", findings_in_words(&ran.report.findings))?;
    let steps = ran.report.cost.steps;
    let words = format!("{seconds:.2} s of the simulator for {steps} warp instructions; it says nothing of a GPU's");
    line(out, "time", words)?;
    if let (Some(path), Some(text)) = (trace, &ran.report.trace) {
        output::write_text(path, text)?;
        let what = format!("{} B written to {}, for ui.perfetto.dev", text.len(), path.display());
        line(out, "trace", format_args!("{what}; {} cycles, each shown as 1 us", ran.report.cost.cycles))?;
    }
    ran.verify(planned, tolerance)?;
    Ok(Exit::Done)
}

/// What came of a run.
pub(super) struct Done {
    pub(super) ran: Ran,
    pub(super) tolerance: Tolerance,
    rows: Rows,
    seconds: f64,
}

/// Runs a kernel once on the problem that is requested, and compares.
///
/// # Errors
/// Bad input: a problem that does not exist.
pub(super) fn once(
    kernel: &SimulatedKernel,
    subject: &dyn Subject,
    check: Verification,
    options: &Options,
) -> Result<Done, Failure> {
    let progress = Progress::new();
    progress.step("drawing the operands, and the reference in f64");
    let trial = subject.trial(kernel.plan(), false)?;
    let lists = ListKernels::own().map_err(Failure::bad_input)?;
    let (kernel, drawn) = (trial.prepare(kernel, &lists)?, trial.draw(check.rows)?);
    progress.step("simulating");
    let start = Instant::now();
    let ran = drawn.run(&kernel, options)?;
    progress.done();
    let (rows, tolerance) = (drawn.expected()[0].rows.clone(), drawn.tolerance(check.tolerance));
    Ok(Done { ran, tolerance, rows, seconds: start.elapsed().as_secs_f64() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_long_is_announced() {
        assert_eq!(warning(1 << 30), None);
        assert!(warning(1 << 40).is_some_and(|text| text.starts_with("warning: ") && text.contains("36.7 minutes")));
    }
}
