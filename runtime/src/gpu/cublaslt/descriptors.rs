//! cuBLASLt's descriptors, freed when dropped.

use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t as DescAttribute,
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayout_t,
    cudaDataType,
};

use bsr_codegen::Dtype;

use super::problem::{DenseProblem, Mapped, Stored};
use crate::gpu::{DevicePtr, GpuError, Plain};

/// Names the call of an error of cuBLASLt.
pub(super) fn named(call: &'static str) -> impl Fn(CublasError) -> GpuError {
    move |CublasError(status)| GpuError::CublasLt { call, status: format!("{status:?}") }
}

fn data_type(dtype: Dtype) -> cudaDataType {
    match dtype {
        Dtype::F16 => cudaDataType::CUDA_R_16F,
        Dtype::BF16 => cudaDataType::CUDA_R_16BF,
        Dtype::F32 => cudaDataType::CUDA_R_32F,
        Dtype::F64 => cudaDataType::CUDA_R_64F,
        Dtype::E4M3 => cudaDataType::CUDA_R_8F_E4M3,
        Dtype::E5M2 => cudaDataType::CUDA_R_8F_E5M2,
        Dtype::I8 => cudaDataType::CUDA_R_8I,
        Dtype::I32 => cudaDataType::CUDA_R_32I,
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

/// What to compute: the type of sums and scaling, which operands are transposed, how FP8 is summed.
#[derive(Debug)]
pub(super) struct MatmulOperation(pub(super) cublasLtMatmulDesc_t);

impl MatmulOperation {
    /// `one` is the device address of the number 1.0, by which FP8 operands are scaled: the library wants to be told.
    pub(super) fn new(problem: &DenseProblem, mapped: &Mapped, one: DevicePtr) -> Result<Self, GpuError> {
        let (compute, scale) = match problem.types[0] {
            Dtype::I8 | Dtype::I32 => (cublasComputeType_t::CUBLAS_COMPUTE_32I, cudaDataType::CUDA_R_32I),
            Dtype::F64 => (cublasComputeType_t::CUBLAS_COMPUTE_64F, cudaDataType::CUDA_R_64F),
            Dtype::F32 if problem.tf32 => (cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, cudaDataType::CUDA_R_32F),
            // Not one of the `FAST` types: f32 operands are not rounded to TF32.
            _ => (cublasComputeType_t::CUBLAS_COMPUTE_32F, cudaDataType::CUDA_R_32F),
        };
        let made = Self(result::create_matmul_desc(compute, scale).map_err(named("cublasLtMatmulDescCreate"))?);
        // CUBLAS_OP_N = 0, CUBLAS_OP_T = 1.
        made.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(mapped.first.transpose))?;
        made.set(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(mapped.second.transpose))?;
        if problem.types[0].is_fp8() {
            made.set(DescAttribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, one)?;
            made.set(DescAttribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, one)?;
            made.set(DescAttribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, i8::from(problem.fast))?;
        }
        Ok(made)
    }

    /// Sets an attribute whose type is `T`.
    fn set<T: Plain>(&self, which: DescAttribute, value: T) -> Result<(), GpuError> {
        let from = std::ptr::from_ref(&value).cast::<c_void>();
        // SAFETY: `size_of::<T>()` bytes can be read there, and are copied before the call returns.
        unsafe { result::set_matmul_desc_attribute(self.0, which, from, size_of::<T>()) }
            .map_err(named("cublasLtMatmulDescSetAttribute"))
    }
}

impl Drop for MatmulOperation {
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
