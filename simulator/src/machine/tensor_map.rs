//! Tensor maps: how a tensor copy finds its elements.

use super::global::{BufferId, GlobalMemory};
use super::im2col::Im2col;

/// Element type of a tensor map. TMA moves bytes: only the size and the fill value depend on it, but for `Tf32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorElement {
    /// 8-bit elements (`u8`, e4m3, e5m2).
    B8,
    /// 16-bit integers.
    U16,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 32-bit integers without a sign.
    B32,
    /// 32-bit integers with one, which only reductions tell from others.
    S32,
    /// IEEE single precision.
    F32,
    /// The same, rounded by loads to the nearest TF32, ties to even (`CU_TENSOR_MAP_DATA_TYPE_TFLOAT32`).
    Tf32,
    /// 64-bit integers without a sign.
    B64,
    /// 64-bit integers with one.
    S64,
    /// Double precision.
    F64,
}

impl TensorElement {
    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::B8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::S32 | Self::F32 | Self::Tf32 => 4,
            Self::B64 | Self::S64 | Self::F64 => 8,
        }
    }
}

/// The shared-memory swizzle of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Rows are contiguous.
    None,
    /// 16-byte units permuted within 32 bytes: address bit 4 ^= bit 7.
    B32,
    /// Within 64 bytes: bits 4-5 ^= bits 7-8.
    B64,
    /// Within 128 bytes: bits 4-6 ^= bits 7-9.
    B128,
}

impl Swizzle {
    /// Bytes within which units are permuted; 16 without swizzle.
    #[must_use]
    pub fn span(self) -> u32 {
        match self {
            Self::None => 16,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }

    /// From the span in bytes, 0 for none.
    #[must_use]
    pub fn from_span(bytes: u32) -> Option<Self> {
        Some(match bytes {
            0 => Self::None,
            32 => Self::B32,
            64 => Self::B64,
            128 => Self::B128,
            _ => return None,
        })
    }

    /// Where the byte at shared address `a` really is.
    #[must_use]
    pub fn apply(self, a: u32) -> u32 {
        a ^ ((a >> 7 & (self.span() / 16 - 1)) << 4)
    }
}

/// Where a tensor map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapAt {
    /// In a parameter, by its place in parameter space.
    Param(u32),
    /// An address in global memory, where the host has placed one.
    Global(u64),
    /// One that the kernel has made: its address, and its number among them.
    Made(u64, usize),
}

/// A tensor map: a view of a global buffer as a tensor, and the box that one copy moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapDesc {
    /// The buffer.
    pub buffer: BufferId,
    /// Byte offset of element (0, ..., 0) in the buffer.
    pub offset: u64,
    /// Element type.
    pub element: TensorElement,
    /// Extents in elements, innermost first; one to five.
    pub dims: Vec<u64>,
    /// Byte strides of dimensions 1 and up (one fewer than `dims`).
    pub strides: Vec<u64>,
    /// The box in elements, innermost first; in im2col mode channels per pixel and pixels per column.
    pub box_dims: Vec<u32>,
    /// Element strides of the box; all 1 for a dense box. The innermost one is ignored, as the hardware does. In im2col mode
    /// steps of the filter along each dimension.
    pub element_strides: Vec<u32>,
    /// The mode of copies; tiles if there is none.
    pub im2col: Option<Im2col>,
    /// Shared-memory swizzle.
    pub swizzle: Swizzle,
    /// Out-of-bounds elements read as NaN instead of zero (floating-point elements only).
    pub fill_nan: bool,
}

impl TensorMapDesc {
    /// A dense 2-D map: `dims` (inner, outer) in elements, `row_stride` in bytes, `box_dims` (inner, outer).
    #[must_use]
    pub fn matrix(
        buffer: BufferId,
        element: TensorElement,
        dims: [u64; 2],
        row_stride: u64,
        box_dims: [u32; 2],
        swizzle: Swizzle,
    ) -> Self {
        Self {
            buffer,
            offset: 0,
            element,
            dims: dims.to_vec(),
            strides: vec![row_stride],
            box_dims: box_dims.to_vec(),
            element_strides: vec![1, 1],
            im2col: None,
            swizzle,
            fill_nan: false,
        }
    }

    /// Bytes of one box, as an mbarrier counts them: elements outside the tensor count too.
    #[must_use]
    pub fn box_bytes(&self) -> u64 {
        u64::from(self.row_bytes()) * u64::from(self.row_count())
    }

    /// Bytes between two rows of a box in shared memory.
    pub(crate) fn row_pitch(&self) -> u32 {
        let inner = self.row_bytes();
        if self.swizzle == Swizzle::None { inner } else { self.swizzle.span() }
    }

    /// The rules of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`.
    pub(crate) fn check(&self, memory: &GlobalMemory) -> Result<(), String> {
        let rank = self.dims.len();
        if !(1..=5).contains(&rank) {
            return Err(format!("a tensor map has 1 to 5 dimensions, this one {rank}"));
        }
        let box_rank = if self.im2col.is_some() { 2 } else { rank };
        if self.strides.len() + 1 != rank || self.box_dims.len() != box_rank || self.element_strides.len() != rank {
            return Err(format!(
                "rank {rank} needs {} strides, {box_rank} box dimensions and {rank} element strides; it has {}, {} and {}",
                rank - 1,
                self.strides.len(),
                self.box_dims.len(),
                self.element_strides.len()
            ));
        }
        if !memory.has(self.buffer) {
            return Err("the buffer does not exist".into());
        }
        let base = memory.address(self.buffer).wrapping_add(self.offset);
        if !base.is_multiple_of(16) {
            return Err(format!("the base address {base:#x} is not a multiple of 16"));
        }
        if let Some(d) = self.dims.iter().find(|d| **d == 0 || **d > 1 << 32) {
            return Err(format!("an extent is 1 to 2^32, not {d}"));
        }
        for (d, b) in self.box_dims.iter().enumerate() {
            let most = if d == 1 && self.im2col.is_some() { 1024 } else { 256 };
            if !(1..=most).contains(b) {
                return Err(format!("box dimension {d} is 1 to {most}, not {b}"));
            }
        }
        if let Some(s) = self.strides.iter().find(|s| **s % 16 != 0 || **s >= 1 << 40) {
            return Err(format!("a stride is a multiple of 16 below 2^40, not {s}"));
        }
        if let Some(s) = self.element_strides.iter().find(|s| !(1..=8).contains(*s)) {
            return Err(format!("an element stride is 1 to 8, not {s}"));
        }
        let inner = self.box_dims[0] * self.element.bytes();
        if !inner.is_multiple_of(16) {
            return Err(format!("the inner box dimension is {inner} bytes, not a multiple of 16"));
        }
        if self.swizzle != Swizzle::None && inner > self.swizzle.span() {
            return Err(format!(
                "the inner box dimension is {inner} bytes, more than the swizzle's {}",
                self.swizzle.span()
            ));
        }
        self.im2col.as_ref().map_or(Ok(()), |mode| mode.check(&self.dims, &self.element_strides))
    }
}
