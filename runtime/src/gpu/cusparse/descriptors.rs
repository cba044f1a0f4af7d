//! The library's descriptions of matrices, freed when dropped. They own no memory of the device.

use bsr_codegen::{Dtype, Layout};
use cudarc::cusparse::sys::{
    self, cudaDataType, cusparseDnMatDescr_t, cusparseIndexBase_t, cusparseIndexType_t, cusparseOrder_t,
    cusparseSpMatDescr_t, cusparseStatus_t,
};

use crate::gpu::{DevicePtr, GpuError};

/// What the library says of a call.
pub(super) fn check(call: &'static str, status: cusparseStatus_t) -> Result<(), GpuError> {
    if status == cusparseStatus_t::CUSPARSE_STATUS_SUCCESS { Ok(()) } else { Err(named(call, status)) }
}

pub(super) fn named(call: &'static str, status: cusparseStatus_t) -> GpuError {
    GpuError::Cusparse { call, status: format!("{status:?}") }
}

/// A dense matrix.
#[derive(Debug)]
pub(super) struct DenseMatrix(pub(super) cusparseDnMatDescr_t);

impl DenseMatrix {
    /// # Errors
    /// What the library refuses.
    pub(super) fn new(
        (rows, cols): (usize, usize),
        layout: Layout,
        ld: usize,
        values: DevicePtr,
        dtype: Dtype,
    ) -> Result<Self, GpuError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a place for one descriptor; the memory is only named here.
        let status = unsafe {
            sys::cusparseCreateDnMat(
                &mut raw,
                rows as i64,
                cols as i64,
                ld as i64,
                pointer(values),
                data_type(dtype),
                order(layout),
            )
        };
        check("cusparseCreateDnMat", status).map(|()| Self(raw))
    }
}

impl Drop for DenseMatrix {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cusparseDestroyDnMat(self.0.cast_const()) };
    }
}

/// A sparse matrix.
#[derive(Debug)]
pub(super) struct SparseMatrix(pub(super) cusparseSpMatDescr_t);

/// Square blocks: how many rows, columns and stored ones of them there are, and their side.
#[derive(Clone, Copy, Debug)]
pub(super) struct SquareBlocks {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) stored: usize,
    pub(super) side: usize,
}

impl SparseMatrix {
    /// # Errors
    /// What the library refuses.
    pub(super) fn bsr(
        blocks: SquareBlocks,
        [offsets, columns, values]: [DevicePtr; 3],
        dtype: Dtype,
    ) -> Result<Self, GpuError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a place for one descriptor; the memory is only named here.
        let status = unsafe {
            sys::cusparseCreateBsr(
                &mut raw,
                blocks.rows as i64,
                blocks.cols as i64,
                blocks.stored as i64,
                blocks.side as i64,
                blocks.side as i64,
                pointer(offsets),
                pointer(columns),
                pointer(values),
                cusparseIndexType_t::CUSPARSE_INDEX_32I,
                cusparseIndexType_t::CUSPARSE_INDEX_32I,
                cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO,
                data_type(dtype),
                cusparseOrder_t::CUSPARSE_ORDER_ROW,
            )
        };
        check("cusparseCreateBsr", status).map(|()| Self(raw))
    }

    /// `width` blocks in every block row, padding among them.
    ///
    /// # Errors
    /// What the library refuses.
    pub(super) fn blocked_ell(
        blocks: SquareBlocks,
        width: usize,
        [columns, values]: [DevicePtr; 2],
        dtype: Dtype,
    ) -> Result<Self, GpuError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a place for one descriptor; the memory is only named here.
        let status = unsafe {
            sys::cusparseCreateBlockedEll(
                &mut raw,
                (blocks.rows * blocks.side) as i64,
                (blocks.cols * blocks.side) as i64,
                blocks.side as i64,
                (width * blocks.side) as i64,
                pointer(columns),
                pointer(values),
                cusparseIndexType_t::CUSPARSE_INDEX_32I,
                cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO,
                data_type(dtype),
            )
        };
        check("cusparseCreateBlockedEll", status).map(|()| Self(raw))
    }
}

impl Drop for SparseMatrix {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cusparseDestroySpMat(self.0.cast_const()) };
    }
}

pub(super) fn pointer(address: DevicePtr) -> *mut std::ffi::c_void {
    std::ptr::without_provenance_mut(address as usize)
}

/// f16 and bf16 are all that a product lets come here.
fn data_type(dtype: Dtype) -> cudaDataType {
    if dtype == Dtype::BF16 { cudaDataType::CUDA_R_16BF } else { cudaDataType::CUDA_R_16F }
}

fn order(layout: Layout) -> cusparseOrder_t {
    match layout {
        Layout::RowMajor => cusparseOrder_t::CUSPARSE_ORDER_ROW,
        Layout::ColMajor => cusparseOrder_t::CUSPARSE_ORDER_COL,
    }
}
