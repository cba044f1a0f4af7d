//! Work that runs beside the threads: copies and the tensor core.

mod accumulators;
mod copies;
mod im2col;
mod issue;
mod maps;
mod post;
mod reduced;
mod starts;
mod stores;
pub(crate) mod tile;
pub(crate) mod warpgroup;
pub(crate) mod wgmma;
