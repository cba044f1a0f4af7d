//! Where the blocks of a matrix are.

use bsr::Structure;
use bsr::gpu::Fingerprint;
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
    /// Checks and takes the pattern of a `rows` x `cols` matrix in blocks of `bm` x `bk`. `row_ptr` and `col_idx` are
    /// little-endian 32-bit integers.
    #[new]
    fn new(rows: usize, cols: usize, bm: usize, bk: usize, row_ptr: &[u8], col_idx: &[u8]) -> PyResult<Self> {
        let integers = |bytes: &[u8]| -> Vec<i32> {
            bytes.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect()
        };
        let structure = Structure::new(rows, cols, (bm, bk), integers(row_ptr), integers(col_idx)).map_err(refused)?;
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

    /// Where each block row starts, as little-endian 32-bit integers.
    fn row_ptr<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, self.structure.row_ptr())
    }

    /// The block column of each block, as little-endian 32-bit integers.
    fn col_idx<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, self.structure.col_idx())
    }

    /// The pattern that the product with a matrix of another pattern has.
    fn product(&self, py: Python<'_>, b: &Self) -> PyResult<Self> {
        let structure = py.detach(|| self.structure.product(&b.structure)).map_err(refused)?;
        Ok(Self { fingerprint: Fingerprint::of(&structure), structure })
    }

    /// The pattern of the transposed matrix, and for each of its blocks the number of the block here.
    fn transposed<'py>(&self, py: Python<'py>) -> PyResult<(Self, Bound<'py, PyBytes>)> {
        self.ask_for_transposed()?;
        let structure = self.structure.transpose().map_err(refused)?;
        let order = bytes(py, self.structure.transposed().block_idx());
        Ok((Self { fingerprint: Fingerprint::of(&structure), structure }, order))
    }
}

impl Pattern {
    /// Asks for the memory of the index by block column: a wide matrix has one entry for each, though it may store few blocks.
    pub(crate) fn ask_for_transposed(&self) -> PyResult<()> {
        let entries = self.structure.block_cols() as u64 + 1 + 2 * self.structure.nnzb() as u64;
        ask_for(4 * entries, "the index of the transposed pattern")
    }
}

fn bytes<'py>(py: Python<'py>, integers: &[i32]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = integers.iter().flat_map(|integer| integer.to_le_bytes()).collect();
    PyBytes::new(py, &bytes)
}
