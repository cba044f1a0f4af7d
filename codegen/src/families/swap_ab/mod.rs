//! Hopper's family for blocks of any height: the operands of WGMMA are swapped.
//!
//! WGMMA's M is 64 dense columns and its N the rows of a block, any multiple of 8. A CTA owns several block rows
//! (`pack`) and walks the union of their block columns, so that a slab of the dense operand is loaded once for all
//! block rows that have the column. Which slabs and blocks make up a stage is data, made on the host: [`Packing`].

mod emit;
mod kernel;
mod plan;

pub(crate) use plan::SwapAbPlan;
