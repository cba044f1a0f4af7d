//! What a backend in a child process is asked, and what it answers: a line of JSON each.

use bsr_codegen::KernelSpec;
use serde::{Deserialize, Serialize};

use super::{Candidate, Checked, Opened, Rounds, Timings, Trouble};
use crate::Workload;

/// A call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    Compile(KernelSpec),
    Open(Workload),
    Check(Candidate),
    Time { candidates: Vec<Candidate>, rounds: Rounds },
}

/// What comes of it: any number of [`At`](Reply::At) before one of the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The candidate that is timed now.
    At(usize),
    /// Milliseconds.
    Compiled(Option<f64>),
    Opened(Box<Opened>),
    Checked(Checked),
    Timed(Timings),
    Trouble(Trouble),
}
