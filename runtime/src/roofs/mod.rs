//! Roofs: what a GPU can do at most, and which of them limits a kernel.
//!
//! ```text
//! bsr doctor --roofs --measure--> MeasuredRoofs --remembered--> a file of the user
//!                                                                   |
//! a kernel's Traffic, its time --------place--------> Limit <-- Roofs <-- data sheets of cards
//! ```
//!
//! A roof is measured by a kernel that does one thing alone (`bsr_codegen::roofs`). Where a card was not measured its data
//! sheet stands in, marked as such: those figures are at clocks that a power-limited card does not hold.

mod limit;
mod remembered;
mod sheet;

use bsr_codegen::Dtype;
use serde::{Deserialize, Serialize};

pub use limit::{Limit, LimitedBy, Placed, Traffic};
#[cfg(feature = "files")]
pub use remembered::remember;
pub use remembered::{place_of_file, read};
pub use sheet::Sheet;

/// Where a rate is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured on a GPU of this name with this driver.
    Measured,
    /// The maker's data sheet.
    DataSheet,
}

/// A roof: a rate, or the microseconds of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// TB/s, TFLOP/s or microseconds.
    pub value: f64,
    /// Where it is from.
    pub origin: Origin,
}

/// The roofs of one GPU as they were measured. Rates are medians.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRoofs {
    /// The GPU's name.
    pub gpu: String,
    /// The driver, see [`DeviceInfo::driver`](crate::gpu::DeviceInfo::driver).
    pub driver: String,
    /// Version of this project.
    pub version: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// TB/s that are read from device memory.
    pub hbm_read_tbs: f64,
    /// TB/s that are read and written in a copy of device memory, both counted.
    pub hbm_copy_tbs: f64,
    /// TB/s from L2 to shared memory; none below compute capability 9.0.
    pub l2_tbs: Option<f64>,
    /// Tensor cores by type; none but on Hopper.
    pub tensor: Vec<TensorRoof>,
    /// The launch.
    pub launch: LaunchRoof,
}

/// What the tensor cores multiply under load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorRoof {
    /// Type of both operands.
    pub dtype: Dtype,
    /// TFLOP/s, of i8 TOP/s.
    pub tflops: f64,
    /// The SMs' clock meanwhile in MHz, where the driver tells it.
    pub sm_mhz: Option<u32>,
    /// The power meanwhile in watts, where the driver tells it.
    pub watts: Option<f64>,
}

/// What a launch of a kernel takes that does nothing, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchRoof {
    /// From the event before one launch to the event behind it.
    pub single_us: f64,
    /// Each of many launches in a stream.
    pub stream_us: f64,
    /// Each of many launches in a graph.
    pub graph_us: f64,
}

/// The roofs that results are held against. None of what nobody knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofs {
    /// The GPU's name.
    pub gpu: String,
    /// TB/s read from device memory.
    pub hbm_read: Option<Rate>,
    /// TB/s of a copy of device memory.
    pub hbm_copy: Option<Rate>,
    /// TB/s from L2 to shared memory. No data sheet tells it.
    pub l2: Option<Rate>,
    /// Microseconds of a launch. No data sheet tells them.
    pub launch_us: Option<Rate>,
    tensor: Vec<(Dtype, Rate)>,
}

impl Roofs {
    /// Those of a GPU: what was measured, and the data sheet's figures for the rest.
    pub fn new(gpu: &str, measured: Option<&MeasuredRoofs>) -> Self {
        let sheet = Sheet::of(gpu);
        let rate = |measured: Option<f64>, told: Option<f64>| {
            let of = |origin| move |value| Rate { value, origin };
            measured.map(of(Origin::Measured)).or(told.map(of(Origin::DataSheet)))
        };
        let memory = sheet.map(|sheet| sheet.hbm_tbs);
        let types = [Dtype::F16, Dtype::BF16, Dtype::E4M3, Dtype::E5M2, Dtype::I8, Dtype::F32];
        let tensor = types.into_iter().filter_map(|dtype| {
            // Both FP8 types take the same time.
            let probed = if dtype == Dtype::E5M2 { Dtype::E4M3 } else { dtype };
            let found = measured.and_then(|measured| measured.tensor.iter().find(|roof| roof.dtype == probed));
            let rate = rate(found.map(|roof| roof.tflops), sheet.and_then(|sheet| sheet.rate(dtype)))?;
            Some((dtype, rate))
        });
        Self {
            gpu: gpu.to_owned(),
            hbm_read: rate(measured.map(|measured| measured.hbm_read_tbs), memory),
            hbm_copy: rate(measured.map(|measured| measured.hbm_copy_tbs), memory),
            l2: rate(measured.and_then(|measured| measured.l2_tbs), None),
            launch_us: rate(measured.map(|measured| measured.launch.single_us), None),
            tensor: tensor.collect(),
        }
    }

    /// Those that were remembered of a GPU with a driver, or its data sheet's. A file that cannot be read counts as none.
    pub fn of(gpu: &str, driver: &str) -> Self {
        let remembered = place_of_file().and_then(|path| read(&path).ok()).unwrap_or_default();
        Self::new(gpu, remembered.iter().find(|roofs| roofs.gpu == gpu && roofs.driver == driver))
    }

    /// TFLOP/s on operands of a type: of the tensor cores, or of the CUDA cores for f32.
    pub fn tensor(&self, dtype: Dtype) -> Option<Rate> {
        self.tensor.iter().find(|(known, _)| *known == dtype).map(|(_, rate)| *rate)
    }

    /// TFLOP/s on f32 factors that are rounded to TF32: half of those on f16, as data sheets of tensor cores tell.
    #[doc(hidden)]
    pub fn tf32(&self) -> Option<Rate> {
        self.tensor(Dtype::F16).map(|rate| Rate { value: rate.value / 2.0, ..rate })
    }

    /// Whether nothing at all is known.
    pub fn is_unknown(&self) -> bool {
        self.hbm_read.is_none() && self.tensor.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Made up, near what an H200 does.
    pub(crate) fn measured() -> MeasuredRoofs {
        MeasuredRoofs {
            gpu: "NVIDIA H200".to_owned(),
            driver: "580.1 (CUDA 13.0)".to_owned(),
            version: "0.1.0".to_owned(),
            at: 1_700_000_000,
            hbm_read_tbs: 4.5,
            hbm_copy_tbs: 4.0,
            l2_tbs: Some(9.0),
            tensor: vec![TensorRoof { dtype: Dtype::F16, tflops: 700.0, sm_mhz: Some(1500), watts: Some(690.0) }],
            launch: LaunchRoof { single_us: 5.0, stream_us: 3.0, graph_us: 2.0 },
        }
    }

    #[test]
    fn what_was_not_measured_is_the_data_sheets_and_says_so() {
        let roofs = Roofs::new("NVIDIA H200", Some(&measured()));
        assert_eq!(roofs.hbm_copy, Some(Rate { value: 4.0, origin: Origin::Measured }));
        assert_eq!(roofs.tensor(Dtype::F16), Some(Rate { value: 700.0, origin: Origin::Measured }));
        assert_eq!(roofs.tensor(Dtype::E4M3), Some(Rate { value: 1979.0, origin: Origin::DataSheet }));
        let sheet = Roofs::new("NVIDIA H100 PCIe", None);
        assert_eq!(sheet.hbm_read, Some(Rate { value: 2.0, origin: Origin::DataSheet }));
        assert_eq!((sheet.l2, sheet.launch_us), (None, None));
        assert!(!sheet.is_unknown() && Roofs::new("NVIDIA H20000", None).is_unknown());
    }

    #[test]
    fn both_types_of_fp8_have_one_roof() {
        let mut all = measured();
        all.tensor.push(TensorRoof { dtype: Dtype::E4M3, tflops: 1400.0, sm_mhz: None, watts: None });
        let roofs = Roofs::new("NVIDIA H200", Some(&all));
        assert_eq!(roofs.tensor(Dtype::E5M2), roofs.tensor(Dtype::E4M3));
        assert_eq!(roofs.tensor(Dtype::E5M2).unwrap().value, 1400.0);
    }
}
