//! Step 6: how accumulators become C: regions of 64 x 64 through shared memory and TMA stores.

use super::precision::Precision;
use super::tiling::Tiling;
use crate::hopper::box_columns;
use crate::plan::SparseTimesDense;
use crate::{Dtype, KernelSpec, Layout};

/// Bytes of a staging row: one 128-byte swizzle span, or less for narrow tiles.
const SPAN: u32 = 128;
/// Rows of a region, and its columns unless the tile is narrower.
const REGION: u32 = 64;
/// Subtiles that the shortest tiles worth caring about can hide.
const MOST_SUBTILES: u32 = 4;

/// The epilogue of one consumer warpgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epilogue {
    /// A copy of the accumulators, packed to 16 bits where C has these, is stored while the next tile's first WGMMAs run.
    pub(crate) overlapped: bool,
    /// Columns of a region.
    pub(crate) region_n: u32,
    /// Regions along M and along N.
    pub(crate) regions: (u32, u32),
    /// Bytes of a region.
    pub(crate) region_bytes: u32,
    /// TMA box of a store: inner elements, outer elements.
    pub(crate) store_box: (u32, u32),
    /// Stores that one region takes.
    pub(crate) stores: u32,
    /// Swizzle span of the staging buffer in bytes.
    pub(crate) span: u32,
    /// Regions that fit the staging buffer at once.
    pub(crate) staged: u32,
    /// A full operand comes through the staging buffer before C does.
    pub(crate) has_tile: bool,
}

/// Do the registers of a consumer hold a copy of its sums? One of 32 bits is made of TF32 products alone, which the spec's
/// epilogue does not change.
fn copy_fits(spec: &KernelSpec, tiling: &Tiling) -> bool {
    match spec.out {
        Dtype::F32 => spec.tf32.is_on() && spec.epilogue.is_none() && tiling.fits_with_copy(spec.acc, tiling.sums()),
        _ => spec.out.bytes() == 2 && tiling.fits_with_packed(spec.acc),
    }
}

impl Epilogue {
    pub(crate) fn new(
        spec: &KernelSpec,
        view: &SparseTimesDense,
        precision: &Precision,
        tiling: &Tiling,
        has_tile: bool,
    ) -> Self {
        let bytes = spec.out.bytes();
        let region_n = box_columns(tiling.wg_n);
        let (inner, outer) = match view.out {
            Layout::RowMajor => (region_n, REGION),
            Layout::ColMajor => (REGION, region_n),
        };
        let span = (inner * bytes).min(SPAN);
        Self {
            // An order of rows is written by all threads, through whose own registers it goes.
            overlapped: !precision.promoted && !has_tile && !spec.permute.is_on() && copy_fits(spec, tiling),
            region_n,
            regions: (tiling.row_groups(), tiling.wg_n / region_n),
            region_bytes: REGION * region_n * bytes,
            store_box: (span / bytes, outer),
            stores: inner * bytes / span,
            span,
            staged: tiling.row_groups() * (tiling.wg_n / region_n),
            has_tile,
        }
    }

    /// All regions of a consumer's tile.
    pub(crate) fn region_count(&self) -> u32 {
        self.regions.0 * self.regions.1
    }

    /// Staging bytes of one consumer.
    pub(crate) fn staging_bytes(&self) -> u32 {
        self.staged * self.region_bytes
    }

    /// Rounds of filling the staging buffer that a tile takes.
    pub(crate) fn subtiles(&self) -> u32 {
        self.region_count().div_ceil(self.staged)
    }

    /// Staging sizes to try, largest first: all regions, then halves down to one, but no more than four subtiles.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u32> {
        let all = self.region_count();
        let least = all.div_ceil(MOST_SUBTILES);
        let mut next = Some(all);
        std::iter::from_fn(move || {
            let size = next?;
            next = (size > least).then(|| size.div_ceil(2).max(least));
            Some(size)
        })
    }
}
