//! What a file says, before a block size is chosen.

use std::fmt;

use super::ConvertError;
use crate::bsr::check_offsets;
use crate::{Bsr, BsrError, Element, Structure};

/// A sparse matrix with `f64` values, as a file holds it: by elements, or in the file's own blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Sparse {
    rows: usize,
    cols: usize,
    body: Body,
}

#[derive(Clone, Debug, PartialEq)]
enum Body {
    /// By row, then by column, each place once.
    Elements(Vec<(u32, u32, f64)>),
    /// Valid, in the file's own blocks.
    Blocks { structure: Structure, values: Vec<f64> },
}

impl Sparse {
    /// Takes `(row, col, value)` in any order; values at the same place are added.
    ///
    /// # Errors
    /// When a side is 2^31 or more, or an element lies outside the matrix.
    pub fn from_triplets(rows: usize, cols: usize, mut triplets: Vec<(u32, u32, f64)>) -> Result<Self, TripletError> {
        Structure::empty(rows, cols, (rows.max(1), cols.max(1)))?;
        if let Some(at) = triplets.iter().position(|&(row, col, _)| row as usize >= rows || col as usize >= cols) {
            let (row, col, _) = triplets[at];
            return Err(TripletError::Outside { at, row, col, rows, cols });
        }
        // Stable, so that values at the same place are added in the order given.
        triplets.sort_by_key(|&(row, col, _)| (row, col));
        triplets.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        Ok(Self { rows, cols, body: Body::Elements(triplets) })
    }

    /// Takes blocks; `values` has `structure.stored()` entries.
    pub(super) fn from_blocks(structure: Structure, values: Vec<f64>) -> Self {
        debug_assert_eq!(values.len(), structure.stored());
        Self { rows: structure.rows(), cols: structure.cols(), body: Body::Blocks { structure, values } }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The block size of the file, if it holds blocks.
    pub fn own_block(&self) -> Option<(usize, usize)> {
        match &self.body {
            Body::Elements(_) => None,
            Body::Blocks { structure, .. } => Some(structure.block()),
        }
    }

    /// Number of values that are not zero. Zeros that the file lists are not counted.
    pub fn true_nnz(&self) -> usize {
        match &self.body {
            Body::Elements(elements) => elements.iter().filter(|(_, _, v)| *v != 0.0).count(),
            Body::Blocks { values, .. } => values.iter().filter(|v| **v != 0.0).count(),
        }
    }

    /// The largest finite magnitude; 0 if there is none.
    pub fn largest(&self) -> f64 {
        let values: &mut dyn Iterator<Item = f64> = match &self.body {
            Body::Elements(elements) => &mut elements.iter().map(|(_, _, v)| *v),
            Body::Blocks { values, .. } => &mut values.iter().copied(),
        };
        values.map(f64::abs).filter(|v| v.is_finite()).fold(0.0, f64::max)
    }

    /// The matrix with every value multiplied by `factor`, for instance to fit it into the range of `f16`.
    pub fn scaled(mut self, factor: f64) -> Self {
        match &mut self.body {
            Body::Elements(elements) => elements.iter_mut().for_each(|(_, _, v)| *v *= factor),
            Body::Blocks { values, .. } => values.iter_mut().for_each(|v| *v *= factor),
        }
        self
    }

    /// Calls `visit(row, col, value)`: for elements, all that the file lists, by row and column; for blocks,
    /// their values that are not zero, by block.
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize, f64)) {
        match &self.body {
            Body::Elements(elements) => {
                elements.iter().for_each(|&(row, col, value)| visit(row as usize, col as usize, value));
            }
            Body::Blocks { structure, values } => {
                let (bm, bk) = structure.block();
                for block_row in 0..structure.block_rows() {
                    for block in structure.blocks_of(block_row) {
                        let first_col = structure.col_idx()[block] as usize * bk;
                        for (at, &value) in values[block * bm * bk..][..bm * bk].iter().enumerate() {
                            if value != 0.0 {
                                visit(block_row * bm + at / bk, first_col + at % bk, value);
                            }
                        }
                    }
                }
            }
        }
    }

    /// The matrix in blocks of `block` elements, each value rounded to `T` once, and what the blocking costs.
    ///
    /// A block is stored where the file lists at least one element, zero or not. A file whose own blocks have
    /// this size keeps its blocks, those of zeros too.
    ///
    /// # Errors
    /// When a finite value exceeds the range of `T`, a NaN or an infinity meets a type without it, or the blocks cannot
    /// be addressed or do not fit in memory.
    pub fn to_bsr<T: Element>(&self, block: (usize, usize)) -> Result<(Bsr<T>, FillIn), ConvertError> {
        let structure = match &self.body {
            Body::Blocks { structure, .. } if structure.block() == block => structure.clone(),
            _ => self.structure(block)?,
        };
        let (bm, bk) = block;
        let (nnzb, true_nnz, dtype) = (structure.nnzb(), self.true_nnz(), T::DTYPE);
        let mut values: Vec<T> = Vec::new();
        values.try_reserve_exact(structure.stored()).map_err(|_| ConvertError::Memory {
            true_nnz,
            nnzb,
            bm,
            bk,
            dtype,
        })?;
        values.resize(structure.stored(), T::ZERO);

        // What a saturating type holds; others become infinite beyond their range.
        let held = T::saturates().then(|| T::from_f64(f64::NEG_INFINITY).to_f64()..=T::LARGEST);
        let lost = |value: f64, rounded: T| match value.is_finite() {
            true => !rounded.is_finite() || held.as_ref().is_some_and(|held| !held.contains(&value)),
            false => rounded.is_finite(),
        };
        let mut first_lost = None;
        let mut last = (usize::MAX, usize::MAX, 0);
        self.for_each(|row, col, value| {
            let (block_row, block_col) = (row / bm, col / bk);
            if (block_row, block_col) != (last.0, last.1) {
                let blocks = structure.blocks_of(block_row);
                let within = structure.col_idx()[blocks.clone()].partition_point(|&c| (c as usize) < block_col);
                last = (block_row, block_col, blocks.start + within);
            }
            let rounded = T::from_f64(value);
            if lost(value, rounded) {
                first_lost.get_or_insert((row, col, value));
            }
            values[(last.2 * bm + row % bm) * bk + col % bk] = rounded;
        });
        if let Some((row, col, value)) = first_lost {
            if !value.is_finite() {
                return Err(ConvertError::NotFinite { row, col, value, dtype });
            }
            let remedy = match value.abs() <= <half::bf16 as Element>::LARGEST {
                true if dtype.bytes() == 1 => "take f32 and quantise it, or scale the matrix",
                true => "take bf16 or f32, or scale the matrix",
                false => "scale the matrix",
            };
            return Err(ConvertError::Range { row, col, value, dtype, largest: T::LARGEST, remedy });
        }
        let stored = structure.stored();
        Ok((Bsr::from_structure(structure, values)?, FillIn { true_nnz, nnzb, block, stored }))
    }

    /// The blocks of size `block` in which an element is listed.
    fn structure(&self, block: (usize, usize)) -> Result<Structure, BsrError> {
        let shape = Structure::empty(self.rows, self.cols, block)?;
        let mut places: Vec<(u32, u32)> = Vec::new();
        self.for_each(|row, col, _| {
            // Sides are below 2^31, so block coordinates are too.
            let place = ((row / block.0) as u32, (col / block.1) as u32);
            if places.last() != Some(&place) {
                places.push(place);
            }
        });
        places.sort_unstable();
        places.dedup();
        check_offsets(places.len(), block.0)?;

        let mut row_ptr = vec![0; shape.block_rows() + 1];
        places.iter().for_each(|(block_row, _)| row_ptr[*block_row as usize + 1] += 1);
        let mut end = 0;
        row_ptr.iter_mut().for_each(|entry| {
            end += *entry;
            *entry = end;
        });
        let col_idx = places.into_iter().map(|(_, block_col)| block_col as i32).collect();
        Structure::new(self.rows, self.cols, block, row_ptr, col_idx)
    }
}

/// Why triplets are no matrix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TripletError {
    /// An element outside the matrix.
    #[error(
        "triplet {at} is at row {row}, column {col}, outside a {rows} x {cols} matrix; \
         count from 0, and give the shape that holds all elements"
    )]
    Outside {
        /// Position among the triplets.
        at: usize,
        /// Row of the element.
        row: u32,
        /// Column of the element.
        col: u32,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
    },
    /// A side that 32-bit coordinates cannot count.
    #[error(transparent)]
    Shape(#[from] BsrError),
}

/// What blocking costs: how many values are stored and multiplied for the ones that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillIn {
    true_nnz: usize,
    nnzb: usize,
    block: (usize, usize),
    stored: usize,
}

impl FillIn {
    /// Values of the file that are not zero.
    pub fn true_nnz(&self) -> usize {
        self.true_nnz
    }

    /// Stored blocks.
    pub fn nnzb(&self) -> usize {
        self.nnzb
    }

    /// Stored values: `nnzb * bm * bk`.
    pub fn stored(&self) -> usize {
        self.stored
    }

    /// `stored / true_nnz`: 1 is a perfect fit, and without nonzeros it is 1 if nothing is stored and infinite
    /// otherwise.
    pub fn ratio(&self) -> f64 {
        if self.stored == self.true_nnz { 1.0 } else { self.stored as f64 / self.true_nnz as f64 }
    }
}

impl fmt::Display for FillIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { true_nnz, nnzb, block: (bm, bk), stored } = self;
        write!(f, "{true_nnz} nonzeros in {nnzb} blocks of {bm} x {bk}: {stored} values stored, ")?;
        write!(f, "{:.2} for each nonzero", self.ratio())
    }
}
