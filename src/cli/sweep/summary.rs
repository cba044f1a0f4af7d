//! What a sweep has found out, in words.

use std::io::{self, Write};

use bsr_tuner::sweep::{Ended, Outcome};
use bsr_tuner::{DeviceKind, Record, Timing, Verdict, Workload};
use comfy_table::{CellAlignment, Table, presets};

use super::super::line;
use super::super::width::fitted;

/// Kernels in the table.
const TOP: usize = 10;
const HEADER: [&str; 8] = ["", "ratio", "TFLOP/s", "us", "+-", "error", PREDICTED, "kernel"];

/// The column of the predicted times.
const PREDICTED: &str = "predicted";

/// Prints what is known of one workload now.
pub(super) fn print(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let model = outcome.device.kind == DeviceKind::Sim;
    let Workload { facts, m, n, k, source, seed } = &outcome.problem.workload;
    line(out, "problem", format_args!("{facts}; m = {m}, n = {n}, k = {k}; {source}, seed {seed}"))?;
    line(out, "pattern", outcome.problem.features.class())?;
    line(out, "device", format_args!("{}, {}", outcome.device.name, outcome.device.driver))?;
    if model {
        line(
            out,
            "note",
            "these are times of a cost model, for a small instance: they rank kernels, and measure nothing",
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
            line(out, "best", format_args!("#[bsr_kernel({})]", best.subject))?;
        }
    }
    Ok(())
}

/// `24 = 20 timed + 3 slow + 1 hang; 4 known from before; ended by the limit`
fn counts(outcome: &Outcome) -> String {
    let all: usize = outcome.verdicts.values().sum();
    let parts = Verdict::ALL
        .iter()
        .filter_map(|verdict| outcome.verdicts.get(verdict).map(|count| format!("{count} {}", verdict.as_str())));
    let parts = parts.collect::<Vec<_>>().join(" + ");
    let ended = match outcome.ended {
        Ended::Complete => "",
        Ended::Limit => "; ended by --limit",
        Ended::Budget => "; ended by --budget",
        Ended::Stopped => "; ended by Ctrl-C",
    };
    format!("{all} = {parts}; {} known from before{ended}", outcome.known)
}

fn table(outcome: &Outcome) -> Table {
    // Predictions are for a GPU and the whole problem: another kind of number than times of a model of a small one.
    let is_shown = |title: &str| title != PREDICTED || outcome.device.kind != DeviceKind::Sim;
    let shown = |row: [String; 8]| -> Vec<String> {
        row.into_iter().zip(HEADER).filter(|(_, title)| is_shown(title)).map(|(cell, _)| cell).collect()
    };
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(shown(HEADER.map(str::to_owned)));
    let ranking = outcome.ranking.iter().take(TOP).enumerate();
    table.add_rows(ranking.map(|(at, record)| shown(row(&(at + 1).to_string(), record))));
    table.add_rows(outcome.baselines.iter().map(|record| shown(row("", record))));
    for (column, title) in table.column_iter_mut().zip(HEADER.into_iter().filter(|title| is_shown(title))) {
        if title != "kernel" {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(rank: &str, record: &Record) -> [String; 8] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let timing = record.timing.as_ref();
    let ci = |timing: &Timing| timing.relative_ci.map(|ci| format!("{:.1} %", 100.0 * ci));
    // A library's own operations are not those of the stored blocks.
    let rate = record.tflops().filter(|_| !record.baseline);
    let subject = match &record.error {
        Some(why) => format!("{}: {}", record.subject, why.lines().next().unwrap_or_default()),
        None => record.subject.clone(),
    };
    [
        rank.to_owned(),
        or_dash(record.dense.as_ref().map(|dense| format!("{:.3}", dense.ratio))),
        or_dash(rate.map(|rate| format!("{rate:.1}"))),
        or_dash(timing.map(|timing| format!("{:.1}", timing.median_us))),
        or_dash(timing.and_then(ci)),
        or_dash(record.relative_error.map(|error| format!("{error:.1e}"))),
        or_dash(record.predicted_us.map(|us| format!("{us:.1}"))),
        subject,
    ]
}
