//! What is wrong with a pattern on the GPU.

use bsr_codegen::Refusal;
use bsr_codegen::lists::WrongIndex;

use super::shape::PatternShape;

/// Sizes that no pattern has.
pub(super) fn no_shape(why: Refusal) -> Refusal {
    why.within("no pattern on the GPU has this shape")
}

/// Arrays that the pattern does not own are to be written.
pub(super) fn not_owned() -> Refusal {
    Refusal::new("the pattern views memory that another library allocated, or is the product of two others")
        .help("write it there, or change its factors, and call `changed`")
}

/// The patterns of a product that are not in one memory.
pub(super) fn two_devices() -> Refusal {
    Refusal::new("A and B are patterns on two GPUs").help("make both patterns on the GPU that multiplies them")
}

/// Another pattern that does not fit where one is.
pub(super) fn not_replaced(blocks: usize, capacity: usize, same: bool) -> Refusal {
    match same {
        true => Refusal::new(format!("{blocks} blocks do not fit a pattern with a capacity of {capacity}"))
            .why(format!("{blocks} > {capacity}"))
            .help("a `DevicePattern` with more room"),
        false => {
            Refusal::new("the pattern is of another shape, or has other blocks").help("a `DevicePattern` of its own")
        }
    }
}

/// A block row that a check on the GPU has found to be wrong: the first one, and its row pointer or column.
pub(super) fn wrong_row(row: usize, kind: WrongIndex, value: i64, shape: &PatternShape) -> Refusal {
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
    Refusal::new(format!("block row {row} of a pattern on the GPU is wrong: {what}"))
        .why("nothing was computed for this row, nor for others that are wrong")
        .help(format!("{help}; then call `changed`"))
}

/// The kernels count in 32 bits, and have a counter for every block column in shared memory.
pub(super) fn check_shape(shape: &PatternShape) -> Result<(), Refusal> {
    let limit = |what, value: usize, most: usize| match value > most {
        true => Err(Refusal::new(format!("{what} of a pattern on the GPU: {value} > {most}"))
            .help("split the matrix, or larger blocks")),
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
    fn every_wrong_row_is_reported_with_its_arithmetic_and_a_remedy() {
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
            let text = wrong_row(2, kind, value, &shape).to_string();
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
