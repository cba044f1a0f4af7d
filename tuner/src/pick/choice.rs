//! A choice, and the story of how it was made.

use std::fmt;

use bsr_codegen::{Dtype, KernelSpec};

use super::Tuned;
use crate::TuningProblem;
use crate::model::{Known, SURE_PREDICTED, Verdict};

/// Predicted times that differ by less are equal.
const SAME: f64 = 1.0005;

/// A kernel for a problem, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The kernel.
    pub spec: KernelSpec,
    /// Where it is from.
    pub why: Why,
    /// What it was chosen for.
    pub problem: TuningProblem,
    /// Microseconds of the dense library on the whole matrix, as [`Card::dense_us`](crate::model::Card::dense_us) predicts
    /// them; none of an attention.
    pub dense_us: Option<f64>,
    /// How much is known of the GPU that it was chosen for.
    pub known: Known,
}

/// Where a choice is from.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The program said so.
    Overridden,
    /// This problem was tuned on this GPU.
    Exact(Box<Tuned>),
    /// A problem like it was.
    Near {
        /// The other problem and its kernels.
        tuned: Box<Tuned>,
        /// How far off it is.
        distance: f64,
        /// Microseconds that the kernel should take here: its time there, times what the cost model predicts here over
        /// what it predicts there.
        us: f64,
    },
    /// It was the fastest of the few that were measured.
    Measured {
        /// Microseconds.
        us: f64,
        /// How many were measured.
        of: usize,
    },
    /// The cost model says so.
    Predicted {
        /// All that were looked at, the fastest first.
        ranked: Vec<Ranked>,
    },
}

/// A kernel with its predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// The kernel.
    pub spec: KernelSpec,
    /// Microseconds.
    pub predicted_us: f64,
}

impl Choice {
    /// Microseconds of the kernel: measured, or predicted; none of an override.
    pub fn us(&self) -> Option<f64> {
        match &self.why {
            Why::Overridden => None,
            Why::Exact(tuned) => Some(tuned.us),
            Why::Near { us, .. } | Why::Measured { us, .. } => Some(*us),
            Why::Predicted { ranked } => ranked.first().map(|ranked| ranked.predicted_us),
        }
    }

    /// What the kernel is beside the dense library on the whole matrix.
    pub fn verdict(&self) -> Option<Verdict> {
        let is_full = self.problem.features.density() >= 1.0;
        Some(Verdict::of(self.dense_us? / self.us()?, SURE_PREDICTED, is_full))
    }

    /// With which type something was tuned, if it is not the problem's own.
    fn tuned_as(&self, tuned: &Tuned) -> &'static str {
        match tuned.problem.workload.facts == self.problem.workload.facts {
            true => "",
            false if tuned.spec.a == Dtype::BF16 => " with f16, whose elements are as large",
            false => " with bf16, whose elements are as large",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel    {}", self.spec)?;
        writeln!(f, "problem   {}", self.problem.key())?;
        self.write_why(f)?;
        if matches!(self.why, Why::Near { .. } | Why::Predicted { .. }) {
            write!(f, "\nrates     {}", self.known.as_str())?;
        }
        let (Some(us), Some(verdict)) = (self.dense_us, self.verdict()) else { return Ok(()) };
        write!(f, "\ndense     {us:.1} us predicted for the whole matrix in the dense library: {verdict}")
    }
}

impl Choice {
    fn write_why(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Overridden => write!(f, "because   the program overrides the choice for these facts"),
            Why::Exact(tuned) => write!(f, "because   this problem was tuned{}: {tuned}", self.tuned_as(tuned)),
            Why::Near { tuned, distance, us } => {
                writeln!(f, "because   a problem like it was tuned{}: {tuned}", self.tuned_as(tuned))?;
                writeln!(f, "          that one: {}; {distance:.2} octaves away", tuned.problem.key())?;
                let count = tuned.kernels().count();
                write!(f, "          of its {count} kernels this one should be the fastest here: {us:.1} us")
            }
            Why::Measured { us, of } => {
                write!(f, "because   it was the fastest of {of} that were measured: {us:.1} us")
            }
            Why::Predicted { ranked } => {
                write!(
                    f,
                    "because   nothing like it was tuned, and the cost model ranks it first of {}",
                    ranked.len()
                )?;
                for (place, Ranked { spec, predicted_us }) in ranked.iter().take(5).enumerate() {
                    write!(f, "\n{:>8}. {predicted_us:>9.1} us  {spec}", place + 1)?;
                }
                let least = ranked.first().map_or(0.0, |first| first.predicted_us);
                match ranked.iter().take_while(|ranked| ranked.predicted_us <= least * SAME).count() {
                    0 | 1 => Ok(()),
                    same => {
                        write!(f, "\n          the model cannot say which of the first {same} is the fastest: measure")
                    }
                }
            }
        }
    }
}
