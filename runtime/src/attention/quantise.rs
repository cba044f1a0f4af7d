//! Q, K and V in e4m3, with the factors that spread them over its range.

use bsr_codegen::Refusal;

use super::{Factors, HeadOrder, Sharing, Tensor};
use crate::quantise::{amax, narrow, scale_of};
use crate::{Element, e4m3};

/// The least factor of a block of V, of the largest one of its head.
const LEAST_OF_HEAD: f64 = 1.0 / (1_u64 << 40) as f64;

/// Q, K and V in e4m3, and what their elements are multiplied by.
#[derive(Clone, Debug)]
pub struct QuantisedTensors {
    /// Q, K and V; a kernel gets the last [by columns](Tensor::by_column).
    pub tensors: [Tensor<e4m3>; 3],
    /// Their factors.
    pub factors: Factors,
}

/// Rounds Q, K and V to e4m3, each divided by the largest magnitude that shares a factor and multiplied by 448: of the tensor with
/// [`Sharing::All`], of a head of K with [`Sharing::ByHead`], of a head of K of a problem with [`Sharing::ByBoth`]. Zeros have the
/// factor 1.
///
/// # Errors
/// A value that is not finite; [`Sharing::ByProblem`], of which kernels have no factors; heads of Q that do not share those of K.
pub fn quantise<T: Element>([q, k, v]: [&Tensor<T>; 3], sharing: Sharing) -> Result<QuantisedTensors, Refusal> {
    let [batch, key_heads, ..] = k.sizes();
    if sharing == Sharing::ByProblem {
        return Err(Refusal::new("factors of each problem are those of each of its heads").help("Sharing::ByBoth"));
    }
    if key_heads == 0 || !q.sizes()[1].is_multiple_of(key_heads) {
        let fact = format!("{} heads of Q cannot share {key_heads} heads of K", q.sizes()[1]);
        return Err(Refusal::new(fact).help("a number of key heads that divides the heads"));
    }
    let parts = sharing.patterns(batch, key_heads);
    let group = (q.sizes()[1] / key_heads).max(1);
    let part = |problem: usize, key_head: usize| match sharing {
        Sharing::All | Sharing::ByProblem => 0,
        Sharing::ByHead => key_head,
        Sharing::ByBoth => problem * key_heads + key_head,
    };
    let of_queries = narrowed("Q", q, parts, |[problem, head, _]| part(problem, head / group), scales)?;
    let of_keys = |name, tensor| narrowed(name, tensor, parts, |[problem, head, _]| part(problem, head), scales);
    let ((q, of_q), (k, of_k), (v, of_v)) = (of_queries, of_keys("K", k)?, of_keys("V", v)?);
    Ok(QuantisedTensors { tensors: [q, k, v], factors: Factors::new(of_q, of_k, of_v)? })
}

/// Rounds Q, K and V to e4m3 as [`quantise`] does, with a factor for each block of `bm` queries of each head of Q and for each block of
/// `bk` keys of each head of K, as a kernel with `scale = block` reads them.
///
/// Of V a factor is at least 2^-40 of the largest one of its head, which changes an element by less than 2^-40 of the head's largest.
///
/// # Errors
/// A value that is not finite; a block without rows.
pub fn quantise_blocks<T: Element>(
    [q, k, v]: [&Tensor<T>; 3],
    (bm, bk): (usize, usize),
) -> Result<QuantisedTensors, Refusal> {
    if bm == 0 || bk == 0 {
        return Err(Refusal::new(format!("blocks of {bm} queries x {bk} keys")).help("blocks of a kernel's bm and bk"));
    }
    let of = |name, tensor: &Tensor<T>, block: usize, scales: fn(Vec<f64>, usize) -> Vec<f32>| {
        let [batch, heads, rows, _] = tensor.sizes();
        let blocks = rows.div_ceil(block);
        let part = |[problem, head, row]: [usize; 3]| (problem * heads + head) * blocks + row / block;
        narrowed(name, tensor, batch * heads * blocks, part, |largest| scales(largest, blocks))
    };
    let each: fn(Vec<f64>, usize) -> Vec<f32> = |largest, _| scales(largest);
    let ((q, of_q), (k, of_k), (v, of_v)) = (of("Q", q, bm, each)?, of("K", k, bk, each)?, of("V", v, bk, near)?);
    Ok(QuantisedTensors { tensors: [q, k, v], factors: Factors::of_blocks(of_q, of_k, of_v)? })
}

/// What elements are multiplied by, of which these are the largest magnitudes.
fn scales(largest: Vec<f64>) -> Vec<f32> {
    largest.into_iter().map(scale_of::<e4m3>).collect()
}

/// The same of blocks of V. A block of zeros has the least factor: a larger one would lift the reference of its rows.
fn near(mut largest: Vec<f64>, blocks: usize) -> Vec<f32> {
    for head in largest.chunks_mut(blocks.max(1)) {
        let least = head.iter().copied().fold(0.0, f64::max) * LEAST_OF_HEAD;
        head.iter_mut().for_each(|most| *most = most.max(least));
    }
    scales(largest)
}

/// A tensor in e4m3, and the scales of its parts: `part` is that of a problem, head and row, `scales` makes one of each part's largest
/// magnitude.
fn narrowed<T: Element>(
    name: &str,
    tensor: &Tensor<T>,
    parts: usize,
    part: impl Fn([usize; 3]) -> usize,
    scales: impl Fn(Vec<f64>) -> Vec<f32>,
) -> Result<(Tensor<e4m3>, Vec<f32>), Refusal> {
    let [problems, heads, rows, _] = tensor.sizes();
    let places = || (0..problems * heads * rows).map(|at| [at / (heads * rows), at / rows % heads, at % rows]);
    let mut largest = vec![0.0_f64; parts];
    for at in places() {
        let row = tensor.row(at);
        if let Some(column) = row.iter().position(|value| !value.is_finite()) {
            let [problem, head, row] = at;
            return Err(Refusal::new(format!("{name}[{problem}, {head}, {row}, {column}] is not finite"))
                .why("e4m3 holds it at no factor")
                .help("replace it"));
        }
        let most = &mut largest[part(at)];
        *most = most.max(amax(row.iter().copied()));
    }
    let scales = scales(largest);
    let mut narrowed = Tensor::filled(tensor.sizes(), tensor.order(), e4m3::ZERO);
    for at in places() {
        let scale = scales[part(at)];
        for (to, value) in narrowed.row_mut(at).iter_mut().zip(tensor.row(at)) {
            *to = narrow(*value, scale);
        }
    }
    Ok((narrowed, scales))
}

impl<T: Element> Tensor<T> {
    /// V as a kernel of 8-bit operands reads it: `[problems, heads, columns, keys]`, keys up to a multiple of 16. Of each 16 keys
    /// the places `4 t` to `4 t + 3` have `2 t`, `2 t + 1`, `8 + 2 t` and `9 + 2 t`. Places without a key are zero.
    #[must_use]
    pub fn by_column(&self) -> Self {
        let [batch, heads, keys, columns] = self.sizes();
        let places = bsr_codegen::AttentionTiles::places(keys);
        let mut made = Self::filled([batch, heads, columns, places], HeadOrder::HeadsFirst, T::ZERO);
        for (problem, head) in (0..batch).flat_map(|problem| (0..heads).map(move |head| (problem, head))) {
            for place in 0..places {
                let key = place / 16 * 16 + bsr_codegen::AttentionTiles::key_of_place(place % 16);
                if key < keys {
                    let row = self.row([problem, head, key]).to_vec();
                    for (column, value) in row.into_iter().enumerate() {
                        made.row_mut([problem, head, column])[place] = value;
                    }
                }
            }
        }
        made
    }
}
