//! Burn's tensors as matrices in device memory.

use bsr::Layout;
use bsr::Refusal;
use bsr::gpu::{DeviceDense, Plain};
use burn::tensor::{DType, Shape};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::cuda::CudaRuntime;
use cubecl::server::ServerError;

/// A tensor of Burn on an NVIDIA GPU.
pub(super) type Cuda = CubeTensor<CudaRuntime>;

/// Device memory of a tensor, which is kept from being used again for as long as this lives.
pub(super) struct Resource {
    tensor: Cuda,
    ptr: u64,
}

impl Resource {
    /// The memory of a tensor; everything that writes it has been handed to the GPU when this returns.
    pub(super) fn new(tensor: Cuda) -> Result<Self, ServerError> {
        let resource = tensor.client.get_resource(tensor.handle.clone())?;
        let ptr = resource.resource().ptr;
        Ok(Self { tensor, ptr })
    }

    /// The tensor.
    pub(super) fn into_tensor(self) -> Cuda {
        self.tensor
    }

    /// Whether kernels can address it: a tensor that is a part of another one may begin anywhere.
    pub(super) fn is_aligned(&self) -> bool {
        self.ptr.is_multiple_of(16)
    }

    /// The address of the first element.
    pub(super) fn ptr(&self) -> u64 {
        self.ptr
    }
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) layout: Layout,
    pub(super) ld: usize,
}

impl Lines {
    /// How a tensor with two dimensions lies; none where neither rows nor columns are contiguous.
    pub(super) fn of(tensor: &Cuda) -> Option<Self> {
        let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
        let (rows, cols, row_stride, col_stride) = (shape[0], shape[1], strides[0], strides[1]);
        // A tensor that was expanded has strides of 0.
        if col_stride == 1 && (row_stride >= cols || rows == 1) {
            Some(Self { rows, cols, layout: Layout::RowMajor, ld: if rows == 1 { cols } else { row_stride } })
        } else if row_stride == 1 && (col_stride >= rows || cols == 1) {
            Some(Self { rows, cols, layout: Layout::ColMajor, ld: if cols == 1 { rows } else { col_stride } })
        } else {
            None
        }
    }

    /// The same memory as the transposed matrix.
    pub(super) fn transposed(self) -> Self {
        let layout = match self.layout {
            Layout::RowMajor => Layout::ColMajor,
            Layout::ColMajor => Layout::RowMajor,
        };
        Self { rows: self.cols, cols: self.rows, layout, ..self }
    }

    /// Whether kernels can read and write elements of this size.
    pub(super) fn are_whole<T>(self) -> bool {
        (self.ld * size_of::<T>()).is_multiple_of(16)
    }

    /// The matrix in memory that is held.
    ///
    /// # Safety
    /// The memory has this shape and element type, and is held until nothing reads the matrix any more.
    pub(super) unsafe fn matrix<T: Plain>(self, resource: &Resource) -> Result<DeviceDense<T>, Refusal> {
        let Self { rows, cols, layout, ld } = self;
        // SAFETY: the caller vouches for shape, type and life.
        unsafe { DeviceDense::from_raw(resource.ptr(), rows, cols, layout, ld) }
    }
}

/// The tensor where its rows or columns are contiguous, else a copy.
pub(super) fn in_lines(tensor: &Cuda) -> Cuda {
    match Lines::of(tensor) {
        Some(_) => tensor.clone(),
        None => into_contiguous(tensor.clone()),
    }
}

/// A contiguous tensor, itself or a copy.
pub(super) fn contiguous(tensor: &Cuda) -> Cuda {
    into_contiguous(tensor.clone())
}

/// A tensor beside another one, without values.
pub(super) fn empty<const D: usize>(like: &Cuda, shape: [usize; D], dtype: DType) -> Cuda {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), Shape::new(shape), dtype)
}
