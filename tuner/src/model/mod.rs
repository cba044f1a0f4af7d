//! How long a kernel takes on a problem, predicted from its plan: an order of candidates, not a measurement.
//!
//! ```text
//! plan, problem --tiles--> how many tiles, what one loads and multiplies --stage--> time of a tile
//!               --tile_scheduler--> waves, longest row, spread of rows      ---------> time of the busiest SM
//!                                          HBM, launch                   ---------> Prediction
//! ```
//!
//! A tile takes its stages, each as long as the tensor cores or L2 need (whichever is slower; near each other both
//! delay), and a barrier round; a ring buffer too shallow to hide L2's latency lengthens them; then its store, unless that runs
//! under the next tile. Constants are in [`rates`], with where they are from. What the model was wrong about is in the output of
//! its test: `cargo test -p bsr-tuner --lib model -- --nocapture`.

mod attention;
mod card;
pub mod rates;
#[cfg(test)]
mod tests;
mod tile_scheduler;
mod tiles;

use bsr_codegen::Plan;
use serde::{Deserialize, Serialize};

pub use bsr_runtime::advise::model::Card;
pub use card::{Known, for_gpu};

use crate::TuningProblem;
use rates::Rates;
use tiles::{Tiles, View};

/// A predicted time, and what it is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Microseconds of one launch from cold caches.
    pub us: f64,
    /// The parts: what each would take, or adds. They overlap and do not add up.
    pub terms: Vec<Term>,
}

/// A part of a predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Which.
    pub what: What,
    /// Microseconds over the whole launch.
    pub us: f64,
}

/// The parts of a predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The tensor cores, or the CUDA cores, if all SMs had equal work and nothing else took time.
    Tensor,
    /// The exponentials of an attention, likewise.
    Exponentials,
    /// Bytes from L2 to shared memory, likewise.
    L2,
    /// Bytes from device memory, each once.
    Hbm,
    /// Barrier rounds.
    Barriers,
    /// What a ring buffer too shallow for L2's latency adds.
    Latency,
    /// Beginnings and ends of tiles, and stores that nothing hides.
    Stores,
    /// What the busiest SM does beyond the average: the last wave, the longest row.
    Imbalance,
    /// The launch.
    Launch,
}

impl What {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Exponentials => "exponentials",
            Self::L2 => "L2",
            Self::Hbm => "HBM",
            Self::Barriers => "barriers",
            Self::Latency => "latency",
            Self::Stores => "stores",
            Self::Imbalance => "imbalance",
            Self::Launch => "launch",
        }
    }
}

impl Prediction {
    /// One of the parts.
    pub fn term(&self, what: What) -> f64 {
        self.terms.iter().find(|term| term.what == what).map_or(0.0, |term| term.us)
    }
}

/// Predicts one launch of a kernel.
pub fn predict(plan: &Plan, problem: &TuningProblem, card: &Card) -> Prediction {
    predict_with(plan, problem, card, &Rates::H200)
}

fn predict_with(plan: &Plan, problem: &TuningProblem, card: &Card, rates: &Rates) -> Prediction {
    if let Some(tiles) = plan.attention_tiles() {
        return attention::predict(plan, &tiles, problem, card);
    }
    let view = View::new(plan.spec(), problem);
    let profile = plan.profile();
    let tiles = Tiles::new(&profile, &view);
    let tile = rates.tile(&profile, &view, &tiles, card);
    let scheduled = tile_scheduler::schedule(plan, &profile, &view, &tiles, tile.us(), card);

    // What all tiles would take were they spread evenly.
    let even = |us: f64| us * tiles.count() / scheduled.places;
    let hbm = view.compulsory_bytes() / (card.hbm_tbs * 1e6);
    let busy = both(scheduled.us, hbm);
    let terms = [
        (What::Tensor, even(tile.tensor)),
        (What::L2, even(tile.l2)),
        (What::Hbm, hbm),
        (What::Barriers, even(tile.barriers)),
        (What::Latency, even(tile.latency)),
        (What::Stores, even(tile.ends)),
        (What::Imbalance, scheduled.us - even(tile.us())),
        (What::Launch, card.launch_us),
    ];
    Prediction { us: busy + card.launch_us, terms: terms.map(|(what, us)| Term { what, us }).to_vec() }
}

/// Two things that overlap: the longer one, and more where they are about equal, since each then waits for the other at
/// times.
fn both(x: f64, y: f64) -> f64 {
    (x.powi(SHARPNESS) + y.powi(SHARPNESS)).powf(1.0 / f64::from(SHARPNESS))
}

/// 1 would add the two, infinity would take the longer.
const SHARPNESS: i32 = 6;
