//! How far each element of a right result may be from the reference.
//!
//! A norm over a whole result hides one wrong row among many. A bound for each element does not: rounding C is off by at
//! most half an ulp of that element, and its sum by what sums of such lengths and magnitudes are off.

use bsr_codegen::{Dtype, KernelSpec, Op};

use super::tolerance::{half_ulp, spec_short_sums, spec_sums};
use crate::{Bsr, DenseView, Element, Scales};

/// [`tolerance`](super::tolerance) bounds the norm of many errors; one of a hundred thousand is twice as large.
const ONE_OF_MANY: f64 = 2.0;
/// Half an ulp more than C's own, for results that are rounded to f32 before they are rounded to C's type.
const ROUNDED_TWICE: f64 = 1.0 + 1.0 / 256.0;

/// Bounds for the elements of a result: a part of each, and as much more for elements that share a sum's magnitude.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    relative: f64,
    absolute: Vec<f64>,
    group: usize,
}

impl Bounds {
    /// An element may be off by `relative` of what it must be, and by `absolute[at / group]`, where `at` is its position.
    pub fn new(relative: f64, absolute: Vec<f64>, group: usize) -> Self {
        Self { relative, absolute, group: group.max(1) }
    }

    /// The bounds of results of type `out`, rounded once, whose elements may be off by `absolute[at / group]` before.
    pub fn rounded(out: Dtype, mut absolute: Vec<f64>, group: usize) -> Self {
        // Below the smallest normal number an ulp no longer shrinks.
        absolute.iter_mut().for_each(|bound| *bound += half_smallest(out));
        Self::new(ROUNDED_TWICE * half_ulp(out), absolute, group)
    }

    /// The most by which the element at position `at` may be off, where it must be `want`.
    pub fn at(&self, at: usize, want: f64) -> f64 {
        self.relative * want.abs() + self.absolute.get(at / self.group).copied().unwrap_or(0.0)
    }

    /// Whether the element at position `at` may be `got` where it must be `want`. A type that saturates
    /// ([`Element::saturates`]) need not hold more than its largest value.
    pub fn allow<T: Element>(&self, at: usize, got: T, want: f64) -> bool {
        let (got, least) = (got.to_f64(), T::from_f64(f64::NEG_INFINITY).to_f64());
        let want = if T::saturates() { want.clamp(least, T::LARGEST) } else { want };
        got == want || (got - want).abs() <= self.at(at, want)
    }

    /// How many elements of rows `rows` of `got` are beyond their bounds; `want` is the reference of these rows.
    pub fn beyond<'a, T: Element>(&self, got: impl Into<DenseView<'a, T>>, rows: &[usize], want: &[f64]) -> usize {
        let got = got.into();
        let wrong = |at: usize, want: f64| {
            let value = rows.get(at / got.cols()).and_then(|row| got.get(*row, at % got.cols()));
            !value.is_some_and(|value| self.allow(at, value, want))
        };
        want.iter().enumerate().filter(|(at, want)| wrong(*at, **want)).count()
    }
}

/// Half of the smallest number above zero.
fn half_smallest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => f64::powi(2.0, -25),
        Dtype::E4M3 => f64::powi(2.0, -10),
        Dtype::E5M2 => f64::powi(2.0, -17),
        // GPUs flush f32 below 2^-126 to zero in some functions; bf16 has the same exponents.
        Dtype::BF16 | Dtype::F32 => f64::powi(2.0, -126),
        Dtype::F64 => f64::MIN_POSITIVE,
        Dtype::I8 | Dtype::I32 => 0.0,
    }
}

/// The most by which a sum of at most `k` products may be off in a kernel of `spec`, where the root of the sum of the
/// products' squares is at most `magnitude`.
pub(super) fn off(spec: &KernelSpec, k: usize, magnitude: f64) -> f64 {
    ONE_OF_MANY * (spec_sums(spec, k) + spec_short_sums(spec, k)) * magnitude
}

/// For each of `rows` of a product, as [`product_rows`](super::product_rows) numbers them: at least the root of the sum of
/// the squares of the products that any of its elements adds.
pub(super) fn magnitudes<S: Element, D: Element>(
    spec: &KernelSpec,
    sparse: &Bsr<S>,
    dense: DenseView<'_, D>,
    scales: &Scales,
    rows: &[usize],
) -> Vec<f64> {
    let largest_scale = |scales: &[f32]| scales.iter().fold(0.0_f64, |most, scale| most.max(f64::from(scale.abs())));
    let scale = match scales.a() {
        [] => 1.0,
        of_a => largest_scale(of_a) * largest_scale(scales.b()),
    };
    if spec.op == Op::Dds {
        return scaled(&row_norms(dense, rows), largest(sparse.values()) * scale);
    }
    let mut squares = vec![0.0; if spec.transpose.is_on() { sparse.cols() } else { sparse.rows() }];
    let (bm, bk) = sparse.block();
    for row in 0..sparse.structure().block_rows() {
        for block in sparse.blocks_of(row) {
            let column = sparse.col_idx()[block] as usize;
            for (at, value) in sparse.block_values(block).iter().enumerate() {
                let line = if spec.transpose.is_on() { column * bk + at % bk } else { row * bm + at / bk };
                // What a block has beyond the edge is zero.
                if let Some(sum) = squares.get_mut(line) {
                    *sum += value.to_f64().powi(2);
                }
            }
        }
    }
    let norms: Vec<f64> = rows.iter().map(|row| squares[*row].sqrt()).collect();
    scaled(&norms, largest_of(dense) * scale)
}

/// The same for rows of the product of two dense factors.
pub(super) fn dense_magnitudes<A: Element, B: Element>(
    a: DenseView<'_, A>,
    b: DenseView<'_, B>,
    rows: &[usize],
) -> Vec<f64> {
    scaled(&row_norms(a, rows), largest_of(b))
}

fn scaled(norms: &[f64], by: f64) -> Vec<f64> {
    norms.iter().map(|norm| norm * by).collect()
}

fn largest<T: Element>(values: &[T]) -> f64 {
    values.iter().fold(0.0, |most, value| value.to_f64().abs().max(most))
}

fn largest_of<T: Element>(dense: DenseView<'_, T>) -> f64 {
    (0..dense.lines()).map(|line| largest(dense.line(line))).fold(0.0, f64::max)
}

/// The norms of chosen rows; a row that the matrix does not have has none.
fn row_norms<T: Element>(dense: DenseView<'_, T>, rows: &[usize]) -> Vec<f64> {
    let square = |row: usize, col| dense.get(row, col).map_or(0.0, |value| value.to_f64().powi(2));
    rows.iter().map(|row| (0..dense.cols()).map(|col| square(*row, col)).sum::<f64>().sqrt()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use half::{bf16, f16};

    use super::super::{Comparison, expected};
    use super::*;
    use crate::{Dense, Inputs, Layout, Pattern, e4m3};

    const M: usize = 256;
    const N: usize = 64;

    /// A product whose sums are formed by `sum` of the products, one after the other, and rounded to `C`.
    fn product<T: Element, C: Element>(spec: &str, sum: fn(f64, f64) -> f64) -> (Dense<C>, super::super::Fused) {
        let spec: KernelSpec = spec.parse().unwrap();
        let block = (spec.bm as usize, spec.bk as usize);
        let a = Bsr::<T>::generate(Pattern::Random(0.6), M, 192, block, 3).unwrap();
        let b = Dense::<T>::normal(192, N, Layout::RowMajor, 4);
        let rows: Vec<usize> = (0..M).collect();
        let want = expected(&spec, &a, &b, &Inputs::default(), &rows, 192).unwrap();
        let whole = a.to_dense(Layout::RowMajor);
        let element = |row, col| {
            let products = (0..192).map(|k| {
                let [x, y] = [whole.get(row, k), b.get(k, col)].map(|value| value.unwrap().to_f64());
                x * y
            });
            C::from_f64(products.fold(0.0, sum))
        };
        (Dense::from_fn(M, N, Layout::RowMajor, element), want)
    }

    fn in_f32(sum: f64, product: f64) -> f64 {
        f64::from((sum + product) as f32)
    }

    fn in_f16(sum: f64, product: f64) -> f64 {
        f16::from_f64(sum + product).to_f64()
    }

    #[test]
    fn right_results_keep_every_bound() {
        let rows: Vec<usize> = (0..M).collect();
        let (c, want) = product::<f16, f16>("bm = 64, bn = 64, bk = 64", in_f32);
        assert_eq!(want.beyond(&c, &rows), 0);
        assert!(want.verify(&c, None).unwrap() < want.tolerance);
        assert!(want.verify(&c, Some(&[0.0])).is_err(), "there is no second result");
        let (c, want) = product::<f16, f32>("bm = 64, bn = 64, bk = 64, out = f32", in_f32);
        assert_eq!(want.beyond(&c, &rows), 0);
        // Rounded more often than by any tensor core, and not right for sums of f32.
        let (c, want) = product::<f16, f16>("bm = 64, bn = 64, bk = 64, acc = f16", in_f16);
        assert_eq!(want.beyond(&c, &rows), 0);
        let (c, want) = product::<f16, f16>("bm = 64, bn = 64, bk = 64", in_f16);
        assert!(want.beyond(&c, &rows) > 0);
        let (c, want) = product::<bf16, bf16>("bm = 64, bn = 64, bk = 64, dtype = bf16", in_f32);
        assert_eq!(want.beyond(&c, &rows), 0);
        let (c, want) = product::<e4m3, e4m3>("bm = 64, bn = 64, bk = 64, dtype = e4m3, out = e4m3", in_f32);
        assert_eq!(want.beyond(&c, &rows), 0);
        let (c, want) = product::<i8, i32>("bm = 64, bn = 64, bk = 64, dtype = i8", |sum, product| sum + product);
        assert_eq!(want.beyond(&c, &rows), 0);
    }

    /// One row that is that of its neighbour in one element alone, which a norm of all of them does not see.
    #[test]
    fn one_wrong_element_is_beyond_its_bound_where_the_norm_hides_it() {
        let rows: Vec<usize> = (0..M).collect();
        let spec = "bm = 64, bn = 64, bk = 64, dtype = e4m3, out = e4m3";
        let (mut c, want) = product::<e4m3, e4m3>(spec, in_f32);
        // A type of four bits: many sums of neighbours are the same number.
        let at = (0..N).find(|col| (want.c[8 * N + col] - want.c[9 * N + col]).abs() > 4.0).unwrap();
        let (ld, value) = (c.ld(), c.get(9, at).unwrap());
        c.data_mut()[8 * ld + at] = value;
        assert!(Comparison::of_rows(&c, &rows, &want.c).unwrap().passes(want.tolerance));
        assert_eq!(want.beyond(&c, &rows), 1);
        let error = want.verify(&c, None).unwrap_err().to_string();
        assert!(error.contains(&format!("row 8, column {at} is ")), "{error}");
    }

    /// Sums in which nearly everything cancels are small, and as far off as others.
    #[test]
    fn sums_that_cancel_are_no_false_alarm() {
        let spec: KernelSpec = "bm = 64, bn = 64, bk = 64, out = f32".parse().unwrap();
        let sign = |col: usize| if col.is_multiple_of(2) { 1.0 } else { -1.0 };
        let values =
            (0..64 * 64).map(|at| f16::from_f64(sign(at % 64) * (1.0 + (at % 64 / 2) as f64 / 64.0))).collect();
        let a = Bsr::new(64, 64, (64, 64), vec![0, 1], vec![0], values).unwrap();
        let b = Dense::from_fn(64, 1, Layout::RowMajor, |_, _| f16::ONE);
        let rows: Vec<usize> = (0..64).collect();
        let want = expected(&spec, &a, &b, &Inputs::default(), &rows, 64).unwrap();
        let off = Dense::from_fn(64, 1, Layout::RowMajor, |_, _| 4e-6_f32);
        assert!(want.c.iter().all(|sum| *sum == 0.0));
        assert_eq!(want.beyond(&off, &rows), 0);
        assert_eq!(want.beyond(&Dense::from_fn(64, 1, Layout::RowMajor, |_, _| 0.5_f32), &rows), 64);
    }
}
