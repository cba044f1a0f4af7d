//! Q, K and V in e4m3, with the factors that spread them over its range.

use bsr_codegen::Refusal;

use super::{Factors, HeadOrder, Sharing, Tensor};
use crate::quantise::{amax, narrow, scale_of};
use crate::{Element, e4m3};

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
    let part = |problem: usize, key_head: usize| match sharing {
        Sharing::All | Sharing::ByProblem => 0,
        Sharing::ByHead => key_head,
        Sharing::ByBoth => problem * key_heads + key_head,
    };
    let of = |name: &str, tensor: &Tensor<T>| -> Result<(Tensor<e4m3>, Vec<f32>), Refusal> {
        let [problems, heads, rows, _] = tensor.sizes();
        let group = (heads / key_heads).max(1);
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
            let most = &mut largest[part(at[0], at[1] / group)];
            *most = most.max(amax(row.iter().copied()));
        }
        let scales: Vec<f32> = largest.into_iter().map(scale_of::<e4m3>).collect();
        let mut narrowed = Tensor::filled(tensor.sizes(), tensor.order(), e4m3::ZERO);
        for at in places() {
            let scale = scales[part(at[0], at[1] / group)];
            for (to, value) in narrowed.row_mut(at).iter_mut().zip(tensor.row(at)) {
                *to = narrow(*value, scale);
            }
        }
        Ok((narrowed, scales))
    };
    let ((q, of_q), (k, of_k), (v, of_v)) = (of("Q", q)?, of("K", k)?, of("V", v)?);
    Ok(QuantisedTensors { tensors: [q, k, v], factors: Factors::new(of_q, of_k, of_v)? })
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
