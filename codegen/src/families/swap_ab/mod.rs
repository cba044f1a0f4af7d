//! Hopper's family for blocks of any height: swap-AB, the sparse operand as B of WGMMA.
//!
//! WGMMA's M is 64 dense columns and its N the rows of a block, any multiple of 8. A CTA owns several block rows
//! (`pack`) and visits the union of their block columns, so that a B panel, the part of the dense operand that a block
//! column meets, is loaded once for all block rows that have the column. Which B panels and blocks make up a stage is
//! data, made on the host: [`StagePacking`](crate::plan::StagePacking).

mod emit;
mod kernel;
mod plan;
mod table;

pub(crate) use plan::SwapAbPlan;
