//! SDDMM (sampled dense-dense matrix multiplication) on Hopper: the stored blocks of C = A * B, with A and B dense.
//!
//! A dense product whose tile of columns is gathered: a CTA tile is rows of one block row (or of several small ones)
//! by several stored blocks of it. The rows' operand is loaded as in any dense product and shared by all of them. The
//! columns' operand, the B of WGMMA whichever factor that is, is loaded from wherever the block columns are: of each block
//! a *B panel*. The result goes to where the blocks are stored. The recipe's steps have a file each.

mod emit;
mod kernel;
mod plan;

pub(crate) use plan::SddmmPlan;
