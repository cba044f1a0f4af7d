//! What a sweep is asked for, what happens in it, and why it cannot go on.

use std::sync::atomic::AtomicBool;

use bsr_codegen::{KernelSpec, Refusal};

use super::options::Options;
use super::order::Order;
use super::outcome::Outcome;
use crate::backend::{Backend, Trouble};
use crate::compile::Compiler;
use crate::store::RunId;
use crate::{DeviceId, Record, TuningProblem, Workload};

/// A backend that works on a thread of its own.
pub type AnyBackend = Box<dyn Backend + Send>;

/// A point of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// The kernel.
    pub spec: KernelSpec,
    /// Microseconds that a cost model predicts.
    pub predicted_us: Option<f64>,
}

/// The points for one workload.
pub struct Job {
    /// What is multiplied.
    pub workload: Workload,
    /// What it is multiplied by; all with the workload's facts.
    pub points: Vec<SweepPoint>,
    /// Which of them is next.
    pub order: Box<dyn Order>,
}

/// What happens in a sweep.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// A workload is drawn.
    Opened {
        /// The workload with its features.
        problem: &'e TuningProblem,
        /// What it runs on.
        device: &'e DeviceId,
        /// Points that are to be measured, at most.
        points: usize,
    },
    /// A point has a record from before.
    Known(&'e Record),
    /// A point is compiled.
    Compiled {
        /// The point.
        spec: &'e KernelSpec,
        /// Milliseconds that it took, unless it was cached.
        ms: Option<f64>,
    },
    /// A point is no kernel.
    Rejected {
        /// The point.
        spec: &'e KernelSpec,
        /// Why, in words that others share.
        reason: &'e str,
    },
    /// The result of a candidate is right.
    Checked {
        /// The canonical text of its spec.
        subject: &'e str,
        /// Relative Frobenius error.
        relative_error: Option<f64>,
    },
    /// A candidate has come to its end, and is recorded.
    Recorded(&'e Record),
    /// The fastest kernel so far.
    Best(&'e Record),
    /// A backend is given up; others go on.
    BackendLost(&'e Trouble),
    /// A workload has come to its end.
    Done(&'e Outcome),
}

/// Why a sweep cannot go on. What was recorded stays.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// No backend goes on.
    #[error("no backend can go on: {0}\n  help: what was recorded stays; the same command goes on from there")]
    Backend(Trouble),
    /// The database.
    #[error(transparent)]
    Store(#[from] Refusal),
    /// Times of different devices are not compared.
    #[error(
        "the devices differ: {} ({}) and {} ({})\n  help: one sweep each, with --devices", .0.name, .0.driver, .1.name, .1.driver
    )]
    Devices(DeviceId, DeviceId),
}

bsr_codegen::message_as_debug!(SweepError);

/// What a sweep is done with.
pub struct Sweep<'s> {
    /// Makes kernels of points.
    pub compiler: &'s dyn Compiler,
    /// Limits, rounds, shards.
    pub options: Options,
    /// The run that records belong to.
    pub run: Option<RunId>,
    /// Set to end the sweep after the current call.
    pub stop: &'s AtomicBool,
    /// Told what happens, from several threads.
    pub events: &'s (dyn Fn(&Event<'_>) + Sync),
}
