//! What the kernel of dQ passes on to that of dK and dV.

use std::f64::consts::LOG2_E;

use bsr_codegen::GradientTiles;

use super::super::Shape;
use super::Saved;
use crate::Element;

/// Two numbers of each query: the term of the exponent of P, `-LSE` in units of log 2, and delta.
///
/// For each head in turn they are the terms of its queries, then their delta. Queries count up to the end of the last block;
/// those beyond the last query have P = 0.
#[derive(Clone, Debug, PartialEq)]
pub struct RowTerms {
    queries: usize,
    in_blocks: usize,
    values: Vec<f32>,
}

impl RowTerms {
    /// Elements of the terms of all heads.
    pub(super) fn len(form: &GradientTiles, shape: &Shape) -> usize {
        2 * shape.batch * shape.heads * form.queries_in_blocks(shape.queries as u64) as usize
    }

    /// Those of an attention, computed in f64.
    pub(super) fn of<T: Element>(form: &GradientTiles, shape: &Shape, saved: &Saved<'_, T>) -> Self {
        let mut terms = Self::poisoned(form, shape);
        let of_head = terms.values.chunks_mut(terms.in_blocks.max(1));
        of_head.enumerate().for_each(|(at, of)| of.fill(if at % 2 == 0 { f32::NEG_INFINITY } else { 0.0 }));
        for (at, delta) in saved.delta(shape).into_iter().enumerate() {
            let lse = f64::from(saved.lse[at]);
            let [exponent, of_delta] = terms.places(at);
            // A query without keys has no probabilities.
            terms.values[exponent] = if lse == f64::NEG_INFINITY { f32::NEG_INFINITY } else { (-lse * LOG2_E) as f32 };
            terms.values[of_delta] = delta as f32;
        }
        terms
    }

    /// Terms that no kernel has written: not a number.
    pub(super) fn poisoned(form: &GradientTiles, shape: &Shape) -> Self {
        let in_blocks = form.queries_in_blocks(shape.queries as u64) as usize;
        Self { queries: shape.queries, in_blocks, values: vec![f32::NAN; Self::len(form, shape)] }
    }

    /// The same sizes with the values that a kernel has left.
    pub(super) fn with_values(self, values: Vec<f32>) -> Self {
        Self { values, ..self }
    }

    pub(super) fn values(&self) -> &[f32] {
        &self.values
    }

    /// The term of the exponent and delta of a query, counted through problems, heads and queries.
    pub fn of_query(&self, at: usize) -> [f32; 2] {
        self.places(at).map(|place| self.values[place])
    }

    /// The same of the queries beyond the last one, to the end of the last block, each with its head counted through problems.
    pub fn beyond(&self) -> impl Iterator<Item = (usize, [f32; 2])> + '_ {
        let heads = self.values.chunks_exact((2 * self.in_blocks).max(1));
        heads.enumerate().flat_map(move |(head, values)| {
            (self.queries..self.in_blocks).map(move |row| (head, [values[row], values[self.in_blocks + row]]))
        })
    }

    fn places(&self, at: usize) -> [usize; 2] {
        let first = at / self.queries * 2 * self.in_blocks + at % self.queries;
        [first, first + self.in_blocks]
    }
}
