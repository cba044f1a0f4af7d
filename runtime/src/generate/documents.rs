//! Documents of random lengths, one behind the other.

use bsr_codegen::Refusal;
use rand::RngExt;

use super::{Pattern, ranges, rows_until, streams};
use crate::Structure;

/// Where documents begin among the rows and among the columns, and where the last one ends; whether each row of a document stops
/// at its own place.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    /// Their rows.
    pub rows: Vec<usize>,
    /// Their columns.
    pub columns: Vec<usize>,
    /// The last row of a document is at the place of its last column, and each stops at its place.
    pub causal: bool,
}

impl Documents {
    /// Those of a pattern with so many rows and columns; none of one that has no documents.
    pub fn of(pattern: Pattern, (rows, columns): (usize, usize), seed: u64) -> Option<Self> {
        let Pattern::Documents { mean, causal } = pattern else { return None };
        let mut drawn = streams(seed).get(0);
        let mut of_rows = vec![0];
        let mut end = 0;
        while end < rows {
            end = (end + drawn.random_range(1..2 * mean.min(rows).max(1))).min(rows);
            of_rows.push(end);
        }
        let of_columns = of_rows.iter().map(|row| (*row as u128 * columns as u128 / rows.max(1) as u128) as usize);
        Some(Self { columns: of_columns.collect(), rows: of_rows, causal })
    }

    /// The blocks between the first column of a block row's first document and the last one of its last row.
    pub(super) fn structure(&self, shape: &Structure) -> Result<Structure, Refusal> {
        let (bm, bk) = shape.block();
        let document = |row: usize| self.rows.partition_point(|start| *start <= row) - 1;
        ranges(shape, |block_row| {
            let last = rows_until(shape, block_row) - 1;
            let (first, own) = (document(block_row * bm), document(last));
            let place = (last + self.columns[own + 1] + 1).saturating_sub(self.rows[own + 1]);
            let end = if self.causal { place.max(self.columns[own]) } else { self.columns[own + 1] };
            match self.columns[first] < end {
                true => self.columns[first] / bk..end.div_ceil(bk),
                false => 0..0,
            }
        })
    }
}
