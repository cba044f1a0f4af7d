//! Launching a kernel: one driver call, no allocation, no synchronization.

use std::ffi::c_void;

use cudarc::driver::sys::{
    self, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUstream, CUtensorMap,
};

use super::LaunchShape;
use super::buffer::DevicePtr;
use super::error::{GpuError, check};
use super::module::Function;
use super::stream::StreamRef;

/// The numbers of a launch that the driver asks for; everything lies in x.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaunchDims {
    /// Blocks of the grid, a multiple of `cluster`.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
    /// Blocks of a cluster; 1 launches without clusters.
    pub cluster: u32,
    /// Bytes of dynamic shared memory a block.
    pub shared_bytes: u32,
}

impl From<&LaunchShape> for LaunchDims {
    fn from(shape: &LaunchShape) -> Self {
        Self { grid: shape.grid, block: shape.block, cluster: shape.cluster, shared_bytes: shape.shared_bytes }
    }
}

/// Launches a generated kernel: tensor maps A, B, C, then the pointers `col_idx`, `work_head`, `work`.
///
/// The function must have been prepared for the shape once ([`Function::prepare`] or
/// [`Function::max_active_clusters`]). Nothing is allocated and nothing waits, so a stream may be in capture.
///
/// # Errors
/// [`GpuError::BadGrid`] for dimensions no device takes, [`GpuError::Driver`] if the driver refuses. A
/// kernel that fails while it runs is reported by a later call.
///
/// # Safety
/// `function` must take exactly these six parameters. The maps must describe live device memory of the
/// function's device, the pointers arrays as the kernel's work list says, all of it alive until the kernel
/// is done, with nothing else using C (or writing A, B, the arrays) meanwhile.
pub unsafe fn launch(
    function: &Function,
    shape: &LaunchShape,
    maps: [&CUtensorMap; 3],
    ptrs: [DevicePtr; 3],
    stream: StreamRef<'_>,
) -> Result<(), GpuError> {
    let [a, b, c] = maps.map(|map| std::ptr::from_ref(map).cast_mut().cast::<c_void>());
    let [col_idx, work_head, work] = ptrs.each_ref().map(|ptr| std::ptr::from_ref(ptr).cast_mut().cast::<c_void>());
    let mut params = [a, b, c, col_idx, work_head, work];
    // SAFETY: six parameters of the sizes the kernel declares, read before the call returns; the caller
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
    let mut attribute = cluster_attribute(dims.cluster);
    let config = config(dims, stream.raw(), &mut attribute);
    // SAFETY: `config`, its attribute and the parameters outlive the call, which copies them; the rest is
    // the caller's word.
    check("cuLaunchKernelEx", unsafe {
        sys::cuLaunchKernelEx(&config, function.raw(), params.as_mut_ptr(), std::ptr::null_mut())
    })
}

/// Refuses what would otherwise come back as a bare `CUDA_ERROR_INVALID_VALUE`.
#[inline]
pub(crate) fn validate(dims: LaunchDims) -> Result<(), GpuError> {
    let LaunchDims { grid, block, cluster, .. } = dims;
    let why = if grid == 0 || block == 0 || cluster == 0 {
        "none of them may be 0"
    } else if block > 1024 {
        "a block has at most 1024 threads"
    } else if cluster > 16 {
        "a cluster has at most 16 blocks"
    } else if !grid.is_multiple_of(cluster) {
        "the grid must be a multiple of the cluster"
    } else if grid > i32::MAX as u32 {
        "a grid has at most 2147483647 blocks"
    } else {
        return Ok(());
    };
    Err(GpuError::BadGrid { grid, block, cluster, why })
}

pub(crate) fn cluster_attribute(cluster: u32) -> CUlaunchAttribute {
    // The union's 64 bytes start out as zeros, the cluster's three numbers lie at their beginning.
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    value.clusterDim.x = cluster;
    value.clusterDim.y = 1;
    value.clusterDim.z = 1;
    CUlaunchAttribute { id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, pad: [0; 4], value }
}

/// The driver's form of the dimensions. The result points to `attribute`.
pub(crate) fn config(dims: LaunchDims, stream: CUstream, attribute: &mut CUlaunchAttribute) -> CUlaunchConfig {
    CUlaunchConfig {
        gridDimX: dims.grid,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: dims.block,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: dims.shared_bytes,
        hStream: stream,
        attrs: attribute,
        numAttrs: u32::from(dims.cluster > 1),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DIMS: LaunchDims = LaunchDims { grid: 132, block: 384, cluster: 2, shared_bytes: 0 };

    #[test]
    fn grids_no_device_takes_are_refused_with_the_reason() {
        assert!(validate(DIMS).is_ok());
        for (dims, word) in [
            (LaunchDims { grid: 0, ..DIMS }, "0"),
            (LaunchDims { grid: 131, ..DIMS }, "multiple of the cluster"),
            (LaunchDims { block: 1025, ..DIMS }, "1024"),
            (LaunchDims { cluster: 32, grid: 32, ..DIMS }, "16"),
            (LaunchDims { grid: 1 << 31, ..DIMS }, "2147483647"),
        ] {
            let text = validate(dims).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_cluster_is_an_attribute_and_one_block_is_none() {
        let mut attribute = cluster_attribute(2);
        let with = config(DIMS, std::ptr::null_mut(), &mut attribute);
        assert_eq!((with.numAttrs, with.gridDimX, with.blockDimX), (1, 132, 384));
        // SAFETY: `clusterDim` was written.
        let cluster = unsafe { attribute.value.clusterDim };
        assert_eq!([cluster.x, cluster.y, cluster.z], [2, 1, 1]);
        let without = config(LaunchDims { cluster: 1, ..DIMS }, std::ptr::null_mut(), &mut attribute);
        assert_eq!(without.numAttrs, 0);
    }
}
