//! How accurate the model is on products of which many kernels were measured: how well it sorts them, and what is lost by
//! taking the one that it predicts to be the fastest.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::fit::{Row, grouped};
use super::*;
use crate::pick::Table;
use crate::search::rank_correlation_of;

/// A product, and how the model does on it.
pub(super) struct Accuracy {
    key: String,
    rows: usize,
    is_held_out: bool,
    is_of_h100: bool,
    correlation: f64,
    loss: f64,
}

/// Predicted and measured times of kernels, those of one kernel that several specs give as one, with the geometric mean of its
/// times.
fn of_kernels(times: impl IntoIterator<Item = (String, (f64, f64))>) -> Vec<(f64, f64)> {
    let mut kernels: BTreeMap<String, (f64, Vec<f64>)> = BTreeMap::new();
    for (digest, (predicted, measured)) in times {
        kernels.entry(digest).or_insert((predicted, vec![])).1.push(measured.ln());
    }
    let mean = |logarithms: Vec<f64>| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp();
    kernels.into_values().map(|(predicted, logarithms)| (predicted, mean(logarithms))).collect()
}

fn accuracy_of(group: &[&Row], rates: &Rates) -> Accuracy {
    let pairs = of_kernels(group.iter().map(|row| (row.digest(), ((row.log(rates) + row.us.ln()).exp(), row.us))));
    let best = pairs.iter().map(|pair| pair.1).fold(f64::INFINITY, f64::min);
    let likeliest = pairs.iter().min_by(|x, y| x.0.total_cmp(&y.0)).map_or(f64::INFINITY, |pair| pair.1);
    Accuracy {
        key: group[0].problem.key(),
        rows: pairs.len(),
        is_held_out: group[0].problem.workload.seed >= HELD_OUT,
        is_of_h100: group[0].card != Card::h200(),
        correlation: rank_correlation_of(&pairs).unwrap_or(1.0),
        loss: likeliest / best - 1.0,
    }
}

/// The least seed of the products of `benches/model` that no constant is fitted to.
pub(super) const HELD_OUT: u64 = 7;

pub(super) fn report(rows: &[Row], rates: &Rates) -> Vec<Accuracy> {
    let rows: Vec<&Row> = rows.iter().collect();
    let accuracies: Vec<Accuracy> = grouped(&rows).iter().map(|group| accuracy_of(group, rates)).collect();
    for Accuracy { key, rows, is_held_out, correlation, loss, .. } in &accuracies {
        let held_out = if *is_held_out { "held out" } else { "" };
        eprintln!("{correlation:>6.2} {:>6.1} % {rows:>4} {held_out:>8}  {key}", 100.0 * loss);
    }
    // `BSR_MODEL_SHOW="powerlaw"` shows every kernel of the products whose keys have that text.
    if let Ok(part) = std::env::var("BSR_MODEL_SHOW") {
        for group in grouped(&rows).iter().filter(|group| group[0].problem.key().contains(&part)) {
            eprintln!("{}", group[0].problem.key());
            let mut group = group.clone();
            group.sort_by(|x, y| x.us.total_cmp(&y.us));
            for row in group {
                let p = row.predicted(rates);
                let terms: Vec<String> = p.terms.iter().map(|t| format!("{} {:.1}", t.what.as_str(), t.us)).collect();
                eprintln!("{:>8.1} {:>8.1} {:.2} {} [{}]", row.us, p.us, p.us / row.us, row.spec(), terms.join(" "));
            }
        }
    }
    accuracies
}

/// The kernels of a file of `benches/model`, as they were measured, or those of the file that `BSR_MODEL_KERNELS` names.
pub(super) fn measured(file: &str) -> Vec<Row> {
    rows_of(&table(file))
}

fn table(file: &str) -> Table {
    let path = format!("{}/../benches/model/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let path = std::env::var("BSR_MODEL_KERNELS").unwrap_or(path);
    Table::from_lines(&std::fs::read_to_string(path).unwrap_or_default()).unwrap_or_default()
}

pub(super) fn rows_of(table: &Table) -> Vec<Row> {
    let of = |tuned: &crate::pick::Tuned| -> Vec<Row> {
        let (card, _) = for_gpu(&tuned.device.name, None);
        let plan = |(spec, us)| Some(Row::new(Plan::new(&spec).ok()?, tuned.problem.clone(), us, &card));
        tuned.kernels().filter_map(plan).collect()
    };
    let products = table.tuned().iter().filter(|tuned| !Facts::has_width(tuned.problem.workload.facts.op()));
    products.flat_map(of).collect()
}

/// The kernels of the shipped table that were timed on an H200.
pub(super) fn shipped_of_h200() -> Vec<Row> {
    rows_of(Table::shipped()).into_iter().filter(|row| row.card == Card::h200()).collect()
}

#[test]
fn kernels_of_the_tuned_products_are_sorted() {
    let accuracies = report(&shipped_of_h200(), &Rates::H200);
    let mean = accuracies.iter().map(|one| one.correlation).sum::<f64>() / accuracies.len() as f64;
    eprintln!("mean {mean:.2}");
    assert!(mean > 0.75, "{mean}");
}

#[test]
fn kernels_of_the_measured_products_are_sorted() {
    let accuracies = FILES.map(|file| {
        let rows = measured(file);
        let accuracies = report(&rows, &rows[0].card.rates);
        assert!(accuracies.iter().filter(|one| one.is_held_out).count() >= 6, "{file}");
        accuracies
    });
    // On an H100 the kernels of short rows differ by less than 5 % from one another; rings of SDDMM that are deeper are slower there.
    let is_close = |one: &Accuracy| {
        let keys = ["bk = 128; m = 6144, n = 7168", "bk = 128; m = 8192, n = 8192", "op = sdd; m = 6144"];
        one.is_of_h100 && keys.iter().any(|key| one.key.contains(key))
    };
    for one in accuracies.iter().flatten() {
        let sorted = if is_close(one) { 0.72 } else { 0.85 };
        assert!(one.correlation > sorted && one.loss < 0.081, "{}: {:.2}, {:.3}", one.key, one.correlation, one.loss);
    }
}

/// Attention: split-K and packed heads among them.
#[test]
fn attention_kernels_are_sorted() {
    for file in FILES {
        let (table, mut products) = (table(file), 0);
        for tuned in table.tuned().iter().filter(|tuned| Facts::has_width(tuned.problem.workload.facts.op())) {
            let (card, _) = for_gpu(&tuned.device.name, None);
            let times = |(spec, measured)| {
                let plan = Plan::new(&spec).ok()?;
                Some((plan.digest(), (predict(&plan, &tuned.problem, &card).us, measured)))
            };
            let pairs = of_kernels(tuned.kernels().filter_map(times));
            let correlation = rank_correlation_of(&pairs).unwrap_or(1.0);
            let taken = pairs.iter().min_by(|x, y| x.0.total_cmp(&y.0)).map_or(f64::INFINITY, |pair| pair.1);
            eprintln!("{correlation:>6.2} {:>6.1} %  {}", 100.0 * (taken / tuned.us - 1.0), tuned.problem.key());
            assert!(correlation > 0.75 && taken < 1.08 * tuned.us, "{}: {correlation:.2}", tuned.problem.key());
            products += 1;
        }
        assert_eq!(products, 4, "{file}");
    }
}

/// The cards that were measured, by the files of `benches/model`.
const FILES: [&str; 2] = ["h200", "h100"];

/// What the model takes of the whole space for a product, and what that loses if it was measured.
struct Choice {
    key: String,
    ranked: Vec<(f64, Plan)>,
    loss: Option<f64>,
}

fn choices() -> Vec<Choice> {
    let rows = FILES.map(measured).into_iter().flatten().collect::<Vec<_>>();
    let of = |group: &Vec<&Row>| {
        let problem = &group[0].problem;
        let facts = problem.workload.facts;
        let points = crate::pick::space_for((9, 0), &facts).and_then(|space| space.points(&facts)).ok()?;
        let us = |plan: &Plan| predict(plan, problem, &group[0].card).us;
        let mut ranked: Vec<(f64, Plan)> =
            points.legal.into_iter().map(|point| (us(&point.plan), point.plan)).collect();
        ranked.sort_by(|x, y| x.0.total_cmp(&y.0));
        let best = group.iter().map(|row| row.us).fold(f64::INFINITY, f64::min);
        let taken = ranked.first()?.1.digest();
        let loss = group.iter().find(|row| row.digest() == taken).map(|row| row.us / best - 1.0);
        Some(Choice { key: problem.key(), ranked, loss })
    };
    grouped(&rows.iter().collect::<Vec<_>>()).par_iter().filter_map(of).collect()
}

/// `cargo test -p bsr-tuner --lib unmeasured_choices -- --nocapture` shows the likeliest kernels of the whole space.
#[test]
fn unmeasured_choices_of_the_measured_products_lose_little() {
    let choices = choices();
    for Choice { key, ranked, loss } in &choices {
        let loss = loss.map_or("not measured".to_owned(), |loss| format!("{:.1} %", 100.0 * loss));
        eprintln!("{key}: {loss}, of {} kernels", ranked.len());
        ranked.iter().take(4).for_each(|(us, plan)| eprintln!("{us:>9.1}  {}", plan.spec()));
    }
    let known: Vec<(&String, f64)> = choices.iter().filter_map(|one| Some((&one.key, one.loss?))).collect();
    assert!(known.len() >= 14, "{known:?}");
    known.iter().for_each(|(key, loss)| assert!(*loss < 0.08, "{key}: {loss:.3}"));
}
