//! Tuned results: the fastest kernel for each problem on each GPU.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use bsr_codegen::{KernelSpec, Plan, Refusal};
use serde::{Deserialize, Serialize};

use super::gpu::Gpu;
use super::near::{Bucket, distance};
use crate::groups::{Group, Point, groups};
use crate::problem::twin;
use crate::{DeviceId, DeviceKind, Facts, Record, TuningProblem};

/// The fastest kernel for a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The problem.
    pub problem: TuningProblem,
    /// The kernel, in its canonical text.
    #[serde(with = "text")]
    pub spec: KernelSpec,
    /// Fingerprint of its PTX when it was measured.
    pub ptx: String,
    /// What it was measured on.
    pub device: DeviceId,
    /// The version of this project that measured it.
    pub version: String,
    /// Microseconds, the median.
    pub us: f64,
    /// Its rate over that of the dense library on equal work; none without the library.
    pub ratio: Option<f64>,
    /// The others that were timed for the problem: what is fastest for one like it may be among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Other>,
}

/// A kernel that was slower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// The kernel.
    #[serde(with = "text")]
    pub spec: KernelSpec,
    /// Its time over that of the fastest.
    pub times: f64,
}

/// Kernels that take longer by this factor are not remembered: the others are what a cost model is fitted to.
const MOST_TIMES: f64 = 4.0;

/// Kernels of another card that took longer there by this factor are no candidates.
const ABOUT_FASTEST: f64 = 1.05;

/// A spec as its text.
mod text {
    use bsr_codegen::KernelSpec;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(spec: &KernelSpec, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(spec)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KernelSpec, D::Error> {
        KernelSpec::from_record(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Tuned {
    /// What was measured of kernels for a problem on a GPU; none where nothing was.
    pub(super) fn measured(problem: &TuningProblem, gpu: &Gpu, timed: &[(KernelSpec, f64)]) -> Option<Self> {
        let (spec, us) = timed.iter().copied().min_by(|x, y| x.1.total_cmp(&y.1))?;
        let others = timed.iter().filter(|other| other.0 != spec && other.1 <= MOST_TIMES * us);
        Some(Self {
            problem: problem.clone(),
            spec,
            ptx: Plan::new(&spec).ok()?.ptx().fingerprint().to_owned(),
            device: DeviceId { kind: DeviceKind::Gpu, name: gpu.name.clone(), driver: gpu.driver.clone() },
            version: env!("CARGO_PKG_VERSION").to_owned(),
            us,
            ratio: None,
            others: others.map(|(spec, other)| Other { spec: *spec, times: rounded(other / us) }).collect(),
        })
    }

    /// What a record of a kernel says; none of a baseline, of a model or of what has no time.
    pub fn of(record: &Record) -> Option<Self> {
        let timing = record.timing.as_ref().filter(|_| record.verdict.has_time())?;
        if record.baseline || record.device.kind != DeviceKind::Gpu {
            return None;
        }
        Some(Self {
            problem: record.problem.clone(),
            spec: KernelSpec::from_record(&record.subject).ok()?,
            ptx: record.ptx.clone(),
            device: record.device.clone(),
            version: record.version.clone(),
            us: timing.median_us,
            ratio: record.dense.as_ref().map(|dense| dense.ratio),
            others: Vec::new(),
        })
    }

    /// The winner of a group, and the others; none where [`why_unused`] says why.
    fn of_group(group: &Group<'_>) -> Option<Self> {
        let winner = group.winner().filter(|_| why_unused(group).is_none())?;
        let rate = |point: &Point<'_>| group.measure.of(point.record);
        let best = rate(winner)?;
        let other = |point: &Point<'_>| Some(Other { spec: point.spec?, times: rounded(best / rate(point)?) });
        let others = group.kernels.iter().filter(|point| point.record.subject != winner.record.subject);
        let others = others.filter_map(other).filter(|other| other.times <= MOST_TIMES).collect();
        Some(Self { others, ..Self::of(winner.record)? })
    }

    /// The same kernels with bf16 for f16, or f16 for bf16; the problem stays the one that was tuned.
    pub(super) fn twin(&self) -> Self {
        let others = self.others.iter().map(|other| Other { spec: twin(other.spec), ..other.clone() }).collect();
        Self { spec: twin(self.spec), others, ..self.clone() }
    }

    /// Every kernel of the problem with its microseconds, the fastest first.
    pub fn kernels(&self) -> impl Iterator<Item = (KernelSpec, f64)> + '_ {
        let others = self.others.iter().map(|other| (other.spec, self.us * other.times));
        std::iter::once((self.spec, self.us)).chain(others)
    }

    /// Executed operations over time, in TFLOP/s.
    pub fn tflops(&self) -> f64 {
        bsr_runtime::bench::tflops(self.problem.executed_flops(), self.us)
    }
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} us, {:.1} TFLOP/s", self.us, self.tflops())?;
        if let Some(ratio) = self.ratio {
            write!(f, ", {ratio:.3} of the dense library on equal work")?;
        }
        write!(f, " on {}, driver {}, version {}", self.device.name, self.device.driver, self.version)
    }
}

/// Why no choice can be made by the records of a group; none where one can.
pub(super) fn why_unused(group: &Group<'_>) -> Option<&'static str> {
    match (group.device.kind, group.winner()) {
        (DeviceKind::Sim, _) => Some("their times are predicted, not measured on a GPU"),
        (DeviceKind::Fake, _) => Some("their times are a test's, not measured on a GPU"),
        (DeviceKind::Gpu, None) => Some("no kernel of ours was right and timed to the end"),
        (DeviceKind::Gpu, Some(winner)) if winner.spec.is_none() => {
            Some("the fastest kernel's spec cannot be read by this version")
        }
        (DeviceKind::Gpu, Some(_)) => None,
    }
}

/// The products among records by which nothing can be chosen, so that [`Table::best_of`] leaves them out: how many there
/// are of all, and how many for each reason.
pub fn left_out(records: &[Record]) -> LeftOut {
    let groups = groups(records, &[]);
    let mut reasons = std::collections::BTreeMap::new();
    groups.iter().filter_map(why_unused).for_each(|why| *reasons.entry(why).or_default() += 1);
    LeftOut { products: groups.len(), reasons: reasons.into_iter().collect() }
}

/// What [`left_out`] counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// All products among the records, those that are used too.
    pub products: usize,
    /// How many are left out for which reason.
    pub reasons: Vec<(&'static str, usize)>,
}

/// Four digits: more are noise.
fn rounded(times: f64) -> f64 {
    (times * 1e4).round() / 1e4
}

/// Tuned results, found by their problem.
#[derive(Clone, Debug, Default)]
pub struct Table {
    tuned: Vec<Tuned>,
    /// Places in `tuned` by the problem's key, and by what near problems share.
    exact: HashMap<String, Vec<usize>>,
    near: HashMap<(Facts, Bucket), Vec<usize>>,
}

/// The results that come with this crate, a line each, of an NVIDIA H200 and an NVIDIA H100.
pub(super) const SHIPPED: &str =
    concat!(include_str!("../../tuned/h200.jsonl"), include_str!("../../tuned/h100.jsonl"));

impl Table {
    /// The table that comes with this crate: the public workloads of the README on an NVIDIA H200, and some of them on an NVIDIA
    /// H100.
    pub fn shipped() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| {
            // A test reads every line.
            Table::from_lines(SHIPPED).unwrap_or_default()
        });
        &TABLE
    }

    /// Reads lines of JSON; empty ones are skipped.
    ///
    /// # Errors
    /// The first line that is no result.
    pub fn from_lines(text: &str) -> Result<Self, Refusal> {
        let mut table = Self::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let unread = |error| Refusal::of(format_args!("line {} is no tuned result", at + 1), error);
            let help = "each line is the JSON of one result, as `bsr export --tuned` writes it";
            table.add(serde_json::from_str(line).map_err(|error| unread(error).help(help))?);
        }
        Ok(table)
    }

    /// Lines of JSON.
    ///
    /// # Errors
    /// None that is known: all keys are text.
    pub fn to_lines(&self) -> Result<String, serde_json::Error> {
        self.tuned.iter().map(|tuned| Ok(serde_json::to_string(tuned)? + "\n")).collect()
    }

    /// The best kernel of every problem on every GPU among records, as a report names it.
    pub fn best_of(records: &[Record]) -> Self {
        let mut table = Self::default();
        let groups = groups(records, &[]);
        groups.iter().filter_map(Tuned::of_group).for_each(|tuned| table.add(tuned));
        table
    }

    /// Adds a result.
    pub fn add(&mut self, tuned: Tuned) {
        let at = self.tuned.len();
        self.exact.entry(tuned.problem.key()).or_default().push(at);
        self.near.entry((tuned.problem.workload.facts, Bucket::of(&tuned.problem))).or_default().push(at);
        self.tuned.push(tuned);
    }

    /// Adds all of another table.
    pub fn extend(&mut self, other: Self) {
        other.tuned.into_iter().for_each(|tuned| self.add(tuned));
    }

    /// All of them, in the order added.
    pub fn tuned(&self) -> &[Tuned] {
        &self.tuned
    }

    /// The fastest for this very problem on this GPU and driver; of another driver where there is none.
    pub(super) fn exact(
        &self,
        problem: &TuningProblem,
        gpu: &Gpu,
        offered: impl Fn(&KernelSpec) -> bool,
    ) -> Option<&Tuned> {
        let of_gpu = |tuned: &&Tuned| tuned.device.name == gpu.name && offered(&tuned.spec);
        let places = self.exact.get(&problem.key())?;
        let found = places.iter().map(|at| &self.tuned[*at]).filter(of_gpu);
        found.min_by(|x, y| {
            let other = |tuned: &Tuned| tuned.device.driver != gpu.driver;
            other(x).cmp(&other(y)).then(x.us.total_cmp(&y.us))
        })
    }

    /// The kernels that were about the fastest for problems of the same facts on other cards: what may be fast here, too.
    pub(super) fn of_other_cards<'t>(
        &'t self,
        facts: &'t Facts,
        gpu: &'t Gpu,
    ) -> impl Iterator<Item = KernelSpec> + 't {
        let is_other = move |tuned: &&Tuned| tuned.device.name != gpu.name && tuned.problem.workload.facts == *facts;
        let fast =
            |tuned: &'t Tuned| tuned.kernels().filter(|(_, us)| *us <= ABOUT_FASTEST * tuned.us).map(|(spec, _)| spec);
        self.tuned.iter().filter(is_other).flat_map(fast)
    }

    /// The nearest problem of the same facts and bucket and of a class no further than a step on this GPU, with its
    /// distance; of equally near ones the faster.
    pub(super) fn near(
        &self,
        problem: &TuningProblem,
        gpu: &Gpu,
        offered: impl Fn(&KernelSpec) -> bool,
    ) -> Option<(&Tuned, f64)> {
        let of_gpu = |tuned: &&Tuned| {
            let is_near = tuned.device.name == gpu.name && tuned.problem.is_alike(problem);
            is_near && tuned.kernels().any(|(spec, _)| offered(&spec))
        };
        let places = self.near.get(&(problem.workload.facts, Bucket::of(problem)))?;
        let found = places.iter().map(|at| &self.tuned[*at]).filter(of_gpu);
        found
            .map(|tuned| (tuned, distance(problem, &tuned.problem)))
            .min_by(|x, y| x.1.total_cmp(&y.1).then(x.0.us.total_cmp(&y.0.us)))
    }
}
