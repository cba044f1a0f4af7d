//! What is attended to: sizes, mask, numbers, and tensors that are drawn.

use bsr_codegen::epilogue::InputKind;
use bsr_codegen::{Dtype, Epilogue, KernelSpec, Op, Scale};

use bsr_runtime::Element;
use bsr_runtime::attention::{
    AttentionError, Coverage, Factors, HeadOrder, HostVector, Mask, ScoreInputs, Sequences, Shape, Sharing, Tensor,
    reference_of,
};
use bsr_runtime::reference::{Bounds, Fused};

use super::tolerance;
use crate::verify::{Expected, Rows};

/// Scores below which the exponential of 0 less LSE is beyond f32.
const LOW: f64 = -128.0;

/// An attention whose tensors are drawn from N(0, 1).
#[derive(Clone, Debug)]
pub struct Problem {
    /// The sizes.
    pub shape: Shape,
    /// How Q, K and V are laid out.
    pub order: HeadOrder,
    /// Which blocks are computed.
    pub mask: Mask,
    /// The mask in a few words.
    pub pattern: String,
    /// What products are multiplied by: one by the root of the depth, unless set otherwise.
    pub scale: f32,
    /// Columns of Q and K.
    pub depth: usize,
    /// Numbers of the score.
    pub scalars: Vec<f32>,
    /// Its vectors.
    pub vectors: Vec<HostVector>,
    /// The sink of each head, of a kernel that has them.
    pub sinks: Option<Vec<f32>>,
    /// The factors of Q, K and V, of a kernel that has them.
    pub factors: Option<Factors>,
    /// Keys of each problem, of a kernel whose K and V are in pages.
    pub lengths: Option<Vec<usize>>,
    /// All scores are near -128, where they are `s * scale`: the first columns of Q and K are constants.
    #[doc(hidden)]
    pub is_low: bool,
    /// Seed of Q, K and V.
    pub seed: u64,
}

impl Problem {
    /// A problem under `mask`, with numbers and vectors for the score of `spec`; the seed is 0.
    ///
    /// Of a kernel whose K and V are in pages it is a problem of all keys, whose tensors end with a page.
    ///
    /// # Errors
    /// Of a kernel with pages, a shape that no mask has.
    pub fn new(
        spec: &KernelSpec,
        shape: Shape,
        mask: Mask,
        pattern: impl Into<String>,
    ) -> Result<Self, AttentionError> {
        let Some(page) = spec.page else { return Ok(Self::of(spec, shape, mask, pattern.into())) };
        let keys = shape.keys.next_multiple_of(page as usize);
        let coverage = if spec.score.is_some() { Coverage::Partial } else { Coverage::Full };
        let mask = Mask::by_rule((shape.queries, keys), mask.block(), |_, _| coverage)?;
        let lengths = Some(vec![shape.keys; shape.batch]);
        Ok(Self { lengths, ..Self::of(spec, Shape { keys, ..shape }, mask, format!("pages of {page} keys")) })
    }

    fn of(spec: &KernelSpec, shape: Shape, mask: Mask, pattern: String) -> Self {
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
            sinks: spec.sinks.is_on().then(|| sinks(shape.heads, 0)),
            factors: factors(spec, &shape, Sharing::ByBoth),
            lengths: None,
            is_low: false,
            seed: 0,
        }
    }

    /// Gives the vectors of the score that are called `first_key` and `end_key` the keys of each query of these sequences.
    pub(super) fn set_ranges(&mut self, spec: &KernelSpec, packed: &Sequences) {
        let [first, end] = packed.vectors();
        let inputs = spec.score.map_or(&[][..], |score| score.program().inputs());
        let names = inputs.iter().filter(|input| input.kind.is_vector()).map(|input| (input.name.as_str(), input.kind));
        for (vector, (name, kind)) in self.vectors.iter_mut().zip(names) {
            match (name, kind) {
                ("first_key", InputKind::Rows(Dtype::F32)) => *vector = first.clone(),
                ("end_key", InputKind::Rows(Dtype::F32)) => *vector = end.clone(),
                _ => {}
            }
        }
    }

    /// Problems, heads, rows and columns of O.
    pub fn output_sizes(&self) -> [usize; 4] {
        let Shape { batch, heads, queries, columns, .. } = self.shape;
        [batch, heads, queries, columns]
    }

    /// What is read beside the tensors.
    pub fn inputs(&self) -> ScoreInputs<'_> {
        let inputs = ScoreInputs::new(self.scale).scalars(&self.scalars).vectors(&self.vectors);
        inputs.sinks(self.sinks.as_deref()).lengths(self.lengths.as_deref()).factors(self.factors.as_ref())
    }

    /// Pairs of queries and keys of stored blocks.
    pub(super) fn pairs(&self) -> u64 {
        let Shape { batch, heads, queries, .. } = self.shape;
        match &self.lengths {
            Some(lengths) => lengths.iter().map(|length| (heads * queries * length) as u64).sum(),
            None => self.mask.pairs(batch, heads),
        }
    }

    /// Q, K and V.
    pub fn tensors<T: Element>(&self) -> [Tensor<T>; 3] {
        let Shape { batch, heads, key_heads, queries, keys, columns } = self.shape;
        let tensor = |heads, rows, columns, more| {
            Tensor::normal([batch, heads, rows, columns], self.order, self.seed.wrapping_add(more))
        };
        let [mut q, mut k] = [tensor(heads, queries, self.depth, 0), tensor(key_heads, keys, self.depth, 1)];
        if self.is_low {
            set_first_column(&mut q, LOW / f64::from(self.scale));
            set_first_column(&mut k, 1.0);
        }
        [q, k, tensor(key_heads, keys, columns, 2)]
    }

    /// What at most `most` rows of O, spread over all of them, must be, and their LSE: the logarithm of each row's sum of
    /// exponentials.
    pub fn expected<T: Element>(&self, spec: &KernelSpec, tensors: &[Tensor<T>; 3], most: usize) -> Expected {
        expected((&self.shape, &self.mask), tensors.each_ref(), spec.score, &self.inputs(), most)
    }

    /// Operations on stored blocks.
    pub fn flops(&self) -> u64 {
        2 * self.pairs() * (self.depth + self.shape.columns) as u64
    }

    /// Operations on stored blocks of a kernel of the gradient: three products of dQ, or four of dK and dV.
    pub fn gradient_flops(&self, op: Op) -> u64 {
        let (depth, columns) = (self.depth as u64, self.shape.columns as u64);
        let each = if op == Op::AttentionDq { 2 * depth + columns } else { 2 * (depth + columns) };
        2 * self.pairs() * each
    }

    /// Bytes of Q, K, V and O, which move at least once.
    pub fn bytes(&self, spec: &KernelSpec) -> u64 {
        let Shape { batch, heads, key_heads, queries, keys, columns } = self.shape;
        let keys = self.lengths.as_ref().map_or(batch * keys, |lengths| lengths.iter().sum());
        let [of_inputs, of_output] = [spec.a, spec.out].map(|dtype| dtype.bytes() as usize);
        let of_queries = batch * heads * queries * (self.depth * of_inputs + columns * of_output);
        (of_queries + key_heads * keys * (self.depth + columns) * of_inputs) as u64
    }

    /// The attention in words.
    pub fn words(&self) -> String {
        let Shape { batch, heads, key_heads, queries, keys, columns } = self.shape;
        let depth = if self.depth == columns { String::new() } else { format!(", {} columns of Q and K", self.depth) };
        format!(
            "O[{batch}, {heads}, {queries}, {columns}] of {queries} queries and {keys} keys, {key_heads} heads of K and V{depth}"
        )
    }

    /// The mask in words.
    pub fn mask_words(&self) -> String {
        let ((rows, columns), (bm, bk)) = (self.mask.blocks(), self.mask.block());
        let patterns = self.mask.lists().len();
        let all = rows * columns * patterns;
        let partial = self.mask.lists().iter().flat_map(|list| &list.partial).filter(|partial| **partial).count();
        let lengths = self.lengths.as_ref().map_or(String::new(), |lengths| format!(" ({lengths:?} keys)"));
        format!(
            "{} of {all} blocks of {bm} x {bk} stored ({:.1} %), {partial} of them partial, {}{lengths}, seed {}",
            self.mask.stored(),
            100.0 * self.mask.stored() as f64 / all.max(1) as f64,
            self.pattern,
            self.seed
        )
    }
}

fn set_first_column<T: Element>(tensor: &mut Tensor<T>, value: f64) {
    let [batch, heads, rows, _] = tensor.sizes();
    for at in 0..batch * heads * rows {
        tensor.row_mut([at / (heads * rows), at / rows % heads, at % rows])[0] = T::from_f64(value);
    }
}

/// Sinks of so many heads: among the scores of a few keys, those of neighbouring heads far apart, one above all scores, and one
/// that is none. Those of another `number` begin with another one.
pub(super) fn sinks(heads: usize, number: usize) -> Vec<f32> {
    (number..number + heads).map(|at| [2.0, -1.5, 7.0, 0.25, f32::NEG_INFINITY, 4.0][at % 6]).collect()
}

/// Factors of Q, K and V, of a kernel of `spec` that has them: between 1/2 and 2, those of neighbouring heads, problems and blocks far
/// apart. Those of blocks are of every block, whatever shares the others.
pub(super) fn factors(spec: &KernelSpec, shape: &Shape, sharing: Sharing) -> Option<Factors> {
    let of =
        |count: usize, first: usize| (first..first + count).map(|at| [1.0, 0.55, 1.7, 0.8, 1.35][at % 5]).collect();
    let made = match spec.scale {
        Scale::Unscaled => return None,
        Scale::Block => {
            let of_queries = shape.batch * shape.heads * shape.queries.div_ceil(spec.bm as usize);
            let of_keys = shape.batch * shape.key_heads * shape.keys.div_ceil(spec.bk as usize);
            Factors::of_blocks(of(of_queries, 0), of(of_keys, 1), of(of_keys, 2))
        }
        _ => {
            let count = sharing.patterns(shape.batch, shape.key_heads);
            Factors::new(of(count, 0), of(count, 1), of(count, 2))
        }
    };
    made.ok()
}

/// Keys of so many problems: the first one has `most`, others fewer, down to none. Those of another `number` are other ones.
pub(super) fn lengths(problems: usize, most: usize, number: usize) -> Vec<usize> {
    let of = |problem: usize| match problem {
        0 => most,
        at if (at + number).is_multiple_of(4) => 0,
        at => (7 * at + 11 * number) * most / 16 % (most + 1),
    };
    (0..problems).map(of).collect()
}

/// What at most `most` rows of O, spread over all of them, must be, and their LSE.
///
/// # Panics
/// For tensors, a mask or vectors that do not fit the shape.
pub fn expected<T: Element>(
    (shape, mask): (&Shape, &Mask),
    tensors: [&Tensor<T>; 3],
    score: Option<Epilogue>,
    inputs: &ScoreInputs<'_>,
    most: usize,
) -> Expected {
    let (heads, queries) = (shape.heads, shape.queries);
    let rows = Rows::spread(shape.rows(), most);
    let places = rows.list.iter().map(|at| [at / (heads * queries), at / queries % heads, at % queries]);
    let values = reference_of(shape, mask, tensors, score, inputs, places);
    let norm = |values: &[f64]| values.iter().filter(|x| x.is_finite()).map(|x| x * x).sum::<f64>().sqrt();
    let of_lse = norm(&values.lse_bounds) / norm(&values.lse).max(f64::MIN_POSITIVE);
    let want = Fused {
        c: values.output,
        tolerance: tolerance(T::DTYPE),
        bounds: Some(Bounds::new(0.0, values.output_bounds, 1)),
        rows: Some((values.lse, of_lse)),
        row_bounds: Some(Bounds::new(0.0, values.lse_bounds, 1)),
    };
    Expected::of_heads(rows, want, [heads, queries], "query")
}
