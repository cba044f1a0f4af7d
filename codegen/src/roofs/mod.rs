//! Kernels that measure what a GPU can do at most: its roofs.
//!
//! Each does one thing and nothing else, as fast as we know how: it reads or copies device memory, fills shared memory from
//! L2, keeps the tensor cores busy, or ends at once. They compute sums that tests can check, so that nothing of what is
//! measured can be left out.

mod kernels;
mod render;

pub use kernels::RoofKernel;
