//! How long a kernel takes on a problem, predicted from its plan: an order of candidates, not a measurement.
//!
//! The work list of the launch is simulated: tiles, or parts of their K, of every cluster in the order in which the tile scheduler
//! assigns them.
//!
//! ```text
//! problem --shape--> where blocks stand --tiles--> what each tile loads and multiplies --assign--> the list of every cluster
//!     lists --reuse--> what comes from device memory --rates--> time of a tile --timeline--> Prediction
//! ```
//!
//! A tile takes its stages, each as long as the slowest of tensor cores, L2 and device memory needs (near each other both
//! delay), a barrier round, what a ring buffer too shallow to hide the latency adds, and its store, unless that runs under
//! the next tile. Warps take time of shared memory beside that of tensor cores (`warps`). Requests of several CTAs for the same
//! bytes at the same time are one to L2. A CTA's share of L2 and of device memory is that of as many as run: the last ones have
//! more, up to what one SM can take. The clock of the SMs is the one that the load of the tensor cores leaves. Constants are
//! in [`rates`], with where they are from. A launch is one that nothing precedes, so `pdl` changes nothing. What the model
//! is wrong about is in the output of its test: `cargo test -p bsr-tuner --lib model -- --nocapture`.

#[cfg(test)]
mod accuracy;
mod assign;
mod attention;
mod calibration;
mod card;
mod clock;
mod dense;
mod fit;
mod footprint;
mod pairs;
mod prediction;
pub mod rates;
mod reuse;
mod shape;
mod similar;
#[cfg(test)]
mod tests;
mod tile;
mod tile_time;
mod tiles;
mod timeline;
mod traffic;
mod verdict;
mod view;
mod warps;
mod work_list;

use std::sync::Arc;

use bsr_codegen::{Dtype, Plan, Profile};
use bsr_runtime::Structure;

pub(crate) use calibration::at_first_use;
pub use calibration::{Calibration, calibrate_in_small};
pub use card::{Card, Known};
pub use fit::fitted_rates;
pub use prediction::{Prediction, Term, What};
pub use traffic::traffic;
pub use verdict::{SURE_MEASURED, SURE_PREDICTED, Verdict};
pub use work_list::work_list;

use crate::{Facts, TuningProblem, Workload};
use assign::{Lists, assign};
use footprint::Misses;
use rates::Rates;
use shape::Shape;
use tile_time::Setting;
use tiles::Tiles;
use timeline::Timeline;
use view::View;

/// The card of a GPU by the name that its driver gives it: one that was measured on this machine, one of a file of this crate, or one by
/// its data sheet. Of another GPU the rates are an H200's, scaled where its SMs and its clock in MHz are given: candidates are
/// ranked, times are a guess.
pub fn for_gpu(name: &str, size: Option<(usize, f64)>) -> (Card, Known) {
    let (card, known) = card::shipped(name, size);
    calibration::of(name).map_or((card, known), |found| (found.card(card), found.known()))
}

/// Predicts one launch of a kernel.
pub fn predict(plan: &Plan, problem: &TuningProblem, card: &Card) -> Prediction {
    let simulated = || Simulation::new(plan, problem, card).prediction(&card.rates);
    attention::predict(plan, problem, card).unwrap_or_else(simulated)
}

/// The fastest of several kernels, all of the same facts, for a sparse A that is at hand and `n` columns of B; none of none.
pub fn fastest<'p>(plans: &'p [Plan], structure: &Structure, n: usize, card: &Card) -> Option<(&'p Plan, Prediction)> {
    let facts = Facts::of(plans.first()?.spec());
    let problem = TuningProblem::new(Workload::given(facts, (structure.rows(), n, structure.cols())), structure);
    let shape = Arc::new(Shape::new(Some(structure.clone())));
    let predicted = |plan: &'p Plan| {
        let simulation = Simulation::of_shape(plan, &problem, card, Arc::clone(&shape));
        (plan, simulation.prediction(&card.rates))
    };
    plans.iter().map(predicted).min_by(|x, y| x.1.us.total_cmp(&y.1.us))
}

/// The lists of a launch: what does not depend on how fast anything is.
struct Simulation {
    profile: Profile,
    view: View,
    tiles: Tiles,
    lists: Lists,
    misses: Misses,
    /// Bytes of the sums of a part of a tile.
    partial_bytes: f64,
    /// What is multiplied.
    dtype: Dtype,
    card: Card,
    places: f64,
}

impl Simulation {
    fn new(plan: &Plan, problem: &TuningProblem, card: &Card) -> Self {
        Self::of_shape(plan, problem, card, Shape::of(problem))
    }

    fn of_shape(plan: &Plan, problem: &TuningProblem, card: &Card, shape: Arc<Shape>) -> Self {
        let profile = plan.profile();
        let view = View::new(plan.spec(), problem);
        let places = timeline::places(&profile, card);
        let clusters = (places / f64::from(profile.cluster.max(1))) as usize;
        let tiles = Tiles::new(plan, &profile, &view, &shape, clusters);
        let lists = match tiles.count() {
            0 => Lists::Whole(vec![]),
            _ => assign(plan, &tiles, clusters),
        };
        let partial_bytes = f64::from(plan.partial_bytes());
        let workspace = f64::from(lists.places()) * partial_bytes;
        let misses =
            Misses::new((plan, &profile), (&view, &shape), (&tiles, &lists), (workspace, 1e6 * card.l2_held_mb));
        Self { profile, view, tiles, lists, misses, partial_bytes, dtype: plan.spec().a, card: *card, places }
    }

    fn follow(&self, rates: &Rates, setting: &Setting<'_>) -> Timeline {
        match self.tiles.count() {
            0 => Timeline::default(),
            _ => timeline::follow(rates, setting, (&self.tiles, &self.lists), self.partial_bytes, self.places),
        }
    }

    /// The constants at the clock that the card has while this launch runs.
    fn at_its_clock(&self, rates: &Rates, setting: &Setting<'_>) -> Rates {
        let line = self.follow(rates, setting);
        rates.at(clock::of_load(line.tensor, line.us + self.card.launch_us, self.card.clock_mhz))
    }

    fn prediction(&self, rates: &Rates) -> Prediction {
        let Self { profile, view, tiles, misses, card, .. } = self;
        let setting = Setting::new(profile, view, tiles, *misses, card);
        let rates = &self.at_its_clock(rates, &setting);
        let line = self.follow(rates, &setting);
        let hbm = misses.bytes / (rates.hbm * card.hbm_tbs * 1e6);
        let terms = [
            (What::Tensor, line.tensor),
            (What::L2, line.l2),
            (What::Hbm, hbm),
            (What::Barriers, line.barriers),
            (What::Latency, line.latency),
            (What::Stores, line.ends),
            (What::Imbalance, line.us - line.even),
            (What::Launch, card.launch_us),
        ];
        let us = line.us.max(hbm) + card.launch_us;
        Prediction { us, terms: terms.map(|(what, us)| Term { what, us }).to_vec() }
    }
}
