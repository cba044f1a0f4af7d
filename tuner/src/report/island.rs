//! The data of the page's scripts: one JSON object in the page, computed here and only drawn there.

use bsr_runtime::roofs::{Limit, LimitedBy};
use serde::Serialize;

use super::axes::{Axis, axes};
use super::lesson::{self, Budget};
use super::summary::{Summary, is_yardstick};
use super::terminal::attribute_of;
use super::words;
use crate::groups::{Group, Measure, Point};
use crate::search::rank_correlation_of;
use crate::{DeviceKind, Record};

/// Everything that scripts need.
#[derive(Debug, Serialize)]
pub(super) struct Island<'r> {
    problems: Vec<Product<'r>>,
    /// What stands before and after a spec in an attribute.
    attribute: [String; 2],
}

/// One group.
#[derive(Debug, Serialize)]
struct Product<'r> {
    title: String,
    kind: DeviceKind,
    /// What kernels are ordered and coloured by.
    measure: &'static str,
    axes: Vec<Axis>,
    rows: Vec<Row<'r>>,
    overview: Overview<'r>,
    prediction: Option<Prediction>,
}

/// One kernel or baseline. Names are short, since there are thousands.
#[derive(Debug, Serialize)]
struct Row<'r> {
    /// The spec or the baseline's name.
    name: &'r str,
    baseline: bool,
    verdict: &'static str,
    /// Places on the axes; none of a baseline.
    at: Option<Vec<Option<usize>>>,
    us: Option<f64>,
    /// Half the confidence interval over the median.
    ci: Option<f64>,
    /// Thousands of cycles, the clock in MHz and the power in watts, where the driver told.
    kilocycles: Option<f64>,
    mhz: Option<u32>,
    watts: Option<f64>,
    tflops: Option<f64>,
    ratio: Option<f64>,
    /// What kernels are ordered by.
    score: Option<f64>,
    predicted: Option<f64>,
    error: Option<f64>,
    why: Option<&'r str>,
    /// The nearest roof, and how much of the time it explains.
    limit: Option<String>,
}

/// What the overview's plot shows of a group, in TFLOP/s.
#[derive(Debug, Serialize)]
struct Overview<'r> {
    ours: Option<f64>,
    dense: Option<f64>,
    roof: Option<f64>,
    others: Vec<(&'r str, Option<f64>)>,
}

/// How the model did.
#[derive(Debug, Serialize)]
struct Prediction {
    points: usize,
    /// Spearman's rank correlation of predicted and measured times.
    rank: Option<f64>,
    /// The median of how far a prediction is off, as a factor of at least 1.
    off: f64,
}

impl<'r> Island<'r> {
    pub(super) fn of(groups: &[Group<'r>], budget: Budget) -> Self {
        let marked = attribute_of("\0");
        let (before, after) = marked.split_once('\0').unwrap_or((&marked, ""));
        Self {
            problems: groups.iter().map(|group| product(group, budget)).collect(),
            attribute: [before.to_owned(), after.to_owned()],
        }
    }

    /// As text that may stand in a `<script>`: no `<` ends it, and no line separator of JavaScript is in it.
    pub(super) fn to_text(&self) -> Result<String, serde_json::Error> {
        let json = serde_json::to_string(self)?;
        Ok(json
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029"))
    }
}

fn product<'r>(group: &Group<'r>, budget: Budget) -> Product<'r> {
    let axes = axes(group.specs());
    let kernels = group.kernels.iter().enumerate().map(|(place, point)| {
        let limit = point.spec.as_ref().filter(|_| place < budget.limits);
        let limit = limit.and_then(|spec| lesson::limit(group, point.record, spec));
        Row { limit: limit.map(|limit| nearest(&limit)), ..kernel(point, &axes, group.measure) }
    });
    let baselines = group.baselines.iter().map(|record| Row {
        ratio: if is_yardstick(record) { Some(1.0) } else { record.dense.as_ref().map(|dense| dense.ratio) },
        ..row(record, group.measure)
    });
    let summary = Summary::of(group);
    Product {
        title: words::product(group.problem),
        kind: group.device.kind,
        measure: group.measure.words(),
        rows: among(kernels.collect(), baselines),
        axes,
        overview: Overview {
            ours: summary.tflops,
            dense: summary.dense_tflops,
            roof: summary.roof.map(|roof| roof.tflops),
            others: summary.alternatives.iter().map(|other| (other.name, other.tflops)).collect(),
        },
        prediction: prediction(group),
    }
}

/// The kernels in their order, and each baseline before the first kernel that is slower.
fn among<'r>(mut rows: Vec<Row<'r>>, baselines: impl Iterator<Item = Row<'r>>) -> Vec<Row<'r>> {
    for baseline in baselines {
        let rate = baseline.tflops.unwrap_or(0.0);
        let place = rows.iter().position(|row| row.tflops.unwrap_or(0.0) < rate).unwrap_or(rows.len());
        rows.insert(place, baseline);
    }
    rows
}

/// `L2 86 %`.
fn nearest(limit: &Limit) -> String {
    let nearest = limit.nearest();
    let short = match nearest.by {
        LimitedBy::Tensor => "tensor",
        LimitedBy::L2 => "L2",
        LimitedBy::Hbm => "memory",
        LimitedBy::Launch => "launch",
    };
    format!("{short} {:.0} %", 100.0 * nearest.share)
}

fn kernel<'r>(point: &Point<'r>, axes: &[Axis], measure: Measure) -> Row<'r> {
    let at = point.spec.as_ref().map(|spec| axes.iter().map(|axis| axis.place(spec)).collect());
    Row { at, ..row(point.record, measure) }
}

fn row(record: &Record, measure: Measure) -> Row<'_> {
    let timing = record.timing.as_ref().filter(|_| record.verdict.has_time());
    let power = timing.and(record.power.as_ref());
    Row {
        name: &record.subject,
        baseline: record.baseline,
        verdict: record.verdict.word(record.device.kind),
        at: None,
        us: timing.map(|timing| timing.median_us),
        ci: timing.and_then(|timing| timing.relative_ci),
        kilocycles: timing.and_then(|_| record.kilocycles()),
        mhz: power.and_then(|power| power.sm_mhz).map(|clock| clock.median),
        watts: power.and_then(|power| power.watts),
        tflops: timing.and_then(|_| record.tflops()),
        ratio: timing.and(record.dense.as_ref()).map(|dense| dense.ratio),
        score: measure.of(record),
        predicted: record.predicted_us,
        error: record.relative_error,
        why: record.error.as_deref(),
        limit: None,
    }
}

/// Nothing of a model's own times.
fn prediction(group: &Group<'_>) -> Option<Prediction> {
    if group.device.kind == DeviceKind::Sim {
        return None;
    }
    let pairs: Vec<(f64, f64)> = group
        .kernels
        .iter()
        .filter(|point| point.record.verdict.has_time())
        .filter_map(|point| Some((point.record.predicted_us?, point.record.timing.as_ref()?.median_us)))
        .filter(|(predicted, measured)| *predicted > 0.0 && *measured > 0.0)
        .collect();
    let mut off: Vec<f64> = pairs.iter().map(|(p, m)| (p / m).max(m / p)).collect();
    off.sort_by(f64::total_cmp);
    Some(Prediction { points: pairs.len(), rank: rank_correlation_of(&pairs), off: *off.get(off.len() / 2)? })
}
