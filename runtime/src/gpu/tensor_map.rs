//! Tensor maps: how the hardware is told where a matrix lies.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use bsr_codegen::{Conversion, Dtype, StridedMap, Tiled};
pub use bsr_codegen::{TensorMapError, TensorMapFault};
use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion,
    CUtensorMapSwizzle,
};

use super::buffer::DevicePtr;
use super::device::Device;
use super::error::{GpuError, check};
use super::{Operand, TensorMap};

/// Checks everything the hardware asks of a tensor map over the operand at `base`; needs no GPU.
///
/// # Errors
/// The first [`TensorMapFault`].
pub fn validate(base: DevicePtr, map: &TensorMap) -> Result<(), TensorMapError> {
    at(base, map.offset_bytes, map.operand)?;
    map.tiled().map(drop)
}

/// The same of a tensor of rank 4.
///
/// # Errors
/// The first [`TensorMapFault`].
pub(crate) fn validate_strided(base: DevicePtr, map: &StridedMap) -> Result<(), TensorMapError> {
    at(base, 0, map.operand)?;
    map.tiled().map(drop)
}

/// The address of a map's first element, which is no null and a multiple of 16.
fn at(base: DevicePtr, offset_bytes: u64, operand: Operand) -> Result<DevicePtr, TensorMapError> {
    let first = base.wrapping_add(offset_bytes);
    let is_legal = base != 0 && first.is_multiple_of(16);
    if is_legal { Ok(first) } else { Err(TensorMapError { operand, fault: TensorMapFault::Base(first) }) }
}

/// Encodes a tensor map over the operand at `base`: no interleave, out-of-bounds elements read as zero, L2 promotion
/// to 256 bytes.
///
/// Only the address is looked at; the memory may be allocated, freed or overwritten at any time before the
/// kernel runs.
///
/// # Errors
/// [`GpuError::TensorMap`] for what the hardware cannot take.
pub fn encode(device: &Device, base: DevicePtr, map: &TensorMap) -> Result<CUtensorMap, GpuError> {
    tiled(device, at(base, map.offset_bytes, map.operand)?, map.tiled()?)
}

/// Encodes the map of a tensor of rank 4 at `base`, as [`encode`] does.
///
/// # Errors
/// [`GpuError::TensorMap`] for what the hardware cannot take.
pub fn encode_strided(device: &Device, base: DevicePtr, map: &StridedMap) -> Result<CUtensorMap, GpuError> {
    tiled(device, at(base, 0, map.operand)?, map.tiled()?)
}

/// Encodes a map whose sizes, strides and box the hardware takes.
fn tiled(device: &Device, first: DevicePtr, map: Tiled<'_>) -> Result<CUtensorMap, GpuError> {
    let Tiled { dtype, conversion, dims, strides_bytes, box_dims, swizzle_bytes, .. } = map;
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    debug_assert!(dims.len() == strides_bytes.len() + 1 && dims.len() == box_dims.len() && dims.len() <= 5);
    device.bind()?;
    // SAFETY: `encoded` is an aligned place for one map; the arrays hold rank, rank - 1, rank and at least rank numbers.
    check("cuTensorMapEncodeTiled", unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            data_type(dtype, conversion),
            dims.len() as u32,
            std::ptr::without_provenance_mut::<c_void>(first as usize),
            dims.as_ptr(),
            strides_bytes.as_ptr(),
            box_dims.as_ptr(),
            [1; 5].as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(swizzle_bytes),
            // Rows are often narrower than 256 bytes: promoted so far, blocks of 64 columns of FP8 ran at 0.8 of the
            // rate that they have with 128, and nothing ran faster (benches/LOG.md).
            CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    })?;
    Ok(encoded)
}

/// TMA moves bytes, unless it rounds them to TF32: of a type it needs the size, and 8-bit ones are all the same to it.
fn data_type(dtype: Dtype, conversion: Conversion) -> CUtensorMapDataType {
    match dtype {
        Dtype::F32 if conversion == Conversion::Tf32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        Dtype::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::BF16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Dtype::F32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Dtype::F64 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        Dtype::I32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Dtype::E4M3 | Dtype::E5M2 | Dtype::I8 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
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
    encoded: Mutex<HashMap<(DevicePtr, Description), CUtensorMap>>,
}

/// What a tensor map is encoded of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Description {
    /// A matrix, or a matrix in parts.
    Matrix(TensorMap),
    /// A tensor of rank 4.
    Tensor(StridedMap),
}

impl From<&TensorMap> for Description {
    fn from(map: &TensorMap) -> Self {
        Self::Matrix(*map)
    }
}

impl From<&StridedMap> for Description {
    fn from(map: &StridedMap) -> Self {
        Self::Tensor(*map)
    }
}

impl TensorMapCache {
    /// Maps kept at most: three or four for each of some hundred sets of buffers.
    const CAPACITY: usize = 448;

    /// An empty cache.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), encoded: Mutex::new(HashMap::with_capacity(Self::CAPACITY)) }
    }

    /// The map of memory at `base`, encoded now or before.
    ///
    /// # Errors
    /// As [`encode`].
    pub fn get(&self, base: DevicePtr, map: impl Into<Description>) -> Result<CUtensorMap, GpuError> {
        let key = (base, map.into());
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = encoded.get(&key) {
            return Ok(known);
        }
        let made = match &key.1 {
            Description::Matrix(map) => encode(&self.device, base, map),
            Description::Tensor(map) => encode_strided(&self.device, base, map),
        }?;
        if encoded.len() == Self::CAPACITY {
            encoded.clear();
        }
        encoded.insert(key, made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const BASE: DevicePtr = 0x7f00_0000_0100;
    const GOOD: TensorMap = TensorMap {
        conversion: Conversion::Unchanged,
        operand: Operand::B,
        dtype: Dtype::F16,
        rank: 2,
        offset_bytes: 0,
        dims: [1000, 8192, 1],
        strides_bytes: [2000, 0],
        box_dims: [64, 128, 1],
        swizzle_bytes: 128,
    };
    /// Rows of 1024 bytes in parts of 128, all parts of 64 rows in one box.
    const PARTS: TensorMap = TensorMap {
        conversion: Conversion::Unchanged,
        dtype: Dtype::E4M3,
        rank: 3,
        dims: [128, 512, 8],
        strides_bytes: [1024, 128],
        box_dims: [128, 64, 2],
        ..GOOD
    };

    #[test]
    fn what_the_hardware_takes_passes() {
        let narrow = [16, 0];
        assert_eq!(validate(BASE, &GOOD), Ok(()));
        assert_eq!(validate(BASE, &PARTS), Ok(()));
        assert_eq!(validate(BASE + 8, &TensorMap { offset_bytes: 24, ..GOOD }), Ok(()));
        assert_eq!(validate(BASE, &TensorMap { dims: [1, 1, 1], strides_bytes: narrow, ..GOOD }), Ok(()));
        assert_eq!(validate(BASE, &TensorMap { dims: [1, 1 << 32, 1], strides_bytes: narrow, ..GOOD }), Ok(()));
        assert_eq!(validate(BASE, &TensorMap { swizzle_bytes: 0, box_dims: [256, 256, 1], ..GOOD }), Ok(()));
        for (dtype, stride, inner) in [(Dtype::F32, 4000, 32), (Dtype::I32, 4000, 32), (Dtype::I8, 1008, 128)] {
            let map = TensorMap { dtype, strides_bytes: [stride, 0], box_dims: [inner, 1, 1], ..GOOD };
            assert_eq!(validate(BASE, &map), Ok(()));
        }
    }

    #[test]
    fn every_limit_is_named_with_its_arithmetic() {
        let cases = [
            (BASE + 8, GOOD, "multiple of 16 and not null"),
            (0, GOOD, "not null"),
            (0, TensorMap { offset_bytes: 32, ..GOOD }, "not null"),
            (BASE, TensorMap { offset_bytes: 8, ..GOOD }, "0x7f0000000108"),
            (BASE, TensorMap { rank: 1, ..GOOD }, "1 dimensions"),
            (BASE, TensorMap { rank: 4, ..GOOD }, "4 dimensions"),
            (BASE, TensorMap { dims: [0, 4, 1], ..GOOD }, "4 x 0: "),
            (BASE, TensorMap { dims: [128, 4, 0], ..PARTS }, "0 x 4 x 128: "),
            (BASE, TensorMap { dims: [1, (1 << 32) + 1, 1], ..GOOD }, "4294967297 x 1: "),
            (BASE, TensorMap { strides_bytes: [2002, 0], ..GOOD }, "pad the line to 2016 B"),
            (BASE, TensorMap { strides_bytes: [1024, 120], ..PARTS }, "a stride of 120 B along dimension 2"),
            (BASE, TensorMap { strides_bytes: [1 << 40, 0], ..GOOD }, "below 2^40"),
            (BASE, TensorMap { strides_bytes: [1984, 0], ..GOOD }, "1000 elements x 2 B = 2000 B"),
            (BASE, TensorMap { box_dims: [64, 257, 1], ..GOOD }, "257 x 64: "),
            (BASE, TensorMap { box_dims: [64, 0, 1], ..GOOD }, "1 to 256"),
            (BASE, TensorMap { box_dims: [64, 8, 0], ..PARTS }, "0 x 8 x 64: "),
            (BASE, TensorMap { box_dims: [20, 8, 1], ..GOOD }, "20 elements x 2 B = 40 B"),
            (BASE, TensorMap { box_dims: [72, 8, 1], ..PARTS }, "72 elements x 1 B = 72 B"),
            (BASE, TensorMap { box_dims: [128, 8, 1], ..GOOD }, "at most 64 elements"),
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
