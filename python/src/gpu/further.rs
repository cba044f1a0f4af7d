//! Further operands of epilogues: what they are is said once, where they lie at each launch.

use std::sync::MutexGuard;

use bsr::gpu::{Device, DeviceBsr, DeviceDense, DeviceInputs, DeviceVector, Plain};
use bsr::{Element, Layout, bf16, f16};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::sparse::{AnyBsr, Places, at};
use crate::array::Kind;
use crate::errors::refused;
use crate::pattern::Pattern;

/// Rows, columns, whether columns are contiguous, and elements from one line to the next.
pub(super) type Shape = (usize, usize, bool, usize);

/// A further operand: its name, what it is (`scalar`, `vector`, `dense`, `blocks`), element type, rows (or length), columns,
/// and elements from one line to the next.
pub(super) type FurtherArgument = (String, String, String, usize, usize, usize);

/// A further operand, without its place.
pub(super) struct Further {
    name: String,
    what: What,
}

enum What {
    Scalar,
    Vector(Kind, usize),
    Matrix(Kind, Shape),
    Blocks(Box<AnyBsr>),
}

/// A further operand at its place.
pub(super) enum Given<'a> {
    Scalar(f32),
    Vector(AnyVector),
    MatrixF64(DeviceDense<f64>),
    MatrixF32(DeviceDense<f32>),
    MatrixF16(DeviceDense<f16>),
    MatrixBF16(DeviceDense<bf16>),
    BlocksF32(MutexGuard<'a, DeviceBsr<f32>>),
    BlocksF16(MutexGuard<'a, DeviceBsr<f16>>),
    BlocksBF16(MutexGuard<'a, DeviceBsr<bf16>>),
}

/// A vector of the caller's.
pub(super) enum AnyVector {
    F64(DeviceVector<f64>),
    F32(DeviceVector<f32>),
    F16(DeviceVector<f16>),
    BF16(DeviceVector<bf16>),
}

impl AnyVector {
    /// # Errors
    /// A type that no epilogue reads; an address that is none.
    ///
    /// # Safety
    /// The address must be that of such a vector on the device of the launch, until it is done.
    pub(super) unsafe fn from_raw(kind: Kind, at: u64, len: usize) -> PyResult<Self> {
        // SAFETY: as the caller vouches.
        unsafe {
            Ok(match kind {
                Kind::F64 => Self::F64(DeviceVector::from_raw(at, len).map_err(refused)?),
                Kind::F32 => Self::F32(DeviceVector::from_raw(at, len).map_err(refused)?),
                Kind::F16 => Self::F16(DeviceVector::from_raw(at, len).map_err(refused)?),
                Kind::BF16 => Self::BF16(DeviceVector::from_raw(at, len).map_err(refused)?),
                other => return Err(refused(format!("a vector of {other:?}, and f64, f32, f16 and bf16 are read"))),
            })
        }
    }
}

impl Further {
    /// # Errors
    /// A type that no epilogue reads; blocks of a pattern that lives on the GPU. `is_col` says how C lies, as which a matrix lies.
    pub(super) fn new(
        device: &Device,
        pattern: Option<&Pattern>,
        is_col: bool,
        argument: FurtherArgument,
    ) -> PyResult<Self> {
        let (name, what, kind, rows, cols, ld) = argument;
        let kind = Kind::parse(&kind)?;
        if what != "scalar" && !matches!(kind, Kind::F64 | Kind::F32 | Kind::F16 | Kind::BF16) {
            return Err(refused(format!("`{name}` is of {kind:?}, and an epilogue reads f64, f32, f16 and bf16")));
        }
        let what = match what.as_str() {
            "scalar" => What::Scalar,
            "dense" => What::Matrix(kind, (rows, cols, is_col, ld)),
            // The values of a matrix of its own: that of the product is locked while it is launched.
            "blocks" => {
                let pattern = pattern.ok_or_else(|| {
                    refused(format!(
                        "`{name}` has the blocks of a pattern that lives on the GPU\n  help: a Pattern of the host"
                    ))
                })?;
                What::Blocks(Box::new(AnyBsr::of(Places::Host(device, pattern), kind)?))
            }
            _ => What::Vector(kind, rows),
        };
        Ok(Self { name, what })
    }

    /// # Errors
    /// An address that is none.
    ///
    /// # Safety
    /// The address must be that of what this is, on the device of the launch, until it is done.
    pub(super) unsafe fn give<'a>(&'a self, place: &Bound<'_, PyAny>) -> PyResult<Given<'a>> {
        if let What::Scalar = self.what {
            return Ok(Given::Scalar(place.extract()?));
        }
        let ptr: u64 = place.extract()?;
        // SAFETY: as the caller vouches.
        unsafe {
            Ok(match &self.what {
                What::Scalar => Given::Scalar(f32::NAN),
                What::Vector(kind, len) => Given::Vector(AnyVector::from_raw(*kind, ptr, *len)?),
                What::Matrix(Kind::F16, shape) => Given::MatrixF16(view(ptr, *shape)?),
                What::Matrix(Kind::BF16, shape) => Given::MatrixBF16(view(ptr, *shape)?),
                What::Matrix(Kind::F64, shape) => Given::MatrixF64(view(ptr, *shape)?),
                What::Matrix(_, shape) => Given::MatrixF32(view(ptr, *shape)?),
                What::Blocks(matrix) => match matrix.as_ref() {
                    AnyBsr::F16(matrix) => Given::BlocksF16(at(matrix, ptr)?),
                    AnyBsr::BF16(matrix) => Given::BlocksBF16(at(matrix, ptr)?),
                    AnyBsr::F32(matrix) => Given::BlocksF32(at(matrix, ptr)?),
                    _ => return Err(refused("an epilogue reads blocks of f32, f16 and bf16")),
                },
            })
        }
    }
}

/// All further operands at their places, and behind them the second result of so many elements, where there is one.
///
/// # Errors
/// Another number of places; as [`Further::give`].
///
/// # Safety
/// As [`Further::give`], of the second result, too.
pub(super) unsafe fn give_all<'a>(
    further: &'a [Further],
    second: Option<usize>,
    places: &Bound<'_, PyTuple>,
) -> PyResult<(Vec<Given<'a>>, Option<DeviceVector<f32>>)> {
    let (found, expected) = (places.len(), further.len() + usize::from(second.is_some()));
    if found != expected {
        return Err(refused(format!("{found} further places, and the product has {expected}")));
    }
    let pairs = further.iter().zip(places.iter_borrowed());
    // SAFETY: as the caller vouches.
    let given = pairs.map(|(further, place)| unsafe { further.give(&place) }).collect::<PyResult<_>>()?;
    let Some(len) = second else { return Ok((given, None)) };
    let at = places.get_item(expected - 1)?.extract()?;
    // SAFETY: as the caller vouches.
    let second = unsafe { DeviceVector::from_raw(at, len) }.map_err(refused)?;
    Ok((given, Some(second)))
}

/// As a launch takes them.
pub(super) fn inputs<'a>(further: &'a [Further], given: &'a [Given<'_>]) -> DeviceInputs<'a> {
    further.iter().zip(given).fold(DeviceInputs::new(), |inputs, (Further { name, .. }, given)| match given {
        Given::Scalar(value) => inputs.scalar(name, *value),
        Given::Vector(AnyVector::F64(vector)) => inputs.vector(name, vector),
        Given::Vector(AnyVector::F32(vector)) => inputs.vector(name, vector),
        Given::Vector(AnyVector::F16(vector)) => inputs.vector(name, vector),
        Given::Vector(AnyVector::BF16(vector)) => inputs.vector(name, vector),
        Given::MatrixF64(matrix) => inputs.matrix(name, matrix),
        Given::MatrixF32(matrix) => inputs.matrix(name, matrix),
        Given::MatrixF16(matrix) => inputs.matrix(name, matrix),
        Given::MatrixBF16(matrix) => inputs.matrix(name, matrix),
        Given::BlocksF32(blocks) => inputs.blocks(name, blocks),
        Given::BlocksF16(blocks) => inputs.blocks(name, blocks),
        Given::BlocksBF16(blocks) => inputs.blocks(name, blocks),
    })
}

/// A matrix of the caller's.
///
/// # Errors
/// An address or a stride that kernels cannot address.
///
/// # Safety
/// The address must be that of such a matrix on the device of the launch, until it is done.
pub(super) unsafe fn view<T: Element + Plain>(ptr: u64, (rows, cols, is_col, ld): Shape) -> PyResult<DeviceDense<T>> {
    let layout = if is_col { Layout::ColMajor } else { Layout::RowMajor };
    // SAFETY: as the caller vouches.
    unsafe { DeviceDense::from_raw(ptr, rows, cols, layout, ld) }.map_err(refused)
}
