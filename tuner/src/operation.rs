//! What choosing a kernel depends on and operations answer for themselves.

use bsr_codegen::{Dtype, KernelSpec, Op};
use bsr_runtime::Pattern;
use bsr_runtime::bench::Work;
use bsr_trial::workload::{Heads, Source, Workload};

/// An operation as the tuner sees it.
pub(crate) trait Operation: Sync {
    /// Columns that each stored element is multiplied with, of a problem with this third extent.
    fn columns(&self, workload: &Workload, dense_extent: usize) -> usize;

    /// Bytes that must move once with cold caches, of a pattern of so many blocks.
    fn least_bytes(&self, workload: &Workload, nnzb: usize) -> u64;

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
        Op::Dsd | Op::Dds | Op::Sdd | Op::Dss | Op::Sss => &Product,
        Op::Attention => &Attention,
        Op::AttentionDq | Op::AttentionDkv => &Gradient,
    }
}

/// Of matrices, of which one is in blocks.
struct Product;

impl Operation for Product {
    fn columns(&self, _: &Workload, dense_extent: usize) -> usize {
        dense_extent
    }

    fn least_bytes(&self, workload: &Workload, nnzb: usize) -> u64 {
        let spec = workload.facts.spec(64);
        let work = Work {
            op: spec.op,
            transpose: spec.transpose,
            m: workload.m,
            n: workload.n,
            k: workload.k,
            block: workload.facts.block(),
            nnzb,
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

/// Of tensors of heads.
struct Attention;

impl Attention {
    /// Problems and heads of an instance.
    const LEAST_HEADS: usize = 2;
    /// Queries and keys of an instance, at least.
    const LEAST_ROWS: usize = 384;
}

impl Operation for Attention {
    fn columns(&self, workload: &Workload, dense_extent: usize) -> usize {
        dense_extent.saturating_add(workload.facts.spec(1).bn as usize)
    }

    /// Q, K, V and O.
    fn least_bytes(&self, workload: &Workload, _: usize) -> u64 {
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
    fn columns(&self, workload: &Workload, dense_extent: usize) -> usize {
        let both = Attention.columns(workload, dense_extent);
        both.saturating_add(if workload.facts.op() == Op::AttentionDkv { both } else { dense_extent })
    }

    fn least_bytes(&self, workload: &Workload, _: usize) -> u64 {
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
