//! Fits the constants of [`Rates`] to measured rows: damped least squares of logarithms (Levenberg, Marquardt).

use bsr_codegen::Plan;
use rayon::prelude::*;

use super::Simulation;
use super::card::Card;
#[cfg(test)]
use super::prediction::Prediction;
use super::rates::Rates;
use crate::TuningProblem;

/// Constants that are fitted, and what they may be: beyond these bounds they would mean something else.
pub(super) type Constant = (fn(&mut Rates) -> &mut f64, f64, f64);

#[cfg(test)]
pub(super) const CONSTANTS: [Constant; 36] = [
    (|r| &mut r.wgmma[0], 0.9, 1.5),
    (|r| &mut r.wgmma[1], 1.8, 3.0),
    (|r| &mut r.wgmma[2], 1.8, 3.2),
    (|r| &mut r.round, 0.001, 0.1),
    (|r| &mut r.wait[0], 0.001, 0.1),
    (|r| &mut r.wait[1], 0.001, 0.1),
    (|r| &mut r.block, 0.0, 0.1),
    (|r| &mut r.fill, 0.05, 1.0),
    (|r| &mut r.turn, 0.0001, 0.1),
    (|r| &mut r.latency[0], 0.2, 2.0),
    (|r| &mut r.latency[1], 0.3, 3.0),
    (|r| &mut r.alone, 1.0, 1.3),
    (|r| &mut r.exchange, 0.05, 4.0),
    (|r| &mut r.beyond_ns, 0.5, 8.0),
    (|r| &mut r.partial, 5000.0, 80_000.0),
    (|r| &mut r.part, 0.3, 8.0),
    (|r| &mut r.sharpness[0], 2.0, 20.0),
    (|r| &mut r.sharpness[1], 0.9, 1.8),
    (|r| &mut r.abreast, 1.0, 2.0),
    (|r| &mut r.between, 0.02, 2.0),
    (|r| &mut r.store, 0.05, 3.0),
    (|r| &mut r.row_ns, 0.5, 2.4),
    (|r| &mut r.across, 1.0, 2.5),
    (|r| &mut r.l2, 0.8, 1.4),
    (|r| &mut r.promoted, 1.0, 1.3),
    (|r| &mut r.mma_sync, 1000.0, 6000.0),
    (|r| &mut r.wmma[0], 0.1, 1.0),
    (|r| &mut r.wmma[1], 0.1, 1.0),
    (|r| &mut r.shown, 0.0, 1.0),
    (|r| &mut r.copied, 1.0, 6.0),
    (|r| &mut r.one_set, 1.0, 1.2),
    (|r| &mut r.mma_sync8[0], 0.2, 2.0),
    (|r| &mut r.mma_sync8[1], 0.2, 2.0),
    (|r| &mut r.scalar[0], 5.0, 100.0),
    (|r| &mut r.scalar[1], 5.0, 100.0),
    (|r| &mut r.scalar[2], 5.0, 100.0),
];

/// Those that differ between cards of one chip: what memory, L2 and the clock decide.
const OF_CARD: [Constant; 15] = [
    (|r| &mut r.wgmma[0], 0.8, 1.5),
    (|r| &mut r.wgmma[1], 1.6, 3.0),
    (|r| &mut r.round, 0.005, 0.1),
    (|r| &mut r.wait[0], 0.001, 0.1),
    (|r| &mut r.wait[1], 0.001, 0.1),
    (|r| &mut r.latency[0], 0.4, 2.0),
    (|r| &mut r.latency[1], 0.4, 3.0),
    (|r| &mut r.exchange, 0.3, 6.0),
    (|r| &mut r.partial, 5000.0, 80_000.0),
    (|r| &mut r.sharpness[0], 2.0, 20.0),
    (|r| &mut r.sharpness[1], 0.9, 6.0),
    (|r| &mut r.abreast, 0.8, 2.0),
    (|r| &mut r.store, 0.02, 3.0),
    (|r| &mut r.l2, 0.6, 1.4),
    (|r| &mut r.hbm, 0.8, 1.3),
];

/// What an error of a constant counts, in logarithms beside its value on the measured card that a fit begins with: a few kernels
/// cannot separate all of them.
const PRIOR: f64 = 0.15;

/// The rates of a card that fit kernels on it best, from those that it has.
pub fn fitted_rates(card: &Card, measured: impl IntoIterator<Item = (Plan, TuningProblem, f64)>) -> Rates {
    let rows: Vec<Row> = measured.into_iter().map(|(plan, problem, us)| Row::new(plan, problem, us, card)).collect();
    fitted(&rows.iter().collect::<Vec<_>>(), card.rates, &OF_CARD, PRIOR, 6)
}

/// A kernel that was measured.
pub(super) struct Row {
    pub(super) card: Card,
    #[cfg(test)]
    pub(super) plan: Plan,
    pub(super) problem: TuningProblem,
    pub(super) us: f64,
    simulation: Simulation,
}

/// Rows of one problem each.
pub(super) fn grouped<'r>(rows: &[&'r Row]) -> Vec<Vec<&'r Row>> {
    let mut groups: std::collections::BTreeMap<String, Vec<&Row>> = std::collections::BTreeMap::new();
    for row in rows {
        groups.entry(format!("{}: {}", row.card.name, row.problem.key())).or_default().push(row);
    }
    groups.into_values().collect()
}

impl Row {
    pub(super) fn new(plan: Plan, problem: TuningProblem, us: f64, card: &Card) -> Self {
        let simulation = Simulation::new(&plan, &problem, card);
        Self {
            card: *card,
            #[cfg(test)]
            plan,
            problem,
            us,
            simulation,
        }
    }

    #[cfg(test)]
    pub(super) fn predicted(&self, rates: &Rates) -> Prediction {
        self.simulation.prediction(rates)
    }

    #[cfg(test)]
    pub(super) fn digest(&self) -> String {
        self.plan.digest()
    }

    #[cfg(test)]
    pub(super) fn spec(&self) -> &bsr_codegen::KernelSpec {
        self.plan.spec()
    }

    /// Logarithm of predicted over measured.
    pub(super) fn log(&self, rates: &Rates) -> f64 {
        (self.simulation.prediction(rates).us / self.us).ln()
    }
}

/// What the errors of one problem count that all of its kernels share: choices do not depend on them.
const SHARED: f64 = 0.5;
/// By how much a constant is changed to learn what it does.
const CHANGE: f64 = 0.02;

/// The constants that fit rows best, after so many steps from `start`. What they differ from that counts by `prior`.
pub(super) fn fitted(rows: &[&Row], start: Rates, constants: &[Constant], prior: f64, steps: usize) -> Rates {
    let groups = grouped(rows);
    let away = |rates: &Rates| -> Vec<f64> {
        let value = |of: &Constant, mut rates: Rates| *of.0(&mut rates);
        constants.iter().map(|of| prior * (value(of, *rates) / value(of, start)).ln()).collect()
    };
    let residuals = |groups: &[Vec<&Row>], rates: &Rates| [residuals(groups, rates), away(rates)].concat();
    let mut rates = start;
    let mut errors = residuals(&groups, &rates);
    let mut damping = 0.01;
    for _ in 0..steps {
        let slopes: Vec<Vec<f64>> = constants
            .iter()
            .map(|constant| {
                let changed = changed(rates, constant, CHANGE);
                residuals(&groups, &changed).iter().zip(&errors).map(|(new, old)| (new - old) / CHANGE).collect()
            })
            .collect();
        for _ in 0..4 {
            let step = solved(&slopes, &errors, damping);
            let tried = constants.iter().zip(&step).fold(rates, |rates, (constant, by)| changed(rates, constant, *by));
            let found = residuals(&groups, &tried);
            if squares(&found) < squares(&errors) {
                (rates, errors, damping) = (tried, found, damping / 5.0);
                break;
            }
            damping *= 8.0;
        }
    }
    rates
}

fn changed(mut rates: Rates, (constant, least, most): &Constant, by: f64) -> Rates {
    let value = constant(&mut rates);
    *value = (*value * by.clamp(-0.5, 0.5).exp()).clamp(*least, *most);
    rates
}

fn squares(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error * error).sum()
}

/// Errors of all rows: those that kernels of a problem do not share, and those that they do. Kernels count the more the faster
/// they are.
fn residuals(groups: &[Vec<&Row>], rates: &Rates) -> Vec<f64> {
    let of = |group: &Vec<&Row>| {
        let best = group.iter().map(|row| row.us).fold(f64::INFINITY, f64::min);
        let errors: Vec<(f64, f64)> = group.iter().map(|row| (best / row.us, row.log(rates))).collect();
        let weights: f64 = errors.iter().map(|(weight, _)| weight * weight).sum();
        let mean = errors.iter().map(|(weight, error)| weight * weight * error).sum::<f64>() / weights;
        let own = errors.iter().map(|(weight, error)| weight * (error - mean));
        own.chain([SHARED * mean * weights.sqrt()]).collect::<Vec<f64>>()
    };
    groups.par_iter().flat_map_iter(of).collect()
}

/// The step that makes linear errors least, each constant's damped.
fn solved(slopes: &[Vec<f64>], errors: &[f64], damping: f64) -> Vec<f64> {
    let count = slopes.len();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let mut rows: Vec<Vec<f64>> = (0..count)
        .map(|at| {
            let mut row: Vec<f64> = slopes.iter().map(|slope| dot(&slopes[at], slope)).collect();
            row[at] += damping * (row[at] + 1.0);
            row.push(-dot(&slopes[at], errors));
            row
        })
        .collect();
    // The matrix is positive definite: no row must be exchanged.
    for pivot in 0..count {
        let chosen = rows[pivot].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != pivot) {
            let factor = row[pivot] / chosen[pivot];
            row.iter_mut().zip(&chosen).for_each(|(value, of)| *value -= factor * of);
        }
    }
    (0..count).map(|at| rows[at][count] / rows[at][at]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{accuracy, tests::rows};
    use super::*;

    /// The constants of [`Rates::H200`], after new rows:
    /// `cargo test -p bsr-tuner --lib constants_as_fitted -- --ignored --nocapture`.
    #[test]
    #[ignore = "prints constants, tests nothing"]
    fn constants_as_fitted() {
        let is_fitted = |row: &Row| {
            row.card == Card::h200() && matches!(row.spec().mma, bsr_codegen::Mma::Wgmma | bsr_codegen::Mma::MmaSync)
        };
        let measured =
            accuracy::measured("h200").into_iter().filter(|row| row.problem.workload.seed < accuracy::HELD_OUT);
        let tuned = accuracy::shipped_of_h200().into_iter().chain(measured);
        let tuned: Vec<Row> = tuned.filter(is_fitted).collect();
        // What the tables have is of a later run.
        let id = |row: &Row| (row.digest(), row.problem.key());
        let later: std::collections::HashSet<_> = tuned.iter().map(id).collect();
        let others = rows().into_iter().filter(|row| is_fitted(row) && !later.contains(&id(row)));
        let rows: Vec<Row> = others.chain(tuned).collect();
        let rates = fitted(&rows.iter().collect::<Vec<_>>(), Rates::H200, &CONSTANTS, 0.0, 6);
        println!("{rates:#?}");
        println!(
            "squares {:.4} of {} rows",
            squares(&residuals(&grouped(&rows.iter().collect::<Vec<_>>()), &rates)),
            rows.len()
        );
        accuracy::report(&accuracy::measured("h200"), &rates);
        accuracy::report(&accuracy::shipped_of_h200(), &rates);
    }

    /// The `[rates]` of `cards/h100.toml`, from an H200's:
    /// `cargo test -p bsr-tuner --lib h100_as_fitted -- --ignored --nocapture`.
    #[test]
    #[ignore = "prints constants, tests nothing"]
    fn h100_as_fitted() {
        let rows: Vec<Row> = accuracy::measured("h100");
        let seen: Vec<&Row> = rows.iter().filter(|row| row.problem.workload.seed < accuracy::HELD_OUT).collect();
        for prior in [0.05, PRIOR, 0.5] {
            let rates = fitted(&seen, Rates::H200, &OF_CARD, prior, 6);
            println!("prior {prior}: {rates:?}");
            accuracy::report(&rows, &rates);
        }
    }
}
