//! Attention on the CPU, in f64 and rounded once: in parallel over heads and rows of blocks.

use bsr_codegen::epilogue::{InputKind, Pair, Program, read_score};
use bsr_runtime::attention::Mask;
use pyo3::prelude::*;
use rayon::prelude::*;

use super::mask::AttentionMask;
use super::tensor::{Heads, TensorArgument, Vector, VectorArgument};
use crate::array::Strided;
use crate::errors::refused;
use crate::memory::ask_for;
use crate::threads::detached;

/// O = softmax(scale * Q K^T) V at the stored blocks; `sums`, if there, gets the natural logarithm of each query's sum of
/// exponentials, `[batch, heads, queries, 1]`. `sinks`, if there, are a term of the sums of each head.
///
/// Every address must be that of memory which the caller keeps alive, as large as its sizes say. `tensors` are Q, K, V and O.
#[pyfunction]
#[pyo3(signature = (mask, tensors, scale, score=None, numbers=Vec::new(), vectors=Vec::new(), sums=None, sinks=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn attend(
    py: Python<'_>,
    mask: &AttentionMask,
    tensors: [TensorArgument; 4],
    scale: f64,
    score: Option<&str>,
    numbers: Vec<f64>,
    vectors: Vec<VectorArgument>,
    sums: Option<TensorArgument>,
    sinks: Option<Vec<f64>>,
) -> PyResult<()> {
    let score = score.map(read_score).transpose().map_err(|errors| {
        let lines = errors.iter().flat_map(|error| {
            std::iter::once(error.fact.clone()).chain(error.help.iter().map(|help| format!("  help: {help}")))
        });
        refused(lines.collect::<Vec<_>>().join("\n"))
    })?;
    let [q, k, v, o] = tensors.map(Heads::new);
    let attention = Attention {
        mask: &mask.mask,
        q: q?,
        k: k?,
        v: v?,
        o: o?,
        sums: sums.map(Heads::new).transpose()?,
        scale,
        score: score.as_ref(),
        numbers,
        vectors: vectors.into_iter().map(Vector::new).collect::<PyResult<_>>()?,
        sinks,
    };
    attention.check()?;
    let [problems, key_heads, keys, columns] = attention.k.sizes;
    let widened = (problems * key_heads * keys * (columns + attention.v.sizes[3]) * size_of::<f64>()) as u64;
    ask_for(widened, "a copy of K and V in f64")?;
    // SAFETY: the Python half keeps the tensors alive for the call and made O and the sums for it; the sizes were compared.
    detached(py, || unsafe { attention.run() })
}

struct Attention<'a> {
    mask: &'a Mask,
    q: Heads,
    k: Heads,
    v: Heads,
    o: Heads,
    sums: Option<Heads>,
    scale: f64,
    score: Option<&'a Program>,
    numbers: Vec<f64>,
    vectors: Vec<Vector>,
    sinks: Option<Vec<f64>>,
}

/// Keys and values of one head, row by row.
struct KeyHead {
    keys: Vec<f64>,
    values: Vec<f64>,
}

impl Attention<'_> {
    fn check(&self) -> PyResult<()> {
        let ([batch, heads, queries, columns], k, v) = (self.q.sizes, self.k.sizes, self.v.sizes);
        let fits = k[..3] == v[..3] && k[0] == batch && k[3] == columns && self.o.sizes[..3] == self.q.sizes[..3];
        let fits = fits && self.o.sizes[3] == v[3] && k[1] > 0 && heads.is_multiple_of(k[1]);
        let fits = fits && self.sums.is_none_or(|sums| sums.sizes == [batch, heads, queries, 1]);
        if !fits
            || self.mask.sizes() != (queries, k[2])
            || self.mask.lists().len() != self.mask.sharing().patterns(batch, heads)
        {
            let (rows, keys) = self.mask.sizes();
            return Err(refused(format!(
                "Q {:?}, K {k:?}, V {v:?} and a mask of {rows} queries x {keys} keys in {} patterns do not fit\n  help: \
                 problems, heads, rows and columns; the heads of K and V divide those of Q",
                self.q.sizes,
                self.mask.lists().len()
            )));
        }
        if let Some(sinks) = self.sinks.as_ref().filter(|sinks| sinks.len() != heads) {
            return Err(refused(format!("{} sinks are given, and Q has {heads} heads", sinks.len())));
        }
        let inputs = self.score.map_or(&[][..], Program::inputs);
        let vectors = inputs.iter().filter(|input| input.kind.is_vector()).count();
        let (expected, found) = ([inputs.len() - vectors, vectors], [self.numbers.len(), self.vectors.len()]);
        if expected != found {
            return Err(refused(format!(
                "the score takes {} numbers, and {} are given; {} vectors, and {} are given",
                expected[0], found[0], expected[1], found[1]
            )));
        }
        Ok(())
    }

    /// # Safety
    /// Every tensor must be what it says and alive, and nothing else may use O and the sums.
    unsafe fn run(&self) {
        let [batch, heads, ..] = self.q.sizes;
        let key_heads = self.k.sizes[1];
        // SAFETY: as the caller vouches.
        let copy = |matrix: Strided| unsafe { copied(&matrix) };
        let places: Vec<(usize, usize)> = (0..batch).flat_map(|b| (0..key_heads).map(move |h| (b, h))).collect();
        let known: Vec<KeyHead> = places
            .par_iter()
            .map(|(b, h)| KeyHead { keys: copy(self.k.head(*b, *h)), values: copy(self.v.head(*b, *h)) })
            .collect();
        let rows = self.mask.blocks().0;
        (0..batch * heads * rows).into_par_iter().for_each(|place| {
            let (problem, head, row) = (place / (heads * rows), place / rows % heads, place % rows);
            let of_key = &known[problem * key_heads + head / (heads / key_heads)];
            // SAFETY: as the caller vouches; no other place has these queries.
            unsafe { self.row_of_blocks([problem, head, row], of_key) };
        });
    }

    unsafe fn row_of_blocks(&self, [problem, head, row]: [usize; 3], of_key: &KeyHead) {
        let (bm, bk) = self.mask.block();
        let [_, heads, queries, columns] = self.q.sizes;
        let (keys, width) = (self.k.sizes[2], self.v.sizes[3]);
        let list = &self.mask.lists()[self.mask.pattern(problem, head, heads)];
        let (q, o) = (self.q.head(problem, head), self.o.head(problem, head));
        let sink = self.sinks.as_ref().map_or(f64::NEG_INFINITY, |sinks| sinks[head]);
        let mut scores: Vec<(usize, f64)> = vec![];
        let mut output = vec![0.0; width];
        let mut inputs = vec![0.0; self.score.map_or(0, |score| score.inputs().len())];
        for query in row * bm..((row + 1) * bm).min(queries) {
            // SAFETY: as the caller vouches.
            let line: Vec<f64> = (0..columns).map(|col| unsafe { q.get(query, col) }).collect();
            scores.clear();
            for (column, partial) in list.row(row) {
                let first = column as usize * bk;
                for key in first..(first + bk).min(keys) {
                    let of_this = &of_key.keys[key * columns..(key + 1) * columns];
                    let product: f64 = line.iter().zip(of_this).map(|(a, b)| a * b).sum();
                    let scale = self.scale;
                    let score = match self.score.filter(|_| partial) {
                        Some(score) => {
                            // SAFETY: as the caller vouches.
                            unsafe { self.give(score, [problem, head, query, key], &mut inputs) };
                            let inputs = &inputs[..];
                            score.score(&Pair { product, query, key, head, batch: problem, scale, inputs })
                        }
                        None => product * scale,
                    };
                    scores.push((key, score));
                }
            }
            let sum = softmax(&scores, sink, &of_key.values, &mut output);
            for (col, value) in output.iter().enumerate() {
                // SAFETY: as the caller vouches.
                unsafe { o.set(query, col, *value) };
            }
            if let Some(sums) = self.sums {
                // SAFETY: as the caller vouches.
                unsafe { sums.head(problem, head).set(query, 0, sum) };
            }
        }
    }
}

impl Attention<'_> {
    /// What the parameters of a score are for a query and a key of a head of a problem.
    ///
    /// # Safety
    /// The vectors must be what they say and alive.
    unsafe fn give(&self, score: &Program, [problem, head, query, key]: [usize; 4], into: &mut [f64]) {
        let (mut numbers, mut vectors) = (self.numbers.iter(), self.vectors.iter());
        for (input, value) in score.inputs().iter().zip(into) {
            let element = match input.kind {
                InputKind::Rows(_) => query,
                InputKind::Cols(_) => key,
                _ => 0,
            };
            let found = match input.kind.is_vector() {
                false => numbers.next().copied(),
                // SAFETY: as the caller vouches.
                true => vectors.next().map(|vector| unsafe { vector.get([problem, head, element]) }),
            };
            *value = found.unwrap_or(f64::NAN);
        }
    }
}

/// The rows of V under the exponentials of their scores, over the sum of these and of that of the sink, and the sum's logarithm.
fn softmax(scores: &[(usize, f64)], sink: f64, values: &[f64], output: &mut [f64]) -> f64 {
    output.fill(0.0);
    let greatest = scores.iter().map(|(_, score)| *score).fold(sink, f64::max);
    if greatest == f64::NEG_INFINITY {
        return greatest;
    }
    let mut sum = (sink - greatest).exp();
    for (key, score) in scores {
        let weight = (score - greatest).exp();
        sum += weight;
        let width = output.len();
        for (to, value) in output.iter_mut().zip(&values[key * width..(key + 1) * width]) {
            *to += weight * value;
        }
    }
    output.iter_mut().for_each(|value| *value /= sum);
    greatest + sum.ln()
}

/// # Safety
/// The matrix must be what it says and alive.
unsafe fn copied(matrix: &Strided) -> Vec<f64> {
    let places = (0..matrix.rows).flat_map(|row| (0..matrix.cols).map(move |col| (row, col)));
    // SAFETY: as the caller vouches.
    places.map(|(row, col)| unsafe { matrix.get(row, col) }).collect()
}
