//! The card that is predicted for.

use super::Card;

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
            Self::Scaled => "rates of an H200, scaled by SMs and clock",
            Self::Assumed => "rates of an H200",
        }
    }
}

/// An H200's clock in MHz under load of tensor cores (`benches/LOG.md`, 8).
pub(super) const H200_MHZ: f64 = 1490.0;

/// The card of a GPU by the name that its driver gives it. Of another GPU the rates are an H200's, scaled where its SMs and
/// its clock in MHz are given: candidates are ranked, times are a guess. How much is known is said beside.
pub fn for_gpu(name: &str, size: Option<(usize, f64)>) -> (Card, Known) {
    let h200 = Card::H200;
    if name == h200.name {
        return (h200, Known::Measured);
    }
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
