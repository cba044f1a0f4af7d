//! The keys of a spec.

use std::fmt;

/// One key of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// `bm`: rows of a sparsity block.
    Bm,
    /// `bn`: columns of the dense tile.
    Bn,
    /// `bk`: columns of a sparsity block.
    Bk,
    /// `op`: which operands are sparse.
    Op,
    /// `transpose`: the sparse operand is read transposed.
    Transpose,
    /// `batch`: one launch computes a list of products.
    Batch,
    /// `permute`: rows of C are written where an order of the launch says.
    Permute,
    /// `mma`: the matrix instruction.
    Mma,
    /// `dtype`: the element type of A and B, and of C unless `out` says otherwise.
    Dtype,
    /// `a`: the element type of A.
    A,
    /// `b`: the element type of B.
    B,
    /// `acc`: the type of the accumulators.
    Acc,
    /// `out`: the element type of C.
    Out,
    /// `a_layout`: how a dense A lies in memory.
    ALayout,
    /// `b_layout`: how a dense B lies in memory.
    BLayout,
    /// `c_layout`: how a dense C lies in memory.
    CLayout,
    /// `scale`: what the factors are multiplied by: none, tensor, row_col, block.
    Scale,
    /// `accumulate`: where and how precisely products are summed.
    Accumulate,
    /// `arch`: the architecture that the PTX is for.
    Arch,
    /// `warps`: warps of a CTA along M and along N.
    Warps,
    /// `shape`: the shape of a wmma fragment.
    Shape,
    /// `vector`: elements of one scalar load.
    Vector,
    /// `stages`: stages of the shared-memory ring.
    Stages,
    /// `consumers`: consumer warpgroups a CTA.
    Consumers,
    /// `cluster`: CTAs a cluster.
    Cluster,
    /// `k_step`: elements of K that one stage holds.
    KStep,
    /// `schedule`: how tiles are dealt to clusters.
    Schedule,
    /// `swizzle`: shared-memory swizzle span in bytes.
    Swizzle,
    /// `swap`: dense columns are WGMMA's rows, and the block's rows its columns.
    Swap,
    /// `pack`: block rows that share a CTA tile.
    Pack,
    /// `epilogue`: what becomes of a sum before it is written.
    Epilogue,
    /// `beta`: whether what C holds is added, times a number of the launch.
    Beta,
}

impl Key {
    /// Every key, in the order of the canonical text.
    pub const ALL: [Self; 32] = [
        Self::Bm,
        Self::Bn,
        Self::Bk,
        Self::Op,
        Self::Transpose,
        Self::Batch,
        Self::Permute,
        Self::Mma,
        Self::Dtype,
        Self::A,
        Self::B,
        Self::Acc,
        Self::Out,
        Self::ALayout,
        Self::BLayout,
        Self::CLayout,
        Self::Scale,
        Self::Accumulate,
        Self::Arch,
        Self::Warps,
        Self::Shape,
        Self::Vector,
        Self::Stages,
        Self::Consumers,
        Self::Cluster,
        Self::KStep,
        Self::Schedule,
        Self::Swizzle,
        Self::Swap,
        Self::Pack,
        Self::Epilogue,
        Self::Beta,
    ];

    /// The key as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bm => "bm",
            Self::Bn => "bn",
            Self::Bk => "bk",
            Self::Op => "op",
            Self::Transpose => "transpose",
            Self::Batch => "batch",
            Self::Permute => "permute",
            Self::Mma => "mma",
            Self::Dtype => "dtype",
            Self::A => "a",
            Self::B => "b",
            Self::Acc => "acc",
            Self::Out => "out",
            Self::ALayout => "a_layout",
            Self::BLayout => "b_layout",
            Self::CLayout => "c_layout",
            Self::Scale => "scale",
            Self::Accumulate => "accumulate",
            Self::Arch => "arch",
            Self::Warps => "warps",
            Self::Shape => "shape",
            Self::Vector => "vector",
            Self::Stages => "stages",
            Self::Consumers => "consumers",
            Self::Cluster => "cluster",
            Self::KStep => "k_step",
            Self::Schedule => "schedule",
            Self::Swizzle => "swizzle",
            Self::Swap => "swap",
            Self::Pack => "pack",
            Self::Epilogue => "epilogue",
            Self::Beta => "beta",
        }
    }

    /// The key written as `text`, if there is one.
    pub fn find(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.as_str() == text)
    }

    /// What the key stands for, in a few words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Bm => "rows of a sparsity block",
            Self::Bn => "columns of the dense tile",
            Self::Bk => "columns of a sparsity block",
            Self::Op => "which operands are sparse",
            Self::Transpose => "whether the sparse operand is read transposed",
            Self::Batch => "whether one launch computes a list of products",
            Self::Permute => "whether rows of C are written in an order of the launch",
            Self::Mma => "the matrix instruction",
            Self::Dtype => "the element type of A and B, and of C unless `out` is given",
            Self::A => "the element type of A",
            Self::B => "the element type of B",
            Self::Acc => "the type of the accumulators",
            Self::Out => "the element type of C",
            Self::ALayout => "how a dense A lies in memory",
            Self::BLayout => "how a dense B lies in memory",
            Self::CLayout => "how a dense C lies in memory",
            Self::Scale => "what the factors are multiplied by: none, tensor, row_col, block",
            Self::Accumulate => "where and how precisely products are summed",
            Self::Arch => "the architecture that the PTX is for",
            Self::Warps => "warps of a CTA along M and along N",
            Self::Shape => "the shape of a wmma fragment",
            Self::Vector => "elements of one scalar load",
            Self::Stages => "stages of the shared-memory ring",
            Self::Consumers => "consumer warpgroups a CTA",
            Self::Cluster => "CTAs a cluster",
            Self::KStep => "elements of K that one stage holds",
            Self::Schedule => "how tiles are dealt to clusters",
            Self::Swizzle => "shared-memory swizzle span in bytes",
            Self::Swap => "whether dense columns are the rows of the matrix instruction",
            Self::Pack => "block rows that share a CTA tile",
            Self::Epilogue => "what becomes of a sum before it is written",
            Self::Beta => "whether what C holds is added, times a number of the launch",
        }
    }

    /// True for `bm`, `bn` and `bk`, which have no default.
    pub const fn is_required(self) -> bool {
        matches!(self, Self::Bm | Self::Bn | Self::Bk)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
