//! Tensor maps, and what the driver takes of them: the rules of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map
//! Object Management") for maps without interleave. A plan, the simulator and a launch on a GPU check maps here.

use super::operand::Operand;
use crate::Dtype;

/// What TMA makes of elements on their way to shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// They stay as they are.
    #[default]
    Unchanged,
    /// f32 is rounded to the nearest TF32, ties to even (`CU_TENSOR_MAP_DATA_TYPE_TFLOAT32`).
    Tf32,
}

impl Conversion {
    /// That of an operand. Of f32 factors WGMMA ignores the bits that TF32 does not have (PTX ISA, "wgmma.mma_async"): rounded
    /// before, they lose half as much, and as often upwards as downwards.
    pub(crate) fn of(operand: Operand, dtype: Dtype) -> Self {
        match (operand, dtype) {
            (Operand::A | Operand::B, Dtype::F32) => Self::Tf32,
            _ => Self::Unchanged,
        }
    }
}

/// A tiled tensor map (`cuTensorMapEncodeTiled`): out-of-bounds elements read as zero and are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// What it describes.
    pub operand: Operand,
    /// Element type.
    pub dtype: Dtype,
    /// What loads make of the elements.
    pub conversion: Conversion,
    /// Dimensions: 2 or 3.
    pub rank: u32,
    /// Bytes from the operand's address to the map's first element, a multiple of 16.
    pub offset_bytes: u64,
    /// Sizes in elements, contiguous dimension first; 1 beyond the rank.
    pub dims: [u64; 3],
    /// Bytes from one element to the next along the second and the third dimension, multiples of 16.
    pub strides_bytes: [u64; 2],
    /// Box sizes in elements, contiguous dimension first; 1 beyond the rank.
    pub box_dims: [u32; 3],
    /// Swizzle span in bytes: 32, 64 or 128, or 0 for none.
    pub swizzle_bytes: u32,
}

impl TensorMap {
    /// A map of a matrix of `dims`, lines `stride` bytes apart.
    pub(crate) fn matrix(
        (operand, dtype): (Operand, Dtype),
        dims: [u64; 2],
        stride: u64,
        box_dims: [u32; 2],
        swizzle_bytes: u32,
    ) -> Self {
        Self {
            operand,
            dtype,
            conversion: Conversion::of(operand, dtype),
            rank: 2,
            offset_bytes: 0,
            dims: [dims[0], dims[1], 1],
            strides_bytes: [stride, 0],
            box_dims: [box_dims[0], box_dims[1], 1],
            swizzle_bytes,
        }
    }
}

/// A tiled tensor map of a tensor of rank 4: the elements of a row, rows, heads, problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StridedMap {
    /// What it describes.
    pub operand: Operand,
    /// Element type.
    pub dtype: Dtype,
    /// Sizes in elements, the contiguous dimension first.
    pub dims: [u64; 4],
    /// Bytes from one element to the next along the second dimension and on, multiples of 16.
    pub strides_bytes: [u64; 3],
    /// Columns and rows of a box; it is of one head of one problem.
    pub box_dims: [u32; 4],
    /// Swizzle span in bytes: 32, 64 or 128, or 0 for none.
    pub swizzle_bytes: u32,
}

/// A map of either kind, as the driver is given it: the contiguous dimension first.
#[derive(Clone, Copy, Debug)]
pub struct Tiled<'m> {
    /// What it describes.
    pub operand: Operand,
    /// Element type.
    pub dtype: Dtype,
    /// What loads make of the elements.
    pub conversion: Conversion,
    /// Sizes in elements.
    pub dims: &'m [u64],
    /// Bytes from one element to the next along the second dimension and on.
    pub strides_bytes: &'m [u64],
    /// Box sizes in elements.
    pub box_dims: &'m [u32],
    /// Swizzle span in bytes, 0 for none.
    pub swizzle_bytes: u32,
}

impl TensorMap {
    /// The map as the driver is given it.
    ///
    /// # Errors
    /// What the driver does not take, whatever the address is.
    pub fn tiled(&self) -> Result<Tiled<'_>, TensorMapError> {
        let rank = self.rank as usize;
        if !(2..=3).contains(&rank) {
            return Err(TensorMapError { operand: self.operand, fault: TensorMapFault::Rank(self.rank) });
        }
        let Self { operand, dtype, conversion, swizzle_bytes, .. } = *self;
        let (dims, strides_bytes, box_dims) =
            (&self.dims[..rank], &self.strides_bytes[..rank - 1], &self.box_dims[..rank]);
        Tiled { operand, dtype, conversion, dims, strides_bytes, box_dims, swizzle_bytes }.checked()
    }
}

impl StridedMap {
    /// The map as the driver is given it.
    ///
    /// # Errors
    /// What the driver does not take, whatever the address is.
    pub fn tiled(&self) -> Result<Tiled<'_>, TensorMapError> {
        let Self { operand, dtype, dims, strides_bytes, box_dims, swizzle_bytes } = self;
        let (operand, dtype, swizzle_bytes) = (*operand, *dtype, *swizzle_bytes);
        let conversion = Conversion::Unchanged;
        Tiled { operand, dtype, conversion, dims, strides_bytes, box_dims, swizzle_bytes }.checked()
    }
}

impl Tiled<'_> {
    fn checked(self) -> Result<Self, TensorMapError> {
        self.fault().map_or(Ok(self), |fault| Err(TensorMapError { operand: self.operand, fault }))
    }

    fn fault(&self) -> Option<TensorMapFault> {
        use TensorMapFault as Fault;
        let Self { dims, strides_bytes: strides, box_dims, swizzle_bytes, .. } = *self;
        let (size, inner, box_inner) = (self.dtype.bytes(), dims[0], box_dims[0]);
        if dims.iter().any(|dim| !(1..=1 << 32).contains(dim)) {
            return Some(Fault::Dims { shape: shape(dims) });
        }
        let wrong = |stride: &u64| !stride.is_multiple_of(16) || *stride >= 1 << 40;
        if let Some(at) = strides.iter().position(wrong) {
            return Some(Fault::Stride { dimension: at + 1, stride: strides[at] });
        }
        // In a map of rank 3 the dimensions may be parts of one row, and the rows need not come second.
        if dims.len() != 3 && strides[0] < inner * u64::from(size) {
            return Some(Fault::Overlap { stride: strides[0], inner, size: size.into() });
        }
        if box_dims.iter().any(|dim| !(1..=256).contains(dim)) {
            return Some(Fault::Box { shape: shape(box_dims) });
        }
        if !(box_inner * size).is_multiple_of(16) {
            return Some(Fault::BoxRow { inner: box_inner, size });
        }
        match swizzle_bytes {
            0 => None,
            span @ (32 | 64 | 128) if box_inner * size > span => Some(Fault::BoxSpan { inner: box_inner, size, span }),
            32 | 64 | 128 => None,
            other => Some(Fault::Swizzle(other)),
        }
    }
}

/// A tensor map that the hardware cannot take. The driver would answer `CUDA_ERROR_INVALID_VALUE` to any of them.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tensor map of {operand:?} cannot be made: {fault}")]
pub struct TensorMapError {
    /// Which operand.
    pub operand: Operand,
    /// What is wrong.
    pub fault: TensorMapFault,
}

message_as_debug!(TensorMapError);

/// What is wrong with a tensor map: the fact, the arithmetic and the remedy.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapFault {
    /// The address of the first element is null or not a multiple of 16 bytes.
    #[error("its base address {0:#x} must be a multiple of 16 and not null\n  help: pass memory aligned to 16 bytes")]
    Base(u64),
    /// A rank other than 2 and 3.
    #[error("{0} dimensions: maps of 2 and 3 are encoded\n  help: describe a matrix, or a stack of matrices")]
    Rank(u32),
    /// A dimension of 0 or beyond 2^32.
    #[error(
        "{shape}: TMA takes dimensions from 1 to 4294967296\n  help: launch nothing for an empty matrix, split a larger one"
    )]
    Dims {
        /// The sizes, the contiguous dimension last.
        shape: String,
    },
    /// A stride that is not a multiple of 16 bytes, or 2^40 and more.
    #[error("a stride of {stride} B along dimension {dimension} must be a multiple of 16 below 2^40\n  help: pad the line to {} B", stride.next_multiple_of(16))]
    Stride {
        /// The dimension, counted from the contiguous one, which is 0.
        dimension: usize,
        /// Bytes from one element to the next along it.
        stride: u64,
    },
    /// Rows that overlap.
    #[error("a row stride of {stride} B is shorter than a row of {inner} elements x {size} B = {} B\n  help: use a stride of {} B", inner * size, (inner * size).next_multiple_of(16))]
    Overlap {
        /// Bytes from row to row.
        stride: u64,
        /// Elements of a row.
        inner: u64,
        /// Bytes of an element.
        size: u64,
    },
    /// A box dimension of 0 or beyond 256.
    #[error("a box of {shape}: TMA takes 1 to 256 elements per dimension\n  help: copy in smaller boxes")]
    Box {
        /// The sizes, the contiguous dimension last.
        shape: String,
    },
    /// A box row that is not a multiple of 16 bytes.
    #[error("a box row of {inner} elements x {size} B = {} B must be a multiple of 16 B\n  help: make it {} elements", inner * size, (inner * size).next_multiple_of(16) / size)]
    BoxRow {
        /// Elements of a box row.
        inner: u32,
        /// Bytes of an element.
        size: u32,
    },
    /// A box row longer than the swizzle span.
    #[error("a box row of {inner} elements x {size} B = {} B is longer than the swizzle span of {span} B\n  help: make it at most {} elements", inner * size, span / size)]
    BoxSpan {
        /// Elements of a box row.
        inner: u32,
        /// Bytes of an element.
        size: u32,
        /// Bytes of the swizzle span.
        span: u32,
    },
    /// A swizzle the hardware does not have.
    #[error("a swizzle of {0} B does not exist\n  help: use 0 (none), 32, 64 or 128")]
    Swizzle(u32),
}

message_as_debug!(TensorMapFault);

/// Sizes as they are said: the contiguous dimension last.
fn shape<T: ToString>(dims: &[T]) -> String {
    let sizes: Vec<String> = dims.iter().rev().map(T::to_string).collect();
    sizes.join(" x ")
}
