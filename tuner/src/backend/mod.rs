//! Where candidates are checked and timed: a GPU, a child process that has one, the simulator with the analytic model, a fake.
//!
//! ```text
//! sweep --Backend--> Remote --JSON lines--> serve --Backend--> a GPU, Sim, Fake
//!       |        watchdog, restarts     a child process
//!       +------> CompilePool: several of them, which compile
//! ```

mod compile_pool;
mod fake;
mod instance;
mod remote;
mod serve;
mod sim;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bsr_codegen::{KernelSpec, Refusal};
use bsr_runtime::bench::Power;
use bsr_trial::FailureKind;
use serde::{Deserialize, Serialize};

use crate::{DeviceId, TuningProblem, Verdict, Workload};

pub use compile_pool::CompilePool;
pub use fake::{CrashMode, Fake, Script};
pub use remote::{Limits, Remote};
pub use serve::serve;
pub use sim::Sim;

/// Something that can be timed for a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Candidate {
    /// A kernel of ours.
    Kernel(KernelSpec),
    /// Another library's kernel, by its name in [`Opened::baselines`].
    Baseline(String),
}

impl Candidate {
    /// The canonical text of the spec, or the baseline's name.
    pub fn name(&self) -> String {
        match self {
            Self::Kernel(spec) => spec.to_string(),
            Self::Baseline(name) => name.clone(),
        }
    }
}

/// A backend whose operands are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The workload with its features.
    pub problem: TuningProblem,
    /// What it runs on.
    pub device: DeviceId,
    /// Other libraries' kernels that can be candidates here. The first, where there is one, is the dense library on equal
    /// work: what ratios are of.
    pub baselines: Vec<Baseline>,
}

/// Another library's kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// `cublaslt (equal FLOPs)`, `cublaslt (dense)`, `cusparse bsr`, `cusparse blocked-ell`.
    pub name: String,
    /// Operations that it executes.
    pub flops: u64,
    /// Why it cannot be timed here, where it cannot: `cusparse bsr: blocks must be square, these are 512 x 112`.
    pub refused: Option<String>,
}

/// A candidate whose result is right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// Relative Frobenius error against the f64 reference; none for a baseline of other work.
    pub relative_error: Option<f64>,
}

/// How long candidates are timed in turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    /// Rounds that are not timed, in milliseconds.
    pub warmup_ms: u64,
    /// Rounds in any case.
    pub least: usize,
    /// Rounds after which to stop in any case.
    pub most: usize,
    /// Stop once half the 95 % confidence interval of every median is below this part of it.
    pub relative_ci: f64,
    /// Stop after this time, but not before `least`.
    pub limit: Duration,
}

/// Times of candidates that were timed in turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Microseconds of each candidate, equally many.
    pub samples_us: Vec<Vec<f64>>,
    /// How the GPU ran meanwhile, over all of them; none of what is no GPU, and where the driver does not report it.
    pub power: Option<Power>,
}

/// What goes wrong with a candidate, or with the backend.
#[derive(Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Trouble {
    /// What becomes of the candidate.
    pub verdict: Verdict,
    /// The candidate that it happened to, by its place in the call; none if the backend itself cannot go on.
    pub candidate: Option<usize>,
    /// What happened, in words.
    pub message: String,
    /// The backend must be opened again before it is used: its process or context is gone.
    pub lost: bool,
}

bsr_codegen::message_as_debug!(Trouble);

/// A candidate that this backend does not take.
impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        bsr_trial::Failure::from(refusal).into()
    }
}

/// A problem, a kernel or a result that a trial refuses, or finds wrong.
impl From<bsr_trial::Failure> for Trouble {
    fn from(failure: bsr_trial::Failure) -> Self {
        let verdict = if failure.kind() == FailureKind::Wrong { Verdict::Wrong } else { Verdict::Refused };
        Self { verdict, candidate: None, message: failure.to_string(), lost: false }
    }
}

impl Trouble {
    /// Something that happened to the candidate at a place in the call; the backend goes on.
    pub fn with(verdict: Verdict, candidate: usize, message: impl Into<String>) -> Self {
        Self { verdict, candidate: Some(candidate), message: message.into(), lost: false }
    }

    /// The backend itself cannot go on.
    pub fn of_backend(message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fault, candidate: None, message: message.into(), lost: true }
    }
}

/// Told the place of the candidate that a call to [`Backend::time`] has come to.
pub type Reporter = Arc<dyn Fn(usize) + Send + Sync>;

/// Checks and times candidates of one workload at a time.
pub trait Backend {
    /// Sets a function that is called with the candidate that [`Backend::time`] is at, before it can hang or fault there: so it
    /// is known whose fault the end of the process is. A backend that does not report is called for each of them alone.
    fn report_to(&mut self, _reporter: Reporter) {}

    /// Draws the operands of a workload and forgets those of the one before.
    ///
    /// # Errors
    /// A workload that cannot be had here.
    fn open(&mut self, workload: &Workload) -> Result<Opened, Trouble>;

    /// Compiles a kernel, so that every backend of this kind finds it compiled, and returns the milliseconds that it took; none
    /// where it was compiled before, or nothing is. Needs no open workload.
    ///
    /// # Errors
    /// [`Verdict::Refused`] by the compiler.
    fn compile(&mut self, _kernel: &KernelSpec) -> Result<Option<f64>, Trouble> {
        Ok(None)
    }

    /// Runs a candidate once into a poisoned result and compares it with the reference.
    ///
    /// # Errors
    /// [`Verdict::Wrong`], [`Verdict::Refused`], [`Verdict::Fault`], [`Verdict::Hang`].
    fn check(&mut self, candidate: &Candidate) -> Result<Checked, Trouble>;

    /// Times checked candidates in turn, A B A B, each launch from a cold L2 cache. Afterwards every kernel's last result is
    /// compared once more.
    ///
    /// # Errors
    /// As [`Backend::check`].
    fn time(&mut self, candidates: &[Candidate], rounds: &Rounds) -> Result<Timings, Trouble>;
}
