//! What of a pattern the choice of a kernel depends on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Structure;

/// Facts of a pattern that are cheap to have and that kernels feel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Features {
    /// Block rows of the stored matrix.
    pub block_rows: usize,
    /// Block columns of the stored matrix.
    pub block_cols: usize,
    /// Stored blocks.
    pub nnzb: usize,
    /// Blocks of the longest block row.
    pub longest_row: usize,
    /// Standard deviation of the lengths of block rows over their mean: 0 where all are equal.
    pub row_spread: f64,
    /// Block rows without blocks, a fraction of all.
    pub empty_rows: f64,
    /// Stored blocks over distinct block columns, in groups of [`GROUP`] neighbouring block rows: 1 where neighbours share no
    /// column, [`GROUP`] where they are equal.
    pub reuse: f64,
}

/// Neighbouring block rows that are looked at together for shared columns.
pub const GROUP: usize = 8;

impl Features {
    /// Those of a structure.
    pub fn of(structure: &Structure) -> Self {
        let (rows, lengths) = (structure.block_rows(), structure.row_lengths());
        let nnzb = structure.nnzb();
        let mean = nnzb as f64 / rows.max(1) as f64;
        let (mut longest, mut empty, mut squares) = (0, 0, 0.0);
        for length in lengths {
            longest = longest.max(length);
            empty += usize::from(length == 0);
            squares += (length as f64 - mean).powi(2);
        }
        let deviation = (squares / rows.max(1) as f64).sqrt();
        let mut distinct = 0;
        let mut columns = Vec::new();
        for first in (0..rows).step_by(GROUP) {
            let end = (first + GROUP).min(rows);
            columns.clear();
            let [from, to] = [structure.row_ptr()[first], structure.row_ptr()[end]].map(|at| at as usize);
            columns.extend_from_slice(&structure.col_idx()[from..to]);
            columns.sort_unstable();
            columns.dedup();
            distinct += columns.len();
        }
        Self {
            block_rows: rows,
            block_cols: structure.block_cols(),
            nnzb,
            longest_row: longest,
            row_spread: if mean > 0.0 { deviation / mean } else { 0.0 },
            empty_rows: empty as f64 / rows.max(1) as f64,
            reuse: if distinct > 0 { nnzb as f64 / distinct as f64 } else { 1.0 },
        }
    }

    /// Stored blocks as a fraction of all.
    pub fn density(&self) -> f64 {
        self.nnzb as f64 / (self.block_rows * self.block_cols).max(1) as f64
    }

    /// In words: `25.0 % of all blocks, at most 16 in a row, row lengths +- 0 %, each block column met by 2.0 of 8 neighbours`.
    pub fn words(&self) -> String {
        format!(
            "{:.1} % of all blocks, at most {} in a row, row lengths +- {:.0} %, each block column met by {:.1} of {GROUP} \
             neighbours",
            100.0 * self.density(),
            self.longest_row,
            100.0 * self.row_spread,
            self.reuse
        )
    }

    /// The class of the pattern: patterns of one class want the same kernel.
    pub fn class(&self) -> Class {
        let halvings = |value: f64| (2.0 * value.log2()).round() as i32;
        Class {
            density: if self.nnzb == 0 { i32::MIN } else { halvings(self.density()) },
            spread: (4.0 * self.row_spread).round().min(20.0) as i32,
            reuse: halvings(self.reuse),
        }
    }
}

/// Features in steps coarse enough for patterns that are alike to fall together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Class {
    /// Logarithm of the density to the base of the square root of 2; the least number there is without blocks.
    pub density: i32,
    /// The spread of row lengths in quarters, at most 20.
    pub spread: i32,
    /// Logarithm of the reuse to the base of the square root of 2.
    pub reuse: i32,
}

impl Class {
    /// Whether no feature is more than a step apart: patterns on either side of a step are alike.
    pub fn is_near(&self, other: &Self) -> bool {
        let steps = |x: i32, y: i32| x.abs_diff(y) <= 1;
        steps(self.density, other.density) && steps(self.spread, other.spread) && steps(self.reuse, other.reuse)
    }
}

impl fmt::Display for Class {
    /// `density 2^-2.0, spread 0.25, reuse 2^0.5`: a quarter of all blocks is stored, the standard deviation of row lengths is
    /// a quarter of their mean, and a block column that a group of neighbours has is in 1.4 of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.density {
            i32::MIN => return f.write_str("no blocks"),
            density => write!(f, "density 2^{:.1}", f64::from(density) / 2.0)?,
        }
        write!(f, ", spread {:.2}, reuse 2^{:.1}", f64::from(self.spread) / 4.0, f64::from(self.reuse) / 2.0)
    }
}
