//! What the attribute accepts, without a warning.

pub mod anywhere;
pub mod dds;
pub mod epilogue;
pub mod family;
pub mod function;
pub mod launch;
pub mod sampled_epilogue;
pub mod sdd;
pub mod small_blocks;
pub mod spgemm;
pub mod unit_struct;
