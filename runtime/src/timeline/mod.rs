//! Timelines: what each role of a kernel's CTAs did and when, as the kernel recorded it itself.
//!
//! A [probed](bsr_codegen::Plan::probed) plan's kernel writes records to rings in global memory, on a GPU and on the simulator
//! alike. [`Timeline`] reads them, [`Timeline::perfetto`] draws them, and [`Summary`] says what the time of each role went to, of
//! a trace that was written before too.
//!
//! ```
//! use bsr_codegen::probes::Probes;
//! use bsr_codegen::{KernelSpec, Plan};
//! use bsr_runtime::simulated::{Options, Schedule, Simulated};
//! use bsr_runtime::timeline::{Clock, Summary, Timeline};
//! use bsr_runtime::{Bsr, Dense, Layout, Pattern};
//! use half::f16;
//!
//! let plan = Plan::new(&"bm = 64, bn = 32, bk = 32".parse::<KernelSpec>()?)?;
//! let plan = plan.probed(Probes { first: 0, ctas: 2, records: 1024 })?;
//! let ptx = plan.ptx();
//! let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?;
//! let a = Bsr::<f16>::generate(Pattern::TopK(2), 128, 96, (64, 32), 0)?;
//! let b = Dense::<f16>::normal(96, 40, Layout::RowMajor, 0);
//! kernel.multiply::<f16, _>((&a, &b), &Options { schedule: Schedule::Timed, ..Options::default() })?;
//!
//! let timeline = Timeline::new(&plan, &kernel.records().unwrap_or_default(), Clock::Simulator)?;
//! let trace = timeline.perfetto();
//! println!("{}", Summary::of_trace(&trace)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod beside;
mod decode;
mod flows;
mod perfetto;
mod read;
mod rings;
#[cfg(feature = "simulator")]
mod simulated;
mod summary;

pub use beside::beside;
pub use decode::{Clock, Cta, Slice, Tile, Timeline, Track};
pub use read::{Lane, Span, Trace, lacks};
pub(crate) use rings::Rings;
#[cfg(feature = "simulator")]
pub(crate) use simulated::{Records, rings};
pub use summary::{Summary, compare};
