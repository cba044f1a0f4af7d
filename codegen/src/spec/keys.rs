//! The table of keys: everything that is said of a key is said here, once.
//!
//! From it come the enum [`Key`], the fields of a [`KernelSpec`] and their setters, what the grammar reads, the canonical
//! text, the constants that the attribute writes, which families refuse a key, the list in the command's help, the table
//! in `docs/src/keys.md`, and what a tuner may vary. `table.rs` says what the columns of a row are.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::setting::{Setting, Source, Takes};
use super::table::{column, keys};
use super::{
    Accumulate, Dtype, IndexWidth, Layout, Load, Mma, Op, Pdl, Scale, Schedule, Shape, SplitK, Switch, Target,
};
use crate::Epilogue;

keys! {
    Bm bm: u32 = required fact all
        "rows of a sparsity block";
    Bn bn: u32 = required choice all
        "columns of the dense tile";
    Bk bk: u32 = required fact all
        "columns of a sparsity block";
    Op op: Op = (Op::Dsd) fact all
        "which operands are sparse";
    Transpose transpose: #[serde(default)] Switch = (Switch::Off) fact { Wgmma MmaSync Wmma Scalar }
        "whether the sparse operand is read transposed";
    Batch batch: #[serde(default)] Switch = (Switch::Off) fact { Wgmma MmaSync Wmma }
        "whether one launch computes a list of products";
    Permute permute: #[serde(default)] Switch = (Switch::Off) fact { Wgmma }
        "whether the rows of C are written in an order given at launch";
    Mma mma: Mma = (Mma::Wgmma) choice all
        "the matrix instruction";
    Dtype dtype as Dtype where Dtype::is_factor = (Dtype::F16) fact all
        "the element type of A and B, and of C unless `out` is given";
    A a: Dtype where Dtype::is_factor = (Dtype::F16) fact all
        "the element type of A", by_default "`dtype`";
    B b: Dtype where Dtype::is_factor = (Dtype::F16) fact all
        "the element type of B", by_default "`dtype`";
    Acc acc: Dtype where Dtype::is_accumulator = (Dtype::F32) fact all
        "the type of the accumulators", by_default "`i32` for `i8`, `f64` for `f64`, else `f32`";
    Out out: Dtype where Dtype::is_result = (Dtype::F16) fact all
        "the element type of C", by_default "`bf16` for FP8, `i32` for `i8`, that of B where B is more precise than A, else the type of A";
    ALayout a_layout: #[serde(default = "row_major")] Layout = (Layout::RowMajor) fact { Wgmma MmaSync Wmma }
        "the layout of a dense A in memory";
    BLayout b_layout: Layout = (Layout::RowMajor) fact all
        "the layout of a dense B in memory, or of each block of a sparse B beside a sparse A", by_default "`col` for 8-bit B, which has no `row`; else `row`";
    CLayout c_layout: Layout = (Layout::RowMajor) fact all
        "the layout of a dense C in memory";
    Scale scale: #[serde(default)] Scale = (Scale::Unscaled) fact { Wgmma MmaSync }
        "the granularity of the scale factors: none, tensor, row_col, block";
    // `promoted` alone is a fact: it says to which precision FP8 sums are made.
    Accumulate accumulate: Accumulate = auto choice { Wgmma Scalar }
        "where and how precisely products are summed", by_default "`fast` or `register`, see below";
    Arch arch: Target = auto choice all
        "the architecture that the PTX is for", by_default "the oldest one that supports the kernel, see below";
    CtaM cta_m: #[serde(default, skip_serializing_if = "Option::is_none")] u32 = auto choice { Wgmma MmaSync Wmma Scalar }
        "rows of a CTA tile", by_default "the rows of the cheapest tile that divides a block";
    Warps warps: (u32, u32) = auto choice { Wgmma MmaSync Wmma }
        "warps of a CTA that multiply, along M and along N", by_default "the cheapest grid of up to 8; `wgmma`: by `consumers`, with four along M for each";
    Shape shape: Shape = auto choice { MmaSync Wmma }
        "the shape of a wmma fragment, or of an mma.sync of f64", by_default "`m16n16k16`; f64: `m16n8k8` on Hopper, else `m8n8k4`";
    Vector vector: u32 = auto choice { Scalar }
        "elements of one scalar load", by_default "1";
    Lanes lanes: #[serde(default, skip_serializing_if = "Option::is_none")] u32 = auto choice { Scalar }
        "threads of a warp that serve a block row of small blocks; 1: a CTA reads the blocks of all its rows together", by_default "32";
    RowPtr row_ptr: #[serde(default, skip_serializing_if = "is_default")] IndexWidth = (IndexWidth::I32) fact { Scalar }
        "the type of the pointers of block rows, of small blocks: `i64` counts more than 2^32 blocks";
    Maxnreg maxnreg: #[serde(default, skip_serializing_if = "Option::is_none")] u32 = auto choice { MmaSync Wmma Scalar }
        "the most registers of a thread, as `.maxnreg` of PTX", by_default "what the CTAs that share an SM leave a thread";
    OptLevel opt_level: #[serde(default, skip_serializing_if = "Option::is_none")] u32 = auto choice all
        "the level of optimization at which the PTX is compiled, 1 to 4", by_default "the compiler's own, the highest";
    Load load: #[serde(default, skip_serializing_if = "is_default")] Load = (Load::Warps) choice { MmaSync Wmma }
        "which warps load the operands: all of them, or by cp.async or TMA those that do nothing else";
    Stages stages: u32 = auto choice { Wgmma MmaSync Wmma }
        "stages of the shared-memory ring", by_default "as many as fit: at most 8 for `wgmma`, 4 for the others";
    Consumers consumers: u32 = auto choice { Wgmma }
        "consumer warpgroups per CTA", by_default "2, or 3 or 1 if that gives a better tile";
    Cluster cluster: u32 = auto choice { Wgmma }
        "CTAs per cluster", by_default "1";
    KStep k_step: u32 = auto choice { Wgmma MmaSync Wmma }
        "elements of K in one stage", by_default "an even division of `bk`; small blocks share a stage";
    Schedule schedule: Schedule = auto choice all
        "how tiles are assigned to clusters", by_default "`balanced`; `op = sdd`: each tile to the cluster with the smallest load";
    Swizzle swizzle: u32 = auto choice { Wgmma }
        "shared-memory swizzle span in bytes", by_default "the widest span that a row of the tile fills";
    Swap swap: Switch = auto choice { Wgmma }
        "whether dense columns are the rows of the matrix instruction",
        by_default "`on` if the rows of a block are not a multiple of 64";
    Pack pack: u32 = auto choice { Wgmma }
        "block rows that share a CTA tile", by_default "up to 8, as registers and shared memory allow";
    PackHeads pack_heads: #[serde(default, skip_serializing_if = "Option::is_none")] u32 = auto choice { Wgmma }
        "heads of Q that share a CTA tile of an attention", by_default "1";
    Pdl pdl: #[serde(default, skip_serializing_if = "is_default")] Pdl = (Pdl::Off) choice { Wgmma }
        "whether the kernel may start before the previous kernel in the stream has finished (programmatic dependent launch)";
    WorkList work_list: #[serde(default, skip_serializing_if = "Option::is_none")] u32 = auto choice { Wgmma }
        "bytes of a launch's parameters that have the work list of an attention", by_default "a list in memory";
    Split split: #[serde(default, skip_serializing_if = "is_default")] SplitK = (SplitK::Off) choice { Wgmma MmaSync Wmma }
        "whether the K of a tile is divided among clusters (split-K): where this balances them (`auto`), for the longest tiles (`long`), or for every tile, into 2 to 16 parts";
    Epilogue epilogue: Epilogue = auto fact { Wgmma MmaSync Wmma Scalar }
        "the computation applied to each sum before it is written", by_default "`none`";
    Score score: #[serde(default, skip_serializing_if = "Option::is_none")] Epilogue = auto fact { Wgmma MmaSync }
        "the score of a query and a key in the partial blocks of an attention", by_default "`s * scale`";
    Sinks sinks: #[serde(default, skip_serializing_if = "is_default")] Switch = (Switch::Off) fact { Wgmma MmaSync }
        "whether a logit of each head, given at launch, takes part in the softmax of an attention and has no value";
    D d: #[serde(default, skip_serializing_if = "Option::is_none")] u32 = auto fact { Wgmma MmaSync }
        "columns of Q and K in an attention, if they differ from those of V", by_default "`bn`";
    Page page: #[serde(default, skip_serializing_if = "Option::is_none")] u32 = auto fact { Wgmma }
        "keys of a page, in an attention whose K and V are in pages that a page table lists", by_default "K and V without pages";
    ScoreGradients score_gradients: #[serde(default, skip_serializing_if = "is_default")] Switch = (Switch::Off) fact { Wgmma }
        "whether the gradient of an attention also sums those of the score's numbers and vectors";
    Tf32 tf32: #[serde(default, skip_serializing_if = "is_default")] Switch = (Switch::Off) fact { MmaSync Wgmma }
        "whether f32 factors are rounded to TF32, 11 significant bits, which tensor cores multiply";
    Beta beta as Switch = (Switch::Off) fact { Wgmma MmaSync Wmma Scalar }
        "whether beta * C is added, with beta given at launch";
}

/// The layout of a matrix of which nothing is said.
fn row_major() -> Layout {
    Layout::RowMajor
}

/// Is it what is read where nothing is written? Keys of which JSON then says nothing leave older JSON as it is.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Key {
    /// Keys of which the words of a plan say nothing where the plan decides: these words, and their fingerprints, are older.
    const UNSAID: [Self; 7] =
        [Self::CtaM, Self::RowPtr, Self::Maxnreg, Self::OptLevel, Self::Tf32, Self::Load, Self::WorkList];
}

/// As a derived one, but for keys of which nothing is said.
impl fmt::Debug for KernelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = f.debug_struct("KernelSpec");
        self.each_field(|key, name, value| {
            if !Key::UNSAID.contains(&key) || self.says(key) {
                written.field(name, value);
            }
        });
        written.finish()
    }
}

impl Serialize for KernelSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// JSON of earlier versions is read, see [`KernelSpec::from_record`].
impl<'de> Deserialize<'de> for KernelSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer).map(Self::renamed)
    }
}

impl Key {
    /// The key written as `text`, if there is one.
    pub fn find(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.as_str() == text)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
