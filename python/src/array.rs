//! Matrices of NumPy and PyTorch, by address, shape and strides.

use bsr::{Element, bf16, e4m3, e5m2, f16};
use half::slice::HalfFloatSliceExt as _;
use pyo3::prelude::*;

use crate::errors::refused;

/// Address, element type, rows, columns, and elements from one row and from one column to the next.
pub(crate) type ArrayArgument = (usize, String, usize, usize, isize, isize);

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Kind {
    F64,
    F32,
    F16,
    BF16,
    E4M3,
    E5M2,
    I8,
    I32,
}

impl Kind {
    /// # Errors
    /// A word that names no element type.
    pub(crate) fn parse(word: &str) -> PyResult<Self> {
        Ok(match word {
            "f64" => Self::F64,
            "f32" => Self::F32,
            "f16" => Self::F16,
            "bf16" => Self::BF16,
            "e4m3" => Self::E4M3,
            "e5m2" => Self::E5M2,
            "i8" => Self::I8,
            "i32" => Self::I32,
            other => {
                return Err(refused(format!(
                    "`{other}` is no element type of a product\n  help: use f16, bf16, f32, f64, e4m3, e5m2, i8 or i32"
                )));
            }
        })
    }

    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::E4M3 | Self::E5M2 | Self::I8 => 1,
        }
    }
}

/// A matrix in memory that the caller keeps alive. A stride of 0 repeats a row, a column or a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strided {
    pub(crate) address: usize,
    pub(crate) kind: Kind,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: isize,
    pub(crate) col_stride: isize,
}

impl Strided {
    /// # Errors
    /// An element type that is none.
    pub(crate) fn new(argument: ArrayArgument) -> PyResult<Self> {
        let (address, kind, rows, cols, row_stride, col_stride) = argument;
        Ok(Self { address, kind: Kind::parse(&kind)?, rows, cols, row_stride, col_stride })
    }

    /// A matrix whose rows lie one after the other.
    pub(crate) fn contiguous(address: usize, kind: Kind, rows: usize, cols: usize) -> Self {
        Self { address, kind, rows, cols, row_stride: cols as isize, col_stride: 1 }
    }

    fn at(&self, row: usize, col: usize) -> usize {
        let elements = row as isize * self.row_stride + col as isize * self.col_stride;
        self.address.wrapping_add_signed(elements * self.kind.bytes() as isize)
    }

    /// An element, exactly.
    ///
    /// # Safety
    /// The memory must be what the matrix says and alive, and the element in it.
    pub(crate) unsafe fn get(&self, row: usize, col: usize) -> f64 {
        let at = self.at(row, col);
        // SAFETY: the caller vouches for the memory; tensors and arrays align their elements.
        unsafe {
            match self.kind {
                Kind::F64 => *(at as *const f64),
                Kind::F32 => (*(at as *const f32)).into(),
                Kind::F16 => (*(at as *const f16)).to_f64(),
                Kind::BF16 => (*(at as *const bf16)).to_f64(),
                Kind::E4M3 => Element::to_f64(*(at as *const e4m3)),
                Kind::E5M2 => Element::to_f64(*(at as *const e5m2)),
                Kind::I8 => (*(at as *const i8)).into(),
                Kind::I32 => (*(at as *const i32)).into(),
            }
        }
    }

    /// Stores a number, rounded once to the element type.
    ///
    /// # Safety
    /// As [`Strided::get`], and nothing else may use the element.
    pub(crate) unsafe fn set(&self, row: usize, col: usize, value: f64) {
        let at = self.at(row, col);
        // SAFETY: the caller vouches for the memory; tensors and arrays align their elements.
        unsafe {
            match self.kind {
                Kind::F64 => *(at as *mut f64) = value,
                Kind::F32 => *(at as *mut f32) = value as f32,
                Kind::F16 => *(at as *mut f16) = Element::from_f64(value),
                Kind::BF16 => *(at as *mut bf16) = Element::from_f64(value),
                Kind::E4M3 => *(at as *mut e4m3) = Element::from_f64(value),
                Kind::E5M2 => *(at as *mut e5m2) = Element::from_f64(value),
                Kind::I8 => *(at as *mut i8) = Element::from_f64(value),
                Kind::I32 => *(at as *mut i32) = Element::from_f64(value),
            }
        }
    }

    /// Copies the `height` x `width` window whose corner is at (`row`, `col`) into `out`, whose lines are `line` long;
    /// what lies outside of the matrix becomes zero.
    ///
    /// # Safety
    /// As [`Strided::get`], of all elements of the window that are in the matrix.
    pub(crate) unsafe fn pack<S: Number>(
        &self,
        (row, col): (usize, usize),
        (height, width): (usize, usize),
        line: usize,
        out: &mut [S],
    ) {
        let rows = height.min(self.rows.saturating_sub(row));
        let cols = width.min(self.cols.saturating_sub(col));
        for (r, to) in out.chunks_exact_mut(line).take(height).enumerate() {
            let cols = if r < rows { cols } else { 0 };
            to[cols..].fill(S::ZERO);
            if cols > 0 && self.col_stride == 1 {
                // SAFETY: the line lies in the matrix.
                unsafe { S::read_line(self.kind, self.at(row + r, col), &mut to[..cols]) };
            }
        }
        if self.col_stride != 1 {
            // Along the columns, which is how a transposed matrix lies in memory.
            for c in 0..cols {
                for r in 0..rows {
                    // SAFETY: the element lies in the matrix.
                    out[r * line + c] = S::from_f64(unsafe { self.get(row + r, col + c) });
                }
            }
        }
    }
}

/// What products are summed in.
pub(crate) trait Number: Copy + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;
    /// `self + x * y`; `FUSED` where the processor rounds it once.
    fn add_product<const FUSED: bool>(self, x: Self, y: Self) -> Self;
    /// An element, which this type holds exactly.
    fn from_f64(value: f64) -> Self;
    /// Exactly.
    fn to_f64(self) -> f64;
    /// Reads adjacent elements.
    ///
    /// # Safety
    /// `address` must be that of as many elements of the type as `to` has places.
    unsafe fn read_line(kind: Kind, address: usize, to: &mut [Self]) {
        let line = Strided::contiguous(address, kind, 1, to.len());
        for (at, place) in to.iter_mut().enumerate() {
            // SAFETY: the caller vouches for the elements.
            *place = Self::from_f64(unsafe { line.get(0, at) });
        }
    }
}

impl Number for f32 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn add_product<const FUSED: bool>(self, x: Self, y: Self) -> Self {
        if FUSED { x.mul_add(y, self) } else { self + x * y }
    }

    fn from_f64(value: f64) -> Self {
        value as Self
    }

    fn to_f64(self) -> f64 {
        self.into()
    }

    unsafe fn read_line(kind: Kind, address: usize, to: &mut [Self]) {
        let len = to.len();
        // SAFETY: the caller vouches for the elements.
        unsafe {
            match kind {
                Kind::F32 => to.copy_from_slice(std::slice::from_raw_parts(address as *const f32, len)),
                Kind::F16 => std::slice::from_raw_parts(address as *const f16, len).convert_to_f32_slice(to),
                Kind::BF16 => std::slice::from_raw_parts(address as *const bf16, len).convert_to_f32_slice(to),
                kind => {
                    let line = Strided::contiguous(address, kind, 1, len);
                    to.iter_mut().enumerate().for_each(|(at, place)| *place = line.get(0, at) as f32);
                }
            }
        }
    }
}

impl Number for f64 {
    const ZERO: Self = 0.0;

    #[inline(always)]
    fn add_product<const FUSED: bool>(self, x: Self, y: Self) -> Self {
        if FUSED { x.mul_add(y, self) } else { self + x * y }
    }

    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }
}

impl Number for i32 {
    const ZERO: Self = 0;

    #[inline(always)]
    fn add_product<const FUSED: bool>(self, x: Self, y: Self) -> Self {
        self.wrapping_add(x.wrapping_mul(y))
    }

    fn from_f64(value: f64) -> Self {
        value as Self
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}
