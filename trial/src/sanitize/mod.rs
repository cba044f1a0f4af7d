//! PTX of any origin on the simulator: buffers are placed, the kernel runs under several schedules, and what is found is
//! put together by instruction. `bsr sanitize` and Python's `bsr_gemm.sanitize` each describe a launch and get a [`Checked`].
//!
//! ```text
//! buffers, parameters, grid --> Prepared --run--> Checked: Problems --allow, report--> text, JSON, SARIF
//! ```

mod buffer;
mod classes;
mod element;
mod fatbin;
mod findings;
mod report;
mod results;
mod run;
mod tensor_map;

pub use buffer::Placed;
pub use classes::{Class, Level, classes};
pub use element::Element;
pub use fatbin::ptx_of;
pub use findings::{Allow, Line, Place, Problem, allow, check, rule};
pub use report::{Subject, as_json, text, verdict};
pub use results::{After, Buffer};
pub use run::{Checked, Limits, Prepared, entry};
pub use tensor_map::{Corners, TensorMap};
