//! The facts a block-sparse matrix must satisfy, one function each.

use bsr_codegen::{KernelSpec, Refusal};

use super::Structure;
use crate::Element;

/// Sizes and coordinates stay below this: the device counts in 32 bits, signed.
const COORDINATES: usize = 1 << 31;

/// Blocks of so many rows and columns have kernels that address their values in 64 bits.
const SMALL: usize = KernelSpec::SMALL_BLOCK as usize;

/// Blocks have an extent, and every length fits a 32-bit coordinate.
pub(super) fn shape(rows: usize, cols: usize, bm: usize, bk: usize) -> Result<(), Refusal> {
    if bm == 0 || bk == 0 {
        return Err(Refusal::new(format!("the block is {bm} x {bk}, but both sides must be at least 1"))
            .help("give the size the blocks are stored in"));
    }
    for (what, value) in [("rows", rows), ("cols", cols), ("bm", bm), ("bk", bk)] {
        if value >= COORDINATES {
            let limit = "the limit of the device's 32-bit coordinates";
            return Err(Refusal::new(format!("{what} = {value} is not below 2^31 = 2147483648, {limit}"))
                .help("split the matrix and multiply the parts"));
        }
    }
    Ok(())
}

/// `row_ptr` has the right length, starts at 0, never decreases, and ends at the number of blocks.
pub(super) fn row_ptr(structure: &Structure) -> Result<(), Refusal> {
    let (row_ptr, block_rows, nnzb) = (structure.row_ptr(), structure.block_rows(), structure.nnzb());
    if row_ptr.len() != block_rows + 1 {
        let (got, rows, bm) = (row_ptr.len(), structure.rows(), structure.block().0);
        return Err(Refusal::new(format!(
            "row_ptr has {got} entries, but takes {block_rows} + 1 = {}",
            block_rows + 1
        ))
        .why(format!("{rows} rows in blocks of {bm} make {block_rows} block rows"))
        .help("give where each block row starts, then the number of stored blocks"));
    }
    if row_ptr[0] != 0 {
        let got = row_ptr[0];
        return Err(Refusal::new(format!("row_ptr[0] = {got}, but the first block row starts at block 0"))
            .help(format!("subtract {got} from every entry")));
    }
    if let Some(block_row) = row_ptr.windows(2).position(|ends| ends[1] < ends[0]) {
        let (start, end) = (row_ptr[block_row], row_ptr[block_row + 1]);
        let blocks = i128::from(end) - i128::from(start);
        return Err(Refusal::new(format!(
            "row_ptr[{}] = {end} is less than row_ptr[{block_row}] = {start}",
            block_row + 1
        ))
        .why(format!("block row {block_row} would hold {end} - {start} = {blocks} blocks"))
        .help("make row_ptr the running sum of the block row lengths"));
    }
    let end = row_ptr[block_rows];
    // Not negative: at least row_ptr[0] = 0.
    if end as usize != nnzb {
        return Err(Refusal::new(format!(
            "row_ptr[{block_rows}] = {end} stored blocks, but col_idx has {nnzb} entries"
        ))
        .help("give one column index for each stored block"));
    }
    Ok(())
}

/// Every column index is inside the matrix and greater than the one before it in its block row.
pub(super) fn col_idx(structure: &Structure) -> Result<(), Refusal> {
    let block_cols = structure.block_cols();
    for block_row in 0..structure.block_rows() {
        let mut previous = None;
        for at in structure.blocks_of(block_row) {
            let column = structure.col_idx()[at];
            if !usize::try_from(column).is_ok_and(|column| column < block_cols) {
                let (cols, bk) = (structure.cols(), structure.block().1);
                let place = format!("col_idx[{at}] = {column} in block row {block_row}");
                return Err(Refusal::new(format!("{place} is outside 0..{block_cols}"))
                    .why(format!("{cols} columns in blocks of {bk} make {block_cols} block columns"))
                    .help("count columns in blocks, from 0"));
            }
            match previous {
                Some(previous) if column < previous => {
                    let fact = format!("col_idx[{at}] = {column} follows {previous} in block row {block_row}");
                    return Err(
                        Refusal::new(fact).help("sort each block row by column, the values of the blocks with it")
                    );
                }
                Some(previous) if column == previous => {
                    let both = format!("col_idx[{}] and col_idx[{at}]", at - 1);
                    return Err(Refusal::new(format!("{both} are both {column} in block row {block_row}"))
                        .help("add the two blocks and store the sum once"));
                }
                _ => previous = Some(column),
            }
        }
    }
    Ok(())
}

/// The value array, seen as `nnzb * bm` rows of `bk`, can be addressed by 32-bit row coordinates, or blocks are small.
pub(crate) fn offsets(nnzb: usize, (bm, bk): (usize, usize)) -> Result<(), Refusal> {
    if bm.max(bk) <= SMALL {
        return Ok(());
    }
    if nnzb.checked_mul(bm).is_none_or(|value_rows| value_rows >= COORDINATES) {
        let value_rows = nnzb as u128 * bm as u128;
        return Err(Refusal::new(format!(
            "{nnzb} blocks of {bm} rows stack to {nnzb} * {bm} = {value_rows} value rows"
        ))
        .why(format!(
            "32-bit coordinates stop at 2^31 - 1 = 2147483647; blocks of up to {SMALL} x {SMALL} are addressed in 64 bits"
        ))
        .help("split the matrix by rows"));
    }
    Ok(())
}

/// The number of every block fits 31 bits.
pub(crate) fn numbers(nnzb: usize) -> Result<(), Refusal> {
    if nnzb >= COORDINATES {
        return Err(Refusal::new(format!("{nnzb} blocks are not below 2^31 = 2147483648"))
            .why("where blocks are found by their numbers, these have 32 bits")
            .help("split the matrix by rows"));
    }
    Ok(())
}

/// Row pointers in 32 bits, as lists on the GPU and other libraries have them.
///
/// # Errors
/// For 2^31 blocks and more.
pub(crate) fn narrow_row_ptr(row_ptr: &[i64]) -> Result<Vec<i32>, Refusal> {
    numbers(row_ptr.last().map_or(0, |end| *end as usize))?;
    Ok(row_ptr.iter().map(|at| *at as i32).collect())
}

/// Every stored block has all its values.
pub(super) fn values_length(structure: &Structure, got: usize) -> Result<(), Refusal> {
    if got != structure.stored() {
        let (nnzb, (bm, bk)) = (structure.nnzb(), structure.block());
        let need = format!("{nnzb} blocks of {bm} x {bk} have {nnzb} * {bm} * {bk} = {}", structure.stored());
        return Err(Refusal::new(format!("{got} values, but {need}"))
            .help("store every block whole, blocks that extend beyond the edge of the matrix too"));
    }
    Ok(())
}

/// What extends beyond the edge of the matrix is zero. Only the blocks of the last block row and of the last
/// block column are visited, and only if they extend beyond the edge.
pub(super) fn padding<T: Element>(structure: &Structure, values: &[T]) -> Result<(), Refusal> {
    padding_of(structure, values, T::to_f64)
}

/// As [`padding`], of values of any type.
pub(crate) fn padding_of<V: Copy>(
    structure: &Structure,
    values: &[V],
    to_f64: impl Fn(V) -> f64,
) -> Result<(), Refusal> {
    let (rows, cols, (bm, bk)) = (structure.rows(), structure.cols(), structure.block());
    for block_row in 0..structure.block_rows() {
        let inside_rows = bm.min(rows - block_row * bm);
        for block in structure.blocks_of(block_row) {
            let first_col = structure.col_idx()[block] as usize * bk;
            let inside_cols = bk.min(cols - first_col);
            if inside_rows == bm && inside_cols == bk {
                continue;
            }
            for (r, line) in values[block * bm * bk..][..bm * bk].chunks_exact(bk).enumerate() {
                let outside = if r < inside_rows { inside_cols } else { 0 };
                if let Some(c) = line[outside..].iter().position(|&v| to_f64(v) != 0.0) {
                    let c = outside + c;
                    let (at, value) = ((block * bm + r) * bk + c, to_f64(line[c]));
                    let (row, col) = (block_row * bm + r, first_col + c);
                    let place = format!("row {row}, column {col} of a {rows} x {cols} matrix");
                    return Err(Refusal::new(format!("values[{at}] = {value} in block {block} is at {place}"))
                        .why("the part of a block beyond the edge is multiplied too")
                        .help("set it to zero"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts of blocks that no test allocates.
    #[test]
    fn small_blocks_may_be_more_than_31_bits_count() {
        for (nnzb, block) in [(1 << 31, (1, 1)), (5 << 32, (8, 8)), (u32::MAX as usize + 1, (3, 8))] {
            assert!(offsets(nnzb, block).is_ok());
        }
        for (nnzb, block) in [(1 << 31, (1, 9)), (1 << 28, (8, 16)), (1 << 27, (16, 8))] {
            let is_small_enough = offsets(nnzb - 1, block).is_ok();
            assert!(is_small_enough && offsets(nnzb, block).is_err(), "{nnzb} blocks of {block:?}");
        }
        let refused = offsets(1 << 31, (9, 1)).map_err(|refusal| refusal.to_string());
        assert!(refused.is_err_and(|text| text.contains("2147483648 * 9 = 19327352832") && text.contains("8 x 8")));
    }

    #[test]
    fn row_pointers_of_32_bits_count_31() {
        let most = i64::from(i32::MAX);
        assert_eq!(narrow_row_ptr(&[0, 5, most]).ok(), Some(vec![0, 5, i32::MAX]));
        let refused = narrow_row_ptr(&[0, 5, most + 1]).map_err(|refusal| refusal.to_string());
        assert!(refused.is_err_and(|text| text.contains("2147483648 blocks are not below 2^31")));
    }
}
