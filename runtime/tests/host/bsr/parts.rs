//! The arguments of `Bsr::new` as plain data.

use bsr_codegen::Refusal;
use bsr_runtime::Bsr;

/// The arguments of `Bsr::new`, to be bent before use.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) block: (usize, usize),
    pub(crate) row_ptr: Vec<i32>,
    pub(crate) col_idx: Vec<i32>,
    pub(crate) values: Vec<f32>,
}

impl Parts {
    /// The blocks whose flag is set, row by row; every element inside the matrix is its place plus one.
    pub(crate) fn new(rows: usize, cols: usize, block: (usize, usize), stored: impl Fn(usize) -> bool) -> Self {
        let (bm, bk) = block;
        let mut parts = Self { rows, cols, block, row_ptr: vec![0], col_idx: vec![], values: vec![] };
        let block_cols = cols.div_ceil(bk);
        for i in 0..rows.div_ceil(bm) {
            for j in (0..block_cols).filter(|j| stored(i * block_cols + j)) {
                parts.col_idx.push(j as i32);
                for (row, col) in (0..bm * bk).map(|at| (i * bm + at / bk, j * bk + at % bk)) {
                    parts.values.push(if row < rows && col < cols { (row * cols + col + 1) as f32 } else { 0.0 });
                }
            }
            parts.row_ptr.push(parts.col_idx.len() as i32);
        }
        parts
    }

    pub(crate) fn build(self) -> Result<Bsr<f32>, Refusal> {
        Bsr::new(self.rows, self.cols, self.block, self.row_ptr, self.col_idx, self.values)
    }

    /// Two block rows of 2 x 3 blocks over 3 x 7 elements: blocks at (0, 0), (0, 2), (1, 1), (1, 2).
    pub(crate) fn example() -> Self {
        Self::new(3, 7, (2, 3), |at| [0, 2, 4, 5].contains(&at))
    }

    /// The position of a column index that follows another in its block row.
    pub(crate) fn neighbours(&self) -> Option<usize> {
        let long = self.row_ptr.windows(2).find(|ends| ends[1] - ends[0] >= 2)?;
        Some(long[0] as usize + 1)
    }

    /// The position of a value outside the matrix: zero, as no value inside is.
    pub(crate) fn padding(&self) -> Option<usize> {
        self.values.iter().position(|&v| v == 0.0)
    }
}
