//! Kernels that list the work of a pattern which lives on the GPU: they check it, transpose it, and assign its tiles to
//! clusters, without the host.
//!
//! One module of PTX has them all. What a launch lists is a [`Shape`], whose numbers are the kernels' arguments, so that
//! the module is loaded once for a device. The lists are those that kernels with
//! [`TileScheduler::Static`](crate::TileScheduler::Static) read; others are made of them.

mod attention;
mod attention_context;
mod common;
mod kernels;
mod length_context;
mod lengths;
mod pair_context;
mod pairs;
mod parameters;
mod render;
mod sddmm;
mod shape;
mod shared;
mod shared_context;
#[doc(hidden)]
pub mod specification;
mod split;

pub use attention::{AttentionLists, AttentionRequest, PartialFlags};
pub use kernels::{IndexWidth, ListKernel, WrongIndex};
pub use lengths::WrongPages;
#[doc(hidden)]
pub use lengths::{LengthLists, LengthRequest};
#[doc(hidden)]
pub use pairs::{PairLists, PairRequest};
pub use render::ptx;
pub use sddmm::SddmmShape;
pub use shape::{ListRequest, Shape, ShapeError};
pub use shared::SharedLists;
pub use split::SplitLists;
