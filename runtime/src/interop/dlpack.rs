//! DLPack: the memory of matrices in the words that PyTorch, CuPy, JAX and NumPy share.

use std::ffi::c_void;

use bsr_codegen::{Dtype, Layout, Refusal};
use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType, DLManagedTensorVersioned};
use dlpark::metadata::Fixed;
use dlpark::{TensorRef, versioned};

use super::order;
use crate::gpu::{Device, DeviceBsr, DeviceDense, GpuError, Plain};
use crate::{Dense, DenseView, Element, Structure};

/// A tensor that is no such matrix.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DlpackError {
    /// The tensor is of another type, elsewhere or of another shape, or its memory cannot be addressed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The tensor's description contradicts itself.
    #[error("the tensor's description is wrong: {0}")]
    Tensor(#[from] dlpark::tensor::Error),
    /// The device refused.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

bsr_codegen::message_as_debug!(DlpackError);

/// The type of elements, as DLPack says it.
fn data_type(dtype: Dtype) -> DLDataType {
    match dtype {
        Dtype::F16 => DLDataType::F16,
        Dtype::BF16 => DLDataType::BF16,
        Dtype::F32 => DLDataType::F32,
        Dtype::F64 => DLDataType::F64,
        Dtype::E4M3 => DLDataType::F8E4M3FN,
        Dtype::E5M2 => DLDataType::F8E5M2,
        Dtype::I8 => DLDataType::I8,
        Dtype::I32 => DLDataType::I32,
    }
}

fn gpu(ordinal: usize) -> DLDevice {
    DLDevice::cuda(i32::try_from(ordinal).unwrap_or(i32::MAX))
}

/// A matrix that lives as long as its tensor.
fn tensor<T: Element, O: Send>(
    owner: Box<O>,
    data: *mut c_void,
    device: DLDevice,
    (rows, cols): (usize, usize),
    (layout, ld): (Layout, usize),
) -> versioned::Dlpack {
    let strides = match layout {
        Layout::RowMajor => [ld, 1],
        Layout::ColMajor => [1, ld],
    };
    let prepared = Fixed::new([rows, cols], strides).prepare_as::<DLManagedTensorVersioned>();
    let mut made = prepared.expect("memory of a matrix has extents and strides below 2^63").initialize(owner);
    made.set_data(data).set_device(device).set_dtype(data_type(T::DTYPE));
    // SAFETY: extents, strides and type are those of the owner's memory, which stays where it is until the tensor's deleter
    // drops it; nobody else writes to it.
    unsafe { made.finish() }
}

/// Whether a tensor is a matrix of `T` on a device; its extents, order and leading dimension.
#[allow(clippy::type_complexity)]
fn matrix<T: Element>(
    tensor: &TensorRef<'_>,
    wanted: DLDevice,
) -> Result<((usize, usize), (Layout, usize)), DlpackError> {
    of_type::<T>(tensor, wanted)?;
    let (&[rows, cols], &[down, across]) = (tensor.shape(), &*tensor.strides_or_compact()?) else {
        return Err(Refusal::new(format!("a matrix has 2 dimensions, the tensor {}", tensor.ndim()))
            .help("reshape it to rows and columns")
            .into());
    };
    // Not negative: the tensor was validated.
    let (rows, cols) = (rows as usize, cols as usize);
    Ok(((rows, cols), order((rows, cols), [down, across])?))
}

fn of_type<T: Element>(tensor: &TensorRef<'_>, wanted: DLDevice) -> Result<(), DlpackError> {
    let (dtype, found) = (tensor.dtype(), tensor.device());
    if !dtype.matches(data_type(T::DTYPE)) {
        return Err(Refusal::new(format!("the tensor's elements are {dtype:?}, not {}", T::DTYPE))
            .help("cast it where it comes from")
            .into());
    }
    let is_there = found.device_type == wanted.device_type
        && (found.device_type == DLDeviceType::CPU || found.device_id == wanted.device_id);
    match is_there {
        true => Ok(()),
        false => Err(Refusal::new(format!("the tensor is on {found:?}, not on {wanted:?}"))
            .help("copy it there first")
            .into()),
    }
}

impl<T: Element> Dense<T> {
    /// The matrix as a DLPack tensor, which owns it.
    ///
    /// ```
    /// use bsr_runtime::{Dense, DenseView, Layout};
    ///
    /// let tensor = Dense::from_fn(2, 3, Layout::ColMajor, |row, col| (row * 3 + col) as f32).into_dlpack();
    /// let description = tensor.validate()?;
    /// // SAFETY: the memory is that of the matrix.
    /// let view = unsafe { DenseView::<f32>::from_dlpack(&description) }?;
    /// assert_eq!(view.get(1, 2), Some(5.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_dlpack(self) -> versioned::Dlpack {
        let (extents, order) = ((self.rows(), self.cols()), (self.layout(), self.ld()));
        let mut owner = Box::new(self);
        let data = owner.data_mut().as_mut_ptr().cast();
        tensor::<T, _>(owner, data, DLDevice::CPU, extents, order)
    }
}

impl<'a, T: Element> DenseView<'a, T> {
    /// Sees a tensor in host memory as a matrix.
    ///
    /// # Errors
    /// [`DlpackError`] where its type, place, rank or strides are not those of such a matrix.
    ///
    /// # Safety
    /// The tensor's data must be as large as it says, and not be written for as long as the view lives.
    pub unsafe fn from_dlpack(tensor: &TensorRef<'a>) -> Result<Self, DlpackError> {
        let ((rows, cols), (layout, ld)) = matrix::<T>(tensor, DLDevice::CPU)?;
        let (lines, line) = match layout {
            Layout::RowMajor => (rows, cols),
            Layout::ColMajor => (cols, rows),
        };
        if rows == 0 || cols == 0 {
            return Ok(Self::new(rows, cols, layout, ld, &[])?);
        }
        // SAFETY: the caller vouches for the memory.
        let data = unsafe { tensor.offset_bytes_ptr() }?.cast::<T>();
        if !data.is_aligned() {
            return Err(dlpark::tensor::Error::MisalignedData { ptr: data as usize, align: align_of::<T>() }.into());
        }
        // SAFETY: as many elements as the tensor says lie there, the last one so far from the first one.
        let data = unsafe { std::slice::from_raw_parts(data, (lines - 1) * ld + line) };
        Ok(Self::new(rows, cols, layout, ld, data)?)
    }
}

impl<T: Element + Plain + Send> DeviceDense<T> {
    /// The matrix as a DLPack tensor, which owns it. Work on it that was enqueued must be done, or be ordered before the
    /// consumer's.
    ///
    /// # Errors
    /// [`GpuError::ForeignMemory`]: whoever allocated the memory has its tensor.
    pub fn into_dlpack(self) -> Result<versioned::Dlpack, GpuError> {
        let (extents, order, at) = ((self.rows(), self.cols()), (self.layout(), self.ld()), self.ptr());
        let ordinal = self.buffer()?.device().info().ordinal;
        Ok(tensor::<T, _>(Box::new(self), at as *mut c_void, gpu(ordinal), extents, order))
    }

    /// Sees a tensor on a GPU as a matrix, as [`DeviceDense::from_raw`] does. Nothing is copied, and nothing freed.
    ///
    /// # Errors
    /// [`DlpackError`] where its type, place, rank or strides are not those of such a matrix, or TMA cannot address it.
    ///
    /// # Safety
    /// As for [`DeviceDense::from_raw`]: the tensor outlives the launches that the matrix is used in.
    pub unsafe fn from_dlpack(device: &Device, tensor: &TensorRef<'_>) -> Result<Self, DlpackError> {
        let ((rows, cols), (layout, ld)) = matrix::<T>(tensor, gpu(device.info().ordinal))?;
        // SAFETY: the caller vouches for the memory.
        let at = unsafe { tensor.offset_bytes_ptr() }? as u64;
        // SAFETY: as above.
        Ok(unsafe { Self::from_raw(at, rows, cols, layout, ld) }?)
    }
}

impl<T: Element + Plain> DeviceBsr<T> {
    /// A structure with values in a contiguous tensor of any shape on a GPU, as [`DeviceBsr::from_raw`] does: the `values()` of
    /// torch's `sparse_bsr`.
    ///
    /// # Errors
    /// [`DlpackError`] where the tensor's type, place or number of values differs.
    ///
    /// # Safety
    /// As for [`DeviceBsr::from_raw`]: the tensor outlives the launches that the matrix is used in.
    pub unsafe fn from_dlpack(
        device: &Device,
        structure: &Structure,
        values: &TensorRef<'_>,
    ) -> Result<Self, DlpackError> {
        of_type::<T>(values, gpu(device.info().ordinal))?;
        if !values.is_compact()? {
            return Err(dlpark::tensor::Error::NonCompactStrides.into());
        }
        let (found, wanted) = (values.num_elements(), structure.stored());
        if found != wanted {
            return Err(Refusal::new(format!("the structure stores {wanted} values, the tensor has {found}"))
                .help("nnzb x bm x bk contiguous values")
                .into());
        }
        // SAFETY: the caller vouches for the memory.
        let at = unsafe { values.offset_bytes_ptr() }? as u64;
        // SAFETY: as above.
        Ok(unsafe { Self::from_raw(device, structure, at) }?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use half::f16;

    use super::*;
    use crate::e4m3;

    #[test]
    fn host_matrices_go_and_come_back_in_both_orders() {
        for layout in [Layout::RowMajor, Layout::ColMajor] {
            let matrix = Dense::from_fn(3, 5, layout, |row, col| f16::from_f32((row * 5 + col) as f32));
            let (wide, ld) = (matrix.to_f64(), matrix.ld());
            let tensor = matrix.into_dlpack();
            let description = tensor.validate_export().unwrap();
            assert_eq!((description.shape(), description.dtype().is::<f16>()), (&[3, 5][..], true));
            // SAFETY: the memory is that of the matrix.
            let view = unsafe { DenseView::<f16>::from_dlpack(&description) }.unwrap();
            assert_eq!((view.layout(), view.ld(), view.to_f64()), (layout, ld, wide));
        }
    }

    #[test]
    fn what_is_no_such_matrix_is_refused() {
        let tensor = Dense::<e4m3>::zeros(4, 4, Layout::RowMajor).into_dlpack();
        let description = tensor.validate().unwrap();
        assert!(description.dtype().matches(DLDataType::F8E4M3FN));
        // SAFETY: nothing is read: the type differs.
        let refused = unsafe { DenseView::<f16>::from_dlpack(&description) }.unwrap_err();
        assert!(refused.to_string().contains("not f16"), "{refused}");
        let refused = matrix::<e4m3>(&description, gpu(0)).unwrap_err();
        assert!(refused.to_string().contains("the tensor is on"), "{refused}");
        let empty = Dense::<f16>::zeros(0, 7, Layout::RowMajor).into_dlpack();
        // SAFETY: the memory is that of the matrix, which has no elements.
        let view = unsafe { DenseView::<f16>::from_dlpack(&empty.validate().unwrap()) }.unwrap();
        assert_eq!((view.rows(), view.cols()), (0, 7));
    }
}
