//! Showing what was measured: one self-contained page, and what a terminal says of it.
//!
//! ```text
//! ReportData --groups--> one product on one device each --+--> page: tera, SVG of plans, JSON island --> HTML
//! records,               times of two groups are never    |    style, scripts and plotly inside
//! rejected               compared                         +--> terminal: rows, the attribute line
//! ```
//!
//! The page asks nothing of the network: a content security policy in it forbids that it could. All numbers are computed
//! here; its scripts sort, filter and draw.

mod axes;
mod blocks;
mod cards;
mod island;
mod lesson;
mod measured;
mod page;
mod picture;
mod roofline;
mod summary;
mod terminal;
mod words;

pub use blocks::{BlockRow, BlockSizes, block_size_picture, by_block_size};
pub use cards::{CardRow, Cards, side_by_side};
pub use measured::timeline_picture;
pub use page::render;
pub use roofline::{Bound, Roof};
pub use terminal::{Top, attribute_line, top};

pub use crate::groups::MOST_PRODUCTS;

use bsr_runtime::roofs::MeasuredRoofs;

use crate::store::Rejection;
use crate::{Record, Traced};

/// What a page shows.
#[derive(Clone, Debug, Default)]
pub struct ReportData {
    /// The heading: `Kernels on this machine`.
    pub title: String,
    /// Measurements, in any order. Of several of one kernel on one product and device the last is shown.
    pub records: Vec<Record>,
    /// What could not be measured, since it cannot be planned or is not in the space.
    pub rejected: Vec<Rejection>,
    /// Roofs that were measured. Where a device has none here, its data sheet stands in.
    pub roofs: Vec<MeasuredRoofs>,
    /// Timelines that kernels recorded: each is shown with the record of its kernel, if there is one.
    pub traces: Vec<Traced>,
}
