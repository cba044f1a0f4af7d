//! The design space of block-sparse GEMM kernels: what is in it, what a point of it costs, and which to take.
//!
//! ```text
//! Space --points--> Plan (or why not) --model--> ranked --Lab--> Record --Store--> pick, report
//! lists, ranges,    legality is data            the best   check,  verdict, times  SQLite
//! constraints                                   first      time
//! ```
//!
//! - [`problem`]: what is multiplied, and the [`features`] of its pattern that a choice of kernel depends on.
//! - [`lab`]: where candidates are checked and timed.
//! - [`record`]: one measurement of one point, with everything that it was measured under.
//! - [`report`]: the page that shows them, and what a terminal says.

pub mod features;
pub mod lab;
pub mod problem;
pub mod record;
pub mod report;

pub use features::Features;
pub use lab::Lab;
pub use problem::{Facts, Problem, Source, Workload};
pub use record::{Dense, Device, DeviceKind, Record, Timing, Verdict};
