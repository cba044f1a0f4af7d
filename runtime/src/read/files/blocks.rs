//! Index arrays as files hold them: checked, then sorted.

use super::bounded::check_sides;
use super::{ReadProblem, Sparse};
use crate::Structure;
use crate::bsr::check_padding;

/// A bsr matrix as a file holds it, whose block rows need not be in order.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Rows and columns of the matrix; the last blocks may hang over the edge.
    pub(super) sides: [usize; 2],
    /// Rows and columns of a block.
    pub(super) block: (usize, usize),
    /// Has passed [`check_indptr`].
    pub(super) indptr: Vec<i64>,
    /// Have passed [`check_indices`].
    pub(super) columns: Vec<u32>,
    /// `bm * bk` for each column.
    pub(super) values: Vec<f64>,
}

impl Blocks {
    /// Sorts each block row by column and adds the blocks that share a place.
    pub(super) fn sparse(self) -> Result<Sparse, ReadProblem> {
        let Self { sides: [rows, cols], block, indptr, columns, values } = self;
        let (mut row_ptr, mut col_idx) = (vec![0], Vec::with_capacity(columns.len()));
        // For each block of the file, in sorted order: which it is, and where it goes.
        let mut moves = Vec::with_capacity(columns.len());
        for ends in indptr.windows(2) {
            let mut order: Vec<usize> = (ends[0] as usize..ends[1] as usize).collect();
            order.sort_by_key(|&block| columns[block]);
            let first = col_idx.len();
            for from in order {
                let column = columns[from] as i32;
                if col_idx.len() == first || col_idx.last() != Some(&column) {
                    col_idx.push(column);
                }
                moves.push((from, col_idx.len() - 1));
            }
            row_ptr.push(col_idx.len() as i64);
        }
        let structure = Structure::new(rows, cols, block, row_ptr, col_idx).map_err(ReadProblem::Refused)?;
        if moves.iter().all(|(from, to)| from == to) {
            return without_padding(structure, values);
        }
        let size = block.0 * block.1;
        let mut sorted = vec![0.0; structure.stored()];
        for (from, to) in moves {
            let (from, to) = (&values[from * size..][..size], &mut sorted[to * size..][..size]);
            to.iter_mut().zip(from).for_each(|(sum, value)| *sum += value);
        }
        without_padding(structure, sorted)
    }
}

/// Takes blocks whose part beyond the edge of the matrix is zero.
fn without_padding(structure: Structure, values: Vec<f64>) -> Result<Sparse, ReadProblem> {
    check_padding(&structure, &values, |value| value).map_err(ReadProblem::Refused)?;
    Ok(Sparse::from_blocks(structure, values))
}

/// Refuses a matrix that its padded form does not come from: `padded` is `sides` in whole blocks.
pub(super) fn check_padded(
    sides: [usize; 2],
    padded: [usize; 2],
    block: (usize, usize),
    write: &'static str,
) -> Result<(), ReadProblem> {
    check_sides(sides[0], sides[1])?;
    let whole = [sides[0].div_ceil(block.0) * block.0, sides[1].div_ceil(block.1) * block.1];
    if whole == padded {
        return Ok(());
    }
    let fact = format!(
        "{} x {} in blocks of {} x {} is padded to {} x {}, but the file says {} x {}",
        sides[0], sides[1], block.0, block.1, whole[0], whole[1], padded[0], padded[1]
    );
    Err(ReadProblem::refused(fact, write))
}

/// Refuses offsets that do not start at 0, decrease, or do not end at `count`, one for each of `rows` and one more.
pub(super) fn check_indptr(indptr: &[i64], rows: usize, count: usize, write: &'static str) -> Result<(), ReadProblem> {
    let wrong = |fact: String| Err(ReadProblem::refused(fact, write));
    if indptr.len() != rows + 1 {
        return wrong(format!("{} entries, but {rows} rows take {rows} + 1 = {}", indptr.len(), rows + 1));
    }
    if indptr[0] != 0 {
        return wrong(format!("entry 0 is {}, not 0", indptr[0]));
    }
    if let Some(at) = indptr.windows(2).position(|ends| ends[1] < ends[0]) {
        return wrong(format!("entry {} is {}, less than {} before it", at + 1, indptr[at + 1], indptr[at]));
    }
    if indptr[rows] != count as i64 {
        return wrong(format!("the last entry is {}, but there are {count} column indices", indptr[rows]));
    }
    Ok(())
}

/// The indices, if all are in `0..cols`.
pub(super) fn check_indices(indices: &[i64], cols: usize, write: &'static str) -> Result<Vec<u32>, ReadProblem> {
    let inside = |(at, &column): (usize, &i64)| match u32::try_from(column) {
        Ok(column) if (column as usize) < cols => Ok(column),
        _ => Err(ReadProblem::refused(format!("entry {at} is {column}, not in 0..{cols}"), write)),
    };
    indices.iter().enumerate().map(inside).collect()
}
