//! One product of cuSPARSE, ready to be launched.

use std::ffi::c_void;
use std::rc::Rc;

use bsr_codegen::{Dtype, Layout};
use cudarc::cusparse::sys::{self, cudaDataType, cusparseOperation_t, cusparseSpMMAlg_t};

use super::descriptors::{DenseMatrix, SparseMatrix, SquareBlocks, check, pointer};
use super::ell::Ell;
use super::{Cusparse, Format};
use crate::Element;
use crate::bsr::narrow_row_ptr;
use crate::gpu::{DeviceBsr, DeviceBuffer, DeviceDense, GpuError, Plain, StreamRef};

/// C = A * B with A in one of the library's formats; C is its own.
#[derive(Debug)]
pub struct SparseProduct<T: Plain> {
    library: Cusparse,
    algorithm: cusparseSpMMAlg_t,
    sparse: SparseMatrix,
    dense: DenseMatrix,
    result: DenseMatrix,
    scratch: DeviceBuffer<u8>,
    /// What the descriptors name.
    _operands: (Rc<DeviceBsr<T>>, Rc<DeviceDense<T>>),
    _index: Vec<DeviceBuffer<i32>>,
    _padded: Option<DeviceBuffer<T>>,
    c: DeviceDense<T>,
}

/// Factors of the product: `C = 1 * A * B + 0 * C`.
const ONE: f32 = 1.0;
const ZERO: f32 = 0.0;

impl<T: Element + Plain> SparseProduct<T> {
    /// Describes the operands to the library. C has the layout of B.
    ///
    /// # Errors
    /// [`GpuError::CusparseProblem`] for what the format does not have: blocks that are not square or extend beyond an
    /// edge, other types than f16 and bf16, no blocks at all; [`GpuError::Cusparse`]; [`GpuError::OutOfMemory`].
    pub fn new(
        library: &Cusparse,
        format: Format,
        a: Rc<DeviceBsr<T>>,
        b: Rc<DeviceDense<T>>,
    ) -> Result<Self, GpuError> {
        let blocks = blocks(format, &a)?;
        let (device, structure) = (library.device(), a.structure());
        device.bind()?;
        let (m, n, k) = (a.rows(), b.cols(), a.cols());
        let c = DeviceDense::zeros(device, m, n, b.layout())?;
        let (sparse, index, padded) = match format {
            Format::Bsr => {
                let offsets = DeviceBuffer::from_slice(device, &narrow_row_ptr(structure.row_ptr())?)?;
                let places = [offsets.ptr(), a.col_idx().ptr(), a.values().ptr()];
                (SparseMatrix::bsr(blocks, places, T::DTYPE)?, vec![offsets], None)
            }
            Format::BlockedEll => {
                let ell = Ell::new(structure, &a.values().to_vec()?);
                let columns = DeviceBuffer::from_slice(device, &ell.columns)?;
                let values = DeviceBuffer::from_slice(device, &ell.values)?;
                let sparse = SparseMatrix::blocked_ell(blocks, ell.width, [columns.ptr(), values.ptr()], T::DTYPE)?;
                (sparse, vec![columns], Some(values))
            }
        };
        let dense = DenseMatrix::new((k, n), b.layout(), b.ld(), b.ptr(), T::DTYPE)?;
        let result = DenseMatrix::new((m, n), c.layout(), c.ld(), c.ptr(), T::DTYPE)?;
        let algorithm = match format {
            Format::Bsr => cusparseSpMMAlg_t::CUSPARSE_SPMM_BSR_ALG1,
            Format::BlockedEll => cusparseSpMMAlg_t::CUSPARSE_SPMM_BLOCKED_ELL_ALG1,
        };
        let mut bytes = 0;
        // SAFETY: descriptors and handle are alive; a place for one size.
        let status = unsafe {
            sys::cusparseSpMM_bufferSize(
                library.inner.raw,
                NORMAL,
                NORMAL,
                number(&ONE),
                sparse.0.cast_const(),
                dense.0.cast_const(),
                number(&ZERO),
                result.0,
                SUMS,
                algorithm,
                &mut bytes,
            )
        };
        check("cusparseSpMM_bufferSize", status)?;
        let scratch = DeviceBuffer::uninit(device, bytes.max(1))?;
        let library = library.clone();
        Ok(Self {
            library,
            algorithm,
            sparse,
            dense,
            result,
            scratch,
            _operands: (a, b),
            _index: index,
            _padded: padded,
            c,
        })
    }

    /// Enqueues the product.
    ///
    /// # Errors
    /// [`GpuError::Cusparse`] if the library refuses.
    pub fn launch(&self, stream: StreamRef<'_>) -> Result<(), GpuError> {
        self.library.device().bind()?;
        // SAFETY: the handle is alive, and so is the stream, which the reference says.
        check("cusparseSetStream", unsafe { sys::cusparseSetStream(self.library.inner.raw, stream.raw().cast()) })?;
        // SAFETY: descriptors, what they name, and the scratch of the size asked for live as long as `self`, whose buffers
        // are freed after the work that uses them.
        let status = unsafe {
            sys::cusparseSpMM(
                self.library.inner.raw,
                NORMAL,
                NORMAL,
                number(&ONE),
                self.sparse.0.cast_const(),
                self.dense.0.cast_const(),
                number(&ZERO),
                self.result.0,
                SUMS,
                self.algorithm,
                pointer(self.scratch.ptr()),
            )
        };
        check("cusparseSpMM", status)
    }

    /// The result of the last launch, after all work on the device.
    pub fn result(&self) -> &DeviceDense<T> {
        &self.c
    }

    /// The result, to be poisoned.
    pub fn result_mut(&mut self) -> &mut DeviceDense<T> {
        &mut self.c
    }
}

const NORMAL: cusparseOperation_t = cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE;
/// The type that products are summed in.
const SUMS: cudaDataType = cudaDataType::CUDA_R_32F;

fn number(value: &'static f32) -> *const c_void {
    std::ptr::from_ref(value).cast()
}

/// The blocks of a matrix that the format has.
fn blocks<T: Element + Plain>(format: Format, a: &DeviceBsr<T>) -> Result<SquareBlocks, GpuError> {
    let (structure, (bm, bk)) = (a.structure(), a.block());
    if a.device_pattern().is_some() {
        return Err(GpuError::PatternOnDevice { what: "cuSPARSE" });
    }
    let refused = |why: String| Err(GpuError::CusparseProblem { format: format.as_str(), why });
    if !matches!(T::DTYPE, Dtype::F16 | Dtype::BF16) {
        return refused(format!("it has f16 and bf16, this is {}", T::DTYPE));
    }
    if a.untyped().layout != Layout::RowMajor {
        return refused("its blocks are row by row, and these are column by column".to_owned());
    }
    if bm != bk {
        return refused(format!("blocks must be square, these are {bm} x {bk}"));
    }
    for (side, what) in [(structure.rows(), "rows"), (structure.cols(), "columns")] {
        if side % bm != 0 {
            return refused(format!("{side} {what} are no whole number of blocks of {bm}"));
        }
    }
    if structure.nnzb() == 0 {
        return refused("no block is stored".to_owned());
    }
    Ok(SquareBlocks { rows: structure.block_rows(), cols: structure.block_cols(), stored: structure.nnzb(), side: bm })
}
