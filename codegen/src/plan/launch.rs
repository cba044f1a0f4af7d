//! What a device needs to launch a kernel, with no device types: grid, cluster, shared memory, tensor maps.

use super::Plan;
use super::tiling::Share;
use crate::{Dtype, Layout};

/// The operand that a tensor map describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The values of the BSR matrix, seen as a `[nnzb * bm, bk]` matrix.
    A,
    /// The dense operand.
    B,
    /// The dense result.
    C,
}

/// A 2-D tiled tensor map (`cuTensorMapEncodeTiled`): out-of-bounds elements read as zero and are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// What it describes.
    pub operand: Operand,
    /// Element type.
    pub dtype: Dtype,
    /// Sizes in elements, contiguous dimension first.
    pub dims: [u64; 2],
    /// Bytes from row to row, a multiple of 16.
    pub row_stride_bytes: u64,
    /// Box sizes in elements, contiguous dimension first.
    pub box_dims: [u32; 2],
    /// Swizzle span in bytes: 32, 64 or 128.
    pub swizzle_bytes: u32,
}

/// A launch of one kernel on one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// CTAs in x.
    pub grid: u32,
    /// Threads of a CTA.
    pub block: u32,
    /// CTAs of a cluster.
    pub cluster: u32,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Tensor maps of A, B and C, the first three kernel parameters.
    pub maps: [TensorMap; 3],
}

/// The sizes of one multiplication C\[m, n\] = A\[m, k\] * B\[k, n\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
        ClusterTile {
            rows: self.tiling.cluster_m(),
            columns: self.tiling.cluster_n(),
            block_rows: self.spec.bm,
            stages_per_block: (self.kloop.steps, self.kloop.slots),
        }
    }

    /// CTAs of a cluster.
    pub fn cluster(&self) -> u32 {
        self.tiling.cluster
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.tiling.roles.threads
    }

    /// Dynamic shared memory of a CTA in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.memory.total
    }

    /// The launch of `clusters` persistent clusters on `problem`.
    pub fn launch(&self, problem: &Problem, clusters: u32) -> LaunchShape {
        LaunchShape {
            grid: clusters * self.tiling.cluster,
            block: self.tiling.roles.threads,
            cluster: self.tiling.cluster,
            shared_bytes: self.memory.total,
            maps: [self.map_a(problem), self.map_b(problem), self.map_c(problem)],
        }
    }

    fn map_a(&self, problem: &Problem) -> TensorMap {
        let (bk, fold) = (u64::from(self.spec.bk), u64::from(self.a.fold));
        TensorMap {
            operand: Operand::A,
            dtype: self.spec.a,
            dims: [bk * fold, (problem.nnzb * u64::from(self.spec.bm) / fold).max(1)],
            row_stride_bytes: bk * fold * u64::from(self.spec.a.bytes()),
            box_dims: [self.a.span_elements() * self.a.fold, self.a.box_rows / self.a.fold],
            swizzle_bytes: self.a.span * self.a.fold,
        }
    }

    fn map_b(&self, problem: &Problem) -> TensorMap {
        TensorMap {
            operand: Operand::B,
            dtype: self.spec.b,
            dims: match self.spec.b_layout {
                Layout::RowMajor => [problem.n, problem.k.max(1)],
                Layout::ColMajor => [problem.k.max(1), problem.n],
            },
            row_stride_bytes: (problem.ldb * u64::from(self.spec.b.bytes())).max(16),
            box_dims: [self.b.span_elements(), self.b.box_rows],
            swizzle_bytes: self.b.span,
        }
    }

    fn map_c(&self, problem: &Problem) -> TensorMap {
        TensorMap {
            operand: Operand::C,
            dtype: self.spec.out,
            dims: match self.spec.c_layout {
                Layout::RowMajor => [problem.n, problem.m],
                Layout::ColMajor => [problem.m, problem.n],
            },
            row_stride_bytes: problem.ldc * u64::from(self.spec.out.bytes()),
            box_dims: [self.epilogue.store_box.0, self.epilogue.store_box.1],
            swizzle_bytes: self.epilogue.span,
        }
    }
}

impl Share {
    /// In words, for the plan's table and the PTX comments.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::A => "A, over column tiles",
            Self::B => "B, over row slices",
        }
    }
}
