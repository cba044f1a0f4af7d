//! The design space of block-sparse GEMM kernels: what is in it, what a point of it costs, and which to take.
//!
//! ```text
//! Space --points--> Plan (or why not) --model--> ranked --Backend--> Record --Store--> pick, report
//! lists, ranges,    legality is data            the best   check,  verdict, times  SQLite
//! constraints                                   first      time
//! ```
//!
//! - [`advise`]: which block a matrix should be cut into, and whether it should be cut at all.
//! - [`problem`]: what is multiplied, and the [`Features`] of its pattern that a choice of kernel depends on.
//! - `backend`: where candidates are checked and timed.
//! - [`record`]: one measurement of one point, with everything that it was measured under.
//! - `model`: how long a kernel takes, predicted.
//! - [`pick`]: which kernel to take.
//! - `search`: in which order candidates are measured.
//! - [`space`]: which kernels there are to choose from, and why others are none.
//! - [`store`]: all of them, in one SQLite file.
//! - [`sweep`]: points measured and recorded, on any number of backends.
//! - `report`: the page that shows them, and what a terminal says.
//! - `traced`: what a trace is of.
//!
//! Of these, `backend`, `model`, `search`, `report` and `traced` serve the `bsr` command: they are not documented as the
//! library's.

pub mod advise;
#[doc(hidden)]
pub mod backend;
mod compile;
mod groups;
#[doc(hidden)]
pub mod model;
mod operation;
pub mod pick;
pub mod problem;
pub mod record;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod search;
mod second;
pub mod space;
pub mod store;
pub mod sweep;
#[doc(hidden)]
pub mod traced;
#[doc(hidden)]
pub mod workloads;

#[doc(hidden)]
pub use backend::Backend;
pub use bsr_runtime::features::{self, Features};
pub use problem::{Facts, Heads, Source, TuningProblem, Workload};
pub use record::{Dense, DeviceId, DeviceKind, Record, Timing, Verdict};
#[doc(hidden)]
pub use second::Second;
pub use space::{Points, Space, SpaceError};
pub use store::Store;
#[doc(hidden)]
pub use traced::{TraceOf, Traced, TracedTimes};
