//! Cards that were measured on this machine, by `bsr calibrate` or in small when they were first used: a file in the user's
//! folder for data.

use std::path::PathBuf;
use std::sync::{LazyLock, PoisonError, RwLock};

use bsr_codegen::{Dtype, Refusal};
use bsr_runtime::bench::{Effort, measure_roofs};
use bsr_runtime::gpu::{Device, GpuError};
use bsr_runtime::roofs::{self, MeasuredRoofs};
use bsr_runtime::write;
use serde::{Deserialize, Serialize};

use super::card::{Card, Known};
use super::for_gpu;
use super::rates::Rates;

/// Turns the measurement at the first use of a card off where it is `off`.
const VARIABLE: &str = "BSR_CALIBRATE";

/// What was measured on one card, and the rates that fit kernels on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Its name and driver.
    pub gpu: String,
    /// See [`DeviceInfo::driver`](bsr_runtime::gpu::DeviceInfo::driver).
    pub driver: String,
    /// Its multiprocessors.
    pub sms: usize,
    /// Kernels that its rates were fitted to; none after a measurement in small.
    pub kernels: usize,
    dense_tflops: f64,
    l2_tbs: f64,
    hbm_tbs: f64,
    clock_mhz: [f64; 2],
    rates: Rates,
}

/// The roofs of the H100 of `cards/h100.toml`, to which its rates are in proportion: TFLOP/s in f16, TB/s of L2, of a copy.
const H100_ROOFS: [f64; 3] = [849.0, 7.70, 2.88];

impl Card {
    /// This card with the roofs that were measured, in the proportion that an H100's rates have to its roofs.
    pub fn with_roofs(self, sms: usize, roofs: &MeasuredRoofs) -> Self {
        let [_, h100, ..] = Self::measured() else { return self };
        let tensor = roofs.tensor.iter().find(|roof| roof.dtype == Dtype::F16);
        let in_proportion = |rate: f64, measured: f64, roof: f64| rate * measured / roof;
        let load_mhz = tensor.and_then(|roof| roof.sm_mhz).map_or(self.clock_mhz[0], f64::from);
        Self {
            sms,
            dense_tflops: tensor
                .map_or(self.dense_tflops, |roof| in_proportion(h100.dense_tflops, roof.tflops, H100_ROOFS[0])),
            l2_tbs: roofs.l2_tbs.map_or(self.l2_tbs, |l2| in_proportion(h100.l2_tbs, l2, H100_ROOFS[1])),
            hbm_tbs: in_proportion(h100.hbm_tbs, roofs.hbm_copy_tbs, H100_ROOFS[2]),
            clock_mhz: [load_mhz, self.clock_mhz[1].max(load_mhz)],
            ..self
        }
    }

    /// This card with these rates.
    pub fn with_rates(self, rates: Rates) -> Self {
        Self { rates, ..self }
    }
}

impl Calibration {
    /// What a card is known by from now on.
    pub fn new(roofs: &MeasuredRoofs, card: &Card, kernels: usize, rates: Rates) -> Self {
        let Card { sms, dense_tflops, l2_tbs, hbm_tbs, clock_mhz, .. } = *card;
        let (gpu, driver) = (roofs.gpu.clone(), roofs.driver.clone());
        Self { gpu, driver, sms, kernels, dense_tflops, l2_tbs, hbm_tbs, clock_mhz, rates }
    }

    /// The card; what was not measured is that of `base`.
    pub fn card(&self, base: Card) -> Card {
        let Self { sms, dense_tflops, l2_tbs, hbm_tbs, clock_mhz, rates, .. } = *self;
        Card { sms, dense_tflops, l2_tbs, hbm_tbs, clock_mhz, rates, ..base }
    }

    /// On what predictions for this card rest.
    pub(super) fn known(&self) -> Known {
        if self.kernels == 0 { Known::Roofs } else { Known::Calibrated }
    }

    /// Has this process predict by it, and writes it in the place of an older one of the same card; says where.
    ///
    /// # Errors
    /// No folder for data, or a file that holds something else or cannot be written.
    pub fn remember(self) -> Result<PathBuf, Refusal> {
        self.clone().add_to(&mut KNOWN.write().unwrap_or_else(PoisonError::into_inner));
        let no_place = || Refusal::new("there is no place for a card: neither XDG_DATA_HOME nor HOME is set");
        let path = place().ok_or_else(no_place)?;
        let failed = |error: &dyn std::fmt::Display| Refusal::of(path.display(), error);
        let mut all = read()?;
        self.add_to(&mut all);
        let text = serde_json::to_string_pretty(&all).map_err(|error| failed(&error))?;
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|error| failed(&error))?;
        let io = |error| write::WriteError::io(&path, error);
        write::file(&path, true, |out| writeln!(out, "{text}").map_err(io)).map_err(|error| failed(&error))?;
        Ok(path)
    }

    fn add_to(self, all: &mut Vec<Self>) {
        all.retain(|known| (&known.gpu, &known.driver) != (&self.gpu, &self.driver));
        all.push(self);
    }
}

/// Measures the roofs of a device in about a second, and the card that they make of the one that is known by its name.
///
/// # Errors
/// Those of the device.
pub fn calibrate_in_small(device: &Device) -> Result<Calibration, GpuError> {
    let roofs = measure_roofs(device, Effort::Quick, &mut |_| {})?;
    let card = for_gpu(&roofs.gpu, None).0.with_roofs(device.sm_count() as usize, &roofs);
    Ok(Calibration::new(&roofs, &card, 0, card.rates))
}

/// Measures a device in small, and remembers it, if neither a file of this crate nor an earlier measurement knows its card and
/// `BSR_CALIBRATE` is not `off`. Where that fails, the card is predicted by its data sheet as before.
pub(crate) fn at_first_use(device: &Device) {
    let (_, known) = for_gpu(&device.info().name, None);
    let is_wanted = std::env::var_os(VARIABLE).is_none_or(|value| value != "off");
    if !is_wanted || matches!(known, Known::Measured | Known::Calibrated | Known::Roofs) {
        return;
    }
    if let Ok(measured) = calibrate_in_small(device) {
        // Without a place for it, this process remembers it.
        let _ = measured.remember();
    }
}

/// The file: `bsr/cards.json`, beside the measured roofs.
fn place() -> Option<PathBuf> {
    Some(roofs::place_of_file()?.with_file_name("cards.json"))
}

fn read() -> Result<Vec<Calibration>, Refusal> {
    let Some(path) = place().filter(|path| path.exists()) else { return Ok(vec![]) };
    let text = bsr_runtime::read::text(&path, 1 << 22).map_err(|error| Refusal::of(path.display(), error))?;
    let unread = |error| Refusal::of(path.display(), format_args!("it holds no cards: {error}"));
    serde_json::from_str(&text).map_err(|error| unread(error).help("delete it and run `bsr calibrate`"))
}

/// All that the file held when it was first needed, and what this process has measured since.
static KNOWN: LazyLock<RwLock<Vec<Calibration>>> =
    LazyLock::new(|| RwLock::new(if cfg!(test) { vec![] } else { read().unwrap_or_default() }));

/// The last calibration of a card by its name. A file that cannot be read counts as none; `bsr calibrate` says what is wrong with it.
pub(super) fn of(name: &str) -> Option<Calibration> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).iter().rev().find(|known| known.gpu == name).cloned()
}

#[cfg(test)]
mod tests {
    use bsr_runtime::roofs::{LaunchRoof, TensorRoof};

    use super::*;

    #[test]
    fn a_card_with_an_h100s_roofs_has_an_h100s_rates() {
        let [tflops, l2, copy] = H100_ROOFS;
        let roofs = MeasuredRoofs {
            gpu: "NVIDIA H100 PCIe".to_owned(),
            driver: String::new(),
            version: String::new(),
            at: 0,
            hbm_read_tbs: 3.12,
            hbm_copy_tbs: copy,
            l2_tbs: Some(l2),
            tensor: vec![TensorRoof { dtype: Dtype::F16, tflops, sm_mhz: Some(1575), watts: None }],
            launch: LaunchRoof { single_us: 4.0, stream_us: 4.1, graph_us: 1.1 },
        };
        let h100 = Card::measured()[1];
        let (pcie, _) = super::super::for_gpu(&roofs.gpu, None);
        let card = pcie.with_roofs(114, &roofs);
        assert_eq!((card.dense_tflops, card.l2_tbs, card.hbm_tbs), (h100.dense_tflops, h100.l2_tbs, h100.hbm_tbs));
        assert_eq!((card.sms, card.clock_mhz[0]), (114, 1575.0));
        let known = Calibration::new(&roofs, &card, 30, Rates { l2: 0.9, ..Rates::H200 });
        let text = serde_json::to_string(&known).unwrap_or_default();
        let again: Calibration = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!((again.card(pcie).rates.l2, again.card(pcie).sms), (0.9, 114));
    }
}
