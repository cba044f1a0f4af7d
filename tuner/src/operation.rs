//! What choosing a kernel depends on and operations answer for themselves.

use bsr_codegen::{Dtype, KernelSpec, Op};
use bsr_runtime::Pattern;
use bsr_runtime::bench::Work;
use bsr_runtime::features::Features;
use bsr_trial::workload::{Heads, Source, Workload};

use crate::second::Second;

/// What of a problem an operation depends on.
pub(crate) struct Sizes<'p> {
    pub(crate) workload: &'p Workload,
    pub(crate) features: &'p Features,
    /// Of two sparse factors the second one.
    pub(crate) second: Option<&'p Second>,
    /// The extent of C along the dense factor; K of SDDMM.
    pub(crate) dense_extent: usize,
}

/// An operation as the tuner sees it.
pub(crate) trait Operation: Sync {
    /// Whether both factors are sparse.
    fn has_second_factor(&self) -> bool {
        false
    }

    /// Multiplications of one head: each stored element with so many columns, or the pairs of stored blocks.
    fn multiplications(&self, problem: &Sizes<'_>) -> u64;

    /// Bytes that must move once with cold caches.
    fn least_bytes(&self, problem: &Sizes<'_>) -> u64;

    /// Whether the dense library has a product of whole matrices in its place.
    fn has_dense_product(&self) -> bool;

    /// The shipped space of a GPU, of Hopper or another one, for kernels with these operands.
    fn space(&self, is_hopper: bool, spec: &KernelSpec) -> &'static str;

    /// What takes about a second to simulate in place of a workload, if it is enough to leave out heads and rows.
    fn fewer_heads(&self, workload: &Workload) -> Option<Workload>;
}

/// The space of GPUs that are no Hopper.
const OTHERS: &str = "ampere-wmma";

/// The operation of a word of `op`.
pub(crate) fn of(op: Op) -> &'static dyn Operation {
    match op {
        Op::Dsd | Op::Dds | Op::Sdd => &Product,
        Op::Dss | Op::Sss => &OfPairs,
        Op::Attention => &Attention,
        Op::AttentionDq | Op::AttentionDkv => &Gradient,
    }
}

/// Those of stored elements with so many columns each.
fn with_columns(problem: &Sizes<'_>, columns: usize) -> u64 {
    let (bm, bk) = problem.workload.facts.block();
    [bm, bk, columns].into_iter().fold(problem.features.nnzb as u64, |all, by| all.saturating_mul(by as u64))
}

/// Of matrices, of which one is in blocks.
struct Product;

impl Operation for Product {
    fn multiplications(&self, problem: &Sizes<'_>) -> u64 {
        with_columns(problem, problem.dense_extent)
    }

    fn least_bytes(&self, Sizes { workload, features, .. }: &Sizes<'_>) -> u64 {
        let spec = workload.facts.spec(64);
        let work = Work {
            op: spec.op,
            transpose: spec.transpose,
            m: workload.m,
            n: workload.n,
            k: workload.k,
            block: workload.facts.block(),
            nnzb: features.nnzb,
            products: None,
            a: spec.a,
            b: spec.b,
            out: spec.out,
        };
        work.compulsory_bytes()
    }

    fn has_dense_product(&self) -> bool {
        true
    }

    fn space(&self, is_hopper: bool, spec: &KernelSpec) -> &'static str {
        // Small blocks of f64 are the CUDA cores'.
        if [spec.a, spec.b] == [Dtype::F64; 2] && spec.bk > 8 {
            return if is_hopper { "hopper-f64" } else { OTHERS };
        }
        if spec.tf32.is_on() {
            return if is_hopper { "hopper-tf32" } else { OTHERS };
        }
        let is_wide = [spec.a, spec.b].iter().any(|dtype| matches!(dtype, Dtype::F32 | Dtype::F64));
        match (is_wide, is_hopper, spec.a.bytes()) {
            // No tensor core multiplies them here.
            (true, ..) => "scalar",
            (_, true, 1) => "hopper-fp8",
            (_, true, _) => "hopper-f16",
            (_, false, _) => OTHERS,
        }
    }

    fn fewer_heads(&self, _: &Workload) -> Option<Workload> {
        None
    }
}

/// Of two matrices in blocks.
struct OfPairs;

impl Operation for OfPairs {
    fn has_second_factor(&self) -> bool {
        true
    }

    fn multiplications(&self, problem: &Sizes<'_>) -> u64 {
        let KernelSpec { bm, bn, bk, .. } = problem.workload.spec();
        let pairs = problem.second.map_or(0, |second| second.pairs);
        [bm, bn, bk].into_iter().fold(pairs, |all, by| all.saturating_mul(by.into()))
    }

    /// Both factors, C, and the numbers of two blocks for each pair.
    fn least_bytes(&self, problem: &Sizes<'_>) -> u64 {
        let (Workload { m, n, .. }, KernelSpec { bm, bn, bk, a, b, out, op, .. }) =
            (problem.workload, problem.workload.spec());
        let Some(second) = problem.second else { return 0 };
        let of = |blocks: usize, [rows, columns]: [u32; 2], dtype: Dtype| {
            blocks as u64 * u64::from(rows) * u64::from(columns) * u64::from(dtype.bytes())
        };
        let written = match op.stores_blocks() {
            true => of(second.written, [bm, bn], out),
            false => *m as u64 * *n as u64 * u64::from(out.bytes()),
        };
        of(problem.features.nnzb, [bm, bk], a) + of(second.features.nnzb, [bk, bn], b) + written + 8 * second.pairs
    }

    fn has_dense_product(&self) -> bool {
        true
    }

    fn space(&self, is_hopper: bool, _: &KernelSpec) -> &'static str {
        if is_hopper { "hopper-pairs" } else { OTHERS }
    }

    fn fewer_heads(&self, _: &Workload) -> Option<Workload> {
        None
    }
}

/// Columns of Q and V.
fn columns_of_attention(problem: &Sizes<'_>) -> usize {
    problem.dense_extent.saturating_add(problem.workload.facts.spec(1).bn as usize)
}

/// Of tensors of heads.
struct Attention;

impl Attention {
    /// Problems and heads of an instance.
    const LEAST_HEADS: usize = 2;
    /// Queries and keys of an instance, at least.
    const LEAST_ROWS: usize = 384;
}

impl Operation for Attention {
    fn multiplications(&self, problem: &Sizes<'_>) -> u64 {
        with_columns(problem, columns_of_attention(problem))
    }

    /// Q, K, V and O.
    fn least_bytes(&self, Sizes { workload, .. }: &Sizes<'_>) -> u64 {
        let Workload { facts, m, n, source, .. } = workload;
        let (spec, Heads { batch, heads, key_heads }) = (facts.spec(64), source.heads());
        let columns = u64::from(spec.score_depth() + spec.bn);
        let rows = (batch * heads * m + batch * key_heads * n) as u64;
        rows * columns * u64::from(spec.a.bytes())
    }

    fn has_dense_product(&self) -> bool {
        false
    }

    fn space(&self, is_hopper: bool, _: &KernelSpec) -> &'static str {
        if is_hopper { "hopper-attention" } else { "ampere-attention" }
    }

    fn fewer_heads(&self, workload: &Workload) -> Option<Workload> {
        let (bm, bk) = workload.facts.block();
        let Heads { batch, heads, key_heads } = workload.source.heads();
        let mut small = workload.clone();
        let heads = Heads {
            batch: batch.min(Self::LEAST_HEADS),
            heads: heads.min(Self::LEAST_HEADS),
            key_heads: if key_heads < heads { 1 } else { heads.min(Self::LEAST_HEADS) },
        };
        let of_blocks = |side: usize, block: usize| side.min(Self::LEAST_ROWS.max(2 * block));
        (small.m, small.n) = (of_blocks(small.m, bm), of_blocks(small.n, bk));
        if let Source::Mask { pattern: words, heads: of } = &mut small.source {
            *of = heads;
            if let Ok(Pattern::TopK(count)) = words.parse() {
                let (blocks, all) = (small.n.div_ceil(bk), workload.n.div_ceil(bk).max(1));
                *words = Pattern::TopK((count * blocks).div_ceil(all).clamp(1, blocks)).to_string();
            }
        }
        Some(small)
    }
}

/// Of a part of the gradient of an attention.
struct Gradient;

/// Elements that a part of a gradient reads and writes at least: tensors of queries, and tensors of keys.
pub(crate) fn elements_of_gradient(workload: &Workload) -> [u64; 2] {
    let Workload { facts, m, n, source, .. } = workload;
    let (spec, Heads { batch, heads, key_heads }) = (facts.spec(64), source.heads());
    let [depth, columns] = [spec.score_depth(), spec.bn].map(u64::from);
    let [queries, keys] = [batch * heads * m, batch * key_heads * n].map(|rows| rows as u64);
    // Q and dO, K and V.
    let both = (queries + keys) * (depth + columns);
    match facts.op() {
        Op::AttentionDkv => [both, keys * (depth + columns)],
        // O, and dQ.
        _ => [both + queries * columns, queries * depth],
    }
}

impl Operation for Gradient {
    /// Of three products, or of four.
    fn multiplications(&self, problem: &Sizes<'_>) -> u64 {
        let both = columns_of_attention(problem);
        let more = if problem.workload.facts.op() == Op::AttentionDkv { both } else { problem.dense_extent };
        with_columns(problem, both.saturating_add(more))
    }

    fn least_bytes(&self, Sizes { workload, .. }: &Sizes<'_>) -> u64 {
        elements_of_gradient(workload).iter().sum::<u64>() * u64::from(workload.facts.spec(64).a.bytes())
    }

    fn has_dense_product(&self) -> bool {
        false
    }

    fn space(&self, is_hopper: bool, _: &KernelSpec) -> &'static str {
        if is_hopper { "hopper-attention-gradient" } else { OTHERS }
    }

    fn fewer_heads(&self, workload: &Workload) -> Option<Workload> {
        Attention.fewer_heads(workload)
    }
}
