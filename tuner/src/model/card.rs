//! The cards that are predicted for: a file of data each, in `tuner/cards`, and data sheets of others.

use std::sync::LazyLock;

use bsr_runtime::roofs::Sheet;
use serde::{Deserialize, Serialize};

use super::dense::{DenseFile, DenseTimes};
use super::rates::Rates;

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
    /// Megabytes of operands that L2 holds: the part of its size with which the model's traffic is the traffic that Nsight Compute
    /// counts.
    #[serde(skip)]
    pub l2_held_mb: f64,
    /// The clock of the SMs in MHz under load of the tensor cores, and the highest one.
    #[serde(skip)]
    pub clock_mhz: [f64; 2],
    /// What the parts of an SM take, as fitted to kernels on this card.
    #[serde(skip)]
    pub rates: Rates,
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
    l2_held_mb: f64,
    clock_mhz: [f64; 2],
    /// Those that differ from an H200's.
    #[serde(default)]
    rates: Rates,
    dense: DenseFile,
}

/// The files of all cards, the H200's first: other GPUs are compared with it.
const FILES: [&str; 2] = [include_str!("../../cards/h200.toml"), include_str!("../../cards/h100.toml")];

static CARDS: LazyLock<Vec<Card>> = LazyLock::new(|| FILES.map(Card::from_toml).to_vec());

impl Card {
    /// The NVIDIA H200.
    pub fn h200() -> Self {
        CARDS[0]
    }

    /// All cards that were measured, the H200 first.
    pub fn measured() -> &'static [Self] {
        &CARDS
    }

    /// Reads a file of this crate; it lives as long as the program.
    fn from_toml(text: &str) -> Self {
        let file: CardFile = toml::from_str(text).expect("a test reads every file of a card");
        let CardFile { name, sms, dense_tflops, l2_tbs, hbm_tbs, launch_us, l2_held_mb, clock_mhz, rates, dense } =
            file;
        let dense = Box::leak(Box::new(DenseTimes::new(&dense, dense_tflops, hbm_tbs, launch_us)));
        let name = Box::leak(name.into_boxed_str());
        Self { name, sms, dense_tflops, l2_tbs, hbm_tbs, launch_us, l2_held_mb, clock_mhz, rates, dense }
    }

    /// A card of which only the data sheet is known. Its rates keep the proportion to the data sheet that those of the measured
    /// card with the most similar memory have; per cycle an SM is as fast as that card's.
    fn from_sheet(sheet: &Sheet) -> Self {
        let like = |card: &&Self| {
            let of = Sheet::of(card.name).map_or(f64::INFINITY, |of| of.hbm_tbs);
            (of / sheet.hbm_tbs).ln().abs()
        };
        let base = CARDS.iter().min_by(|x, y| like(x).total_cmp(&like(y))).copied().unwrap_or_else(Self::h200);
        let Some(of) = Sheet::of(base.name) else { return base };
        let tensor = sheet.f16 / of.f16;
        // Data sheets of Hopper and of its kin for data centers are of other instructions than `mma_sync`.
        let is_hopper = matches!(sheet.capability.0, 9..=11);
        // An SM of Hopper has as many tensor cores as that of another Hopper card: what is left is the clock.
        let of_tensor_cores = if is_hopper { tensor * of.sms as f64 / sheet.sms as f64 } else { f64::INFINITY };
        let clock = of_tensor_cores.min(sheet.mhz / of.mhz);
        Self {
            name: sheet.name,
            sms: sheet.sms,
            dense_tflops: base.dense_tflops * tensor,
            l2_tbs: base.l2_tbs * ((sheet.sms as f64 * sheet.mhz) / (of.sms as f64 * of.mhz)),
            hbm_tbs: base.hbm_tbs * (sheet.hbm_tbs / of.hbm_tbs),
            l2_held_mb: base.l2_held_mb * (sheet.l2_mb / of.l2_mb),
            clock_mhz: [base.clock_mhz[0] * clock, sheet.mhz.max(base.clock_mhz[0] * clock)],
            rates: if is_hopper { base.rates } else { base.rates.of_other_sms(sheet, of) },
            ..base
        }
    }
}

/// On what the rates of a card rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// They were measured, and the model's constants were fitted to kernels on this card.
    Measured,
    /// They were measured by `bsr calibrate` on this machine.
    Calibrated,
    /// Its roofs were measured on this machine when it was first used; what kernels do with them is derived from a measured card.
    Roofs,
    /// They are derived from its data sheet.
    DataSheet,
    /// They are an H200's, scaled by its SMs and its clock.
    Scaled,
    /// They are an H200's.
    Assumed,
}

impl Known {
    /// In words, for whoever shows a prediction.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured on this card: roofs, kernels, the dense library",
            Self::Calibrated => "measured on this card by `bsr calibrate`",
            Self::Roofs => {
                "roofs measured on this card when it was first used, the rest assumed: `bsr calibrate` measures kernels"
            }
            Self::DataSheet => "predicted from the data sheet of this card, in proportion to a measured Hopper card",
            Self::Scaled => "assumed: the rates of an NVIDIA H200, scaled by SMs and clock",
            Self::Assumed => "assumed: the rates of an NVIDIA H200",
        }
    }
}

/// The card of a GPU that nobody has calibrated.
pub(super) fn shipped(name: &str, size: Option<(usize, f64)>) -> (Card, Known) {
    if let Some(card) = CARDS.iter().find(|card| card.name == name) {
        return (*card, Known::Measured);
    }
    if let Some(sheet) = Sheet::of(name) {
        return (Card::from_sheet(sheet), Known::DataSheet);
    }
    let h200 = Card::h200();
    let Some((sms, mhz)) = size.filter(|(sms, mhz)| *sms > 0 && *mhz > 0.0) else {
        return (Card { name: "another GPU, as an NVIDIA H200", ..h200 }, Known::Assumed);
    };
    let scale = sms as f64 / h200.sms as f64 * mhz / h200.clock_mhz[0];
    let scaled = Card {
        name: "another GPU, scaled from an NVIDIA H200",
        sms,
        dense_tflops: h200.dense_tflops * scale,
        l2_tbs: h200.l2_tbs * scale,
        ..h200
    };
    (scaled, Known::Scaled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_without_measurements_is_derived_from_its_data_sheet() {
        let of = |name: &str| shipped(name, None);
        assert_eq!(of("NVIDIA H100 80GB HBM3").1, Known::Measured);
        let ((pcie, known), h100) = (of("NVIDIA H100 PCIe"), of("NVIDIA H100 80GB HBM3").0);
        assert_eq!((pcie.sms, known), (114, Known::DataSheet));
        assert!(pcie.hbm_tbs < h100.hbm_tbs && pcie.dense_tflops < 0.8 * h100.dense_tflops, "{pcie:?}");
        // The H800 differs in its links alone.
        let h800 = of("NVIDIA H800").0;
        assert_eq!(Card { name: h100.name, ..h800 }, h100);
        let (a100, known) = of("NVIDIA A100-SXM4-80GB");
        assert!((a100.sms, known) == (108, Known::DataSheet) && a100.clock_mhz[1] == 1410.0, "{a100:?}");
        assert!(
            a100.rates.mma_sync < 0.7 * h100.rates.mma_sync && a100.rates.scalar[0] < h100.rates.scalar[0],
            "{a100:?}"
        );
        let h20 = of("NVIDIA H20").0;
        assert!(h20.dense_tflops < 0.2 * Card::h200().dense_tflops && h20.clock_mhz[1] >= h20.clock_mhz[0], "{h20:?}");
    }
}
