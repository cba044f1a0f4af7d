//! What the templates of the kernels for page tables name.

use serde::Serialize;

use super::common::Common;
use super::{LengthLists, ListKernel, WrongPages};
use crate::AttentionTiles;

/// The context of `lists/check_pages.ptx` and `lists/length_tiles.ptx`.
#[derive(Serialize)]
pub(super) struct LengthContext {
    #[serde(flatten)]
    common: Common,
    kinds: Kinds,
    /// Entries of a page table that a lane loads at the same time, and those of a warp.
    loads: Vec<Load>,
    batch: u32,
    flat: u32,
    whole: u32,
}

#[derive(Serialize)]
struct Load {
    number: u32,
    offset: u32,
}

/// The numbers of [`WrongPages`] as the template names them.
#[derive(Serialize)]
struct Kinds {
    length: u32,
    page: u32,
}

impl LengthContext {
    pub(super) fn of(kernel: ListKernel) -> Self {
        Self {
            common: Common::of(kernel),
            kinds: Kinds { length: WrongPages::Length as u32, page: WrongPages::Page as u32 },
            loads: (0..ListKernel::CHECK_LOADS).map(|number| Load { number, offset: 32 * number }).collect(),
            batch: 32 * ListKernel::CHECK_LOADS,
            flat: LengthLists::FLAT,
            whole: AttentionTiles::WHOLE,
        }
    }
}
