//! Tensor maps: how the hardware is told where a matrix lies.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use bsr_codegen::{Dtype, StridedMap};
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
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tensor map of {operand:?} cannot be made: {fault}")]
pub struct TensorMapError {
    /// Which operand.
    pub operand: Operand,
    /// What is wrong.
    pub fault: TensorMapFault,
}

bsr_codegen::message_as_debug!(TensorMapError);

/// What is wrong with a tensor map: the fact, the arithmetic and the remedy.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapFault {
    /// The address of the first element is null or not a multiple of 16 bytes.
    #[error("its base address {0:#x} must be a multiple of 16 and not null\n  help: pass memory aligned to 16 bytes")]
    Base(DevicePtr),
    /// A rank other than 2 and 3.
    #[error("{0} dimensions: maps of 2 and 3 are encoded\n  help: describe a matrix, or a stack of matrices")]
    Rank(u32),
    /// A dimension of 0 or beyond 2^32.
    #[error(
        "{}: TMA takes dimensions from 1 to 4294967296\n  help: launch nothing for an empty matrix, split a larger one",
        shape(rank, dims)
    )]
    Dims {
        /// Dimensions that count.
        rank: u32,
        /// Elements, contiguous dimension first.
        dims: [u64; 3],
    },
    /// A stride that is not a multiple of 16 bytes, or 2^40 and more.
    #[error("a stride of {stride} B along dimension {dimension} must be a multiple of 16 below 2^40\n  help: pad the line to {} B", stride.next_multiple_of(16))]
    Stride {
        /// The dimension, counted from the contiguous one, which is 0.
        dimension: usize,
        /// Bytes from one element to the next along it.
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
    #[error("a box of {}: TMA takes 1 to 256 elements a dimension\n  help: copy in smaller boxes", shape(rank, &box_dims.map(u64::from)))]
    Box {
        /// Dimensions that count.
        rank: u32,
        /// Elements, contiguous dimension first.
        box_dims: [u32; 3],
    },
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

bsr_codegen::message_as_debug!(TensorMapFault);

/// Sizes as they are said: the contiguous dimension last.
fn shape(rank: &u32, dims: &[u64; 3]) -> String {
    let sizes: Vec<String> = dims.iter().take(*rank as usize).rev().map(u64::to_string).collect();
    sizes.join(" x ")
}

/// Checks everything the hardware asks of a tensor map over the operand at `base`; needs no GPU.
///
/// # Errors
/// The first [`TensorMapFault`].
pub fn validate(base: DevicePtr, map: &TensorMap) -> Result<(), TensorMapError> {
    fault(base, map).map_or(Ok(()), |fault| Err(TensorMapError { operand: map.operand, fault }))
}

fn fault(base: DevicePtr, map: &TensorMap) -> Option<TensorMapFault> {
    use TensorMapFault as Fault;
    let size = map.dtype.bytes();
    let (rank, inner, box_inner) = (map.rank, map.dims[0], map.box_dims[0]);
    let first = base.wrapping_add(map.offset_bytes);
    if base == 0 || !first.is_multiple_of(16) {
        return Some(Fault::Base(first));
    }
    if !(2..=3).contains(&rank) {
        return Some(Fault::Rank(rank));
    }
    let dimensions = rank as usize;
    if map.dims[..dimensions].iter().any(|dim| !(1..=1 << 32).contains(dim)) {
        return Some(Fault::Dims { rank, dims: map.dims });
    }
    let strides = &map.strides_bytes[..dimensions - 1];
    let wrong = |stride: &u64| !stride.is_multiple_of(16) || *stride >= 1 << 40;
    if let Some(at) = strides.iter().position(wrong) {
        return Some(Fault::Stride { dimension: at + 1, stride: strides[at] });
    }
    // In a map of rank 3 the dimensions may be parts of one row, and the rows need not come second.
    if rank == 2 && strides[0] < inner * u64::from(size) {
        return Some(Fault::Overlap { stride: strides[0], inner, size: size.into() });
    }
    if map.box_dims[..dimensions].iter().any(|dim| !(1..=256).contains(dim)) {
        return Some(Fault::Box { rank, box_dims: map.box_dims });
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

/// Encodes a tensor map over the operand at `base`: no interleave, out-of-bounds elements read as zero, L2 promotion
/// to 256 bytes.
///
/// Only the address is looked at; the memory may be allocated, freed or overwritten at any time before the
/// kernel runs.
///
/// # Errors
/// [`GpuError::TensorMap`] for what the hardware cannot take.
pub fn encode(device: &Device, base: DevicePtr, map: &TensorMap) -> Result<CUtensorMap, GpuError> {
    validate(base, map)?;
    device.bind()?;
    let rank = map.rank as usize;
    tiled(
        base.wrapping_add(map.offset_bytes),
        map.dtype,
        (&map.dims[..rank], &map.strides_bytes[..rank - 1], &map.box_dims[..rank]),
        map.swizzle_bytes,
    )
}

/// Encodes the map of a tensor of rank 4 at `base`, as [`encode`] does.
///
/// # Errors
/// [`GpuError::TensorMap`] for what the hardware cannot take.
pub fn encode_strided(device: &Device, base: DevicePtr, map: &StridedMap) -> Result<CUtensorMap, GpuError> {
    strided_fault(base, map).map_or(Ok(()), |fault| Err(TensorMapError { operand: map.operand, fault }))?;
    device.bind()?;
    tiled(base, map.dtype, (&map.dims, &map.strides_bytes, &map.box_dims), map.swizzle_bytes)
}

/// What the hardware cannot take of a map of rank 4: the faults of its rows, and strides and sizes beyond.
fn strided_fault(base: DevicePtr, map: &StridedMap) -> Option<TensorMapFault> {
    let [columns, rows, ..] = map.dims;
    let [by_row, ..] = map.strides_bytes;
    let [box_columns, box_rows, ..] = map.box_dims;
    let of_rows = TensorMap {
        operand: map.operand,
        dtype: map.dtype,
        rank: 2,
        offset_bytes: 0,
        dims: [columns, rows, 1],
        strides_bytes: [by_row, 0],
        box_dims: [box_columns, box_rows, 1],
        swizzle_bytes: map.swizzle_bytes,
    };
    fault(base, &of_rows).or_else(|| {
        let wrong = |stride: &u64| !stride.is_multiple_of(16) || *stride >= 1 << 40;
        let stride = map.strides_bytes.iter().position(wrong);
        let stride = stride.map(|at| TensorMapFault::Stride { dimension: at + 1, stride: map.strides_bytes[at] });
        let sizes = map.dims.iter().any(|dim| !(1..=1 << 32).contains(dim));
        stride.or(sizes.then_some(TensorMapFault::Dims { rank: 3, dims: [rows, map.dims[2], map.dims[3]] }))
    })
}

/// Encodes a map whose sizes, strides and box the hardware takes.
fn tiled(
    first: DevicePtr,
    dtype: Dtype,
    (dims, strides, box_dims): (&[u64], &[u64], &[u32]),
    swizzle_bytes: u32,
) -> Result<CUtensorMap, GpuError> {
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    debug_assert!(dims.len() == strides.len() + 1 && dims.len() == box_dims.len() && dims.len() <= 5);
    // SAFETY: `encoded` is an aligned place for one map; the arrays hold rank, rank - 1, rank and at least rank numbers.
    check("cuTensorMapEncodeTiled", unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            data_type(dtype),
            dims.len() as u32,
            std::ptr::without_provenance_mut::<c_void>(first as usize),
            dims.as_ptr(),
            strides.as_ptr(),
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

/// TMA moves bytes: of a type it needs the size, and 8-bit ones are all the same to it.
fn data_type(dtype: Dtype) -> CUtensorMapDataType {
    match dtype {
        Dtype::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::BF16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Dtype::F32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
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
pub struct TensorMapCache<M = TensorMap> {
    device: Device,
    encoded: Mutex<HashMap<(DevicePtr, M), CUtensorMap>>,
}

/// A description that a tensor map is encoded of.
pub trait Describes: Copy + Eq + Hash {
    /// The map of memory at `base`.
    ///
    /// # Errors
    /// As [`encode`].
    fn encode(&self, device: &Device, base: DevicePtr) -> Result<CUtensorMap, GpuError>;
}

impl Describes for TensorMap {
    fn encode(&self, device: &Device, base: DevicePtr) -> Result<CUtensorMap, GpuError> {
        encode(device, base, self)
    }
}

impl Describes for StridedMap {
    fn encode(&self, device: &Device, base: DevicePtr) -> Result<CUtensorMap, GpuError> {
        encode_strided(device, base, self)
    }
}

impl<M: Describes> TensorMapCache<M> {
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
    pub fn get(&self, base: DevicePtr, map: &M) -> Result<CUtensorMap, GpuError> {
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = encoded.get(&(base, *map)) {
            return Ok(known);
        }
        let made = map.encode(&self.device, base)?;
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
        rank: 2,
        offset_bytes: 0,
        dims: [1000, 8192, 1],
        strides_bytes: [2000, 0],
        box_dims: [64, 128, 1],
        swizzle_bytes: 128,
    };
    /// Rows of 1024 bytes in parts of 128, all parts of 64 rows in one box.
    const PARTS: TensorMap = TensorMap {
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
