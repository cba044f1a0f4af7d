//! A matrix in blocks, and what the blocking costs.

use bsr_codegen::Refusal;
use std::fmt;

use super::check_memory;
use super::sparse::{Body, Sparse};
use crate::bsr::check_offsets;
use crate::{Bsr, Element, Structure};

impl Sparse {
    /// The matrix in blocks of `block` elements, each value rounded to `T` once, and what the blocking costs.
    ///
    /// A block is stored where the file lists at least one element, zero or not, or where a dense one is not zero. A file
    /// whose own blocks have this size keeps its blocks, those of zeros too.
    ///
    /// # Errors
    /// When a finite value exceeds the range of `T`, a NaN or an infinity meets a type without it, or the blocks cannot
    /// be addressed or do not fit in memory.
    pub fn to_bsr<T: Element>(&self, block: (usize, usize)) -> Result<(Bsr<T>, FillIn), Refusal> {
        self.to_bsr_within(&self.structure(block)?)
    }

    /// The part of the matrix that lies in these blocks, each value rounded to `T` once; the rest is dropped. For
    /// instance what [`prune`](fn@crate::prune::prune) keeps.
    ///
    /// # Errors
    /// As [`to_bsr`](Self::to_bsr), of the values that are kept; and when the structure is of another shape.
    pub fn to_bsr_within<T: Element>(&self, structure: &Structure) -> Result<(Bsr<T>, FillIn), Refusal> {
        let (shape, of) = ([self.rows(), self.cols()], [structure.rows(), structure.cols()]);
        if shape != of {
            let matrices =
                format!("the matrix is {} x {}, the blocks are of a {} x {} one", shape[0], shape[1], of[0], of[1]);
            return Err(Refusal::new(matrices).help("find the blocks of this matrix"));
        }
        let (bm, bk) = structure.block();
        let (nnzb, dtype) = (structure.nnzb(), T::DTYPE);
        let bytes = structure.stored() as u64 * u64::from(dtype.bytes());
        check_memory(&[("the blocks", bytes)]).map_err(|_| {
            Refusal::new(format!("{} nonzeros fall into {nnzb} blocks of {bm} x {bk}", self.true_nnz()))
                .why(format!("{nnzb} * {bm} * {bk} * {} bytes do not fit in memory", dtype.bytes()))
                .help("choose a smaller block")
        })?;
        let mut values = vec![T::ZERO; structure.stored()];

        // What a saturating type holds; others become infinite beyond their range.
        let held = T::saturates().then(|| T::from_f64(f64::NEG_INFINITY).to_f64()..=T::LARGEST);
        let lost = |value: f64, rounded: T| match value.is_finite() {
            true => !rounded.is_finite() || held.as_ref().is_some_and(|held| !held.contains(&value)),
            false => rounded.is_finite(),
        };
        let (mut first_lost, mut true_nnz, mut underflows) = (None, 0, 0);
        let mut cursor = Cursor::new(structure);
        self.for_each(|row, col, value| {
            let Some(block) = cursor.find(row / bm, col / bk) else { return };
            let rounded = T::from_f64(value);
            if lost(value, rounded) {
                first_lost.get_or_insert((row, col, value));
            }
            true_nnz += usize::from(value != 0.0);
            underflows += usize::from(value != 0.0 && rounded.to_f64() == 0.0);
            values[(block * bm + row % bm) * bk + col % bk] = rounded;
        });
        if let Some((row, col, value)) = first_lost {
            if !value.is_finite() {
                return Err(Refusal::new(format!("{value} at row {row}, column {col}, which {dtype} does not have"))
                    .help("replace it, or take bf16 or f32"));
            }
            let remedy = match value.abs() <= <half::bf16 as Element>::LARGEST {
                true if dtype.bytes() == 1 => "take f32 and quantise it, or scale the matrix",
                true => "take bf16 or f32, or scale the matrix",
                false => "scale the matrix",
            };
            let (place, largest) = (format!("{value:e} at row {row}, column {col}"), T::LARGEST);
            return Err(Refusal::new(format!("{place} exceeds the largest {dtype}, {largest:e}")).help(remedy));
        }
        let fill_in = FillIn { true_nnz, underflows, nnzb, block: (bm, bk), stored: structure.stored() };
        Ok((Bsr::from_structure(structure.clone(), values)?, fill_in))
    }

    /// The blocks of size `block` that [`to_bsr`](Self::to_bsr) stores.
    ///
    /// # Errors
    /// When the block has a zero side, or the blocks cannot be addressed.
    pub fn structure(&self, block: (usize, usize)) -> Result<Structure, Refusal> {
        if let Body::Blocks { structure, .. } = &self.body
            && structure.block() == block
        {
            return Ok(structure.clone());
        }
        let shape = Structure::empty(self.rows(), self.cols(), block)?;
        let mut places: Vec<(u32, u32)> = Vec::new();
        // In which block row a block column was met last: elements come row by row, or nearly so. What it costs is
        // bounded, whatever number of columns a file claims.
        let mut met = vec![u32::MAX; shape.block_cols().min(1 << 20)];
        self.for_each(|row, col, _| {
            // Sides are below 2^31, so block coordinates are too.
            let place = ((row / block.0) as u32, (col / block.1) as u32);
            let last = met.get_mut(place.1 as usize).map(|last| std::mem::replace(last, place.0));
            if last != Some(place.0) {
                places.push(place);
            }
        });
        places.sort_unstable();
        places.dedup();
        from_places(&shape, &places)
    }

    /// What storing these blocks of the matrix costs; of pruned ones, for the nonzeros that stay.
    pub fn fill_in(&self, structure: &Structure) -> FillIn {
        let (bm, bk) = structure.block();
        let (mut cursor, mut true_nnz) = (Cursor::new(structure), 0);
        self.for_each(|row, col, value| {
            true_nnz += usize::from(value != 0.0 && cursor.find(row / bm, col / bk).is_some());
        });
        FillIn { true_nnz, underflows: 0, nnzb: structure.nnzb(), block: (bm, bk), stored: structure.stored() }
    }
}

/// The structure with blocks at these places, which are sorted, each once; `shape` has none.
///
/// # Errors
/// When the blocks cannot be addressed.
pub(crate) fn from_places(shape: &Structure, places: &[(u32, u32)]) -> Result<Structure, Refusal> {
    check_offsets(places.len(), shape.block())?;
    let mut row_ptr = vec![0_i64; shape.block_rows() + 1];
    places.iter().for_each(|(block_row, _)| row_ptr[*block_row as usize + 1] += 1);
    let mut end = 0;
    row_ptr.iter_mut().for_each(|entry| {
        end += *entry;
        *entry = end;
    });
    let col_idx = places.iter().map(|(_, block_col)| *block_col as i32).collect();
    Structure::new(shape.rows(), shape.cols(), shape.block(), row_ptr, col_idx)
}

/// Finds blocks by place, the same one again at no cost.
pub(crate) struct Cursor<'s> {
    structure: &'s Structure,
    place: (usize, usize),
    block: Option<usize>,
}

impl<'s> Cursor<'s> {
    pub(crate) fn new(structure: &'s Structure) -> Self {
        Self { structure, place: (usize::MAX, usize::MAX), block: None }
    }

    /// The number of the block at this place, if it is stored.
    pub(crate) fn find(&mut self, block_row: usize, block_col: usize) -> Option<usize> {
        if self.place != (block_row, block_col) {
            let blocks = self.structure.blocks_of(block_row);
            let columns = &self.structure.col_idx()[blocks.clone()];
            // Column indices are never negative.
            self.block = columns.binary_search_by_key(&block_col, |&c| c as usize).ok().map(|at| blocks.start + at);
            self.place = (block_row, block_col);
        }
        self.block
    }
}

/// What blocking costs: how many values are stored and multiplied for the ones that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillIn {
    true_nnz: usize,
    underflows: usize,
    nnzb: usize,
    block: (usize, usize),
    stored: usize,
}

impl FillIn {
    /// Values of the file that are not zero.
    pub fn true_nnz(&self) -> usize {
        self.true_nnz
    }

    /// Values of the file that are not zero, and are zero in the element type.
    pub fn underflows(&self) -> usize {
        self.underflows
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
        let Self { true_nnz, nnzb, block: (bm, bk), stored, .. } = self;
        write!(f, "{true_nnz} nonzeros in {nnzb} blocks of {bm} x {bk}: {stored} values stored, ")?;
        write!(f, "{:.2} for each nonzero", self.ratio())
    }
}
