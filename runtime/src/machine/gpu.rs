//! A GPU: addresses of device memory, and launches that a stream takes without waiting.

use std::sync::Arc;

use bsr_codegen::{LaunchShape, StridedMap, TensorMap};

use super::{Bound, Session};
use crate::error::KernelError;
use crate::gpu::{
    self, Device, DevicePtr, Function, GpuError, StreamRef, TensorMapCache, UntypedDense, UntypedVector, Value,
    tensor_map,
};

/// A kernel on a GPU, and the stream of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnStream<'l> {
    pub(crate) device: &'l Device,
    pub(crate) function: &'l Function,
    pub(crate) maps: &'l TensorMapCache,
    pub(crate) stream: StreamRef<'l>,
}

impl Session for OnStream<'_> {
    type Address = DevicePtr;
    type Value = Value;
    type Error = KernelError;

    fn pointer(at: DevicePtr) -> Value {
        Value::Pointer(at)
    }

    fn bits(bits: u64) -> Value {
        Value::Pointer(bits)
    }

    fn number(number: u32) -> Value {
        Value::Number(number)
    }

    fn float(number: f32) -> Value {
        Value::Float(number)
    }

    fn words(words: Arc<[u32]>) -> Value {
        Value::Words(words)
    }

    fn map(&self, at: DevicePtr, map: &TensorMap) -> Result<Value, KernelError> {
        Ok(Value::Map(self.maps.get(at, map)?))
    }

    fn strided(&self, at: DevicePtr, map: &StridedMap) -> Result<Value, KernelError> {
        Ok(Value::Map(self.maps.get(at, map)?))
    }

    fn rows(&self, at: DevicePtr, map: &StridedMap) -> Result<Value, KernelError> {
        tensor_map::validate_strided(at, map).map_err(GpuError::from)?;
        Ok(Self::pointer(at))
    }

    unsafe fn zero(&mut self, matrix: &UntypedDense) -> Result<(), KernelError> {
        // SAFETY: as the caller vouches.
        unsafe { matrix.zero_on(self.device, self.stream) }.map_err(KernelError::from)
    }

    unsafe fn fill(&mut self, vector: UntypedVector, value: f32) -> Result<(), KernelError> {
        // SAFETY: as the caller vouches.
        unsafe { vector.fill_on(self.device, value, self.stream) }.map_err(KernelError::from)
    }

    unsafe fn launch(&mut self, shape: &LaunchShape, values: &Bound<Self>) -> Result<(), KernelError> {
        // SAFETY: as the caller vouches.
        unsafe { gpu::launch(self.function, shape, values, self.stream) }.map_err(KernelError::from)
    }
}
