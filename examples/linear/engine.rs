//! The three products of a linear layer, on a GPU or on the simulator.

use std::error::Error;

use bsr::gpu::Device;
use bsr::simulated::{Options, Report, Schedule};
use bsr::{Bsr, Dense, Kernel, Loaded, Structure, bsr_kernel, f16};

use crate::layer::Sizes;

/// Rows and columns of W's blocks.
pub(crate) const BLOCK: (usize, usize) = (128, 64);

/// Y\[m, out\] = X\[m, in\] * W^T, with W\[out, in\] as it is stored.
#[bsr_kernel(bm = 128, bn = 64, bk = 64, transpose = on)]
pub(crate) fn times_transposed(x: Dense<f16>, w: Bsr<f16>) -> Dense<f32>;

/// dX\[m, in\] = E\[m, out\] * W.
#[bsr_kernel(bm = 128, bn = 64, bk = 64)]
pub(crate) fn times(e: Dense<f16>, w: Bsr<f16>) -> Dense<f32>;

/// The blocks of dW\[out, in\] = E^T\[out, m\] * X\[m, in\].
#[bsr_kernel(bm = 128, bn = 64, bk = 64, op = sdd, a_layout = col, out = f32)]
pub(crate) struct Sampled;

/// What multiplies.
pub(crate) enum Engine {
    Gpu(Box<Gpu>),
    Simulator,
}

/// The kernels on a GPU.
pub(crate) struct Gpu {
    name: String,
    forward: Loaded<times_transposed>,
    inputs: Loaded<times>,
    weights: Loaded<Sampled>,
}

/// What a product answers.
type Answer<T> = Result<T, Box<dyn Error>>;

impl Engine {
    /// The first GPU that runs the kernels, or else the simulator.
    pub(crate) fn open() -> Answer<Self> {
        match Device::open(0).and_then(|device| device.check_target("sm_90a").map(|()| device)) {
            Ok(device) => Ok(Self::Gpu(Box::new(Gpu {
                name: device.info().name.clone(),
                forward: times_transposed::load(&device)?,
                inputs: times::load(&device)?,
                weights: Sampled::load(&device)?,
            }))),
            Err(_) => Ok(Self::Simulator),
        }
    }

    /// A layer that it trains in seconds.
    pub(crate) fn sizes(&self) -> Sizes {
        match self {
            Self::Gpu(_) => Sizes { m: 512, inputs: 1024, outputs: 1024, density: 0.25 },
            Self::Simulator => Sizes { m: 64, inputs: 256, outputs: 256, density: 0.5 },
        }
    }

    /// What it is.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Gpu(gpu) => gpu.name.clone(),
            Self::Simulator => "the simulator".to_owned(),
        }
    }

    /// Y = X W^T.
    pub(crate) fn forward(&self, x: &Dense<f16>, w: &Bsr<f16>) -> Answer<Dense<f32>> {
        match self {
            Self::Gpu(gpu) => Ok(gpu.forward.multiply((x, w))?),
            Self::Simulator => clean(times_transposed::simulate((x, w), &options())?),
        }
    }

    /// dX = E W.
    pub(crate) fn inputs(&self, e: &Dense<f16>, w: &Bsr<f16>) -> Answer<Dense<f32>> {
        match self {
            Self::Gpu(gpu) => Ok(gpu.inputs.multiply((e, w))?),
            Self::Simulator => clean(times::simulate((e, w), &options())?),
        }
    }

    /// The values of dW = E^T X, in W's blocks; `e` is E^T.
    pub(crate) fn weights(&self, e: &Dense<f16>, x: &Dense<f16>, w: &Structure) -> Answer<Vec<f32>> {
        let blocks = match self {
            Self::Gpu(gpu) => gpu.weights.multiply((e, x, w))?,
            Self::Simulator => clean(Sampled::simulate((e, x, w), &options())?)?,
        };
        Ok(blocks.into_parts().1)
    }
}

/// The numbers alone: races are looked for by `bsr check`.
fn options() -> Options {
    Options { schedule: Schedule::Early, races: false, ..Options::default() }
}

fn clean<T>((result, report): (T, Report)) -> Answer<T> {
    match report.findings.first() {
        None => Ok(result),
        Some(finding) => Err(finding.to_string().into()),
    }
}
