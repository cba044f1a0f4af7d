//! What choosing costs: the chosen kernel's time over that of the best that was measured.

use std::collections::HashMap;

use bsr_codegen::{KernelSpec, Plan};
use serde::Serialize;

use super::table::why_unused;
use super::{Choice, FirstUse, Gpu, Measure, PickError, Table, Tuner, Why};
use crate::Record;
use crate::groups::{Group, groups};
use crate::model::{for_gpu, predict};
use crate::search::rank_correlation_of;

/// The choices for one problem of which many kernels were measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EfficiencyLoss {
    /// The problem in words.
    pub problem: String,
    /// The best that was measured.
    pub best: String,
    /// Kernels that were measured.
    pub measured: usize,
    /// What a tuner with the table takes that measures at the first use.
    pub tuned: Chosen,
    /// What one with the table takes unmeasured.
    pub unmeasured: Chosen,
    /// What the cost model alone takes.
    pub predicted: Chosen,
    /// How well the cost model sorts those that were measured.
    pub sorted: Sorted,
}

/// How well predicted times sort measured ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sorted {
    /// The rank correlation of the times that are predicted now; none of fewer than three kernels.
    pub now: Option<f64>,
    /// That of the times that were predicted when the kernels were measured.
    pub then: Option<f64>,
    /// Of the kernels that were measured, the one that is predicted to be the fastest.
    pub likeliest: Chosen,
}

/// A choice and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chosen {
    /// The kernel.
    pub spec: String,
    /// How it was chosen: `exact`, `near`, `predicted`.
    pub how: &'static str,
    /// Its time over that of the best, less 1; none if it was not measured.
    pub loss: Option<f64>,
}

/// What a tuner with `table` would have lost on every problem of which kernels were measured on a GPU of this compute
/// capability. [`left_out`](super::left_out) counts the others.
///
/// # Errors
/// [`PickError`] where nothing can be chosen for a problem.
pub fn efficiency_losses(
    records: &[Record],
    table: &Table,
    capability: (u32, u32),
) -> Result<Vec<EfficiencyLoss>, PickError> {
    let mut losses = Vec::new();
    for group in groups(records, &[]).iter().filter(|group| why_unused(group).is_none()) {
        let Some(winner) = group.winner() else { continue };
        let gpu = Gpu { name: group.device.name.clone(), driver: group.device.driver.clone(), capability };
        let rates = Rates::of_group(group);
        let judge = |table: Table, measure: Option<&mut Measure<'_>>| -> Result<Chosen, PickError> {
            let first_use = if measure.is_some() { FirstUse::Measure } else { FirstUse::Predict };
            let choice = Tuner { table, first_use, ..Tuner::new(gpu.clone()) }.pick(group.problem, measure)?;
            Ok(chosen(&choice, group.measure.of(winner.record), &rates))
        };
        let mut from_records = |specs: &[KernelSpec]| -> Vec<Result<f64, String>> {
            let rate = |spec: &KernelSpec| rates.of(spec).ok_or_else(|| "not measured".to_owned());
            specs.iter().map(|spec| Ok(1.0 / rate(spec)?)).collect()
        };
        let unmeasured = judge(table.clone(), None)?;
        let tuned = match judge(table.clone(), Some(&mut from_records)) {
            // None of the likeliest has a record.
            Err(PickError::Measured { .. }) => unmeasured.clone(),
            other => other?,
        };
        losses.push(EfficiencyLoss {
            problem: group.problem.key(),
            best: winner.record.subject.clone(),
            measured: group.kernels.iter().filter(|point| point.record.verdict.has_time()).count(),
            tuned,
            unmeasured,
            predicted: judge(Table::default(), None)?,
            sorted: Sorted::of_group(group, winner.record),
        });
    }
    Ok(losses)
}

impl Sorted {
    fn of_group(group: &Group<'_>, winner: &Record) -> Self {
        let (card, _) = for_gpu(&group.device.name, None);
        let best = group.measure.of(winner);
        let (mut now, mut then) = (vec![], vec![]);
        let mut likeliest: Option<(f64, String, Option<f64>)> = None;
        for point in &group.kernels {
            let Some(rate) = group.measure.of(point.record) else { continue };
            then.extend(point.record.predicted_us.map(|us| (us, 1.0 / rate)));
            let Some(plan) = point.spec.and_then(|spec| Plan::new(&spec).ok()) else { continue };
            let us = predict(&plan, group.problem, &card).us;
            now.push((us, 1.0 / rate));
            if likeliest.as_ref().is_none_or(|(least, ..)| us < *least) {
                likeliest = Some((us, plan.spec().to_string(), best.map(|best| best / rate - 1.0)));
            }
        }
        let (spec, loss) = likeliest.map_or_else(Default::default, |(_, spec, loss)| (spec, loss));
        let likeliest = Chosen { spec, how: "predicted", loss };
        Self { now: rank_correlation_of(&now), then: rank_correlation_of(&then), likeliest }
    }
}

fn chosen(choice: &Choice, best: Option<f64>, rates: &Rates) -> Chosen {
    let how = match &choice.why {
        Why::Overridden => "overridden",
        Why::Exact(_) => "exact",
        Why::Near { .. } => "near",
        Why::Measured { .. } => "measured",
        Why::Predicted { .. } => "predicted",
    };
    let loss = rates.of(&choice.spec).and_then(|rate| Some(best? / rate - 1.0));
    Chosen { spec: choice.spec.to_string(), how, loss }
}

/// The rates of kernels, as measured, by what they execute: two specs may be one kernel.
struct Rates(HashMap<String, f64>);

impl Rates {
    fn of_group(group: &Group<'_>) -> Self {
        let mut rates = HashMap::new();
        for point in &group.kernels {
            if let (Some(digest), Some(rate)) =
                (point.spec.and_then(|spec| digest(&spec)), group.measure.of(point.record))
            {
                let best = rates.entry(digest).or_insert(rate);
                *best = rate.max(*best);
            }
        }
        Self(rates)
    }

    fn of(&self, spec: &KernelSpec) -> Option<f64> {
        self.0.get(&digest(spec)?).copied()
    }
}

fn digest(spec: &KernelSpec) -> Option<String> {
    Plan::new(spec).ok().map(|plan| plan.digest())
}
