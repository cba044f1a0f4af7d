//! One measurement of one point, with everything that it was measured under.

use bsr_runtime::bench::Power;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::TuningProblem;

/// What became of a point, and under what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was multiplied.
    pub problem: TuningProblem,
    /// What multiplied: the canonical text of a spec, or the name of a [baseline](Record::baseline).
    pub subject: String,
    /// True of another library's kernel: `cublaslt (equal FLOPs)`, `cublaslt (dense)`, `cusparse bsr` ..
    pub baseline: bool,
    /// Digest of the plan; empty for a baseline.
    pub plan: String,
    /// Fingerprint of the PTX; empty for a baseline.
    pub ptx: String,
    /// What it ran on.
    pub device: DeviceId,
    /// Version of this project.
    pub version: String,
    /// What became of it.
    pub verdict: Verdict,
    /// What was wrong, in words.
    pub error: Option<String>,
    /// Microseconds that the cost model predicted.
    pub predicted_us: Option<f64>,
    /// The times that were taken.
    pub timing: Option<Timing>,
    /// The dense library on equal work in the same rounds.
    pub dense: Option<Dense>,
    /// How the GPU ran in these rounds, over all that were timed in them; none where the driver does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Relative Frobenius error against the f64 reference.
    pub relative_error: Option<f64>,
    /// Milliseconds that the driver took to compile it; none from the cache.
    pub compile_ms: Option<f64>,
    /// Seconds that a kernel was given to come back, where it did not: with more of them it might have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog_s: Option<f64>,
    /// When it was measured.
    pub at: Timestamp,
}

/// What became of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Right, and timed until the median was known well enough.
    Timed,
    /// Right, and so much slower than the best that timing it was ended early.
    Slow,
    /// Its result differs from the reference: never timed.
    Wrong,
    /// It did not end within the watchdog's time.
    Hang,
    /// It ended its process or its context: an illegal access, say.
    Fault,
    /// The driver, or the library, refused it.
    Refused,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Timed, Self::Slow, Self::Wrong, Self::Hang, Self::Fault, Self::Refused];

    /// The word that is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timed => "timed",
            Self::Slow => "slow",
            Self::Wrong => "wrong",
            Self::Hang => "hang",
            Self::Fault => "fault",
            Self::Refused => "refused",
        }
    }

    /// What a reader is told of a point on this kind of device: times of a model are predicted.
    pub const fn word(self, kind: DeviceKind) -> &'static str {
        match (self, kind) {
            (Self::Timed, DeviceKind::Sim) => "predicted",
            _ => self.as_str(),
        }
    }

    /// Whether there are times.
    pub const fn has_time(self) -> bool {
        matches!(self, Self::Timed | Self::Slow)
    }
}

/// What a point ran on. Times of different devices, or of a model, are never compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceId {
    /// A GPU, or what stands for one.
    pub kind: DeviceKind,
    /// Its name: `NVIDIA H200`.
    pub name: String,
    /// The driver: `580.159.03 (CUDA 13.0)`; the version of the model.
    pub driver: String,
}

/// A GPU, or what stands for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// Times of a GPU.
    Gpu,
    /// Times that the analytic model predicts, of kernels that were right on the simulator: they order, they do not measure.
    Sim,
    /// Times that a test made up.
    Fake,
}

/// Times of one launch from a cold L2 cache, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Every one, in the order taken.
    pub samples_us: Vec<f64>,
    /// The middle one.
    pub median_us: f64,
    /// Half the 95 % confidence interval of the median over the median; none of fewer than 6.
    pub relative_ci: Option<f64>,
}

impl Timing {
    /// Sums samples up.
    pub fn new(samples_us: Vec<f64>) -> Self {
        let timing = bsr_runtime::bench::Timing { name: String::new(), samples_us };
        let (median_us, relative_ci) = (timing.median_us(), timing.relative_ci());
        Self { samples_us: timing.samples_us, median_us, relative_ci }
    }
}

/// The dense library on an equal number of operations, timed in the same rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dense {
    /// Microseconds, the median.
    pub median_us: f64,
    /// Its operations.
    pub flops: u64,
    /// The rate of the point over the rate of the library: the headline.
    pub ratio: f64,
}

impl Record {
    /// Thousands of cycles of the multiprocessors in the median time; none where the driver does not tell of the clock.
    pub fn kilocycles(&self) -> Option<f64> {
        Some(self.power.as_ref()?.cycles(self.timing.as_ref()?.median_us)? / 1e3)
    }

    /// TFLOP/s of executed operations; none without times.
    pub fn tflops(&self) -> Option<f64> {
        let timing = self.timing.as_ref()?;
        Some(bsr_runtime::bench::tflops(self.problem.executed_flops(), timing.median_us))
    }
}
