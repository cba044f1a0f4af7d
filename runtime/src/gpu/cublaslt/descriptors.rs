//! cuBLASLt's descriptors, freed when dropped.

use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayout_t,
    cudaDataType,
};

use bsr_codegen::Dtype;

use super::problem::Stored;
use crate::gpu::GpuError;

/// Names the call of an error of cuBLASLt.
pub(super) fn named(call: &'static str) -> impl Fn(CublasError) -> GpuError {
    move |CublasError(status)| GpuError::CublasLt { call, status: format!("{status:?}") }
}

fn data_type(dtype: Dtype) -> cudaDataType {
    match dtype {
        Dtype::F16 => cudaDataType::CUDA_R_16F,
        Dtype::BF16 => cudaDataType::CUDA_R_16BF,
        Dtype::F32 => cudaDataType::CUDA_R_32F,
    }
}

/// How one matrix lies in memory.
#[derive(Debug)]
pub(super) struct MatrixLayout(pub(super) cublasLtMatrixLayout_t);

impl MatrixLayout {
    pub(super) fn new(stored: &Stored, dtype: Dtype) -> Result<Self, GpuError> {
        let (rows, cols, ld) = (stored.rows as u64, stored.cols as u64, stored.ld as i64);
        result::create_matrix_layout(data_type(dtype), rows, cols, ld)
            .map(Self)
            .map_err(named("cublasLtMatrixLayoutCreate"))
    }
}

impl Drop for MatrixLayout {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// What to compute: f32 accumulation and scaling, and which operands are transposed.
#[derive(Debug)]
pub(super) struct Operation(pub(super) cublasLtMatmulDesc_t);

impl Operation {
    pub(super) fn new(transpose_first: bool, transpose_second: bool) -> Result<Self, GpuError> {
        let (compute, scale) = (cublasComputeType_t::CUBLAS_COMPUTE_32F, cudaDataType::CUDA_R_32F);
        let made = Self(result::create_matmul_desc(compute, scale).map_err(named("cublasLtMatmulDescCreate"))?);
        made.set_transpose(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, transpose_first)?;
        made.set_transpose(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, transpose_second)?;
        Ok(made)
    }

    fn set_transpose(&self, which: DescAttribute, transpose: bool) -> Result<(), GpuError> {
        // CUBLAS_OP_N = 0, CUBLAS_OP_T = 1.
        let operation = i32::from(transpose);
        let from = std::ptr::from_ref(&operation).cast::<c_void>();
        // SAFETY: the attribute is a 32-bit number and is copied before the call returns.
        unsafe { result::set_matmul_desc_attribute(self.0, which, from, size_of::<i32>()) }
            .map_err(named("cublasLtMatmulDescSetAttribute"))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

/// What the heuristic may use.
pub(super) struct Preference(pub(super) cublasLtMatmulPreference_t);

impl Preference {
    pub(super) fn new(workspace_bytes: usize) -> Result<Self, GpuError> {
        let made = Self(result::create_matmul_pref().map_err(named("cublasLtMatmulPreferenceCreate"))?);
        let bytes = workspace_bytes as u64;
        let from = std::ptr::from_ref(&bytes).cast::<c_void>();
        let which = PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: the attribute is a 64-bit number and is copied before the call returns.
        unsafe { result::set_matmul_pref_attribute(made.0, which, from, size_of::<u64>()) }
            .map_err(named("cublasLtMatmulPreferenceSetAttribute"))?;
        Ok(made)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}
