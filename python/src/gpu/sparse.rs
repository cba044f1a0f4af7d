//! Patterns on a GPU, for values that lie elsewhere at each launch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bsr::gpu::{Device, DeviceBsr, DevicePattern, Plain};
use bsr::{Element, bf16, e4m3, e5m2, f16};
use pyo3::prelude::*;

use crate::array::Kind;
use crate::errors::refused;
use crate::pattern::Pattern;

/// An address that no launch reads.
const NOWHERE: u64 = 16;

/// A pattern on a GPU; each launch says where the values are.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct Sparse {
    pub(super) matrix: AnyBsr,
}

/// A matrix of any element type.
pub(super) enum AnyBsr {
    F16(Mutex<DeviceBsr<f16>>),
    BF16(Mutex<DeviceBsr<bf16>>),
    F32(Mutex<DeviceBsr<f32>>),
    F64(Mutex<DeviceBsr<f64>>),
    E4M3(Mutex<DeviceBsr<e4m3>>),
    E5M2(Mutex<DeviceBsr<e5m2>>),
    I8(Mutex<DeviceBsr<i8>>),
}

/// Applies a function to the typed matrix.
macro_rules! of_each {
    ($sparse:expr, $matrix:ident => $result:expr) => {
        match $sparse {
            AnyBsr::F16($matrix) => $result,
            AnyBsr::BF16($matrix) => $result,
            AnyBsr::F32($matrix) => $result,
            AnyBsr::F64($matrix) => $result,
            AnyBsr::E4M3($matrix) => $result,
            AnyBsr::E5M2($matrix) => $result,
            AnyBsr::I8($matrix) => $result,
        }
    };
}
pub(super) use of_each;

impl AnyBsr {
    /// # Errors
    /// A type that no kernel multiplies; no memory.
    pub(super) fn of(places: Places<'_>, kind: Kind) -> PyResult<Self> {
        Ok(match kind {
            Kind::F16 => Self::F16(places.matrix()?),
            Kind::BF16 => Self::BF16(places.matrix()?),
            Kind::F32 => Self::F32(places.matrix()?),
            Kind::F64 => Self::F64(places.matrix()?),
            Kind::E4M3 => Self::E4M3(places.matrix()?),
            Kind::E5M2 => Self::E5M2(places.matrix()?),
            Kind::I8 => Self::I8(places.matrix()?),
            Kind::I32 => {
                return Err(refused(
                    "no kernel multiplies i32\n  help: convert the matrix to f32, f16 or bf16, or use the CPU",
                ));
            }
        })
    }
}

/// Where the places of blocks are known.
#[derive(Clone, Copy)]
pub(super) enum Places<'a> {
    Host(&'a Device, &'a Pattern),
    Gpu(&'a Arc<DevicePattern>),
}

impl Places<'_> {
    pub(super) fn matrix<T: Element + Plain>(self) -> PyResult<Mutex<DeviceBsr<T>>> {
        Ok(Mutex::new(self.alone()?))
    }

    /// The matrix of one thread.
    pub(super) fn alone<T: Element + Plain>(self) -> PyResult<DeviceBsr<T>> {
        // SAFETY: no launch reads this address: each sets its own first. A matrix is never without one.
        let matrix = unsafe {
            match self {
                Self::Host(device, pattern) => DeviceBsr::from_raw(device, &pattern.structure, NOWHERE),
                Self::Gpu(pattern) => DeviceBsr::from_raw_pattern(pattern, NOWHERE),
            }
        };
        matrix.map_err(refused)
    }
}

/// The matrix with its values at an address, for as long as the guard lives.
///
/// # Safety
/// The address must be that of as many values on the device of the matrix, until what is launched meanwhile is done.
pub(super) unsafe fn at<T: Element + Plain>(
    matrix: &Mutex<DeviceBsr<T>>,
    values: u64,
) -> PyResult<MutexGuard<'_, DeviceBsr<T>>> {
    let mut matrix = matrix.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: as the caller vouches; the memory is that of this launch alone while the lock is held.
    unsafe { matrix.set_values(values) }.map_err(refused)?;
    Ok(matrix)
}
