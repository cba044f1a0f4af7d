//! What the kernels of Hopper share: the warpgroups' roles, the operands in shared memory, WGMMA, TMA, the epilogue.

pub(crate) mod factors;
pub(crate) mod fused;
pub(crate) mod fused_plan;
mod maps;
mod operand;
pub(crate) mod permute;
pub(crate) mod permuted;
pub(crate) mod problem_maps;
mod roles;
mod wgmma;

pub(crate) use fused_plan::SECOND;
pub(crate) use operand::{OperandTile, box_columns, whole_boxes};
pub(crate) use roles::{CONSUMER_OVERHEAD, Roles};
pub(crate) use wgmma::{WGMMA_M, wgmma_k};
