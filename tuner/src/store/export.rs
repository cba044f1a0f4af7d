//! Records for other programs: a line of JSON each, or a row of a table.

use std::io::Write;

use bsr_codegen::Refusal;
use serde::Serialize;

use super::row;
use crate::Record;

/// A row of the table. Times are microseconds.
#[derive(Serialize)]
struct Row<'r> {
    at: String,
    device: &'r str,
    device_name: &'r str,
    driver: &'r str,
    version: &'r str,
    problem: String,
    facts: String,
    m: usize,
    n: usize,
    k: usize,
    source: String,
    seed: u64,
    block_rows: usize,
    block_cols: usize,
    nnzb: usize,
    longest_row: usize,
    row_spread: f64,
    empty_rows: f64,
    reuse: f64,
    subject: &'r str,
    baseline: bool,
    plan: &'r str,
    ptx: &'r str,
    verdict: &'r str,
    error: Option<&'r str>,
    predicted_us: Option<f64>,
    median_us: Option<f64>,
    relative_ci: Option<f64>,
    samples: usize,
    tflops: Option<f64>,
    kilocycles: Option<f64>,
    sm_mhz: Option<u32>,
    watts: Option<f64>,
    dense_us: Option<f64>,
    dense_flops: Option<u64>,
    ratio: Option<f64>,
    relative_error: Option<f64>,
    compile_ms: Option<f64>,
    samples_us: String,
}

impl<'r> Row<'r> {
    fn new(record: &'r Record) -> Self {
        let (workload, features) = (&record.problem.workload, &record.problem.features);
        let (timing, dense, power) = (record.timing.as_ref(), record.dense.as_ref(), record.power.as_ref());
        let samples = timing.map_or(&[][..], |timing| &timing.samples_us);
        Self {
            at: record.at.to_string(),
            device: row::kind_word(record.device.kind),
            device_name: &record.device.name,
            driver: &record.device.driver,
            version: &record.version,
            problem: record.problem.key(),
            facts: workload.facts.to_string(),
            m: workload.m,
            n: workload.n,
            k: workload.k,
            source: workload.source.to_string(),
            seed: workload.seed,
            block_rows: features.block_rows,
            block_cols: features.block_cols,
            nnzb: features.nnzb,
            longest_row: features.longest_row,
            row_spread: features.row_spread,
            empty_rows: features.empty_rows,
            reuse: features.reuse,
            subject: &record.subject,
            baseline: record.baseline,
            plan: &record.plan,
            ptx: &record.ptx,
            verdict: record.verdict.word(record.device.kind),
            error: record.error.as_deref(),
            predicted_us: record.predicted_us,
            median_us: timing.map(|timing| timing.median_us),
            relative_ci: timing.and_then(|timing| timing.relative_ci),
            samples: samples.len(),
            tflops: record.tflops(),
            kilocycles: record.kilocycles(),
            sm_mhz: power.and_then(|power| power.sm_mhz).map(|clock| clock.median),
            watts: power.and_then(|power| power.watts),
            dense_us: dense.map(|dense| dense.median_us),
            dense_flops: dense.map(|dense| dense.flops),
            ratio: dense.map(|dense| dense.ratio),
            relative_error: record.relative_error,
            compile_ms: record.compile_ms,
            samples_us: samples.iter().map(f64::to_string).collect::<Vec<_>>().join(" "),
        }
    }
}

/// Writes every record as a row of a table with a heading; the samples are one column, with blanks between them.
///
/// # Errors
/// A file that cannot be written.
pub fn export_csv(records: &[Record], out: impl Write) -> Result<(), Refusal> {
    let mut writer = csv::Writer::from_writer(out);
    for record in records {
        writer.serialize(Row::new(record)).map_err(unwritten)?;
    }
    writer.flush().map_err(unwritten)
}

/// Writes every record as a line of JSON, in the fields of [`Record`].
///
/// # Errors
/// A file that cannot be written.
pub fn export_json(records: &[Record], mut out: impl Write) -> Result<(), Refusal> {
    for record in records {
        let line = serde_json::to_string(record).map_err(unwritten)?;
        writeln!(out, "{line}").map_err(unwritten)?;
    }
    out.flush().map_err(unwritten)
}

fn unwritten(error: impl std::fmt::Display) -> Refusal {
    Refusal::of("cannot write the export", error)
}
