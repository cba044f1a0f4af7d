//! What `bsr bench` prints: the problem, a table with the ratio first, and where it ran.

use std::collections::HashMap;
use std::fmt;

use bsr::bench::{BenchRecord, Power, Timing};
use bsr::gpu::Device;
use bsr_trial::gpu::Case;
use bsr_trial::problem::fill_in_words;
use bsr_trial::subject::About;
use bsr_trial::verify::Rows;
use comfy_table::Table;

use super::device;
use super::table::{markdown, or_dash};

/// The measurements of one run.
pub(super) struct Report {
    device: String,
    problems: Vec<String>,
    /// The problem in the blocks of each kernel.
    about: Vec<About>,
    /// For each block size, the rows that were compared.
    compared: HashMap<(usize, usize), Rows>,
    records: Vec<BenchRecord>,
    dense: Vec<[String; 9]>,
    rounds: usize,
    notes: Vec<String>,
    power: Option<Power>,
}

const HEADER: [&str; 9] = ["ratio", "TFLOP/s", "us", "p10", "p90", "GB/s", "error", "PTX", "kernel"];

impl Report {
    /// Of one problem in blocks of several sizes.
    pub(super) fn new(mut about: Vec<About>, device: &Device) -> Self {
        let key =
            |about: &About| (about.name, about.structure.block(), (about.structure.rows(), about.structure.cols()));
        let mut problems: Vec<String> = about.iter().map(|about| about.problem.clone()).collect();
        problems.dedup();
        about.sort_by_key(key);
        about.dedup_by(|one, other| (one.name, &one.sparse) == (other.name, &other.sparse));
        Self {
            device: device::words(device),
            problems,
            about,
            compared: HashMap::new(),
            records: Vec::new(),
            dense: Vec::new(),
            rounds: 0,
            notes: Vec::new(),
            power: None,
        }
    }

    /// How the GPU ran.
    pub(super) fn watched(&mut self, power: Option<Power>) {
        self.power = power;
    }

    /// Adds a kernel that was found right.
    pub(super) fn add(&mut self, case: &Case, record: BenchRecord) {
        self.compared.entry(case.planned.block()).or_insert_with(|| case.rows.clone());
        self.rounds = self.rounds.max(record.time_us.samples);
        self.records.push(record);
    }

    /// Adds a product of the dense library.
    pub(super) fn add_dense(&mut self, words: String, timing: &Timing, flops: u64) {
        let us = timing.summary();
        let [median, p10, p90] = [us.median, us.p10, us.p90].map(|us| format!("{us:.1}"));
        let none = || "-".to_owned();
        self.dense.push([
            none(),
            format!("{:.1}", timing.tflops(flops)),
            median,
            p10,
            p90,
            none(),
            none(),
            none(),
            words,
        ]);
    }

    /// Adds a remark under the table.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The records of the kernels, in the order in which they were added.
    pub(super) fn records(&self) -> &[BenchRecord] {
        &self.records
    }

    fn table(&self) -> Table {
        let mut table = markdown(HEADER, &["PTX", "kernel"]);
        table.add_rows(self.records.iter().map(row));
        table.add_rows(&self.dense);
        table
    }
}

fn row(record: &BenchRecord) -> [String; 9] {
    let us = record.time_us;
    [
        or_dash(record.ratio.map(|ratio| format!("{ratio:.3}"))),
        format!("{:.1}", record.tflops),
        format!("{:.1}", us.median),
        format!("{:.1}", us.p10),
        format!("{:.1}", us.p90),
        format!("{:.0}", record.hbm_gbs),
        or_dash(record.relative_error.map(|error| format!("{error:.1e}"))),
        record.ptx.clone(),
        record.spec.clone(),
    ]
}

/// What limits a kernel, and how many cycles it took.
fn limit(record: &BenchRecord, is_one_of_several: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(limit) = &record.limit else { return Ok(()) };
    if is_one_of_several {
        writeln!(f, "\n{}", record.spec)?;
    } else {
        writeln!(f)?;
    }
    writeln!(f, "limit     {}", limit.arithmetic())?;
    let cycles = record.power.as_ref().and_then(|power| power.cycles(record.time_us.median));
    let cycles = cycles.map(|cycles| format!("{:.0} thousand cycles", cycles / 1e3));
    let others = [Some(limit.others()).filter(|others| !others.is_empty()), cycles];
    let others: Vec<String> = others.into_iter().flatten().collect();
    if others.is_empty() { Ok(()) } else { writeln!(f, "          {}", others.join("; ")) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems.iter().try_for_each(|problem| writeln!(f, "{problem}"))?;
        for about in &self.about {
            write!(f, "{}: {}", about.name, about.sparse)?;
            if let Some(fill_in) = &about.fill_in {
                write!(f, "; fill-in {}", fill_in_words(fill_in))?;
            }
            if let Some(rows) = self.compared.get(&about.structure.block()) {
                write!(f, "; {rows} checked")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{}; {} rounds in turn, cold L2", self.device, self.rounds)?;
        if let Some(power) = &self.power {
            writeln!(f, "{}", power.words())?;
        }
        writeln!(f, "\n{}", self.table())?;
        self.records.iter().try_for_each(|record| limit(record, self.records.len() > 1, f))?;
        if !self.notes.is_empty() {
            writeln!(f, "\n{}", self.notes.join("\n"))?;
        }
        Ok(())
    }
}
