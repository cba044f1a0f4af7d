//! Attention: what `bsr run`, `bsr check` and `bsr bench` do with `op = attention`.

mod bench;
mod check;
mod problem;
mod run;
mod verdict;

pub(super) use bench::bench;
pub(super) use check::{Checked, check};
pub(super) use run::{Run, run};

use bsr::attention::AttentionError;

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
