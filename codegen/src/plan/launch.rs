//! What a device needs to launch a kernel, with no device types: grid, cluster, shared memory, parameters.

use arrayvec::ArrayVec;

use super::operand::Operand;
use super::tensor_map::{StridedMap, TensorMap};
use crate::Op;

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
    /// A tensor map of rank 4, 128 bytes by value.
    Strided(StridedMap),
    /// The address of the tensor maps of all problems of a batch, those of
    /// [`Plan::problem_maps`](crate::Plan::problem_maps) one after the other.
    Maps,
    /// The address of the records of all problems of a batch, those of
    /// [`Plan::problem_record`](crate::Plan::problem_record) one after the other.
    Problems,
    /// The address of a tensor of rank 4 that is read or written 16 bytes at a time: what TMA asks of its strides holds for it.
    Rows(StridedMap),
    /// The address of an operand.
    Pointer(Operand),
    /// The address of the block columns: the columns of the blocks of each row of the sparse operand, as it is read.
    ColIdx,
    /// The address of the first block of each block row of the sparse operand, and the number of its blocks.
    RowPtr,
    /// The address of the numbers of these blocks in storage.
    BlockIdx,
    /// The address of the work plan's heads.
    WorkHead,
    /// The address of the work tiles.
    Work,
    /// The whole work list by value, so many bytes: {bytes to the work tiles, bytes to the steps}, the first work tile of each CTA and the
    /// end of the last one, the work tiles, the steps, zeros.
    WorkList(u32),
    /// The address of memory that is zero before the first launch, for partial sums that one CTA computes for another;
    /// see [`SddmmTiles`].
    Workspace,
    /// The address of the stage metadata: the records of [`StagePacking`].
    StageMetadata,
    /// A 32-bit number.
    Number(u32),
    /// Bytes from one row, head or problem of a tensor to the next.
    Stride(u64),
    /// An f32 of the epilogue, by the number of its parameter.
    Scalar(usize),
    /// Elements from one head of a score's vector to the next, and in the upper 32 bits from one problem to the next, by the
    /// number of its parameter.
    VectorStrides(usize),
    /// What products of queries and keys are multiplied by, an f32.
    Scale,
    /// The address of the rings of a probed kernel, zero before the launch; see [`crate::probes`].
    Probes,
}

impl Parameter {
    /// What it is, in a few words.
    pub(crate) fn meaning(&self, op: Op) -> String {
        match self.argument {
            Argument::Map(map) => format!("tensor map of {}", map.operand.words(op)),
            Argument::Strided(map) => format!("tensor map of {}", map.operand.words(op)),
            Argument::ColIdx if op.is_of_heads() => "the steps of all work tiles".to_owned(),
            Argument::WorkHead if op.is_of_heads() => {
                "the first work tile of each CTA, and the end of the last one".to_owned()
            }
            Argument::WorkList(_) => "the work list: where tiles and steps are, the first tile of each CTA, tiles, steps".to_owned(),
            Argument::Work if op == Op::Attention => {
                "work tiles {query, head, problem, key head, first step, steps, steps of each consumer}".to_owned()
            }
            Argument::Work if op.is_gradient() => {
                "work tiles {row, head, problem, first head of the other side, first step, steps, steps of each consumer}"
                    .to_owned()
            }
            Argument::ColIdx if op.is_of_pairs() => "B's block of each pair".to_owned(),
            Argument::BlockIdx if op.is_of_pairs() => "A's block of each pair".to_owned(),
            Argument::WorkHead if op.is_of_pairs() => {
                "the number of work tiles of each cluster, then B's blocks of the first pairs of each".to_owned()
            }
            Argument::Work if op.is_of_pairs() => {
                "work tiles {c_row, c_col, first pair * bm + row of a block, pairs}".to_owned()
            }
            Argument::StageMetadata if op.is_of_pairs() => "records of the pairs of each tile".to_owned(),
            Argument::Maps => "tensor maps of each problem".to_owned(),
            Argument::Problems => "a record of each problem: addresses, sizes, leading dimensions".to_owned(),
            Argument::Pointer(operand) => operand.words(op).to_owned(),
            Argument::Rows(map) => map.operand.words(op).to_owned(),
            Argument::ColIdx => if op == Op::Dds { "B's block columns" } else { "A's block columns" }.to_owned(),
            Argument::RowPtr => "the first block of each block row of A, and the number of blocks".to_owned(),
            Argument::BlockIdx => "the positions of these blocks in storage".to_owned(),
            Argument::WorkHead if op == Op::Sdd => "the number of work tiles of each CTA".to_owned(),
            Argument::WorkHead => {
                "the number of work tiles of each cluster, then the first block columns of each".to_owned()
            }
            Argument::Work if op == Op::Sdd => {
                "work tiles: the first of each CTA, then the second of each, ..".to_owned()
            }
            Argument::Work => "work tiles {c_row, c_col, a_row, blocks}".to_owned(),
            Argument::StageMetadata => "stage metadata, 256 bytes each".to_owned(),
            Argument::Workspace => "split-K partials".to_owned(),
            Argument::Probes => "probes: header and records".to_owned(),
            Argument::VectorStrides(_) => "strides between heads and between problems, in elements".to_owned(),
            Argument::Number(_) | Argument::Stride(_) | Argument::Scalar(_) | Argument::Scale => String::new(),
        }
    }

    /// The declaration in the kernel's signature.
    pub(crate) fn declaration(&self) -> String {
        let name = self.name;
        match self.argument {
            Argument::Map(_) | Argument::Strided(_) => format!(".param .align 64 .b8 {name}[128]"),
            Argument::WorkList(bytes) => format!(".param .align 16 .b8 {name}[{bytes}]"),
            Argument::Number(_) => format!(".param .u32 {name}"),
            Argument::Scalar(_) | Argument::Scale => format!(".param .f32 {name}"),
            Argument::Maps
            | Argument::Problems
            | Argument::Pointer(_)
            | Argument::Rows(_)
            | Argument::ColIdx
            | Argument::RowPtr
            | Argument::BlockIdx
            | Argument::WorkHead
            | Argument::Work
            | Argument::StageMetadata
            | Argument::Stride(_)
            | Argument::VectorStrides(_)
            | Argument::Probes
            | Argument::Workspace => {
                format!(".param .u64 {name}")
            }
        }
    }
}

impl Argument {
    /// Bytes of the parameter.
    pub(super) fn bytes(&self) -> u32 {
        match self {
            Self::Map(_) | Self::Strided(_) => 128,
            Self::Number(_) | Self::Scalar(_) | Self::Scale => 4,
            Self::WorkList(bytes) => *bytes,
            _ => 8,
        }
    }
}

/// The parameters of a kernel, in order.
pub type Parameters = ArrayVec<Parameter, 48>;

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
    /// The kernel may start while the one before it in the stream ends, and waits by itself for what that one writes
    /// (programmatic stream serialization).
    pub is_dependent: bool,
    /// The kernel's parameters.
    pub parameters: Parameters,
}

/// The sizes of one multiplication C\[m, n\] = A\[m, k\] * B\[k, n\], whichever factor is sparse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of A and C.
    pub m: u64,
    /// Columns of B and C.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// Stored blocks of the sparse operand.
    pub nnzb: u64,
    /// Leading dimension of a dense A in elements.
    pub lda: u64,
    /// Leading dimension of a dense B in elements.
    pub ldb: u64,
    /// Leading dimension of a dense C in elements.
    pub ldc: u64,
    /// Leading dimension of the epilogue's full operand in elements, where it has one.
    pub ldt: u64,
}

/// How the CTAs of a launch find their work tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileScheduler {
    /// A persistent grid: each cluster computes the output tiles of its own list, which the host made.
    Static,
    /// The same with tiles of several block rows, whose pipeline stages are described by metadata made of the pattern.
    StageMetadata(StagePacking),
    /// A persistent grid: tiles of several block rows, each with the union of their block columns.
    SharedColumns(SharedColumns),
    /// A persistent grid: tiles of several blocks of a product of two sparse factors, each with the union of their pairs.
    SharedPairs(SharedPairs),
    /// One CTA for every stored block, row slice and column tile, which adds its product to a C full of zeros.
    CtaPerBlock,
    /// One CTA for so many block rows and a column tile: its threads find their blocks by the block rows' own pointers.
    BlockRows {
        /// Block rows of a CTA.
        rows: u32,
    },
    /// A persistent grid: each CTA computes the tiles of an SDDMM in its own list; see
    /// [`Plan::sddmm_tiles`](crate::Plan::sddmm_tiles).
    Sddmm,
    /// A persistent grid: each CTA computes the tiles of an attention in its own list; see
    /// [`Plan::attention_tiles`](crate::Plan::attention_tiles).
    Attention,
}

impl TileScheduler {
    /// A row, column or block beyond those of every matrix, whose sizes are below it: TMA reads zeros there and writes nothing.
    pub const OUTSIDE: u32 = 1 << 30;
    /// Block columns of a cluster's first tile that the heads of the lists have: one for each lane of the producer warp.
    pub const HEAD_COLUMNS: u32 = 32;

    /// Whether the kernel reads an index of its pattern beside the lists.
    pub const fn reads_index(self) -> bool {
        !matches!(self, Self::StageMetadata(_) | Self::Sddmm)
    }

    /// Why the host alone lists its work.
    pub(super) const fn listed_by_host(self) -> Option<&'static str> {
        match self {
            Self::Static | Self::SharedColumns(_) | Self::SharedPairs(_) | Self::Sddmm => None,
            Self::StageMetadata(_) => Some("the kernel reads stage metadata of several block rows a tile"),
            Self::Attention => Some("an attention has a `DeviceMask`, and lists of its own"),
            Self::BlockRows { .. } => {
                Some("the kernel reads the block rows' pointers, of which a `DevicePattern` keeps others")
            }
            Self::CtaPerBlock => Some("the kernel has a CTA for each stored block"),
        }
    }
}

/// How a kernel of several block rows a tile takes the pattern: as stage metadata, a record of 64 words for every
/// pipeline stage of a tile, two words for each lane of a warp.
///
/// Lane l below `b_panels` describes a B panel, a slice of K of the dense operand: {first row of K, or the block column
/// if
/// `by_block`; offset of the K slice within the block << 16}. Lane `b_panels + p` describes block p: {number of the stored
/// block; offset << 16 | B panel << 8 | block row of the tile}. Lane 31 has the totals: {bytes that the stage loads;
/// B panels << 8 | blocks}.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagePacking {
    /// Block rows of a tile.
    pub pack: u32,
    /// Rows of a block, or of a slice of it, that a tile computes.
    pub rows: u32,
    /// Row slices of a block, each a tile of its own.
    pub slices: u32,
    /// The largest number of B panels of a stage.
    pub b_panels: u32,
    /// The largest number of blocks of a stage.
    pub blocks: u32,
    /// Elements of K from one K slice of a block to the next.
    pub k_slice: u32,
    /// K slices of a block.
    pub k_slices: u32,
    /// Elements of K in a block.
    pub depth: u32,
    /// A B panel is found by its block column and its offset in the block, not by its row of K.
    pub by_block: bool,
    /// Bytes of a B panel.
    pub b_panel_bytes: u32,
    /// Bytes of one K slice of a block.
    pub block_bytes: u32,
}

/// Tiles of several block rows that traverse the union of their block columns.
///
/// The kernel's `columns` has a word for every column of a tile's union: the block column times 16, and in the lowest bits
/// which of the tile's block rows have a block there. A work tile has 16 words: {first column of C, first word of its union,
/// words of its union, 0}, {first row of C of each of up to 4 block rows}, {first row of their blocks, as in A's values seen
/// as an `[nnzb * bm, bk]` matrix}, {how much of K, the first place in the workspace, 0, 0} as in [`SplitForm`]. A tile
/// whose block rows are all empty has one word, of a column outside the matrix and no block row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedColumns {
    /// Block rows of a tile: at most 4.
    pub pack: u32,
    /// Rows of a block.
    pub rows: u32,
    /// Bytes of a block's part of a stage.
    pub block_bytes: u32,
    /// Bytes of B in a stage.
    pub b_bytes: u32,
}

/// Tiles of several blocks of a product of two sparse factors, which traverse the union of the K of their pairs: each stored
/// block of either factor is loaded once for all blocks of C that need it.
///
/// The kernel's `columns` has a record for every block of K in a tile's union, of `1 + rows + columns` words: {which of its
/// blocks are multiplied: a bit for each block row of the tile from bit 0 on, one for each block column from bit
/// [`SharedPairs::COLUMN_BIT`] on; the number of A's block of each block row; that of B's block of each block column}. A work
/// tile has the 16 words of [`SharedColumns`], of which words 4 to 11 are the first row of C of each consumer, or of each block
/// of the tile where C is sparse and a consumer has several. A tile without pairs has one record of zeros.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPairs {
    /// Block rows of a tile: at most 4.
    pub rows: u32,
    /// Block columns of a tile.
    pub columns: u32,
    /// Consumers of a tile: each has as many block rows, one behind another where they are several.
    pub consumers: u32,
    /// Bytes of a block of A, and of B, in a stage.
    pub bytes: (u32, u32),
}

impl SharedPairs {
    #[doc(hidden)]
    /// The first bit of a record's first word that stands for a block column.
    pub const COLUMN_BIT: u32 = 4;

    #[doc(hidden)]
    /// Words of a record.
    pub const fn record(&self) -> u32 {
        1 + self.rows + self.columns
    }
}

impl SharedColumns {
    /// Bits of a union's word that say which block rows have a block.
    pub const MASK_BITS: u32 = 4;
    /// Words of a work tile.
    pub const WORDS: usize = 16;
}

/// The tiles of an SDDMM: what the tile scheduler must know to list them.
///
/// A column group is some columns of one block column: all of them, or as many as one instruction takes. A tile gathers
/// several groups, anywhere in the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SddmmTiles {
    /// Rows and columns of a block.
    pub block: (u32, u32),
    /// Rows of a tile.
    pub rows: u32,
    /// Tiles of rows that a block takes.
    pub slices: u32,
    /// Block rows that share a tile.
    pub pack: u32,
    /// Column groups that a block is cut into.
    pub groups_per_block: u32,
    /// Columns of a column group.
    pub group_columns: u32,
    /// Column groups of a tile.
    pub column_groups: u32,
    /// Column groups of a tile of half the width, if there are such tiles.
    pub half: Option<u32>,
    /// Elements of K in a stage.
    pub k_step: u32,
    /// Words of a work tile.
    pub tile_words: u32,
    /// Bytes that the partial sums of one tile take in the workspace.
    pub partial_bytes: u32,
}

impl SddmmTiles {
    /// Words of a work tile before the columns of its column groups.
    pub const HEADER: u32 = 8;
}

/// How the K of a tile is divided among clusters, of a kernel with `split`.
///
/// Two words of a work tile then say its role: how much of K it is (0 for all of it, [`SplitForm::CONTRIBUTES`] for a part
/// that goes to the workspace, else so many parts to collect), and the first of their places in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitForm {
    /// Words of a work tile.
    pub tile_words: u32,
    /// The first of the two that say its role.
    pub role: u32,
    /// Bytes that the partial sums of one tile of a cluster take in the workspace.
    pub partial_bytes: u32,
    /// Bytes that the CTAs of a cluster load in one stage.
    pub stage_bytes: u32,
}

impl SplitForm {
    /// The word of a work tile that computes a part of K for another CTA.
    pub const CONTRIBUTES: u32 = u32::MAX;
}

/// The output tile of one cluster, and its position in a sparsity block: the unit that a tile scheduler assigns.
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

impl ClusterTile {
    /// What a tile costs whose row has so many stored blocks, in pipeline stages: its own and one more, because the pipeline is
    /// not full between two tiles.
    pub fn cost(&self, blocks: u64) -> u64 {
        let (steps, gathered) = self.stages_per_block;
        blocks.div_ceil(gathered.into()).max(1) * u64::from(steps) + 1
    }
}
