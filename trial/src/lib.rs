//! Problems for kernels: drawn, run on a GPU or on the simulator, and verified against an f64 reference.
//!
//! ```text
//! Request, Workload --Subject--> Trial --draw--> Drawn   --run(SimulatedKernel)--> Ran: Verdict, Report
//! Plan --subject::trials-------> Trial           Operands --case(Planned)--------> Case: Verdict, time
//! ```

pub mod check;
mod failure;
pub mod gpu;
pub mod kinds;
mod memory;
mod planned;
pub mod problem;
pub mod reasons;
pub mod request;
pub mod sanitize;
pub mod simulate;
pub mod subject;
pub mod verify;
pub mod workload;
mod writers;

pub use failure::{Failure, FailureKind};
pub use planned::Planned;
pub use subject::attention;
