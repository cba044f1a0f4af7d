//! Records in groups that may be compared: one product on one device each.

use std::collections::{BTreeMap, HashMap};

use bsr_codegen::KernelSpec;
use bsr_runtime::roofs::{MeasuredRoofs, Roofs};

use crate::store::Rejection;
use crate::{DeviceId, Record, TuningProblem, Verdict, Workload};

/// Products on a page, and kernels of all of them together: some 30 MB, which a browser opens.
pub const MOST_PRODUCTS: usize = 500;
const MOST_KERNELS: usize = 50_000;

/// All that is known of one product on one device. Times of another group are never beside these.
#[derive(Debug)]
pub(crate) struct Group<'r> {
    pub(crate) problem: &'r TuningProblem,
    pub(crate) device: &'r DeviceId,
    /// Kernels of ours, one record each, best first; those without a time come last.
    pub(crate) kernels: Vec<Point<'r>>,
    /// Other libraries' kernels, one record each.
    pub(crate) baselines: Vec<&'r Record>,
    /// Records that a later one of the same kernel replaces.
    pub(crate) replaced: usize,
    /// What was not measured: reasons and how many points, most frequent first.
    pub(crate) rejected: Vec<(&'r str, usize)>,
    pub(crate) measure: Measure,
    /// What times are held against: those of the data sheet, until measured ones are given. Nothing of a model.
    pub(crate) roofs: Roofs,
}

/// One kernel and what became of it.
#[derive(Debug)]
pub(crate) struct Point<'r> {
    pub(crate) record: &'r Record,
    /// None of a text that this version cannot read.
    pub(crate) spec: Option<KernelSpec>,
}

/// What kernels are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The ratio to the dense library in the same rounds: clocks and temperature cancel.
    Ratio,
    /// TFLOP/s, where some times have no dense library beside them.
    Rate,
}

impl Measure {
    pub(crate) fn of(self, record: &Record) -> Option<f64> {
        match self {
            Self::Ratio if record.verdict.has_time() => record.dense.as_ref().map(|dense| dense.ratio),
            Self::Rate if record.verdict.has_time() => record.tflops(),
            _ => None,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Ratio => "ratio to the dense library",
            Self::Rate => "TFLOP/s",
        }
    }
}

/// The groups of all records: GPUs first, then as they first appear.
pub(crate) fn groups<'r>(records: &'r [Record], rejected: &'r [Rejection]) -> Vec<Group<'r>> {
    let mut places: HashMap<(&DeviceId, &Workload), usize> = HashMap::new();
    let mut found: Vec<Vec<&Record>> = vec![];
    for record in records {
        let place = *places.entry((&record.device, &record.problem.workload)).or_insert_with(|| {
            found.push(vec![]);
            found.len() - 1
        });
        found[place].push(record);
    }
    let mut reasons: HashMap<&str, Vec<&Rejection>> = HashMap::new();
    rejected.iter().for_each(|rejection| reasons.entry(&rejection.problem).or_default().push(rejection));
    let mut groups: Vec<Group<'_>> = found.into_iter().filter_map(|records| group(&records, &reasons)).collect();
    groups.sort_by_key(|group| group.device.kind as u8);
    groups
}

fn group<'r>(records: &[&'r Record], rejected: &HashMap<&'r str, Vec<&'r Rejection>>) -> Option<Group<'r>> {
    let first = *records.first()?;
    let mut latest: HashMap<&str, &'r Record> = HashMap::new();
    for record in records {
        let kept = latest.entry(&record.subject).or_insert(record);
        if record.at >= kept.at {
            *kept = record;
        }
    }
    let replaced = records.len() - latest.len();
    let (baselines, kernels): (Vec<_>, Vec<_>) = latest.into_values().partition(|record| record.baseline);
    let measure = match kernels.iter().filter(|record| record.verdict.has_time()).all(|record| record.dense.is_some()) {
        true => Measure::Ratio,
        false => Measure::Rate,
    };
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for rejected in rejected.get(first.problem.key().as_str()).into_iter().flatten() {
        *reasons.entry(&rejected.reason).or_default() += rejected.points;
    }
    let mut rejected: Vec<(&str, usize)> = reasons.into_iter().collect();
    rejected.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(Group {
        problem: &first.problem,
        device: &first.device,
        kernels: ordered(kernels, measure)
            .into_iter()
            .map(|record| Point { record, spec: KernelSpec::from_record(&record.subject).ok() })
            .collect(),
        baselines: ordered(baselines, measure),
        replaced,
        rejected,
        measure,
        roofs: Roofs::new(&first.device.name, None),
    })
}

/// The groups that fit a page that a browser opens, and how many products and kernels were left out of it.
pub(crate) fn shown(mut groups: Vec<Group<'_>>) -> (Vec<Group<'_>>, [usize; 2]) {
    let count = |groups: &[Group<'_>]| groups.iter().map(|group| group.kernels.len()).sum::<usize>();
    let (products, kernels) = (groups.len(), count(&groups));
    groups.truncate(MOST_PRODUCTS);
    let mut room = MOST_KERNELS;
    for group in &mut groups {
        // The best come first.
        group.kernels.truncate(room);
        room -= group.kernels.len();
    }
    let left = [products - groups.len(), kernels - count(&groups)];
    (groups, left)
}

/// Best first; then those without a measure by verdict and name.
fn ordered(mut records: Vec<&Record>, measure: Measure) -> Vec<&Record> {
    let rank = |record: &Record| measure.of(record).unwrap_or(f64::NEG_INFINITY);
    records.sort_by(|a, b| {
        // Of equals the simplest comes first.
        let name = |record: &Record| (record.verdict, record.subject.len(), record.subject.clone());
        rank(b).total_cmp(&rank(a)).then_with(|| name(a).cmp(&name(b)))
    });
    records
}

impl<'r> Group<'r> {
    /// Takes the roofs that were measured on the group's device, if there are any.
    pub(crate) fn hold_against(&mut self, measured: &[MeasuredRoofs]) {
        let DeviceId { name, driver, .. } = self.device;
        let found = measured.iter().find(|roofs| roofs.gpu == *name && roofs.driver == *driver);
        self.roofs = Roofs::new(name, found);
    }

    /// The best kernel that was timed until its time was known.
    pub(crate) fn winner(&self) -> Option<&Point<'r>> {
        self.kernels.iter().find(|point| point.record.verdict == Verdict::Timed && point.record.timing.is_some())
    }

    /// How many kernels there are of a verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.kernels.iter().filter(|point| point.record.verdict == verdict).count()
    }

    /// Specs that can be read.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &KernelSpec> {
        self.kernels.iter().filter_map(|point| point.spec.as_ref())
    }
}
