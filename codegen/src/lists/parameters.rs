//! The parameters of the module's kernels.

use super::attention::AttentionLists;
use super::kernels::ListKernel;
use super::lengths::LengthLists;
use super::pairs::PairLists;
use super::sddmm::SddmmShape;
use super::shape::{Shape, once_and_twice};
use super::shared::SharedLists;
use super::split::SplitLists;

/// The addresses that one assigning kernel is given, and the other.
pub(super) const ASSIGNED: ([&str; 5], [&str; 10]) = once_and_twice!("rows", "columns", "work_head", "work", "dealt");

impl ListKernel {
    /// The addresses that it is given, which are its first parameters.
    pub fn pointers(self) -> &'static [&'static str] {
        match self {
            Self::Check(_) => &["row_ptr", "col_idx", "rows", "columns", "error", "values"],
            Self::CountColumns => &["rows", "columns", "counts"],
            Self::ScanColumns => &["counts"],
            Self::ScatterColumns => &["rows", "columns", "counts", "transposed_rows", "transposed_columns", "blocks"],
            Self::Assign => &ASSIGNED.0,
            Self::AssignParts => &ASSIGNED.1,
            Self::MaskRows => &["mask", "counts"],
            Self::MaskColumns => &["mask", "counts", "row_ptr", "col_idx"],
            Self::SddmmRows => &["rows", "first_tiles", "work_head", "work"],
            Self::SddmmTiles => &["rows", "columns", "first_tiles", "work"],
            Self::SharedBits => &["rows", "columns", "bits"],
            Self::SharedGroups => &["bits", "members"],
            Self::SharedUnions => &["bits", "members", "ends", "costs", "unions"],
            Self::SharedTiles => &["work_head", "dealt", "rows", "members", "ends", "unions", "work"],
            Self::SplitRows => &["rows", "own", "others"],
            Self::SplitTiles => &["rows", "other_heads", "other_tiles", "own_heads", "own_tiles", "work_head", "work"],
            Self::AttentionSteps => &["rows", "columns", "partial", "room", "steps", "records", "step_rows"],
            Self::AttentionTiles => &["lengths", "dealt", "records", "room", "work_head", "work"],
            Self::CheckPages => &["table", "given", "lengths", "error", "values"],
            Self::LengthTiles => &["lengths", "work_head", "work"],
            Self::PairMarks => &["rows", "columns", "marks"],
            Self::PairCounts => &["a_rows", "a_columns", "marks", "c_rows", "c_columns", "sums", "starts"],
            Self::PairScan => &["sums"],
            Self::PairLists => &[
                "a_rows",
                "a_columns",
                "marks",
                "c_rows",
                "c_columns",
                "sums",
                "starts",
                "placed",
                "costs",
                "b_blocks",
                "a_blocks",
            ],
            Self::PairSpans => &["sums", "costs", "places", "span_lists", "last"],
            Self::PairDeal => &["sums", "span_lists", "last", "places", "list_clusters", "work_head", "work"],
            Self::PairWrite => &["sums", "placed", "places", "list_clusters", "b_blocks", "work_head", "work"],
            Self::ProductMask => &["a_rows", "a_columns", "marks", "mask"],
        }
    }

    /// The 32-bit numbers that it is given, which follow.
    pub fn numbers(self) -> &'static [&'static str] {
        match self {
            Self::Check(_) => &["block_rows", "block_columns", "capacity"],
            Self::CountColumns => &["block_rows", "block_columns", "rows_a_cta"],
            Self::ScanColumns => &["block_columns", "ctas"],
            Self::ScatterColumns => &["block_rows", "block_columns", "rows_a_cta", "capacity"],
            Self::Assign => &Shape::NUMBERS,
            Self::AssignParts => &Shape::NUMBERS_OF_TWO,
            Self::MaskRows => &["block_rows", "block_columns"],
            Self::MaskColumns => &["block_rows", "block_columns", "capacity"],
            Self::SddmmRows | Self::SddmmTiles => &SddmmShape::NUMBERS,
            Self::SharedBits => &SharedLists::BITS,
            Self::SharedGroups => &SharedLists::GROUPS,
            Self::SharedUnions => &SharedLists::UNIONS,
            Self::SharedTiles => &SharedLists::TILES,
            Self::SplitRows => &SplitLists::ROWS,
            Self::SplitTiles => &SplitLists::TILES,
            Self::AttentionSteps => &AttentionLists::STEPS,
            Self::AttentionTiles => &AttentionLists::TILES,
            Self::CheckPages => &LengthLists::CHECK,
            Self::LengthTiles => &LengthLists::TILES,
            Self::PairMarks => &PairLists::MARKS,
            Self::PairCounts | Self::PairLists => &PairLists::NUMBERS,
            Self::PairScan => &["length"],
            Self::PairSpans | Self::PairDeal | Self::PairWrite => &PairLists::WAVES,
            Self::ProductMask => &PairLists::MASK,
        }
    }
}
