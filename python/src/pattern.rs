//! Where the blocks of a matrix are.

use bsr::Structure;
use bsr::gpu::Fingerprint;
use bsr_runtime::Transposed;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::refused;
use crate::memory::ask_for;

/// The shape of a block-sparse matrix and the places of its blocks, checked.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct Pattern {
    pub(crate) structure: Structure,
    pub(crate) fingerprint: Fingerprint,
}

#[pymethods]
impl Pattern {
    /// Checks and takes the pattern of a `rows` x `cols` matrix in blocks of `bm` x `bk`. `row_ptr` are
    /// little-endian 64-bit integers, `col_idx` 32-bit ones.
    #[new]
    fn new(rows: usize, cols: usize, bm: usize, bk: usize, row_ptr: &[u8], col_idx: &[u8]) -> PyResult<Self> {
        let row_ptr: Vec<i64> = row_ptr.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect();
        let col_idx = col_idx.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
        let structure = Structure::new(rows, cols, (bm, bk), row_ptr, col_idx).map_err(refused)?;
        Ok(Self { fingerprint: Fingerprint::of(&structure), structure })
    }

    /// Rows of the matrix.
    #[getter]
    fn rows(&self) -> usize {
        self.structure.rows()
    }

    /// Columns of the matrix.
    #[getter]
    fn cols(&self) -> usize {
        self.structure.cols()
    }

    /// Rows and columns of a block.
    #[getter]
    fn block(&self) -> (usize, usize) {
        self.structure.block()
    }

    /// Stored blocks.
    #[getter]
    fn nnzb(&self) -> usize {
        self.structure.nnzb()
    }

    /// Stored blocks as a fraction of all.
    #[getter]
    fn density(&self) -> f64 {
        self.structure.density()
    }

    /// What tells this pattern from every other, on every machine.
    #[getter]
    fn key(&self) -> String {
        self.fingerprint.to_string()
    }

    /// Where each block row starts, as little-endian 64-bit integers.
    fn row_ptr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, self.structure.row_ptr(), i64::to_le_bytes)
    }

    /// The block column of each block, as little-endian 32-bit integers.
    fn col_idx<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, self.structure.col_idx(), i32::to_le_bytes)
    }

    /// The pattern that the product with a matrix of another pattern has.
    fn product(&self, py: Python<'_>, b: &Self) -> PyResult<Self> {
        let structure = py.detach(|| self.structure.product(&b.structure)).map_err(refused)?;
        Ok(Self { fingerprint: Fingerprint::of(&structure), structure })
    }

    /// The pattern of the transposed matrix, and for each of its blocks the number of the block here.
    fn transposed<'py>(&self, py: Python<'py>) -> PyResult<(Self, Bound<'py, PyBytes>)> {
        let order = bytes(py, self.by_columns()?.block_idx(), i32::to_le_bytes);
        let structure = self.structure.transpose().map_err(refused)?;
        Ok((Self { fingerprint: Fingerprint::of(&structure), structure }, order))
    }
}

impl Pattern {
    /// The index by block column. Its memory is asked for: a wide matrix has one entry for each, though it may store few blocks.
    pub(crate) fn by_columns(&self) -> PyResult<&Transposed> {
        let entries = self.structure.block_cols() as u64 + 1 + self.structure.nnzb() as u64;
        ask_for(8 * entries, "the index of the transposed pattern")?;
        self.structure.transposed().map_err(refused)
    }
}

fn bytes<'py, I: Copy, const N: usize>(
    py: Python<'py>,
    integers: &[I],
    of: impl Fn(I) -> [u8; N],
) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = integers.iter().flat_map(|integer| of(*integer)).collect();
    PyBytes::new(py, &bytes)
}
