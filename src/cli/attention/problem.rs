//! What is attended to: sizes, mask, numbers, and tensors that are drawn.

use bsr::attention::{HeadOrder, HostVector, Mask, ScoreInputs, Shape, Tensor, reference_of};
use bsr::{Dtype, Element, KernelSpec, Pattern};
use bsr_tuner::backend::{Trouble, attention_of};
use bsr_tuner::{Facts, Heads, Source, Workload};

use super::super::exit::{Exit, Failure};
use super::super::problem::ProblemArgs;
use super::verdict::Wanted;

/// An attention whose tensors are drawn from N(0, 1).
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) shape: Shape,
    pub(super) order: HeadOrder,
    pub(super) mask: Mask,
    /// The mask in a word.
    pub(super) pattern: String,
    pub(super) scale: f32,
    /// Columns of Q and K.
    pub(super) depth: usize,
    /// Numbers of the score.
    pub(super) scalars: Vec<f32>,
    /// Its vectors.
    pub(super) vectors: Vec<HostVector>,
    pub(super) seed: u64,
}

/// Sizes where the flags leave them open.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Defaults {
    pub(super) queries: usize,
    pub(super) heads: usize,
}

impl Defaults {
    /// Enough work to fill a GPU.
    pub(in super::super) const GPU: Self = Self { queries: 8192, heads: 16 };
    /// A second's work for the simulator.
    pub(in super::super) const SIMULATOR: Self = Self { queries: 500, heads: 2 };
}

/// What the flags ask for, so that another process can make it again.
///
/// # Errors
/// Bad input: flags of a product.
pub(in super::super) fn workload(args: &ProblemArgs, facts: &Facts, defaults: Defaults) -> Result<Workload, Failure> {
    let given = args.attention_heads();
    if let Some((flag, why)) = args.of_products() {
        let message = format!("{flag} beside op = attention: {why}\n  help: --m queries, --n keys, --pattern");
        return Err(Failure::new(Exit::BadInput, message));
    }
    let (queries, keys) = args.extents();
    let queries = queries.unwrap_or(defaults.queries);
    let of_query = given.heads.unwrap_or(defaults.heads);
    let heads =
        Heads { batch: given.problems.unwrap_or(1), heads: of_query, key_heads: given.key_heads.unwrap_or(of_query) };
    Ok(Workload {
        facts: *facts,
        m: queries,
        n: keys.unwrap_or(queries),
        k: facts.spec(64).score_depth() as usize,
        source: Source::Mask { pattern: args.pattern_or(Pattern::Random(0.25)).to_string(), heads },
        seed: args.seed(),
    })
}

impl Problem {
    /// # Errors
    /// Bad input: flags of a product, or a pattern that cannot be had.
    pub(super) fn new(args: &ProblemArgs, spec: &KernelSpec, defaults: Defaults) -> Result<Self, Failure> {
        Self::of_workload(&workload(args, &Facts::of(spec), defaults)?, spec)
    }

    /// The attention that a workload describes, for a kernel with its facts.
    ///
    /// # Errors
    /// Bad input: a pattern that cannot be had.
    pub(super) fn of_workload(workload: &Workload, spec: &KernelSpec) -> Result<Self, Failure> {
        let refused = |trouble: Trouble| Failure::new(Exit::BadInput, trouble.message);
        let (shape, mask) = attention_of(workload).map_err(refused)?;
        let pattern = match &workload.source {
            Source::Mask { pattern, .. } => pattern.clone(),
            source => source.to_string(),
        };
        Ok(Self { seed: workload.seed, ..Self::of_mask(spec, shape, mask, pattern) })
    }

    /// A mask, and what a kernel's score reads; the seed is 0.
    pub(super) fn of_mask(spec: &KernelSpec, shape: Shape, mask: Mask, pattern: String) -> Self {
        let depth = spec.score_depth() as usize;
        let inputs = spec.score.map_or(&[][..], |score| score.program().inputs());
        Self {
            shape,
            order: HeadOrder::HeadsFirst,
            mask,
            pattern,
            scale: (depth as f32).sqrt().recip(),
            depth,
            scalars: inputs.iter().filter(|input| !input.kind.is_vector()).map(|_| 0.5).collect(),
            vectors: HostVector::examples(spec, &shape),
            seed: 0,
        }
    }

    /// Problems, heads, rows and columns of O.
    pub(super) fn output_sizes(&self) -> [usize; 4] {
        let Shape { batch, heads, queries, columns, .. } = self.shape;
        [batch, heads, queries, columns]
    }

    /// What the score reads.
    pub(super) fn inputs(&self) -> ScoreInputs<'_> {
        ScoreInputs::new(self.scale).scalars(&self.scalars).vectors(&self.vectors)
    }

    /// Q, K and V.
    pub(super) fn tensors<T: Element>(&self) -> [Tensor<T>; 3] {
        let Shape { batch, heads, key_heads, queries, keys, columns } = self.shape;
        let tensor = |heads, rows, columns, more| {
            Tensor::normal([batch, heads, rows, columns], self.order, self.seed.wrapping_add(more))
        };
        [
            tensor(heads, queries, self.depth, 0),
            tensor(key_heads, keys, self.depth, 1),
            tensor(key_heads, keys, columns, 2),
        ]
    }

    /// What some rows must be, `[problem, head, query]` each.
    pub(super) fn wanted<T: Element>(&self, spec: &KernelSpec, tensors: &[Tensor<T>; 3], rows: usize) -> Wanted {
        let Shape { batch, heads, queries, .. } = self.shape;
        let all = batch * heads * queries;
        let count = rows.min(all);
        let place = |number: usize| {
            let at = number * (all - 1) / (count - 1).max(1);
            [at / (heads * queries), at / queries % heads, at % queries]
        };
        let rows: Vec<[usize; 3]> = (0..count).map(place).collect();
        let (tensors, inputs) = (tensors.each_ref(), self.inputs());
        let values = reference_of(&self.shape, &self.mask, tensors, spec.score, &inputs, rows.clone());
        Wanted { rows, values, queries, heads }
    }

    /// Operations on stored blocks.
    pub(super) fn flops(&self) -> u64 {
        2 * self.mask.pairs(self.shape.batch, self.shape.heads) * (self.depth + self.shape.columns) as u64
    }

    /// The attention in words.
    pub(super) fn words(&self) -> String {
        let Shape { batch, heads, key_heads, queries, keys, columns } = self.shape;
        let depth = if self.depth == columns { String::new() } else { format!(", {} columns of Q and K", self.depth) };
        format!(
            "O[{batch}, {heads}, {queries}, {columns}] of {queries} queries and {keys} keys, {key_heads} heads of K and V{depth}"
        )
    }

    /// The mask in words.
    pub(super) fn mask_words(&self) -> String {
        let ((rows, columns), (bm, bk)) = (self.mask.blocks(), self.mask.block());
        let partial = self.mask.lists().iter().flat_map(|list| &list.partial).filter(|partial| **partial).count();
        format!(
            "{} of {} blocks of {bm} x {bk} stored ({:.1} %), {partial} of them partial, {}, seed {}",
            self.mask.stored(),
            rows * columns,
            100.0 * self.mask.stored() as f64 / (rows * columns).max(1) as f64,
            self.pattern,
            self.seed
        )
    }
}

/// The greatest relative error of a right result: probabilities and O are rounded to the type.
pub(super) fn tolerance(dtype: Dtype) -> f64 {
    if dtype == Dtype::BF16 { 5e-3 } else { 1e-3 }
}
