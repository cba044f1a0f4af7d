//! What a device needs to launch a kernel, with no device types: grid, cluster, shared memory, parameters.

use arrayvec::ArrayVec;

use super::Plan;
use crate::Dtype;

/// An operand in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The values of the BSR matrix, seen as a `[nnzb * bm, bk]` matrix.
    A,
    /// The dense operand.
    B,
    /// The dense result.
    C,
    /// The f32 scales of A.
    ScaleA,
    /// The f32 scales of B.
    ScaleB,
    /// A vector or matrix of the epilogue, by the number of its parameter.
    Epilogue(usize),
    /// The second result of the epilogue: f32, one for every row of C.
    Second,
}

impl Operand {
    fn words(self) -> &'static str {
        match self {
            Self::A => "A's values, [nnzb * bm, bk]",
            Self::B => "B",
            Self::C => "C",
            Self::ScaleA => "A's factors",
            Self::ScaleB => "B's factors",
            Self::Epilogue(_) => "the epilogue's",
            Self::Second => "the epilogue's second result, f32 by rows",
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
    /// Swizzle span in bytes: 32, 64 or 128.
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
            rank: 2,
            offset_bytes: 0,
            dims: [dims[0], dims[1], 1],
            strides_bytes: [stride, 0],
            box_dims: [box_dims[0], box_dims[1], 1],
            swizzle_bytes,
        }
    }
}

/// One parameter of a kernel and what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the PTX.
    pub name: &'static str,
    /// What a launch passes.
    pub argument: Argument,
}

/// What a launch passes as a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A tensor map, 128 bytes by value.
    Map(TensorMap),
    /// The address of an operand.
    Pointer(Operand),
    /// The address of A's block columns.
    ColIdx,
    /// The address of the work plan's heads.
    WorkHead,
    /// The address of the work items.
    Work,
    /// A 32-bit number.
    Number(u32),
    /// An f32 of the epilogue, by the number of its parameter.
    Scalar(usize),
}

impl Parameter {
    /// What it is, in a few words.
    pub(crate) fn meaning(&self) -> String {
        match self.argument {
            Argument::Map(map) => format!("tensor map of {}", map.operand.words()),
            Argument::Pointer(operand) => operand.words().to_owned(),
            Argument::ColIdx => "A's block columns".to_owned(),
            Argument::WorkHead => "items of every cluster, then the first block columns of each".to_owned(),
            Argument::Work => "items {c_row, c_col, a_row, blocks}".to_owned(),
            Argument::Number(_) | Argument::Scalar(_) => String::new(),
        }
    }

    /// The declaration in the kernel's signature.
    pub(crate) fn declaration(&self) -> String {
        let name = self.name;
        match self.argument {
            Argument::Map(_) => format!(".param .align 64 .b8 {name}[128]"),
            Argument::Number(_) => format!(".param .u32 {name}"),
            Argument::Scalar(_) => format!(".param .f32 {name}"),
            Argument::Pointer(_) | Argument::ColIdx | Argument::WorkHead | Argument::Work => {
                format!(".param .u64 {name}")
            }
        }
    }
}

/// The parameters of a kernel, in order.
pub type Parameters = ArrayVec<Parameter, 32>;

/// A launch of one kernel on one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// CTAs in x and in y.
    pub grid: [u32; 2],
    /// Threads of a CTA.
    pub block: u32,
    /// CTAs of a cluster.
    pub cluster: u32,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// The kernel's parameters.
    pub parameters: Parameters,
}

/// The sizes of one multiplication C\[m, n\] = A\[m, k\] * B\[k, n\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of A and C.
    pub m: u64,
    /// Columns of B and C.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// Stored blocks of A.
    pub nnzb: u64,
    /// Leading dimension of B in elements.
    pub ldb: u64,
    /// Leading dimension of C in elements.
    pub ldc: u64,
    /// Leading dimension of the epilogue's full operand in elements, where it has one.
    pub ldt: u64,
}

/// How the CTAs of a launch find their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// A persistent grid: each cluster walks its own list of output tiles.
    Tiles,
    /// One CTA for every stored block, row slice and column tile, which adds its product to a C full of zeros.
    Blocks,
}

/// The output tile of one cluster, and how it lies in a sparsity block: what a schedule deals out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterTile {
    /// Rows of C; divides the block's rows.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
    /// Rows of a sparsity block.
    pub block_rows: u32,
    /// Pipeline stages that one block costs, times the blocks that one stage gathers.
    pub stages_per_block: (u32, u32),
}

impl Plan {
    /// The output tile of one cluster.
    pub fn cluster_tile(&self) -> ClusterTile {
        self.family().cluster_tile()
    }

    /// How CTAs find their work.
    pub fn walk(&self) -> Walk {
        self.family().walk()
    }

    /// CTAs of a cluster.
    pub fn cluster(&self) -> u32 {
        self.family().cluster()
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.family().threads()
    }

    /// Dynamic shared memory of a CTA in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.family().shared_bytes()
    }

    /// True where C is written by TMA, in whole pieces of 16 bytes.
    pub fn stores_by_tma(&self) -> bool {
        self.family().stores_by_tma()
    }

    /// The launch of a kernel on `problem`. `grid` is the number of clusters and 1 for a walk over tiles, the
    /// numbers of work items and of column tiles for a walk over blocks.
    pub fn launch(&self, problem: &Problem, grid: [u32; 2]) -> LaunchShape {
        LaunchShape {
            grid: [grid[0] * self.cluster(), grid[1]],
            block: self.threads(),
            cluster: self.cluster(),
            shared_bytes: self.shared_bytes(),
            parameters: self.family().parameters(problem),
        }
    }
}
