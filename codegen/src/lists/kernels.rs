//! The kernels of the module and what a launch of each has.

use serde::Serialize;

pub use crate::words::IndexWidth;

/// What is wrong with a block row. The number is what the check records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrongIndex {
    /// The first row pointer is not 0.
    Start = 1,
    /// A row pointer is negative.
    Negative = 2,
    /// A row pointer is smaller than the one before it.
    Descends = 3,
    /// A row pointer is beyond the capacity.
    Capacity = 4,
    /// A column is negative, or beyond the last one.
    Column = 5,
    /// A column is smaller than the one before it in its row.
    Order = 6,
    /// A column occurs twice in its row.
    Twice = 7,
}

impl WrongIndex {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Start, Self::Negative, Self::Descends, Self::Capacity, Self::Column, Self::Order, Self::Twice];

    /// By the number that the check records.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// A kernel of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKernel {
    /// Checks a pattern, and copies what is right.
    Check(IndexWidth),
    /// Counts blocks by column.
    CountColumns,
    /// Sums these counts up.
    ScanColumns,
    /// Where the blocks of every column begin, and puts them there.
    ScatterColumns,
    /// Assigns tiles to clusters.
    Assign,
    /// Assigns split-K partials, and the tiles that add them, to separate clusters.
    AssignParts,
    /// Counts the blocks of every row of a mask.
    MaskRows,
    /// Writes their columns.
    MaskColumns,
    /// Where the tiles of each block row of an SDDMM's result begin.
    SddmmRows,
    /// Writes these tiles.
    SddmmTiles,
    /// Marks the block columns of every block row.
    SharedBits,
    /// Groups block rows that have many block columns in common.
    SharedGroups,
    /// Lists the block columns of block rows that share tiles.
    SharedUnions,
    /// Writes these tiles, which were assigned by their rows and columns.
    SharedTiles,
    /// Divides the K of every row of tiles.
    SplitRows,
    /// Writes tiles and parts of tiles, which were assigned each by themselves.
    SplitTiles,
    /// Lists the steps of every row of tiles of an attention.
    AttentionSteps,
    /// Writes its tiles, which were assigned by their rows and columns.
    AttentionTiles,
    /// Checks a page table and the keys of its problems.
    CheckPages,
    /// Writes the tiles of an attention by the keys of its problems.
    LengthTiles,
    /// Marks the block columns of every row of a factor, with the numbers of its blocks.
    PairMarks,
    /// Counts the pairs of blocks of every row of blocks of a product, and its tiles.
    PairCounts,
    /// Sums these counts up.
    PairScan,
    /// Lists the pairs, and the tiles in the order in which they are computed.
    PairLists,
    /// Assigns these tiles to lists, some waves at a time, and sorts the last ones.
    PairSpans,
    /// Assigns these lists, and the last tiles, to clusters.
    PairDeal,
    /// Writes the tiles where they were assigned.
    PairWrite,
    /// Marks the blocks that a product has.
    ProductMask,
}

/// What the kernels share; `render` hands it to the templates.
pub(super) const CHECK_WARPS: u32 = 4;
pub(super) const MASK_WARPS: u32 = 8;
const COUNT_THREADS: u32 = 512;
const ALL_THREADS: u32 = 1024;

impl ListKernel {
    /// Columns of a row that a lane of a check loads at a time.
    pub const CHECK_LOADS: u32 = 8;

    /// Every kernel of the module.
    pub const ALL: [Self; 29] = [
        Self::Check(IndexWidth::I32),
        Self::Check(IndexWidth::I64),
        Self::CountColumns,
        Self::ScanColumns,
        Self::ScatterColumns,
        Self::Assign,
        Self::AssignParts,
        Self::MaskRows,
        Self::MaskColumns,
        Self::SddmmRows,
        Self::SddmmTiles,
        Self::SharedBits,
        Self::SharedGroups,
        Self::SharedUnions,
        Self::SharedTiles,
        Self::SplitRows,
        Self::SplitTiles,
        Self::AttentionSteps,
        Self::AttentionTiles,
        Self::CheckPages,
        Self::LengthTiles,
        Self::PairMarks,
        Self::PairCounts,
        Self::PairScan,
        Self::PairLists,
        Self::PairSpans,
        Self::PairDeal,
        Self::PairWrite,
        Self::ProductMask,
    ];

    /// Its name in the module.
    pub fn entry(self) -> &'static str {
        match self {
            Self::Check(IndexWidth::I32) => "bsr_lists_check_i32",
            Self::Check(IndexWidth::I64) => "bsr_lists_check_i64",
            Self::CountColumns => "bsr_lists_count_columns",
            Self::ScanColumns => "bsr_lists_scan_columns",
            Self::ScatterColumns => "bsr_lists_scatter_columns",
            Self::Assign => "bsr_lists_assign",
            Self::AssignParts => "bsr_lists_assign_parts",
            Self::MaskRows => "bsr_lists_mask_rows",
            Self::MaskColumns => "bsr_lists_mask_columns",
            Self::SddmmRows => "bsr_lists_sddmm_rows",
            Self::SddmmTiles => "bsr_lists_sddmm_tiles",
            Self::SharedBits => "bsr_lists_shared_bits",
            Self::SharedGroups => "bsr_lists_shared_groups",
            Self::SharedUnions => "bsr_lists_shared_unions",
            Self::SharedTiles => "bsr_lists_shared_tiles",
            Self::SplitRows => "bsr_lists_split_rows",
            Self::SplitTiles => "bsr_lists_split_tiles",
            Self::AttentionSteps => "bsr_lists_attention_steps",
            Self::AttentionTiles => "bsr_lists_attention_tiles",
            Self::CheckPages => "bsr_lists_check_pages",
            Self::LengthTiles => "bsr_lists_length_tiles",
            Self::PairMarks => "bsr_lists_pair_marks",
            Self::PairCounts => "bsr_lists_pair_counts",
            Self::PairScan => "bsr_lists_pair_scan",
            Self::PairLists => "bsr_lists_pair_lists",
            Self::PairSpans => "bsr_lists_pair_spans",
            Self::PairDeal => "bsr_lists_pair_deal",
            Self::PairWrite => "bsr_lists_pair_write",
            Self::ProductMask => "bsr_lists_product_mask",
        }
    }

    /// Threads of a CTA.
    pub const fn threads(self) -> u32 {
        match self {
            Self::Check(_) | Self::CheckPages => 32 * CHECK_WARPS,
            Self::MaskRows | Self::MaskColumns | Self::AttentionSteps | Self::AttentionTiles => 32 * MASK_WARPS,
            Self::SharedBits | Self::SharedUnions | Self::SharedTiles => 32 * MASK_WARPS,
            Self::SplitRows | Self::SplitTiles | Self::LengthTiles => 32 * MASK_WARPS,
            Self::PairMarks | Self::PairCounts | Self::PairLists | Self::ProductMask => 32 * MASK_WARPS,
            Self::PairWrite => 32 * MASK_WARPS,
            Self::CountColumns | Self::ScatterColumns | Self::SddmmTiles => COUNT_THREADS,
            Self::Assign | Self::AssignParts | Self::SharedGroups => ALL_THREADS,
            Self::ScanColumns | Self::SddmmRows | Self::PairScan => ALL_THREADS,
            Self::PairSpans | Self::PairDeal => ALL_THREADS,
        }
    }

    /// CTAs of a launch: for every block row of a check, for every problem of a check of pages (given as block rows), of a mask or of marks a warp, for every tile of a product of two sparse factors, and for every group whose columns are listed
    /// (which are given as block rows); for every row of an SDDMM and of a product of two sparse factors a CTA, and one for every row of tiles of an attention's
    /// steps; for 32 block columns one of the scan (which is given them as block rows); `ctas` of the others.
    pub fn grid(self, block_rows: u32, ctas: u32) -> u32 {
        match self {
            Self::Check(_) | Self::CheckPages => block_rows.div_ceil(CHECK_WARPS),
            Self::MaskRows | Self::MaskColumns | Self::SharedBits | Self::SharedUnions | Self::PairMarks => {
                block_rows.div_ceil(MASK_WARPS)
            }
            Self::PairWrite => block_rows.div_ceil(MASK_WARPS),
            Self::CountColumns | Self::ScatterColumns | Self::Assign | Self::AssignParts => ctas,
            Self::AttentionTiles | Self::SharedGroups | Self::SharedTiles | Self::SplitTiles => ctas,
            Self::LengthTiles | Self::PairSpans => ctas,
            Self::SplitRows => block_rows.div_ceil(self.threads()),
            Self::SddmmTiles | Self::AttentionSteps => block_rows,
            Self::PairCounts | Self::PairLists | Self::ProductMask => block_rows,
            Self::ScanColumns => block_rows.div_ceil(32).max(1),
            Self::SddmmRows | Self::PairScan | Self::PairDeal => 1,
        }
    }

    /// Rows of a launch's grid.
    pub fn grid_rows(self) -> u32 {
        if self == Self::AssignParts { 2 } else { 1 }
    }

    /// Dynamic shared memory of those that count, scan and scatter blocks by column.
    pub fn column_bytes(self, block_columns: u32) -> u32 {
        match self {
            Self::CountColumns => 4 * block_columns,
            Self::ScanColumns => 4 * self.threads(),
            Self::ScatterColumns => 4 * block_columns + self.threads() / 8,
            _ => 0,
        }
    }
}

/// The numbers of [`WrongIndex`] as the template names them.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Kinds {
    start: u32,
    negative: u32,
    descends: u32,
    capacity: u32,
    column: u32,
    order: u32,
    twice: u32,
}

impl Kinds {
    pub(super) const NUMBERS: Self = Self {
        start: WrongIndex::Start as u32,
        negative: WrongIndex::Negative as u32,
        descends: WrongIndex::Descends as u32,
        capacity: WrongIndex::Capacity as u32,
        column: WrongIndex::Column as u32,
        order: WrongIndex::Order as u32,
        twice: WrongIndex::Twice as u32,
    };
}
