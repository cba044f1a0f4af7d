//! The GPU's run of a program.

use std::ffi::c_void;

use bsr_runtime::gpu::{Device, DeviceBuffer, GpuError, LaunchDims, Module, Stream, launch_params};
use bsr_simulator::{Swizzle, TensorElement};
use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType as Type, CUtensorMapFloatOOBfill as Fill,
    CUtensorMapInterleave as Interleave, CUtensorMapL2promotion as Promotion, CUtensorMapSwizzle as Span,
};

use super::program::{Map, Program, SHARED};
use crate::address;

/// What the GPU leaves in the buffers. None if the driver refuses a tensor map.
///
/// # Errors
/// A fault of the kernel, after which nothing runs any more.
pub(super) fn run(device: &Device, program: &Program) -> Result<Option<Vec<Vec<u8>>>, GpuError> {
    let function = Module::load(device, &program.text)?.function("k")?;
    let buffers: Vec<DeviceBuffer<u8>> =
        program.buffers.iter().map(|bytes| DeviceBuffer::from_slice(device, bytes)).collect::<Result<_, _>>()?;
    let maps: Option<Vec<CUtensorMap>> = program.maps.iter().map(|map| encoded(map, buffers[0].ptr())).collect();
    let Some(maps) = maps else { return Ok(None) };
    let addresses: Vec<u64> = buffers.iter().map(DeviceBuffer::ptr).collect();
    let stream = Stream::new(device)?;
    let dims =
        LaunchDims { grid: [1, 1], block: program.threads, cluster: 1, shared_bytes: SHARED, is_dependent: false };
    let mut params: Vec<*mut c_void> = maps.iter().map(address).chain(addresses.iter().map(address)).collect();
    // SAFETY: the kernel takes the maps and one address for each buffer; the simulator has run it on buffers of these sizes
    // without an access beyond them, and they live until the stream is done.
    unsafe { launch_params(&function, dims, &mut params, stream.handle())? };
    buffers.iter().map(|buffer| buffer.to_vec_on(stream.handle())).collect::<Result<_, _>>().map(Some)
}

fn encoded(map: &Map, base: u64) -> Option<CUtensorMap> {
    let ty = match map.element {
        TensorElement::B8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        TensorElement::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorElement::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        TensorElement::B32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorElement::S32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        TensorElement::B64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        TensorElement::S64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        TensorElement::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        TensorElement::Tf32 => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        TensorElement::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        TensorElement::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    };
    let span = match map.swizzle {
        Swizzle::B32 => Span::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => Span::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => Span::CU_TENSOR_MAP_SWIZZLE_128B,
        Swizzle::None => Span::CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    let fill = match map.fill_nan {
        true => Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
        false => Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    };
    let (interleave, promotion) =
        (Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE, Promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE);
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    let (rank, base) = (map.dims.len() as u32, std::ptr::without_provenance_mut::<c_void>(base as usize));
    let (dims, strides, steps) = (map.dims.as_ptr(), map.strides.as_ptr(), map.steps.as_ptr());
    // SAFETY: `encoded` is an aligned place for one map; the arrays hold as many numbers as the rank asks for, which the
    // simulator has checked.
    let result = unsafe {
        match &map.corners {
            None => sys::cuTensorMapEncodeTiled(
                &mut encoded,
                ty,
                rank,
                base,
                dims,
                strides,
                map.box_dims.as_ptr(),
                steps,
                interleave,
                span,
                promotion,
                fill,
            ),
            Some((lower, upper)) => sys::cuTensorMapEncodeIm2col(
                &mut encoded,
                ty,
                rank,
                base,
                dims,
                strides,
                lower.as_ptr(),
                upper.as_ptr(),
                map.box_dims[0],
                map.box_dims[1],
                steps,
                interleave,
                span,
                promotion,
                fill,
            ),
        }
    };
    (result == sys::CUresult::CUDA_SUCCESS).then_some(encoded)
}
