//! The family of the CUDA cores: three kernels, each an improvement of the one before.
//!
//! 1. `accumulate = atomic`: a CTA multiplies one stored block and adds the product to C in global memory.
//! 2. `accumulate = register`: a CTA keeps a tile of C in registers over all blocks of a row, and shares
//!    what it reads through shared memory.
//! 3. `vector = 8` (`4` for f32): 16 bytes a load, an 8 x 8 tile a thread, and for 16-bit types two products an
//!    instruction.
//!
//! They run on every architecture, and show what the tensor cores are worth.

mod emit;
mod kernel;
mod plan;

pub(crate) use plan::ScalarPlan;
