//! What is attended to: sizes, mask, numbers, and tensors that are drawn.

use bsr::attention::{HeadOrder, Mask, Shape, Tensor};
use bsr::{Dtype, Element, KernelSpec, Pattern};

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
    /// Numbers of the score.
    pub(super) scalars: Vec<f32>,
    pub(super) seed: u64,
}

/// Sizes where the flags leave them open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub(super) queries: usize,
    pub(super) heads: usize,
}

impl Defaults {
    /// Enough work to fill a GPU.
    pub(super) const GPU: Self = Self { queries: 8192, heads: 16 };
    /// A second's work for the simulator.
    pub(super) const SIMULATOR: Self = Self { queries: 500, heads: 2 };
}

impl Problem {
    /// # Errors
    /// Bad input: flags of a product, or a pattern that cannot be had.
    pub(super) fn new(args: &ProblemArgs, spec: &KernelSpec, defaults: Defaults) -> Result<Self, Failure> {
        let heads = args.attention_heads();
        if let Some((flag, why)) = args.of_products() {
            let message = format!("{flag} beside op = attention: {why}\n  help: --m queries, --n keys, --pattern");
            return Err(Failure::new(Exit::BadInput, message));
        }
        let (queries, keys) = args.extents();
        let queries = queries.unwrap_or(defaults.queries);
        let keys = keys.unwrap_or(queries);
        let of_query = heads.heads.unwrap_or(defaults.heads);
        let shape = Shape {
            batch: heads.problems.unwrap_or(1),
            heads: of_query,
            key_heads: heads.key_heads.unwrap_or(of_query),
            queries,
            keys,
            columns: spec.bn as usize,
        };
        let pattern = args.pattern_or(Pattern::Random(0.25));
        let structure = pattern.structure(queries, keys, (spec.bm as usize, spec.bk as usize), args.seed())?;
        // Scores are computed in every block, but of a causal pattern on the diagonal alone.
        let (bm, bk) = structure.block();
        let is_partial = |row: usize, column: usize| {
            spec.score.is_some() && (pattern != Pattern::Causal || (column + 1) * bk > row * bm + 1)
        };
        let mask = Mask::of_structure(&structure, is_partial)?;
        let scalars = spec.score.map_or(0, |score| score.program().inputs().len());
        Ok(Self {
            shape,
            order: HeadOrder::HeadsFirst,
            mask,
            pattern: pattern.to_string(),
            scale: (spec.bn as f32).sqrt().recip(),
            scalars: vec![0.5; scalars],
            seed: args.seed(),
        })
    }

    /// Q, K and V.
    pub(super) fn tensors<T: Element>(&self) -> [Tensor<T>; 3] {
        let Shape { batch, heads, key_heads, queries, keys, columns } = self.shape;
        let tensor =
            |heads, rows, more| Tensor::normal([batch, heads, rows, columns], self.order, self.seed.wrapping_add(more));
        [tensor(heads, queries, 0), tensor(key_heads, keys, 1), tensor(key_heads, keys, 2)]
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
        let score = spec.score.map(|score| (score, &self.scalars[..]));
        let [q, k, v] = tensors.each_ref();
        let values =
            bsr::attention::reference_rows(&self.shape, &self.mask, [q, k, v], self.scale, score, rows.clone());
        Wanted { rows, values, queries, heads }
    }

    /// Operations on stored blocks.
    pub(super) fn flops(&self) -> u64 {
        4 * self.mask.pairs(self.shape.batch, self.shape.heads) * self.shape.columns as u64
    }

    /// The attention in words.
    pub(super) fn words(&self) -> String {
        let Shape { batch, heads, key_heads, queries, keys, columns } = self.shape;
        format!(
            "O[{batch}, {heads}, {queries}, {columns}] of {queries} queries and {keys} keys, {key_heads} heads of K and V"
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
