//! A choice, and the story of how it was made.

use std::fmt;

use bsr_codegen::KernelSpec;

use super::Tuned;
use crate::TuningProblem;

/// A kernel for a problem, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The kernel.
    pub spec: KernelSpec,
    /// Where it is from.
    pub why: Why,
    /// What it was chosen for.
    pub problem: TuningProblem,
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
    pub(super) fn new(problem: &TuningProblem, spec: KernelSpec, why: Why) -> Self {
        Self { spec, why, problem: problem.clone() }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel    {}", self.spec)?;
        writeln!(f, "problem   {}", self.problem.key())?;
        match &self.why {
            Why::Overridden => write!(f, "because   the program overrides the choice for these facts"),
            Why::Exact(tuned) => write!(f, "because   this problem was tuned: {tuned}"),
            Why::Near { tuned, distance, us } => {
                writeln!(f, "because   a problem like it was tuned: {tuned}")?;
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
                Ok(())
            }
        }
    }
}
