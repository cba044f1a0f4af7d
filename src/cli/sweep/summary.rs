//! What a sweep has found out, in words.

use std::io::{self, Write};

use bsr::KernelSpec;
use bsr_tuner::report::attribute_line;
use bsr_tuner::sweep::{Ended, Outcome};
use bsr_tuner::{DeviceKind, Record, Timing, Verdict, Workload};
use comfy_table::Table;

use super::super::line;
use super::super::table::{fitted, markdown, or_dash, percent};

/// Kernels in the table.
const TOP: usize = 10;
/// The columns where times were measured, and where a model predicted them: never both in one table.
const MEASURED: [&str; 7] = ["", "ratio", "TFLOP/s", "us", "+-", "error", KERNEL];
const PREDICTED: [&str; 4] = ["", "predicted us", "error", KERNEL];
const KERNEL: &str = "kernel";

/// Prints what is known of one workload now.
pub(super) fn print(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let model = outcome.device.kind == DeviceKind::Sim;
    let Workload { facts, m, n, k, source, seed } = &outcome.problem.workload;
    line(out, "problem", format_args!("{facts}; m = {m}, n = {n}, k = {k}; {source}, seed {seed}"))?;
    line(out, "pattern", outcome.problem.features.words())?;
    line(out, "device", format_args!("{}, {}", outcome.device.name, outcome.device.driver))?;
    if model {
        line(
            out,
            "note",
            "nothing is measured: the analytic model predicts the times, and the simulator checked the kernels on a small \
             instance of the problem",
        )?;
    }
    line(out, "points", counts(outcome))?;
    for (reason, count) in &outcome.rejected {
        line(out, "no kernel", format_args!("{count} x {reason}"))?;
    }
    writeln!(out, "\n{}\n", fitted(table(outcome)))?;
    if let Some(rank_correlation) = outcome.rank_correlation.filter(|_| !model) {
        line(out, "model", format_args!("rank correlation of predicted and measured times {rank_correlation:.2}"))?;
    }
    match outcome.best() {
        None => line(out, "best", "none: no kernel was timed")?,
        Some(best) => {
            if !outcome.ties.is_empty() {
                line(out, "ties", format_args!("{} cannot be told from the best", outcome.ties.join("; ")))?;
            }
            let attribute = KernelSpec::from_record(&best.subject).map(|spec| attribute_line(&spec));
            line(out, "best", attribute.unwrap_or_else(|_| best.subject.clone()))?;
        }
    }
    Ok(())
}

/// `24 = 20 timed + 3 slow + 1 hang; 4 known from before; ended by the limit`
fn counts(outcome: &Outcome) -> String {
    let all: usize = outcome.verdicts.values().sum();
    let parts = Verdict::ALL.iter().filter_map(|verdict| {
        Some(format!("{} {}", outcome.verdicts.get(verdict)?, verdict.word(outcome.device.kind)))
    });
    let parts = parts.collect::<Vec<_>>().join(" + ");
    let ended = match outcome.ended {
        Ended::Complete => "",
        Ended::Limit => "; ended by --limit",
        Ended::Budget => "; ended by --budget",
        Ended::Stopped => "; ended by Ctrl-C",
    };
    let unseen = if outcome.unseen == 0 { String::new() } else { format!(", {} not looked at", outcome.unseen) };
    format!("{all} = {parts}; {} known from before{ended}{unseen}", outcome.known)
}

fn table(outcome: &Outcome) -> Table {
    let is_model = outcome.device.kind == DeviceKind::Sim;
    let header: &[&str] = if is_model { &PREDICTED } else { &MEASURED };
    let row = if is_model { predicted } else { measured };
    let mut table = markdown(header, &[KERNEL]);
    let ranking = outcome.ranking.iter().take(TOP).enumerate();
    table.add_rows(ranking.map(|(at, record)| row((at + 1).to_string(), record)));
    table.add_rows(outcome.baselines.iter().map(|record| row(String::new(), record)));
    table
}

fn measured(rank: String, record: &Record) -> Vec<String> {
    let timing = record.timing.as_ref();
    let ci = |timing: &Timing| timing.relative_ci.map(percent);
    // A library's own operations are not those of the stored blocks.
    let rate = record.tflops().filter(|_| !record.baseline);
    vec![
        rank,
        or_dash(record.dense.as_ref().map(|dense| format!("{:.3}", dense.ratio))),
        or_dash(rate.map(|rate| format!("{rate:.1}"))),
        microseconds(record),
        or_dash(timing.and_then(ci)),
        error(record),
        subject(record),
    ]
}

fn predicted(rank: String, record: &Record) -> Vec<String> {
    vec![rank, microseconds(record), error(record), subject(record)]
}

fn microseconds(record: &Record) -> String {
    or_dash(record.timing.as_ref().map(|timing| format!("{:.1}", timing.median_us)))
}

fn error(record: &Record) -> String {
    or_dash(record.relative_error.map(|error| format!("{error:.1e}")))
}

/// The kernel, and why it has no time.
fn subject(record: &Record) -> String {
    match &record.error {
        Some(why) => format!("{}: {}", record.subject, why.lines().next().unwrap_or_default()),
        None => record.subject.clone(),
    }
}
