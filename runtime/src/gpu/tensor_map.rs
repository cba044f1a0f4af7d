//! Tensor maps: how the hardware is told where a matrix lies.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use bsr_codegen::Dtype;
use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion,
    CUtensorMapSwizzle,
};

use super::buffer::DevicePtr;
use super::device::Device;
use super::error::{GpuError, check};
use super::{Operand, TensorMap};

/// A tensor map that the hardware cannot take. The driver would answer `CUDA_ERROR_INVALID_VALUE` to any of
/// them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tensor map of {operand:?} cannot be made: {fault}")]
pub struct TensorMapError {
    /// Which operand.
    pub operand: Operand,
    /// What is wrong.
    pub fault: TensorMapFault,
}

/// What is wrong with a tensor map: the fact, the arithmetic and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapFault {
    /// The base address is null or not a multiple of 16 bytes.
    #[error("its base address {0:#x} must be a multiple of 16 and not null\n  help: pass memory aligned to 16 bytes")]
    Base(DevicePtr),
    /// A dimension of 0 or beyond 2^32.
    #[error("a {} x {} matrix: TMA takes dimensions from 1 to 4294967296\n  help: launch nothing for an empty matrix, split a larger one", .0[1], .0[0])]
    Dims([u64; 2]),
    /// A row stride that is not a multiple of 16 bytes, or 2^40 and more.
    #[error("a row stride of {stride} B must be a multiple of 16 below 2^40\n  help: pad the row to {} B", stride.next_multiple_of(16))]
    Stride {
        /// Bytes from row to row.
        stride: u64,
    },
    /// Rows that overlap.
    #[error("a row stride of {stride} B is shorter than a row of {inner} elements x {size} B = {} B\n  help: use a stride of {} B", inner * size, (inner * size).next_multiple_of(16))]
    Overlap {
        /// Bytes from row to row.
        stride: u64,
        /// Elements of a row.
        inner: u64,
        /// Bytes of an element.
        size: u64,
    },
    /// A box dimension of 0 or beyond 256.
    #[error("a box of {} x {} elements: TMA takes 1 to 256 a dimension\n  help: copy in smaller boxes", .0[1], .0[0])]
    Box([u32; 2]),
    /// A box row that is not a multiple of 16 bytes.
    #[error("a box row of {inner} elements x {size} B = {} B must be a multiple of 16 B\n  help: make it {} elements", inner * size, (inner * size).next_multiple_of(16) / size)]
    BoxRow {
        /// Elements of a box row.
        inner: u32,
        /// Bytes of an element.
        size: u32,
    },
    /// A box row longer than the swizzle span.
    #[error("a box row of {inner} elements x {size} B = {} B is longer than the swizzle span of {span} B\n  help: make it at most {} elements", inner * size, span / size)]
    BoxSpan {
        /// Elements of a box row.
        inner: u32,
        /// Bytes of an element.
        size: u32,
        /// Bytes of the swizzle span.
        span: u32,
    },
    /// A swizzle the hardware does not have.
    #[error("a swizzle of {0} B does not exist\n  help: use 0 (none), 32, 64 or 128")]
    Swizzle(u32),
}

/// Checks everything the hardware asks of a tensor map over memory at `base`; needs no GPU.
///
/// # Errors
/// The first [`TensorMapFault`].
pub fn validate(base: DevicePtr, map: &TensorMap) -> Result<(), TensorMapError> {
    fault(base, map).map_or(Ok(()), |fault| Err(TensorMapError { operand: map.operand, fault }))
}

fn fault(base: DevicePtr, map: &TensorMap) -> Option<TensorMapFault> {
    use TensorMapFault as Fault;
    let size = map.dtype.bytes();
    let (inner, stride, box_inner) = (map.dims[0], map.row_stride_bytes, map.box_dims[0]);
    if base == 0 || !base.is_multiple_of(16) {
        return Some(Fault::Base(base));
    }
    if map.dims.iter().any(|dim| !(1..=1 << 32).contains(dim)) {
        return Some(Fault::Dims(map.dims));
    }
    if !stride.is_multiple_of(16) || stride >= 1 << 40 {
        return Some(Fault::Stride { stride });
    }
    if stride < inner * u64::from(size) {
        return Some(Fault::Overlap { stride, inner, size: size.into() });
    }
    if map.box_dims.iter().any(|dim| !(1..=256).contains(dim)) {
        return Some(Fault::Box(map.box_dims));
    }
    if !(box_inner * size).is_multiple_of(16) {
        return Some(Fault::BoxRow { inner: box_inner, size });
    }
    match map.swizzle_bytes {
        0 => None,
        span @ (32 | 64 | 128) if box_inner * size > span => Some(Fault::BoxSpan { inner: box_inner, size, span }),
        32 | 64 | 128 => None,
        other => Some(Fault::Swizzle(other)),
    }
}

/// Encodes a tensor map over memory at `base`: rank 2, no interleave, out-of-bounds elements read as zero,
/// L2 promotion to 256 bytes.
///
/// Only the address is looked at; the memory may be allocated, freed or overwritten at any time before the
/// kernel runs.
///
/// # Errors
/// [`GpuError::TensorMap`] for what the hardware cannot take.
pub fn encode(device: &Device, base: DevicePtr, map: &TensorMap) -> Result<CUtensorMap, GpuError> {
    validate(base, map)?;
    device.bind()?;
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    let strides = [map.row_stride_bytes];
    // SAFETY: `encoded` is an aligned place for one map; the arrays hold rank, rank - 1, rank and rank
    // numbers for rank 2.
    check("cuTensorMapEncodeTiled", unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            data_type(map.dtype),
            2,
            std::ptr::without_provenance_mut::<c_void>(base as usize),
            map.dims.as_ptr(),
            strides.as_ptr(),
            map.box_dims.as_ptr(),
            [1, 1].as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle_bytes),
            CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    })?;
    Ok(encoded)
}

fn data_type(dtype: Dtype) -> CUtensorMapDataType {
    match dtype {
        Dtype::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::BF16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Dtype::F32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    }
}

fn swizzle(bytes: u32) -> CUtensorMapSwizzle {
    match bytes {
        32 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        64 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        128 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        _ => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
    }
}

/// Encoded tensor maps by base address and description, so that a launch encodes nothing new for buffers it
/// has seen before.
///
/// An entry never goes stale: a map is a function of the address and the description alone. Looking up
/// allocates nothing; the cache forgets everything when it is full.
#[derive(Debug)]
pub struct TensorMapCache {
    device: Device,
    encoded: Mutex<HashMap<(DevicePtr, TensorMap), CUtensorMap>>,
}

impl TensorMapCache {
    /// Maps kept at most: three for each of some hundred sets of buffers.
    const CAPACITY: usize = 448;

    /// An empty cache.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), encoded: Mutex::new(HashMap::with_capacity(Self::CAPACITY)) }
    }

    /// The map of memory at `base`, encoded now or before.
    ///
    /// # Errors
    /// As [`encode`].
    pub fn get(&self, base: DevicePtr, map: &TensorMap) -> Result<CUtensorMap, GpuError> {
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = encoded.get(&(base, *map)) {
            return Ok(known);
        }
        let made = encode(&self.device, base, map)?;
        if encoded.len() == Self::CAPACITY {
            encoded.clear();
        }
        encoded.insert((base, *map), made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const BASE: DevicePtr = 0x7f00_0000_0100;
    const GOOD: TensorMap = TensorMap {
        operand: Operand::B,
        dtype: Dtype::F16,
        dims: [1000, 8192],
        row_stride_bytes: 2000,
        box_dims: [64, 128],
        swizzle_bytes: 128,
    };

    #[test]
    fn what_the_hardware_takes_passes() {
        assert_eq!(validate(BASE, &GOOD), Ok(()));
        assert_eq!(validate(BASE, &TensorMap { dims: [1, 1], row_stride_bytes: 16, ..GOOD }), Ok(()));
        assert_eq!(validate(BASE, &TensorMap { dims: [1, 1 << 32], row_stride_bytes: 16, ..GOOD }), Ok(()));
        assert_eq!(validate(BASE, &TensorMap { swizzle_bytes: 0, box_dims: [256, 256], ..GOOD }), Ok(()));
        assert_eq!(
            validate(BASE, &TensorMap { dtype: Dtype::F32, row_stride_bytes: 4000, box_dims: [32, 1], ..GOOD }),
            Ok(())
        );
    }

    #[test]
    fn every_limit_is_named_with_its_arithmetic() {
        let cases = [
            (BASE + 8, GOOD, "multiple of 16 and not null"),
            (0, GOOD, "not null"),
            (BASE, TensorMap { dims: [0, 4], ..GOOD }, "4 x 0 matrix"),
            (BASE, TensorMap { dims: [1, (1 << 32) + 1], ..GOOD }, "4294967297 x 1"),
            (BASE, TensorMap { row_stride_bytes: 2002, ..GOOD }, "pad the row to 2016 B"),
            (BASE, TensorMap { row_stride_bytes: 1 << 40, ..GOOD }, "below 2^40"),
            (BASE, TensorMap { row_stride_bytes: 1984, ..GOOD }, "1000 elements x 2 B = 2000 B"),
            (BASE, TensorMap { box_dims: [64, 257], ..GOOD }, "257 x 64"),
            (BASE, TensorMap { box_dims: [64, 0], ..GOOD }, "1 to 256"),
            (BASE, TensorMap { box_dims: [20, 8], ..GOOD }, "20 elements x 2 B = 40 B"),
            (BASE, TensorMap { box_dims: [128, 8], ..GOOD }, "at most 64 elements"),
            (BASE, TensorMap { swizzle_bytes: 96, ..GOOD }, "96 B does not exist"),
        ];
        for (base, map, words) in cases {
            let text = validate(base, &map).unwrap_err().to_string();
            assert!(text.contains(words) && text.contains("tensor map of B"), "{text}");
            assert!(text.contains("help:"), "{text}");
        }
    }

    #[test]
    fn a_tensor_map_has_the_size_of_its_kernel_parameter() {
        assert_eq!(size_of::<CUtensorMap>(), 128);
        assert!(align_of::<CUtensorMap>() >= 64);
    }
}
