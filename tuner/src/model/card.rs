//! The cards that are predicted for: a file of data each, in `tuner/cards`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::dense::DenseTimes;

/// What a GPU does in a second, as measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Card {
    /// Its name.
    pub name: &'static str,
    /// Streaming multiprocessors.
    pub sms: usize,
    /// TFLOP/s of the dense library on large products under load, in f16.
    pub dense_tflops: f64,
    /// TB/s from L2 to shared memory, in bulk copies of what L2 holds.
    pub l2_tbs: f64,
    /// TB/s of device memory, in a copy.
    pub hbm_tbs: f64,
    /// Microseconds that a launch takes before and after its work.
    pub launch_us: f64,
    /// Times of the dense library.
    #[serde(skip)]
    pub(super) dense: &'static DenseTimes,
}

/// A card as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardFile {
    name: String,
    sms: usize,
    dense_tflops: f64,
    l2_tbs: f64,
    hbm_tbs: f64,
    launch_us: f64,
    dense: super::dense::DenseFile,
}

/// The files of all cards, the H200's first: other GPUs are compared with it.
const FILES: [&str; 1] = [include_str!("../../cards/h200.toml")];

static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| FILES.map(Card::from_toml).to_vec());

impl Card {
    /// The NVIDIA H200.
    pub fn h200() -> Self {
        CARDS[0]
    }

    /// Reads a file of this crate; it lives as long as the program.
    fn from_toml(text: &str) -> Self {
        let file: CardFile = toml::from_str(text).expect("a test reads every file of a card");
        let CardFile { name, sms, dense_tflops, l2_tbs, hbm_tbs, launch_us, dense } = file;
        let name: &'static str = Box::leak(name.into_boxed_str());
        let dense = Box::leak(Box::new(DenseTimes::new(&dense, dense_tflops, hbm_tbs, launch_us)));
        Self { name, sms, dense_tflops, l2_tbs, hbm_tbs, launch_us, dense }
    }
}

/// How much is known of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its rates were measured.
    Measured,
    /// They are an H200's, scaled by its SMs and its clock.
    Scaled,
    /// They are an H200's.
    Assumed,
}

impl Known {
    /// In words, for whoever shows a prediction.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "rates measured",
            Self::Scaled => "assumed: the rates of an NVIDIA H200, scaled by SMs and clock",
            Self::Assumed => "assumed: the rates of an NVIDIA H200",
        }
    }
}

/// An H200's clock in MHz under load of tensor cores (`benches/LOG.md`, 8).
pub(super) const H200_MHZ: f64 = 1490.0;

/// The card of a GPU by the name that its driver gives it. Of another GPU the rates are an H200's, scaled where its SMs and
/// its clock in MHz are given: candidates are ranked, times are a guess. How much is known is said beside.
pub fn for_gpu(name: &str, size: Option<(usize, f64)>) -> (Card, Known) {
    if let Some(card) = CARDS.iter().find(|card| card.name == name) {
        return (*card, Known::Measured);
    }
    let h200 = Card::h200();
    let Some((sms, mhz)) = size.filter(|(sms, mhz)| *sms > 0 && *mhz > 0.0) else {
        return (Card { name: "another GPU, as an NVIDIA H200", ..h200 }, Known::Assumed);
    };
    let scale = sms as f64 / h200.sms as f64 * mhz / H200_MHZ;
    let scaled = Card {
        name: "another GPU, scaled from an NVIDIA H200",
        sms,
        dense_tflops: h200.dense_tflops * scale,
        l2_tbs: h200.l2_tbs * scale,
        ..h200
    };
    (scaled, Known::Scaled)
}
