//! The gradients of a score's parameters: what kernels leave for each row, and what that is for each element of a parameter.

use bsr_codegen::{KernelSpec, Op};

use super::super::{HostVector, ScoreInputs, Shape};

/// Sums of the gradients of a score's parameters over the pairs of each row, f32: `[problems, heads, parameters, rows]`.
///
/// The kernel of dQ has rows of queries, and parameters that are numbers, `Rows` and `Heads`; that of dK and dV has rows of keys, and
/// those that are `Cols` ([`KernelSpec::score_sums`]). Heads are those of Q.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreSums {
    parameters: Vec<usize>,
    rows: usize,
    values: Vec<f32>,
}

impl ScoreSums {
    /// Elements that a kernel of this spec writes.
    pub(super) fn len(spec: &KernelSpec, shape: &Shape) -> usize {
        shape.batch * shape.heads * spec.score_sums().len() * rows(spec, shape)
    }

    /// What a kernel of this spec has written.
    pub fn of(spec: &KernelSpec, shape: &Shape, values: Vec<f32>) -> Self {
        Self { parameters: spec.score_sums(), rows: rows(spec, shape), values }
    }

    /// The numbers of the parameters.
    #[doc(hidden)]
    pub fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// The sums of all parameters for a row, counted through problems, heads and rows.
    #[doc(hidden)]
    pub fn of_row(&self, at: usize) -> impl Iterator<Item = f32> + '_ {
        let of_head = at / self.rows * self.parameters.len();
        (of_head..of_head + self.parameters.len()).map(move |line| self.values[line * self.rows + at % self.rows])
    }

    /// The gradient of each parameter, in f64: its number, and an element for each of its own, of which numbers have one.
    ///
    /// # Panics
    /// For inputs or a shape that are not those of the kernel that has written the sums.
    pub fn gradients(&self, spec: &KernelSpec, shape: &Shape, inputs: &ScoreInputs<'_>) -> Vec<(usize, Vec<f64>)> {
        let parameters = spec.score.map_or(&[][..], |score| score.program().inputs());
        let vector = |number: usize| -> Option<&HostVector> {
            let before = parameters[..number].iter().filter(|input| input.kind.is_vector()).count();
            parameters[number].kind.is_vector().then(|| &inputs.vectors[before])
        };
        let vectors: Vec<_> = self.parameters.iter().map(|number| vector(*number)).collect();
        let mut found: Vec<_> = self
            .parameters
            .iter()
            .zip(&vectors)
            .map(|(at, vector)| (*at, vec![0.0; vector.map_or(1, HostVector::len)]))
            .collect();
        for at in 0..shape.batch * shape.heads * self.rows {
            let (head, row) = (at / self.rows, at % self.rows);
            let place = [head / shape.heads, head % shape.heads, row, row];
            for ((sum, (number, gradient)), vector) in self.of_row(at).zip(&mut found).zip(&vectors) {
                let element = vector.map_or(0, |vector| vector.place(parameters[*number].kind, shape, place));
                gradient[element] += f64::from(sum);
            }
        }
        found
    }
}

fn rows(spec: &KernelSpec, shape: &Shape) -> usize {
    if spec.op == Op::AttentionDkv { shape.keys } else { shape.queries }
}
