//! Launching a kernel: one driver call, no allocation, no synchronization.

use std::ffi::c_void;
use std::sync::Arc;

use arrayvec::ArrayVec;
use bsr_codegen::Parameters;
use cudarc::driver::sys::{
    self, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUstream, CUtensorMap,
};

use super::LaunchShape;
use super::buffer::DevicePtr;
use super::error::{GpuError, check};
use super::module::Function;
use super::stream::StreamRef;

/// The numbers of a launch that the driver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchDims {
    /// Blocks of the grid in x, a multiple of `cluster`, and in y.
    pub grid: [u32; 2],
    /// Threads of a block.
    pub block: u32,
    /// Blocks of a cluster, which lie in x; 1 launches without clusters.
    pub cluster: u32,
    /// Bytes of dynamic shared memory a block.
    pub shared_bytes: u32,
    /// The kernel may start while the one before it in the stream ends: it waits for that one by itself.
    pub is_dependent: bool,
}

impl From<&LaunchShape> for LaunchDims {
    fn from(shape: &LaunchShape) -> Self {
        let LaunchShape { grid, block, cluster, shared_bytes, is_dependent, .. } = *shape;
        Self { grid, block, cluster, shared_bytes, is_dependent }
    }
}

/// The most parameters that a generated kernel has.
pub(crate) const MOST_PARAMETERS: usize = {
    let none = Parameters::new_const();
    let most = none.capacity();
    std::mem::forget(none);
    most
};

/// The value of one kernel parameter.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor map, by value.
    Map(CUtensorMap),
    /// An address in device memory.
    Pointer(DevicePtr),
    /// A 32-bit number.
    Number(u32),
    /// A single-precision number.
    Float(f32),
    /// Words, by value: as many as the parameter has.
    Words(Arc<[u32]>),
}

impl Value {
    /// Where the driver reads it.
    fn address(&self) -> *mut c_void {
        match self {
            Self::Map(map) => std::ptr::from_ref(map).cast_mut().cast(),
            Self::Pointer(pointer) => std::ptr::from_ref(pointer).cast_mut().cast(),
            Self::Number(number) => std::ptr::from_ref(number).cast_mut().cast(),
            Self::Float(number) => std::ptr::from_ref(number).cast_mut().cast(),
            Self::Words(words) => words.as_ptr().cast_mut().cast(),
        }
    }
}

/// The values of a kernel's parameters, in order.
pub type Values = ArrayVec<Value, MOST_PARAMETERS>;

/// Launches a generated kernel with the values of `shape.parameters`.
///
/// The function must have been prepared for the shape once ([`Function::prepare`] or
/// [`Function::max_active_clusters`]). Nothing is allocated and nothing waits, so a stream may be in capture.
///
/// # Errors
/// [`GpuError::BadGrid`] for dimensions no device takes, [`GpuError::Driver`] if the driver refuses. A
/// kernel that fails while it runs is reported by a later call.
///
/// # Safety
/// `values` must be what the function's parameters are, in number, kind and order. The maps must describe live
/// device memory of the function's device, the pointers what the kernel's plan says, all of it alive until the
/// kernel is done, with nothing else using C (or writing what is read) meanwhile.
pub unsafe fn launch(
    function: &Function,
    shape: &LaunchShape,
    values: &Values,
    stream: StreamRef<'_>,
) -> Result<(), GpuError> {
    let mut params: ArrayVec<*mut c_void, MOST_PARAMETERS> = values.iter().map(Value::address).collect();
    // SAFETY: as many parameters as the kernel declares, of their sizes, read before the call returns; the caller
    // vouches for what they point to.
    unsafe { launch_params(function, shape.into(), &mut params, stream) }
}

/// Launches any kernel. `params` holds, for each parameter in order, the address of its value on the host;
/// the values are read before this returns.
///
/// # Errors
/// As [`launch`].
///
/// # Safety
/// Number and sizes of the parameters must be those of the kernel, every address must be readable, and what
/// the kernel does with them is the caller's responsibility.
pub unsafe fn launch_params(
    function: &Function,
    dims: LaunchDims,
    params: &mut [*mut c_void],
    stream: StreamRef<'_>,
) -> Result<(), GpuError> {
    validate(dims)?;
    function.device().bind()?;
    let mut attributes = attributes(dims);
    let config = config(dims, stream.raw(), &mut attributes);
    // SAFETY: `config`, its attributes and the parameters outlive the call, which copies them; the rest is
    // the caller's word.
    check("cuLaunchKernelEx", unsafe {
        sys::cuLaunchKernelEx(&config, function.raw(), params.as_mut_ptr(), std::ptr::null_mut())
    })
}

/// Most blocks of a grid in x.
pub(crate) const MOST_IN_X: u32 = i32::MAX as u32;
/// Most blocks of a grid in y.
pub(crate) const MOST_IN_Y: u32 = u16::MAX as u32;

/// Refuses what would otherwise come back as a bare `CUDA_ERROR_INVALID_VALUE`.
#[inline]
pub(crate) fn validate(dims: LaunchDims) -> Result<(), GpuError> {
    let LaunchDims { grid: grid @ [x, y], block, cluster, .. } = dims;
    let why = if x == 0 || y == 0 || block == 0 || cluster == 0 {
        "none of them may be 0"
    } else if block > 1024 {
        "a block has at most 1024 threads"
    } else if cluster > 16 {
        "a cluster has at most 16 blocks"
    } else if !x.is_multiple_of(cluster) {
        "the grid must be a multiple of the cluster"
    } else if x > MOST_IN_X {
        "a grid has at most 2147483647 blocks in x"
    } else if y > MOST_IN_Y {
        "a grid has at most 65535 blocks in y"
    } else {
        return Ok(());
    };
    Err(GpuError::BadGrid { grid, block, cluster, why })
}

fn cluster_attribute(cluster: u32) -> CUlaunchAttribute {
    // The union's 64 bytes start out as zeros, the cluster's three numbers lie at their beginning.
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    value.clusterDim.x = cluster;
    value.clusterDim.y = 1;
    value.clusterDim.z = 1;
    CUlaunchAttribute { id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, pad: [0; 4], value }
}

fn dependence_attribute() -> CUlaunchAttribute {
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    value.programmaticStreamSerializationAllowed = 1;
    CUlaunchAttribute {
        id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value,
    }
}

/// The attributes of a launch: that of its clusters, if it has any, and that it need not wait.
pub(crate) type Attributes = ArrayVec<CUlaunchAttribute, 2>;

pub(crate) fn attributes(dims: LaunchDims) -> Attributes {
    let cluster = (dims.cluster > 1).then(|| cluster_attribute(dims.cluster));
    cluster.into_iter().chain(dims.is_dependent.then(dependence_attribute)).collect()
}

/// The driver's form of the dimensions. The result points to `attributes`.
pub(crate) fn config(dims: LaunchDims, stream: CUstream, attributes: &mut Attributes) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: dims.grid[0],
        gridDimY: dims.grid[1],
        gridDimZ: 1,
        blockDimX: dims.block,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: dims.shared_bytes,
        hStream: stream,
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DIMS: LaunchDims =
        LaunchDims { grid: [132, 3], block: 384, cluster: 2, shared_bytes: 0, is_dependent: false };

    #[test]
    fn grids_no_device_takes_are_refused_with_the_reason() {
        assert!(validate(DIMS).is_ok());
        for (dims, word) in [
            (LaunchDims { grid: [0, 1], ..DIMS }, "none of them may be 0"),
            (LaunchDims { grid: [2, 0], ..DIMS }, "none of them may be 0"),
            (LaunchDims { grid: [131, 1], ..DIMS }, "multiple of the cluster"),
            (LaunchDims { block: 1025, ..DIMS }, "1024"),
            (LaunchDims { cluster: 32, grid: [32, 1], ..DIMS }, "16"),
            (LaunchDims { grid: [1 << 31, 1], ..DIMS }, "2147483647"),
            (LaunchDims { grid: [2, 1 << 16], ..DIMS }, "65535"),
        ] {
            let text = validate(dims).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_cluster_and_a_dependence_are_attributes_and_one_block_is_none() {
        let dependent = LaunchDims { is_dependent: true, ..DIMS };
        let mut both = attributes(dependent);
        let with = config(dependent, std::ptr::null_mut(), &mut both);
        assert_eq!((with.numAttrs, with.gridDimX, with.gridDimY, with.blockDimX), (2, 132, 3, 384));
        // SAFETY: `clusterDim` was written.
        let cluster = unsafe { both[0].value.clusterDim };
        assert_eq!([cluster.x, cluster.y, cluster.z], [2, 1, 1]);
        assert_eq!(both[1].id, CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
        // SAFETY: `programmaticStreamSerializationAllowed` was written.
        assert_eq!(unsafe { both[1].value.programmaticStreamSerializationAllowed }, 1);
        let alone = LaunchDims { cluster: 1, ..DIMS };
        assert_eq!(config(alone, std::ptr::null_mut(), &mut attributes(alone)).numAttrs, 0);
    }

    #[test]
    fn the_driver_is_given_the_address_of_each_value() {
        let map = CUtensorMap { opaque: [7; 16] };
        let values = [Value::Map(map), Value::Pointer(0x1234_5678_9abc), Value::Number(42)];
        // SAFETY: each address is that of a value of the type read.
        unsafe {
            assert_eq!((*values[0].address().cast::<CUtensorMap>()).opaque, [7; 16]);
            assert_eq!(*values[1].address().cast::<u64>(), 0x1234_5678_9abc);
            assert_eq!(*values[2].address().cast::<u32>(), 42);
        }
        assert_eq!(values[0].address().addr() % 64, 0);
    }
}
