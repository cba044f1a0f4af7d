//! Attention: what `bsr run`, `bsr check`, `bsr bench` and `bsr sweep` do with `op = attention`.

mod backend;
mod bench;
mod check;
mod problem;
mod run;
mod trace;

pub(super) use backend::{OnDevice, open};
pub(super) use bench::bench;
#[cfg(test)]
pub(super) use check::checked;
pub(super) use check::{Checked, check};
pub(super) use problem::{Defaults, structure, workload};
pub(super) use run::{Run, launch, run};
pub(super) use trace::Traced;

use bsr::attention::{AttentionError, WrongAttention};

use super::exit::{Exit, Failure};

impl From<AttentionError> for Failure {
    fn from(error: AttentionError) -> Self {
        match error {
            AttentionError::Gpu(error) => error.into(),
            AttentionError::Kernel(error) => error.into(),
            AttentionError::Simulated(error) => error.into(),
            error => Self::new(Exit::BadInput, error),
        }
    }
}

impl From<WrongAttention> for Failure {
    fn from(wrong: WrongAttention) -> Self {
        Self::new(Exit::Wrong, wrong)
    }
}
