//! What is wrong with a pattern on the GPU.

use bsr_codegen::lists::WrongIndex;

use super::shape::PatternShape;

/// Why a pattern cannot live on the GPU, or what was found to be wrong with it there.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// A block row that a check on the GPU has found to be wrong. Nothing was computed for it, and perhaps for others after
    /// it.
    #[error("{}", row_text(*row, *kind, *value, shape))]
    Row {
        /// The first wrong block row.
        row: usize,
        /// What is wrong with it.
        kind: WrongIndex,
        /// The row pointer or the column.
        value: i64,
        /// The sizes of the pattern.
        shape: PatternShape,
    },
    /// Sizes that no pattern has.
    #[error("no pattern on the GPU has this shape: {why}")]
    Shape {
        /// Why.
        why: String,
    },
    /// More than the kernels that check and list count.
    #[error("{what} of a pattern on the GPU: {value} > {most}\n  help: split the matrix, or larger blocks")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How many.
        value: usize,
        /// The most there can be.
        most: usize,
    },
    /// Arrays at an address that is null or not aligned.
    #[error(
        "an array of a pattern is at {base:#x}, which must be a multiple of {align} and not null\n  help: copy it into memory of its own"
    )]
    Memory {
        /// The address.
        base: u64,
        /// What it must be a multiple of.
        align: u64,
    },
    /// Arrays that the pattern does not own are to be written.
    #[error("the pattern views memory that another library allocated\n  help: write it there, and call `changed`")]
    Foreign,
    /// Another pattern that does not fit where this one lies.
    #[error("{}", replaced_text(*blocks, *capacity, *same))]
    Replaced {
        /// Its blocks.
        blocks: usize,
        /// Room for so many.
        capacity: usize,
        /// Whether it is of the same shape.
        same: bool,
    },
}

bsr_codegen::message_as_debug!(PatternError);

fn replaced_text(blocks: usize, capacity: usize, same: bool) -> String {
    match same {
        true => format!(
            "{blocks} blocks do not fit a pattern with a capacity of {capacity}\n  {blocks} > {capacity}\n  help: a \
             `DevicePattern` with more room"
        ),
        false => {
            "the pattern is of another shape, or has other blocks\n  help: a `DevicePattern` of its own".to_owned()
        }
    }
}

fn row_text(row: usize, kind: WrongIndex, value: i64, shape: &PatternShape) -> String {
    let (what, help) = match kind {
        WrongIndex::Start => (format!("the first row pointer is {value}, not 0"), "subtract it from all row pointers"),
        WrongIndex::Negative => (format!("its row pointer is {value} < 0"), "row pointers count stored blocks from 0"),
        WrongIndex::Descends => {
            (format!("the row pointer after it, {value}, is smaller than its own"), "row pointers ascend")
        }
        WrongIndex::Capacity => (
            format!("the row pointer after it is {value} > {}, the capacity", shape.capacity),
            "store fewer blocks, or make the pattern with more room",
        ),
        WrongIndex::Column => (
            format!(
                "it has a block in column {value}, and the columns are 0 to {}",
                shape.block_cols().saturating_sub(1)
            ),
            "columns count blocks, not elements",
        ),
        WrongIndex::Order => (
            format!("its column {value} stands behind a larger one"),
            "sort the columns of each row, and the blocks with them",
        ),
        WrongIndex::Twice => (format!("its column {value} occurs twice"), "store each block once, as a sum"),
    };
    format!(
        "block row {row} of a pattern on the GPU is wrong: {what}\n  nothing was computed for this row, nor for others \
         that are wrong\n  help: {help}; then call `changed`"
    )
}

/// The kernels count in 32 bits, and have a counter for every block column in shared memory.
pub(super) fn check_shape(shape: &PatternShape) -> Result<(), PatternError> {
    let limit = |what, value: usize, most: usize| match value > most {
        true => Err(PatternError::TooLarge { what, value, most }),
        false => Ok(()),
    };
    limit("block rows", shape.block_rows(), 1 << 20)?;
    limit("block columns", shape.block_cols(), 1 << 15)?;
    limit("places for blocks", shape.capacity, (1 << 30) / shape.block.0.max(shape.block.1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_row_is_told_with_its_arithmetic_and_a_remedy() {
        let shape = PatternShape { rows: 256, cols: 512, block: (64, 64), capacity: 10 };
        for (kind, value, expected) in [
            (WrongIndex::Start, 3, "is 3, not 0"),
            (WrongIndex::Negative, -4, "-4 < 0"),
            (WrongIndex::Descends, 2, "2, is smaller"),
            (WrongIndex::Capacity, 11, "11 > 10"),
            (WrongIndex::Column, 8, "column 8, and the columns are 0 to 7"),
            (WrongIndex::Order, 1, "column 1 stands behind"),
            (WrongIndex::Twice, 5, "column 5 occurs twice"),
        ] {
            let text = PatternError::Row { row: 2, kind, value, shape }.to_string();
            assert!(text.contains("block row 2") && text.contains(expected) && text.contains("help: "), "{text}");
        }
    }

    #[test]
    fn sizes_that_the_kernels_do_not_count_are_refused() {
        let shape = |rows, cols, capacity| PatternShape { rows, cols, block: (64, 64), capacity };
        assert!(check_shape(&shape(64 << 20, 64, 1 << 24)).is_ok());
        for shape in [shape(65 << 20, 64, 1), shape(64, 64 << 16, 1), shape(64, 64, 1 << 25)] {
            let text = check_shape(&shape).expect_err("too large").to_string();
            assert!(text.contains(" > ") && text.contains("help: "), "{text}");
        }
    }
}
